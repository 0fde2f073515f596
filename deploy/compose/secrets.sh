#!/bin/sh
# Makes the passwords and tokens of the local cluster, once, in deploy/compose/secrets. The data in the volumes depend on
# them. To make new ones, run `docker compose -f deploy/compose.yaml down --volumes` and delete the folder first.
set -eu
cd "$(dirname "$0")"
if [ -d secrets ]; then
  echo "secrets: already there, nothing to do" >&2
  exit 0
fi

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
hashed() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
user() {
  echo "CREATE ROLE IF NOT EXISTS epicenter_$1;"
  echo "CREATE USER IF NOT EXISTS $1 IDENTIFIED WITH sha256_hash BY '$(hashed "$2")';"
  echo "GRANT epicenter_$1 TO $1;"
}
dsn() { printf 'http://%s:%s@clickhouse:8123/epicenter' "$1" "$2"; }

# Containers read these files as different users, so they are readable; only you can enter the folder above them.
umask 022
rm -rf new
mkdir -m 0700 new
mkdir new/migrate new/worker new/page new/page-proxy
admin=$(random) worker=$(random) page=$(random) grafana=$(random)
dsn admin "$admin" > new/migrate/store
dsn worker "$worker" > new/worker/store
dsn page "$page" > new/page/store
random > new/worker/web_token
random > new/page/page_token
printf 'proxy_set_header Authorization "Bearer %s";\n' "$(cat new/page/page_token)" > new/page-proxy/token.conf
echo "CLICKHOUSE_PASSWORD=$admin" > new/clickhouse.env
printf 'EPICENTER_CLICKHOUSE_PASSWORD=%s\nGF_SECURITY_ADMIN_PASSWORD=%s\n' "$grafana" "$(random)" > new/grafana.env
{ user worker "$worker"; user page "$page"; user grafana "$grafana"; } > new/users.sql
mv new secrets
echo "secrets: made; Grafana's password is in $PWD/secrets/grafana.env" >&2
