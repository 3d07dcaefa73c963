#!/bin/sh
# Writes .env, where docker-compose.yaml is told what to run, and .secrets: random passwords and keys,
# each in a file. What is there stays as it is, for the volumes were made with these passwords; a .env
# of before has them in it, and they are taken over.
set -eu
cd "$(dirname "$0")/../.."
# Mounted into containers; Docker would make it as root's.
mkdir -p warehouse/landing
umask 077
if [ ! -e .env ]; then
    cat >.env.part <<END
# Made by \`make compose-env\`; docs/compose.md says what else may stand here.
# What runs besides Airflow and Spark: store, history, kafka.
COMPOSE_PROFILES=store
END
    # Unlike a rename, a link replaces nothing.
    ln .env.part .env && rm .env.part
fi
if [ -e .secrets ]; then
    echo ".secrets is there already, and stays as it is."
    exit 0
fi
random() {
    head -c "$1" /dev/urandom | base64 | tr '+/' '-_'
}
# Of a .env of before, also where it says that a key is none; else new. Without a line's end, which
# Airflow would take for a part of it.
value() {
    if grep -q "^$1=" .env; then sed -n "s/^$1=//p" .env | tail -n 1; else random "$2"; fi | tr -d '\n'
}
rm -rf .secrets.part
mkdir .secrets.part
value AIRFLOW_PASSWORD 15 >.secrets.part/airflow_password
value AIRFLOW_FERNET_KEY 32 >.secrets.part/airflow_fernet_key
value AIRFLOW_SECRET_KEY 30 >.secrets.part/airflow_secret_key
value AIRFLOW_JWT_SECRET 48 >.secrets.part/airflow_jwt_secret
value POSTGRES_PASSWORD 24 >.secrets.part/postgres_password
value STORE_ACCESS_KEY 15 >.secrets.part/store_access_key
value STORE_SECRET_KEY 30 >.secrets.part/store_secret_key
cd .secrets.part
printf 'postgresql+psycopg2://airflow:%s@postgres/airflow' "$(cat postgres_password)" >airflow_database
printf 'ROOT_ACCESS_KEY=%s\nROOT_SECRET_KEY=%s\n' \
    "$(cat store_access_key)" "$(cat store_secret_key)" >store.env
# A container's user is another than the owner here, and what is mounted keeps its mode: on this
# machine the folder keeps others out.
chmod 444 ./*
cd ..
mv .secrets.part .secrets
echo "Made .secrets. Airflow's login: user admin, the password is in .secrets/airflow_password."
if grep -q "^POSTGRES_PASSWORD=" .env; then
    echo "The passwords of .env are in it now: take them out of .env."
fi
