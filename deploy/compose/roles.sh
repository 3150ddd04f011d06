#!/bin/sh
# Runs once, in an empty database: gives each service's role its password before the migrations meet the roles.
set -eu
for service in coordinator ingest relay timer sweeper; do
    psql --set=ON_ERROR_STOP=1 --set=role="perdure_$service" --set=password="$POSTGRES_PASSWORD" \
        --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
        --file=- <<'SQL'
CREATE ROLE :"role" LOGIN PASSWORD :'password';
SQL
done
