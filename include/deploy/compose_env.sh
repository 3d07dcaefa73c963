#!/bin/sh
# Writes .env, from which docker-compose.yaml has its passwords and keys: random ones, readable by
# their owner alone. One that is there stays as it is, for the volumes were made with its passwords.
set -eu
cd "$(dirname "$0")/../.."
# Mounted into containers; Docker would make it as root's.
mkdir -p warehouse/landing
if [ -e .env ]; then
    echo ".env is there already, and stays as it is."
    exit 0
fi
random() {
    head -c "$1" /dev/urandom | base64 | tr '+/' '-_'
}
umask 077
cat >.env.part <<END
# Made by \`make compose-env\`; docs/compose.md says what else may stand here.
# What runs besides Airflow and Spark: store, history, kafka.
COMPOSE_PROFILES=store

# Airflow's page: user admin.
AIRFLOW_PASSWORD=$(random 15)
AIRFLOW_FERNET_KEY=$(random 32)
AIRFLOW_SECRET_KEY=$(random 30)
AIRFLOW_JWT_SECRET=$(random 48)
POSTGRES_PASSWORD=$(random 24)

STORE_ACCESS_KEY=$(random 15)
STORE_SECRET_KEY=$(random 30)
END
# Unlike a rename, a link replaces nothing.
ln .env.part .env && rm .env.part
echo "Made .env. Airflow's login: user admin, the password is AIRFLOW_PASSWORD in it."
