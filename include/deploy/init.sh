#!/bin/sh
# Run to its end before Airflow starts, at each `docker compose up`: it may be repeated.
set -eu
airflow db migrate
# Airflow's simple auth manager reads its logins from this file.
umask 077
python -c 'import json, sys; print(json.dumps({"admin": sys.stdin.read()}))' \
    </run/secrets/airflow_password \
    >"$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
# The store that comes along is new, so its bucket is made; a bucket elsewhere has to be there.
case ${TIDEMARK_STORAGE_OPTIONS__AWS_ENDPOINT_URL:-} in
    http://store:*) bucket=--make-bucket ;;
    *) bucket= ;;
esac
exec tidemark doctor --without-spark $bucket
