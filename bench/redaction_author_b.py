"""Lines with a secret, and harmless lines that look alike, by an author who had not seen the patterns.

The same seed gives the same lines. Don't add lines for patterns here: an author who knows the patterns measures little.
"""

from __future__ import annotations

import base64
import json
import string
from random import Random

from bench.redaction_shapes import Shape

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
B64 = ALNUM + "+/"
URL64 = ALNUM + "-_"
B32 = string.ascii_uppercase + "234567"
B32L = B32.lower()
WORDS = [
    "Falcon",
    "Winter",
    "Tiger",
    "Kartoffel",
    "Monsoon",
    "Bluebird",
    "Saturn",
    "Pepper",
    "Harbor",
    "Velvet",
    "Copper",
    "Lantern",
    "Granite",
    "Orchid",
    "Walnut",
    "Meteor",
    "Sparrow",
    "Cobalt",
    "Juniper",
    "Thunder",
    "Biscuit",
    "Mango",
    "Pickle",
    "Glacier",
]
USERS = ["jweber", "mkim", "asingh", "dpetrov", "lchen", "rgarcia", "tnovak", "ebrown", "hsato", "ymuller"]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class _Gen:
    """Random pieces of log lines."""

    def __init__(self, rng: Random) -> None:
        self.r = rng

    def s(self, alphabet: str, n: int) -> str:
        return "".join(self.r.choice(alphabet) for _ in range(n))

    def an(self, n: int) -> str:
        return self.s(ALNUM, n)

    def hx(self, n: int) -> str:
        return self.s(HEX, n)

    def hxu(self, n: int) -> str:
        return self.s(HEX.upper(), n)

    def lo(self, n: int) -> str:
        return self.s(LOWER, n)

    def dg(self, n: int) -> str:
        return str(self.r.randint(1, 9)) + self.s(string.digits, n - 1)

    def u64(self, n: int) -> str:
        return self.s(ALNUM, 1) + self.s(URL64, n - 2) + self.s(ALNUM, 1)

    def raw(self, n: int) -> bytes:
        return bytes(self.r.randrange(256) for _ in range(n))

    def b64(self, nbytes: int) -> str:
        return base64.b64encode(self.raw(nbytes)).decode()

    def b64u(self, nbytes: int) -> str:
        return base64.urlsafe_b64encode(self.raw(nbytes)).decode().rstrip("=")

    def enc(self, text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    def jb(self, obj: dict[str, object]) -> str:
        data = json.dumps(obj, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    def jwt(self, alg: str = "RS256") -> str:
        head: dict[str, object] = {"alg": alg, "typ": "JWT"}
        body: dict[str, object] = {"exp": self.n(1_700_000_000, 1_760_000_000), "sub": self.user(), "jti": self.hx(16)}
        return f"{self.jb(head)}.{self.jb(body)}.{self.b64u(256 if alg == 'RS256' else 32)}"

    def uuid(self) -> str:
        return f"{self.hx(8)}-{self.hx(4)}-4{self.hx(3)}-{self.s('89ab', 1)}{self.hx(3)}-{self.hx(12)}"

    def n(self, a: int, b: int) -> int:
        return self.r.randint(a, b)

    def ip(self) -> str:
        return f"10.{self.n(0, 250)}.{self.n(0, 250)}.{self.n(2, 250)}"

    def port(self) -> int:
        return self.n(32768, 60999)

    def host(self) -> str:
        return f"{self.r.choice(['gpu', 'node', 'dgx', 'hgx', 'h100', 'worker'])}{self.n(1, 512):03d}"

    def user(self) -> str:
        return self.r.choice(USERS)

    def hms(self) -> str:
        return f"{self.n(0, 23):02d}:{self.n(0, 59):02d}:{self.n(0, 59):02d}"

    def day(self) -> str:
        return f"2025-{self.n(1, 12):02d}-{self.n(1, 28):02d}"

    def iso(self) -> str:
        return f"{self.day()}T{self.hms()}.{self.n(0, 999):03d}Z"

    def py(self) -> str:
        return f"{self.day()} {self.hms()},{self.n(0, 999):03d}"

    def sysl(self) -> str:
        return f"{self.r.choice(MONTHS)} {self.n(1, 28):2d} {self.hms()} {self.host()}"

    def klog(self, level: str = "I") -> str:
        frac, pid = self.n(0, 999999), self.n(1, 99999)
        return f"{level}{self.n(1, 12):02d}{self.n(1, 28):02d} {self.hms()}.{frac:06d} {pid:7d}"

    def w(self) -> str:
        return self.r.choice(WORDS)

    def pw(self) -> str:
        """A human password without blanks, quotes or URL delimiters."""
        a, b, d = self.w(), self.w().lower(), self.n(10, 2029)
        sign = self.r.choice("!#$%*+=.")
        leet = a.replace("a", "4").replace("e", "3").replace("o", "0")
        return self.r.choice([f"{a}{d}!", f"{leet}{sign}{b}{d}", f"{b}-{a}-{d}", f"{a}_{b}{d}", f"{d}{a}{b.upper()}"])

    def pwsp(self) -> str:
        """A pass phrase with blanks."""
        return f"{self.w().lower()} {self.w()} {self.n(10, 99)} {self.r.choice(['und', 'of', 'is', 'no'])} {self.w()}"

    def pwat(self) -> str:
        """A password with URL delimiters."""
        a, b, d = self.w(), self.w().lower(), self.n(10, 99)
        return self.r.choice([f"{a}@{d}/{b}", f"{b}:{d}@{a}", f"{a}/{b}@{d}!", f"{d}:{a}@{b}"])

    def pwenc(self) -> str:
        return f"{self.w()}%40{self.n(10, 99)}%2F{self.w().lower()}%21"

    def pwq(self, esc: str) -> str:
        return f"{self.w()}{esc}{self.n(10, 99)}{self.w().lower()}{esc}s"

    def rnd(self, n: int = 16) -> str:
        """As a password generator makes it."""
        return self.an(n - 3) + self.r.choice("!#%*-_") + self.an(1) + self.dg(1)


class _Box:
    """Collects the shapes; the kind is family/syntax."""

    def __init__(self) -> None:
        self.out: list[Shape] = []

    def __call__(self, family: str, syntax: str, before: str, secret: str, after: str = "") -> None:
        self.out.append(Shape(f"{family}/{syntax}", before + secret + after, secret))


def _databases(g: _Gen, add: _Box) -> None:
    add(
        "postgres",
        "url-userinfo",
        f"{g.py()} ERROR mlflow.store.db.utils: Failed to initialize database pool: "
        "(psycopg2.OperationalError) could not connect, uri=postgresql+psycopg2://mlflow:",
        g.pwat(),
        f"@pg-{g.n(1, 9)}.storage.svc:5432/mlflow?sslmode=require, retrying in 12.7 seconds",
    )
    add(
        "postgres",
        "dsn-keyword",
        f"{g.py()} DEBUG connect(dsn=\"host=pg{g.n(1, 9)} port=5432 user=airflow password='",
        g.pwsp(),
        "' dbname=airflow connect_timeout=10\")",
    )
    add(
        "postgres",
        "sql",
        f"{g.day()} {g.hms()}.113 UTC [{g.n(100, 9999)}] postgres@postgres STATEMENT:  "
        f"ALTER ROLE {g.user()} WITH LOGIN ENCRYPTED PASSWORD '",
        g.pwq("''"),
        "' VALID UNTIL 'infinity';",
    )
    add("pgpassword", "xtrace", "++ PGPASSWORD=", g.pw(), f" pg_dump -h {g.ip()} -U slurm_acct -Fc slurm_acct_db")
    add(
        "pgpass",
        "colon-fields",
        f'WARNING: line 3 of password file "/home/ada/.pgpass" ignored: {g.host()}:5432:mlops:{g.user()}:',
        g.rnd(18),
    )
    add(
        "mysql",
        "short-attached",
        f"root     {g.dg(6)}  0.0  0.0  12044  3312 ?  S  03:12  0:00 mysqldump -u root -p",
        g.pw(),
        " --single-transaction slurm_acct_db",
    )
    add("mysql", "sql", f"{g.iso()}\t   {g.n(10, 99)} Query\tCREATE USER 'slurm'@'10.%' IDENTIFIED BY '", g.pwat(), "'")
    add(
        "mysql",
        "prose-colon",
        f"{g.iso()} 6 [Note] [MY-010454] [Server] A temporary password is generated for root@localhost: ",
        f"{g.an(4)}*{g.an(3)}>{g.an(2)}{g.dg(1)}",
    )
    add(
        "mysql-replica",
        "sql",
        f"{g.iso()} {g.n(10, 99)} [Warning] CHANGE REPLICATION SOURCE TO "
        f"SOURCE_HOST='{g.ip()}',"
        " SOURCE_USER='repl', SOURCE_PASSWORD='",
        g.rnd(20),
        "', SOURCE_AUTO_POSITION=1",
    )
    add(
        "redis",
        "protocol-trace",
        f'{g.n(1700000000, 1760000000)}.{g.dg(6)} [0 {g.ip()}:{g.port()}] "AUTH" "',
        g.rnd(24),
        '"',
    )
    add(
        "redis",
        "short-space",
        f"{g.sysl()} CROND[{g.dg(5)}]: (root) CMD (redis-cli -h {g.ip()} -a ",
        g.hx(32),
        " --no-auth-warning BGREWRITEAOF)",
    )
    add(
        "redis",
        "url-userinfo",
        f"{g.py()} [ERROR] celery.worker: consumer: Cannot connect to redis://:",
        g.pw(),
        f"@redis-master.{g.lo(5)}.svc:6379/1: Connection reset by peer.. Trying again in 4.00 seconds",
    )
    add(
        "redis-config",
        "protocol-trace",
        f'{g.n(1700000000, 1760000000)}.{g.dg(6)} [0 lua] "CONFIG" "SET" "requirepass" "',
        g.pwsp(),
        '"',
    )
    add(
        "redis-hello",
        "protocol-trace",
        f'{g.n(1700000000, 1760000000)}.{g.dg(6)} [0 {g.ip()}:{g.port()}] "HELLO" "3" "AUTH" "default" "',
        g.pw(),
        '" "SETNAME" "lettuce"',
    )
    add(
        "mongodb",
        "url-userinfo",
        "pymongo.errors.ServerSelectionTimeoutError: No servers match while connecting to mongodb+srv://labeler:",
        g.rnd(15),
        f"@cluster0.{g.lo(5)}.mongodb.net/?retryWrites=true, Timeout: 30s",
    )
    add(
        "mongodb",
        "js-object",
        f'[direct: mongos] admin> db.createUser({{ user: "{g.user()}", pwd: "',
        g.pwq('\\"'),
        '", roles: [ { role: "readWrite", db: "datasets" } ] })',
    )
    add(
        "mongodb",
        "long-space",
        f"{g.sysl()} mongo-backup[{g.dg(4)}]: exec: mongodump --host {g.ip()} --username backup --password ",
        g.pw(),
        " --gzip --archive=/backup/mongo.gz",
    )
    add(
        "clickhouse",
        "sql",
        f"{g.day()} {g.hms()}.332 [ {g.dg(4)} ] {{{g.uuid()}}} <Debug> executeQuery: (from "
        f"[::ffff:{g.ip()}]:{g.port()}) CREATE USER metrics IDENTIFIED WITH plaintext_password BY '",
        g.pw(),
        "' (stage: Complete)",
    )
    add(
        "clickhouse",
        "header-log",
        f"{g.iso()} TRACE http: X-ClickHouse-User: ingest, X-ClickHouse-Key: ",
        g.rnd(14),
        ", X-ClickHouse-Format: JSONEachRow",
    )
    add(
        "sqlcipher",
        "sql",
        "sqlite3.DatabaseError: file is not a database (while executing: PRAGMA key = '",
        g.pwsp(),
        "';)",
    )
    add(
        "mssql",
        "conn-string",
        f"{g.py()} pyodbc.connect DRIVER={{ODBC Driver 18 for SQL Server}};SERVER=tcp:{g.ip()},"
        "1433;DATABASE=labels;UID=svc_label;PWD=",
        g.pwat(),
        ";Encrypt=yes;TrustServerCertificate=yes",
    )
    add(
        "oracle",
        "slash-pair",
        f"[{g.hms()}] running: sqlplus -S -L inventory/",
        g.pw(),
        f"@//{g.host()}:1521/ORCLPDB1 @count.sql",
    )
    add(
        "jdbc",
        "url-query",
        f"{g.day()} {g.hms()}  WARN HikariPool-1 - Exception during pool initialization, jdbcUrl="
        f"jdbc:postgresql://{g.ip()}:5432/keycloak?user=keycloak&password=",
        g.pwenc(),
        "&ssl=true",
    )
    add(
        "hikari",
        "java-tostring",
        f"{g.iso()} DEBUG DataSourceProperties[url=jdbc:mysql://{g.host()}/hive, username=hive, password=",
        g.pw(),
        ", driverClassName=com.mysql.cj.jdbc.Driver]",
    )
    add(
        "elastic",
        "prose-nextline",
        "\u2139\ufe0f  Password for the elastic user (reset with `bin/elasticsearch-reset-password -u elastic`):\n  ",
        f"{g.an(7)}*{g.an(5)}+{g.an(6)}",
    )
    add(
        "elastic-apikey",
        "auth-scheme",
        f"{g.iso()} > POST /_bulk HTTP/1.1 > Authorization: ApiKey ",
        g.enc(f"{g.u64(20)}:{g.u64(22)}"),
        " > Content-Type: application/x-ndjson",
    )
    add(
        "neo4j",
        "slash-pair",
        f"{g.iso()} INFO  docker-entrypoint: NEO4J_AUTH=neo4j/",
        g.pw(),
        " found, setting initial password",
    )
    add(
        "influxdb",
        "auth-scheme",
        f"{g.iso()} D! [outputs.influxdb_v2] headers: Authorization: Token ",
        g.s(URL64, 86) + "==",
        " User-Agent: Telegraf/1.30.1",
    )
    add(
        "snowflake",
        "python-kwarg",
        "    conn = snowflake.connector.connect(user='ETL_SVC', account='ab12345', password='",
        g.pwq("\\'"),
        "', warehouse='ML_WH')",
    )


def _messaging(g: _Gen, add: _Box) -> None:
    add(
        "kafka-jaas",
        "jaas",
        f"{g.day()} {g.hms()},004 INFO ProducerConfig values: sasl.jaas.config = "
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ingest" password="',
        g.pwsp(),
        '"; (org.apache.kafka.clients.producer.ProducerConfig)',
    )
    add(
        "kafka-librdkafka",
        "properties",
        f"%7|{g.n(1700000000, 1760000000)}.112|CONF|rdkafka#producer-1| [thrd:app]:   sasl.password = ",
        g.rnd(32),
    )
    add(
        "kafka-keystore",
        "properties",
        f"[{g.day()} {g.hms()},871] INFO KafkaConfig values: "
        "\n\tssl.keystore.location = "
        "/etc/kafka/ks.jks\n\tssl.keystore.password = ",
        g.pw(),
        "\n\tssl.keystore.type = JKS",
    )
    add(
        "kafka-confluent",
        "python-dict",
        "KafkaException: failed with config {'bootstrap.servers': "
        "'pkc-abcd1.eu-west-1:9092', 'sasl.username': 'ML2', 'sasl.password': '",
        g.s(B64, 64),
        "', 'acks': 'all'}",
    )
    add(
        "rabbitmq",
        "url-userinfo",
        f"[{g.py()}: ERROR/MainProcess] consumer: Cannot connect to amqp://pipeline:",
        g.pw(),
        f"@rabbit-{g.n(0, 2)}.rabbit:5672/%2Fml: [Errno 111] Connection refused.",
    )
    add(
        "rabbitmq",
        "verb-positional",
        f"{g.sysl()} sudo: root : PWD=/root ; USER=rabbitmq ; COMMAND=/usr/sbin/rabbitmqctl change_password pipeline ",
        g.pwat(),
    )
    add(
        "rabbitmq",
        "curl-user",
        "+ curl -fsS -u monitor:",
        g.pwq("\\$"),
        " http://localhost:15672/api/healthchecks/node",
    )
    add(
        "nats",
        "go-struct",
        f"[{g.dg(4)}] {g.day()} {g.hms()} [DBG] connect opts &{{Url:nats://{g.ip()}:4222 User:ray Password:",
        g.pw(),
        " Token: Secure:false Timeout:2s}",
    )
    add("nats-seed", "bare", f"{g.iso()} level=debug nsc: generated user key ", "SUA" + g.s(B32, 55), " for account ML")
    add(
        "mqtt",
        "short-quoted",
        f"{g.sysl()} pdu-poll[{g.dg(4)}]: mosquitto_pub -h {g.ip()} -t rack/pdu -u pdu -P '",
        g.pwsp(),
        "' -m on",
    )
    add(
        "pulsar",
        "colon-value",
        f"{g.iso()} INFO [main] o.a.p.c.impl.ClientCnx authParams=token:",
        g.jwt("HS256"),
        " tlsAllowInsecure=false",
    )


def _tracking(g: _Gen, add: _Box) -> None:
    add(
        "mlflow",
        "env-assign",
        f"{g.klog()} container.go:77] starting, env: MLFLOW_TRACKING_USERNAME={g.user()} MLFLOW_TRACKING_PASSWORD=",
        g.rnd(16),
        " MLFLOW_EXPERIMENT_NAME=llm-pretrain",
    )
    add("wandb", "positional", f"{g.host()}: + wandb login --relogin --host=https://wandb.corp.example ", g.hx(40))
    add(
        "wandb",
        "export-list",
        "srun: debug: command line: srun --export=ALL,NCCL_DEBUG=INFO,WANDB_API_KEY=",
        g.hx(40),
        ",WANDB_MODE=online --ntasks-per-node=8 python pretrain_gpt.py",
    )
    add(
        "wandb", "netrc", f"[{g.hms()}] cat /home/ada/.netrc\nmachine api.wandb.ai\n  login user\n  password ", g.hx(40)
    )
    add(
        "comet",
        "python-kwarg",
        '  File "train.py", line 88, in main\n    exp = comet_ml.Experiment(api_key="',
        g.an(25),
        '", project_name="moe")\nValueError: workspace missing',
    )
    add(
        "comet",
        "ini",
        "COMET DEBUG: config /home/ada/.comet.config\n[comet]\napi_key = ",
        g.an(25),
        "\nworkspace = nlp",
    )
    add(
        "neptune",
        "python-kwarg",
        "run = neptune.init_run(project='nlp/moe', api_token='",
        g.enc(
            '{"api_address":"https://app.neptune.ai","api_url":"https://app.neptune.ai","api_key":"' + g.uuid() + '"}'
        ),
        "')",
    )
    add(
        "clearml",
        "hocon",
        f'{g.py()} - clearml.Task - DEBUG - api {{ credentials {{ access_key: "{g.s(UPPER, 20)}", secret_key: "',
        g.an(50),
        '" } }',
    )
    add(
        "clearml",
        "docker-e-list",
        "Executing: ['docker', 'run', '-t', '--gpus', 'all', '-e', 'CLEARML_API_SECRET_KEY=",
        g.u64(64),
        "', '-e', 'CLEARML_WORKER_ID=dgx1:gpu0']",
    )
    add(
        "huggingface",
        "header-dict",
        f"{g.py()} DEBUG huggingface_hub.utils._http: Request {g.uuid()}: GET https://"
        "huggingface.co/api/models/meta-llama headers={'user-agent': 'hf_hub/0.24', 'authorization': 'Bearer ",
        "hf_" + g.s(string.ascii_letters, 34),
        "', 'X-Amzn-Trace-Id': ''}",
    )
    add(
        "huggingface",
        "namespace",
        f"INFO {g.n(1, 12):02d}-{g.n(1, 28):02d} {g.hms()} api_server.py:220] args: "
        "Namespace(host=None, port=8000, hf_token='",
        "hf_" + g.s(string.ascii_letters, 34),
        "', max_model_len=8192, seed=0)",
    )
    add(
        "huggingface",
        "bash-history",
        f"#17{g.dg(8)}\nhuggingface-cli login --add-to-git-credential --token ",
        "hf_" + g.s(string.ascii_letters, 34),
    )
    add(
        "ngc",
        "env-assign",
        f"[{g.hms()}] NIM_CACHE_PATH=/opt/nim/.cache NGC_API_KEY=",
        "nvapi-" + g.u64(64),
        " NIM_MODEL_PROFILE=auto",
    )
    add(
        "ngc",
        "short-space",
        "+ docker login nvcr.io -u '$oauthtoken' -p ",
        g.enc(g.lo(26) + ":" + g.uuid()),
        "\nWARNING! Using --password via the CLI is insecure. Use --password-stdin.",
    )
    add(
        "ngc",
        "netrc",
        "[INFO] Using credentials from file: machine nvcr.io login $oauthtoken password ",
        "nvapi-" + g.u64(64),
        "  (enroot import docker://nvcr.io#nvidia/pytorch:24.05-py3)",
    )
    add(
        "kaggle",
        "json",
        f'Warning: Your Kaggle API key is readable by other users: {{"username":"{g.user()}","key":"',
        g.hx(32),
        '"}',
    )
    add(
        "prefect",
        "long-space",
        f"{g.hms()}.553 | INFO | prefect.worker - prefect cloud login -w ml/prod --key ",
        "pnu_" + g.an(36),
    )
    add(
        "airflow-standalone",
        "prose-colon",
        "standalone | Airflow is ready\nstandalone | Login with username: admin  password: ",
        g.an(16),
        "\nstandalone | Airflow Standalone is for development purposes only.",
    )
    add(
        "airflow-fernet",
        "env-assign",
        f"airflow-scheduler-0 {g.iso()} AIRFLOW__CORE__FERNET_KEY=",
        g.s(URL64, 43) + "=",
        " AIRFLOW__CORE__EXECUTOR=KubernetesExecutor",
    )
    add("dvc", "positional", f"$ dvc remote modify --local {g.host()}-store password ", g.pwat())
    add(
        "determined",
        "json-escaped",
        f"{g.iso()} [{g.hx(8)}] || DEBUG: POST /api/v1/auth/login "
        'body="{\\"username\\":'
        '\\"determined\\",\\"password\\":\\"',
        g.pw(),
        '\\",\\"isHashed\\":false}"',
    )


def _models(g: _Gen, add: _Box) -> None:
    add(
        "openai",
        "error-message",
        "openai.AuthenticationError: Error code: 401 - {'error': {'message': 'Incorrect API key provided: ",
        f"sk-proj-{g.u64(74)}T3BlbkFJ{g.u64(74)}",
        ". You can find your API key at https://platform.openai.com/account/api-keys.'}}",
    )
    add(
        "openai",
        "json",
        f'{g.py()}\tINFO job_manager.py:528 -- Runtime env: {{"env_vars": {{"OPENAI_API_KEY": "',
        f"sk-{g.an(20)}T3BlbkFJ{g.an(20)}",
        '", "RAY_DEDUP_LOGS": "0"}, "pip": ["vllm==0.6.3"]}',
    )
    add(
        "vllm",
        "long-space",
        f"root  {g.dg(6)} 99.8 python3 -m vllm.entrypoints.openai.api_server --model /m/mixtral --api-key ",
        f"{g.w().lower()}-{g.lo(10)}",
        " --tensor-parallel-size 8",
    )
    add(
        "vllm",
        "auth-bearer",
        "* using HTTP/1.x\n> POST /v1/completions HTTP/1.1\n> Host: 127.0.0.1:8000\n> authorization: bearer ",
        g.lo(24),
        "\n> Content-Length: 112",
    )
    add(
        "tgi",
        "rust-debug",
        f'{g.iso()}  INFO text_generation_launcher: Args {{ model_id: "bigcode/starcoder", port: 80, api_key: Some("',
        g.rnd(20),
        '"), ngrok: false, env: false }',
    )
    add(
        "triton",
        "key-eq-value",
        f"{g.klog()} cmdline_parser.cc:112] --http-restricted-api=model-repository:admin-key=",
        g.rnd(14),
    )
    add(
        "anthropic",
        "header-bytes",
        f"{g.py()} DEBUG httpcore.http11 send_request_headers headers=[(b'Host', "
        "b'api.anthropic.com'), (b'x-api-key', b'",
        f"sk-ant-api03-{g.u64(93)}AA",
        "')]",
    )
    add(
        "gemini",
        "url-query",
        f"{g.iso()} google.api_core.exceptions.ResourceExhausted: 429 POST https://generative"
        "language.googleapis.com/v1beta/models/gemini-pro:generateContent?key=",
        "AIzaSy" + g.u64(33),
        "&alt=json",
    )
    add(
        "azure-openai",
        "header-curl",
        f"[{g.hms()}] litellm POST https://ml-eu.openai.azure.com/openai/deployments -H 'api-key: ",
        g.hx(32),
        "' -d '{...}'",
    )
    add(
        "openrouter",
        "python-dict",
        f"{g.py()} DEBUG litellm_params={{'model': 'openrouter/auto', 'api_key': '",
        "sk-or-v1-" + g.hx(64),
        "', 'timeout': 600}",
    )
    add("groq", "export-shell", "+ export GROQ_API_KEY='", f"gsk_{g.an(52)}", "'\n+ python judge.py --fallback groq")
    add("mistral", "yaml", "Hydra config:\njudge:\n  provider: mistral\n  api_key: ", g.an(32), "\n  rps: 4")
    add(
        "deepseek",
        "pydantic",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
        "Judge\napi_keys\n  "
        "Input should be a valid list [type=list_type, input_value='",
        "sk-" + g.hx(32),
        "', input_type=str]",
    )
    add(
        "xai",
        "rich-locals",
        "\u2502 \u2502    model = 'grok-2' \u2502\n\u2502 \u2502  xai_key = '",
        f"xai-{g.an(80)}",
        "' \u2502\n\u2502 \u2570\u2500\u2500\u2500\u2500\u256f",
    )
    add("together", "export-shell", f'{g.host()}: export TOGETHER_API_KEY="', g.hx(64), '"; export NCCL_IB_HCA=mlx5;')
    add(
        "langsmith",
        "header-dict",
        "Failed to multipart ingest runs: HTTPError 403 headers={'x-api-key': '",
        f"lsv2_pt_{g.hx(32)}_{g.hx(10)}",
        "', 'Accept': 'application/json'}",
    )
    add(
        "langfuse",
        "python-kwarg",
        f"{g.py()} Langfuse(public_key='pk-lf-{g.uuid()}', secret_key='",
        f"sk-lf-{g.uuid()}",
        "', host='https://cloud.langfuse.com')",
    )
    add(
        "pinecone",
        "config-repr",
        "Configuration(host=None, api_key={'ApiKeyAuth': '",
        f"pcsk_{g.an(6)}_{g.an(63)}",
        "'})",
    )
    add(
        "qdrant",
        "toml",
        'qdrant: loaded config/production.toml\n[service]\nhost = "0.0.0.0"\napi_key = "',
        g.rnd(22),
        '"\nenable_tls = false',
    )
    add("cohere", "pair-tuple", f"{g.py()} ERROR retry args=('embed-v3', '", g.an(40), "') client=cohere.Client")
    add(
        "perplexity",
        "env-proc",
        f"strings /proc/{g.dg(5)}/environ: PATH=/usr/bin\\0PPLX_API_KEY=",
        f"pplx-{g.an(48)}",
        "\\0HOME=/root\\0LANG=C.UTF-8\\0",
    )


def _training(g: _Gen, add: _Box) -> None:
    add(
        "deepspeed",
        "list-repr",
        f"[{g.py()}] [INFO] [runner.py:568:main] cmd = ['pdsh', '-S', '-f', '1024', '-w', "
        f"'{g.host()}', 'export NCCL_DEBUG=INFO; export HUB_PASSWORD=",
        g.pw(),
        "; cd /work; python -u launch.py']",
    )
    add(
        "megatron",
        "dotted-arg",
        "------------------------ arguments ------------------------\n  wandb_entity "
        "......... "
        "nlp\n  s3_secret_key ................................... ",
        g.s(B64, 40),
        "\n  seq_length ...................................... 8192",
    )
    add(
        "hydra",
        "override",
        f"[NeMo I {g.day()} {g.hms()} exp_manager:394] overrides: trainer.devices=8 "
        "exp_manager.mlflow_logger_kwargs.password=",
        g.pw(),
        " model.micro_batch_size=2",
    )
    add(
        "omegaconf",
        "yaml",
        "[NeMo I] Hydra config\nregistry:\n  user: robot$nemo\n  passwd: '",
        g.pwq("''"),
        "'\n  url: https://harbor.corp",
    )
    add(
        "argparse",
        "namespace",
        f"{g.iso()} rank0: Namespace(data='/data', lr=0.0003, proxy_passwd='",
        g.pwsp(),
        "', workers=16)",
    )
    add("argparse-error", "argparse-error", "train.py: error: unrecognized arguments: --smtp-pass ", g.pw(), " --bf16")
    add(
        "ray",
        "long-eq",
        f"{g.py()}\tINFO node.py:1200 -- raylet --node_ip_address={g.ip()} --redis-password=",
        g.rnd(16),
        f" --session-dir=/tmp/ray/session_{g.day()}",
    )
    add(
        "ray-token",
        "header-log",
        f"[{g.py()} I {g.dg(5)}] (raylet) grpc metadata: x-ray-authorization: Bearer ",
        g.b64u(32),
        " path=/ray.rpc.JobInfoGcsService",
    )
    add(
        "pyconfig",
        "traceback-source",
        f'  File "/opt/etl/load.py", line {g.n(10, 400)}, in <module>\n    ADMIN_PASS = "',
        g.pwat(),
        "\"  # TODO remove\n    ^^^^^^^^^^\nNameError: name 'x' is not defined",
    )
    add(
        "interpolation",
        "prose-quoted",
        "ValueError: invalid interpolation syntax in '",
        g.w() + "%" + g.w().lower() + str(g.n(10, 99)),
        f"' at position {g.n(6, 9)} (option smtp_password)",
    )
    add(
        "docker-envfile",
        "prose-quoted",
        "docker: poorly formatted environment: variable 'DB_PASSWORD ",
        g.pwsp(),
        "' contains whitespaces.\nSee 'docker run --help'.",
    )
    add(
        "unexpected-kwarg",
        "python-dict",
        "TypeError: connect() got unexpected kwargs {'usr': 'etl', 'pass_phrase': '",
        g.pwsp(),
        "', 'zone': 3}",
    )


def _slurm_kube(g: _Gen, add: _Box) -> None:
    add("slurm-jwt", "env-assign", f"$ scontrol token lifespan=86400 username={g.user()}\nSLURM_JWT=", g.jwt("HS256"))
    add(
        "slurm-jwt",
        "header-log",
        f"slurmrestd: debug: [{g.ip()}:{g.port()}] header X-SLURM-USER-TOKEN: ",
        g.jwt("HS256"),
    )
    add(
        "slurmdbd",
        "inline-conf",
        f"slurmdbd: debug:  read_slurmdbd_conf: StorageHost={g.host()} StorageUser=slurm StoragePass=",
        g.pw(),
        " StorageLoc=slurm_acct_db",
    )
    add(
        "munge",
        "bare",
        "slurmd: debug: auth_g_pack credential MUNGE:",
        f"AwQF{g.s(B64, 120)}AAA",
        f": for uid={g.n(1000, 60000)}",
    )
    add(
        "sbatch-wrap",
        "long-eq",
        f'_slurm_rpc_submit_batch_job: JobId={g.dg(7)} wrap="rsync-job --remote-password=',
        g.pwq("\\'"),
        f' --dest {g.host()}"',
    )
    add(
        "kube-bearer",
        "auth-bearer",
        f'{g.klog()} round_trippers.go:466] curl -v -XGET -H "Accept: application/json" -H "Authorization: Bearer ',
        g.jwt(),
        f"\" 'https://{g.ip()}:6443/api/v1/nodes?limit=500'",
    )
    add(
        "kubeadm",
        "long-space",
        f"[{g.hms()}] kubeadm join {g.ip()}:6443 --token ",
        f"{g.lo(6)}.{g.lo(16)}",
        f" --discovery-token-ca-cert-hash sha256:{g.hx(64)}",
    )
    add(
        "kubeadm-certkey",
        "prose-nextline",
        '[upload-certs] Storing the certificates in Secret "kubeadm-certs" in '
        "the "
        '"kube-system" Namespace\n[upload-certs] Using certificate key:\n',
        g.hx(64),
    )
    add(
        "kube-secret",
        "yaml-diff",
        f"secret/db-{g.lo(4)} configured (diff)\n apiVersion: v1\n kind: Secret\n data:\n+  password: ",
        g.enc(g.pw() + "\n"),
        "\n   username: cm9vdA==",
    )
    add(
        "kube-secret",
        "from-literal",
        f"{g.sysl()} sudo: {g.user()} : COMMAND=/usr/bin/kubectl create secret generic db --from-literal=pass=",
        g.pwat(),
    )
    add(
        "kube-describe",
        "aligned-colon",
        "    Environment:\n      REPLICAS:           3\n      RSTUDIO_PASSWORD:   ",
        g.pw(),
        "\n      POD_NAMESPACE:      ml (v1:metadata.namespace)",
    )
    add(
        "kube-dockerconfig",
        "colon-value",
        f"{g.klog('E')} reconcile: unable to unmarshal .dockerconfigjson: ",
        g.enc('{"auths":{"harbor.corp":{"username":"robot$ci","password":"' + g.an(32) + '"}}}'),
    )
    add(
        "kubeconfig",
        "yaml",
        "Loaded kubeconfig\nusers:\n- name: admin\n  user:\n    client-key-data: ",
        g.enc("-----BEGIN EC PRIVATE KEY-----\n" + g.b64(48) + "\n" + g.b64(48) + "\n-----END EC PRIVATE KEY-----\n"),
    )
    add(
        "k3s",
        "long-eq",
        f'time="{g.iso()}" level=info msg="To join server node: k3s server -s https://{g.ip()}:6443 --token=',
        f"K10{g.hx(64)}::server:{g.hx(32)}",
        '"',
    )
    add(
        "rancher",
        "auth-basic-plain",
        f"{g.iso()} [ERROR] cluster registration: bearer token-{g.lo(5)}:",
        g.lo(54),
        " rejected by /v3/connect: 401",
    )
    add(
        "helm",
        "set-arg",
        f"{g.sysl()} helm[{g.dg(5)}]: upgrade --install pg bitnami/postgresql --set auth.postgresPassword=",
        g.rnd(12),
        ",primary.persistence.size=1Ti --wait",
    )
    add(
        "argocd",
        "cookie",
        f"{g.iso()} < 200 /api/v1/session Set-Cookie: argocd.token=",
        g.jwt("HS256"),
        "; path=/; SameSite=lax; httpOnly; Secure",
    )
    add("argocd", "prose-to", f'time="{g.iso()}" level=info msg="Initialized admin password to ', g.u64(16), '"')
    add(
        "swarm",
        "bare",
        f'dockerd[{g.dg(4)}]: level=debug msg="worker join credential is ',
        f"SWMTKN-1-{g.lo(50)}-{g.lo(25)}",
        '"',
    )
    add(
        "containerd",
        "go-struct",
        f'time="{g.iso()}" level=debug msg="PullImage auth config &AuthConfig{{Username:robot,Password:',
        g.an(32),
        ',Auth:,ServerAddress:harbor.corp,IdentityToken:,}"',
    )
    add(
        "docker-config",
        "json",
        'could not parse /home/ada/.docker/config.json: {"auths": {"registry.corp:5000": {"auth": "',
        g.enc(f"{g.user()}:{g.pw()}"),
        '"}}}: trailing comma',
    )
    add(
        "docker-pat",
        "stdin-pipe",
        "[Pipeline] sh\n+ echo ",
        f"dckr_pat_{g.u64(27)}",
        "\n+ docker login -u mlbuild --password-stdin\nLogin Succeeded",
    )
    add(
        "docker-buildarg",
        "long-space-eq",
        '#0 building with "default" instance: docker buildx build --build-arg PIP_PASSWORD=',
        g.pw(),
        " --build-arg CUDA=12.4 .",
    )
    add(
        "docker-run-e",
        "docker-e",
        f'root {g.dg(6)} 0.1 docker run --rm -d --gpus=all -e "VNC_PW=',
        g.pwsp(),
        '" -p 6901:6901 desktop:24.04',
    )
    add(
        "singularity",
        "env-assign",
        f"{g.sysl()} slurmstepd[{g.dg(5)}]: SINGULARITY_DOCKER_USERNAME=ci SINGULARITY_DOCKER_PASSWORD=",
        g.pwq("'\\''"),
    )
    add(
        "etcd",
        "colon-pair",
        f"{g.sysl()} etcd-backup[{g.dg(4)}]: etcdctl --endpoints={g.ip()}:2379 --user root:",
        g.pw(),
        " snapshot save /backup/etcd.db",
    )
    add(
        "etcd-encryption",
        "yaml",
        "kind: EncryptionConfiguration\nproviders:\n- aescbc:\n    keys:\n    - name: key1\n      secret: ",
        g.b64(32),
    )
    add(
        "kubeflow",
        "cookie",
        f'[{g.iso()}] "GET /pipeline/apis/v1beta1/runs HTTP/2" 302 cookie="authservice_session=',
        g.enc(g.an(11) + "|" + g.an(60)).rstrip("="),
        '" upstream=ml-pipeline-ui',
    )
    add(
        "sealed-env",
        "python-dict",
        f"{g.py()} kopf.objects [DEBUG] patching with: {{'stringData': {{'admin-password': '",
        g.pwat(),
        "'}}",
    )


def _storage(g: _Gen, add: _Box) -> None:
    add(
        "aws", "export-shell", "+(launch.sh:14): export AWS_SECRET_ACCESS_KEY=", g.s(B64, 40), "\n+(launch.sh:15): srun"
    )
    add(
        "aws",
        "json",
        f'{g.py()} urllib3 DEBUG http://169.254.169.254 "GET '
        "/latest/meta-data/iam/security-credentials/"
        f'gpu" 200: {{"Code" : "Success", "AccessKeyId" : "ASIA{g.s(UPPER, 16)}", "SecretAccessKey" : "',
        g.s(B64, 40),
        '"}',
    )
    add(
        "aws",
        "xml",
        "DEBUG sts response: <Credentials><SessionToken>",
        "IQoJb3JpZ2luX2Vj" + g.b64(300),
        "</SessionToken><Expiration>2025-03-02T11:00:00Z</Expiration></Credentials>",
    )
    add(
        "s3-presigned",
        "url-query",
        "aiohttp.ClientResponseError: 403, "
        "url='https://ckpt.s3.amazonaws.com/step.pt?X-Amz-"
        f"Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20250301T{g.hms().replace(':', '')}Z"
        "&X-Amz-Expires=604800&X-Amz-Signature=",
        g.hx(64),
        "'",
    )
    add(
        "minio",
        "positional",
        f"$ mc alias set prod https://minio.corp:9000 {g.s(UPPER, 20)} ",
        g.an(40),
        " --api S3v4\nAdded `prod` successfully.",
    )
    add(
        "minio",
        "aligned-colon",
        f"API: http://{g.ip()}:9000  http://127.0.0.1:9000\n   RootUser: admin\n   RootPass: ",
        g.pw(),
        f"\nWebUI: http://{g.ip()}:9001",
    )
    add(
        "s3fs",
        "python-dict",
        "fsspec.open('s3://tok/shard-0001.tar', **{'key': 'trainer', 'secret': '",
        g.s(B64, 40),
        "', 'client_kwargs': {'endpoint_url': 'http://minio:9000'}})",
    )
    add(
        "s3cmd",
        "long-eq",
        f"DEBUG: argv: s3cmd --access_key={g.s(UPPER, 20)} --secret_key=",
        g.s(B64, 40),
        " sync /ckpt/ s3://ckpt/",
    )
    add("passwd-s3fs", "colon-fields", f"s3fs: invalid line in /etc/passwd-s3fs: ckpt:{g.s(UPPER, 20)}:", g.s(B64, 40))
    add(
        "rclone",
        "ini",
        f"{g.day()} {g.hms()} DEBUG : config dump\n[nas]\ntype = sftp\nuser = sync\npass = ",
        g.u64(43),
        "\nshell_type = unix",
    )
    add(
        "rclone",
        "connection-colon",
        f'{g.day()} {g.hms()} INFO  : Starting with parameters ["rclone" "copy" '
        "\":webdav,url='https://dav.corp',user=etl,pass='",
        g.u64(38),
        '\':raw" "/data"]',
    )
    add(
        "gcp",
        "auth-bearer",
        "send: b'GET /storage/v1/b/ckpt/o HTTP/1.1\\r\\nHost: storage.googleapis.com\\r\\nauthorization: Bearer ",
        "ya29.c." + g.u64(180),
        "\\r\\nuser-agent: apitools gsutil/5.27\\r\\n'",
    )
    add(
        "gcp-sa",
        "json-escaped-pem",
        'ValueError: bad service account info: {"type": "service_account", '
        '"private_key_id": "x", "private_key": "-----BEGIN PRIVATE KEY-----\\n',
        "\\n".join(g.s(B64, 64) for _ in range(5)),
        '\\n-----END PRIVATE KEY-----\\n"}',
    )
    add(
        "gcp-refresh",
        "json",
        '{"client_id": "7640.apps.googleusercontent.com", "refresh_token": "',
        "1//0" + g.u64(99),
        '", "type": "authorized_user"}',
    )
    add(
        "gcp-client",
        "form-body",
        f"{g.iso()} POST https://oauth2.googleapis.com/token grant_type=refresh_token&"
        "client_id=7640.apps.googleusercontent.com&client_secret=",
        "GOCSPX-" + g.u64(28),
    )
    add(
        "gcs-hmac",
        "aligned-colon",
        f"$ gsutil hmac create ckpt@ml.iam.gserviceaccount.com\nAccess ID:   GOOG1E{g.s(B32, 55)}\nSecret:      ",
        g.s(B64, 40),
    )
    add(
        "gcs-signed",
        "url-query",
        f"{g.py()} WARNING webdataset retry "
        "https://storage.googleapis.com/ds/00012.tar?X-Goog-"
        "Algorithm=GOOG4-RSA-SHA256&X-Goog-Expires=3600&X-Goog-Signature=",
        g.hx(512),
        " (503)",
    )
    add(
        "azure-blob",
        "conn-string",
        "azure.core.exceptions.ResourceNotFoundError using DefaultEndpointsProtocol=https;"
        "AccountName=mlckpt;AccountKey=",
        g.b64(64),
        ";EndpointSuffix=core.windows.net",
    )
    add(
        "azure-sas",
        "url-query",
        "INFO: azcopy 10.24: Scanning https://mlckpt.blob.core.windows.net/d?sv=2023-11-03&"
        "sp=rl&se=2025-09-01T00%3A00Z&sig=",
        g.s(ALNUM, 41) + "%2B" + "%3D",
        " ...",
    )
    add(
        "azure-ad",
        "short-space",
        f"+ az login --service-principal -u {g.uuid()} -p ",
        f"{g.an(3)}8Q~{g.u64(34)}",
        f" --tenant {g.uuid()}",
    )
    add(
        "azure-ad",
        "rust-debug",
        f'{g.iso()} DEBUG object_store::azure: ClientSecretOAuthProvider {{ client_id: "{g.uuid()}", client_secret: "',
        f"{g.an(3)}8Q~{g.u64(34)}",
        '" }',
    )
    add(
        "azure-devops",
        "auth-basic",
        '##[command]git -c http.extraheader="AUTHORIZATION: basic ',
        g.enc(":" + g.s(B32L, 52)),
        '" fetch --force --tags --prune origin',
    )
    add(
        "eventhub",
        "conn-string",
        "Endpoint=sb://ml.servicebus.windows.net/;SharedAccessKeyName=send;SharedAccessKey=",
        g.b64(32),
        ";EntityPath=metrics",
    )
    add(
        "ceph",
        "keyring",
        "ceph-ansible: [client.ml]\n\tkey = ",
        "AQ" + g.s(B64, 36) + "==",
        '\n\tcaps mon = "allow r"\n\tcaps osd = "allow rw pool=ml"',
    )
    add(
        "ceph",
        "mount-opts",
        f"{g.sysl()} mount[{g.dg(4)}]: mount -t ceph {g.ip()}:6789:/vol /mnt -o name=ml,secret=",
        "AQ" + g.s(B64, 36) + "==",
        ",noatime",
    )
    add("weka", "positional", f"{g.sysl()} weka-init[{g.dg(3)}]: weka user login admin ", g.pwq("\\!"), " -H 10.0.0.5")
    add("purestorage", "header-log", f"{g.py()} DEBUG purity POST /api/2.26/login api-token: ", g.uuid())
    add(
        "netapp",
        "ansible-json",
        'fatal: [localhost]: FAILED! => {"invocation": {"module_args": {"hostname": '
        f'"{g.ip()}", "https": true, "username": "vsadmin", "password": "',
        g.pwsp(),
        '"}}}',
    )
    add(
        "cifs",
        "mount-opts",
        f"{g.sysl()} automount[{g.dg(4)}]: mount.cifs //nas/{g.user()} /mnt/nas -o vers=3.0,username=svc,password=",
        g.pw(),
        ",uid=1000",
    )
    add("smbclient", "percent-pair", f"+ smbclient //{g.host()}/scratch -U svc_backup%", g.pwat(), " -c 'ls'")
    add("iscsi", "ini", f"iscsiadm: node.session.auth.username = {g.host()}\nnode.session.auth.password = ", g.an(14))
    add(
        "nvme-dhchap",
        "long-eq",
        f"{g.sysl()} nvme[{g.dg(4)}]: nvme connect -t tcp -a {g.ip()} --dhchap-secret=",
        f"DHHC-1:01:{g.b64(36)}:",
        " -n nqn.2014-08.org:ml",
    )
    add("lustre-nodemap", "stdin-pipe", f"{g.sysl()} lgss: + printf '%s' '", g.pwsp(), "' | lgss_sk -l /dev/stdin")
    add("rsync", "env-assign", "+ RSYNC_PASSWORD='", g.pwsp(), f"' rsync -a rsync://sync@{g.host()}/ckpt /ckpt")
    add("luks", "stdin-pipe", "+ echo -n '", g.pwsp(), "'\n+ cryptsetup luksOpen /dev/nvme3n1 scratch --key-file=-")


def _code_hosts(g: _Gen, add: _Box) -> None:
    add(
        "github",
        "url-userinfo",
        f"{g.hms()}.{g.dg(6)} run-command.c:668 trace: run_command: git remote-https origin https://x-access-token:",
        "ghs_" + g.an(36),
        "@github.com/acme/megatron.git",
    )
    add("github", "credential-helper", "protocol=https\nhost=github.com\nusername=ci-bot\npassword=", "ghp_" + g.an(36))
    add(
        "github",
        "auth-scheme",
        f"{g.iso()} gh api request headers Authorization: token ",
        f"github_pat_{g.an(22)}_{g.an(59)}",
        " Accept: application/vnd.github+json",
    )
    add(
        "git-extraheader",
        "auth-basic",
        "[command]/usr/bin/git config --local http.https://github.com/.extraheader AUTHORIZATION: basic ",
        g.enc("x-access-token:ghs_" + g.an(36)),
    )
    add(
        "gitlab",
        "header-curl",
        "+ curl --silent --header 'PRIVATE-TOKEN: ",
        "glpat-" + g.u64(20),
        "' https://gitlab.corp/api/v4/projects/71/packages",
    )
    add(
        "gitlab-runner",
        "long-space",
        f"Runtime platform  arch=amd64 pid={g.dg(4)}\ngitlab-runner register "
        "--non-interactive --url https://gitlab.corp --token ",
        "glrt-" + g.u64(20),
        " --executor docker",
    )
    add(
        "gitlab-trigger",
        "multipart",
        f'> POST /api/v4/projects/9/trigger/pipeline\n--{g.hx(16)}\nContent-Disposition: form-data; name="token"\n\n',
        "glptt-" + g.hx(40),
        f"\n--{g.hx(16)}--",
    )
    add(
        "gitlab-job",
        "header-curl",
        '$ curl --fail --header "JOB-TOKEN: ',
        f"glcbt-64_{g.u64(20)}",
        '" --upload-file w.whl https://gitlab.corp/api/v4/projects/71/packages/generic/w/1/w.whl',
    )
    add(
        "bitbucket",
        "curl-user",
        f"+ curl -X POST --user '{g.user()}:",
        "ATBB" + g.an(32),
        "' https://api.bitbucket.org/2.0/repositories/x/y/commit",
    )
    add(
        "jenkins",
        "curl-user",
        f"[Pipeline] sh: curl -s -u {g.user()}:",
        "11" + g.hx(32),
        " -X POST http://jenkins:8080/job/nightly/build",
    )
    add(
        "atlassian",
        "auth-basic",
        f"{g.py()} DEBUG jira: {{'Authorization': 'Basic ",
        g.enc(f"{g.user()}@corp.example:ATATT3xFfGF0{g.u64(180)}"),
        "'}",
    )
    add(
        "pip",
        "url-userinfo",
        "Looking in indexes: https://pypi.corp.example/simple, https://deploy:",
        g.pwenc(),
        "@nexus.corp.example/repository/pypi/simple",
    )
    add(
        "pypi",
        "twine",
        "INFO     Response from https://upload.corp.example/legacy/: 403\nINFO     password: ",
        "pypi-AgEIcHlwaS5vcmc" + g.u64(150),
    )
    add(
        "conda",
        "url-path",
        "CondaHTTPError: HTTP 403 FORBIDDEN for url <https://conda.anaconda.org/t/",
        f"{g.lo(2)}-{g.uuid()}",
        "/acme/linux-64/repodata.json>",
    )
    add("npm", "npmrc", "npm verb config //npm.pkg.corp.example/:_authToken=", "npm_" + g.an(36))
    add(
        "npm-basic",
        "npmrc",
        "npm sill .npmrc registry=https://art.corp/api/npm/npm/ _auth=",
        g.enc(f"{g.user()}:{g.pw()}"),
        " always-auth=true",
    )
    add(
        "artifactory",
        "header-verbose",
        "* Connected to art.corp port 443\n> PUT /wheels/x.whl\n> X-JFrog-Art-Api: ",
        "AKCp8" + g.an(68),
    )
    add(
        "artifactory-ref",
        "netrc",
        f"[debug] netrc: machine art.corp login {g.user()} password ",
        g.enc(f"reftkn:01:17{g.dg(8)}:{g.an(28)}"),
        "  # pip",
    )
    add(
        "poetry", "dotted-config", "Using configuration http-basic.corp.password: ", g.pwsp(), "\nUpdating dependencies"
    )
    add(
        "maven",
        "xml",
        "[DEBUG] settings.xml: <server><id>nexus</id><username>deploy</username><password>",
        g.pwq("&amp;"),
        "</password></server>",
    )
    add(
        "cargo",
        "toml",
        'error: failed to parse ~/.cargo/credentials.toml\n[registries.corp]\ntoken = "Bearer ',
        f"cio{g.an(32)}",
        '"',
    )
    add(
        "databricks",
        "ini",
        "databricks-cli: profile [DEFAULT]\nhost = https://adb-1.azuredatabricks.net\ntoken = ",
        f"dapi{g.hx(32)}-2",
    )
    add("digitalocean", "bare", "doctl: level=debug using credential ", f"dop_v1_{g.hx(64)}", " for gpu-droplets")
    add("modal", "two-column", f"modal config show\ntoken_id      ak-{g.an(22)}\ntoken_secret  ", f"as-{g.an(22)}")


def _infra(g: _Gen, add: _Box) -> None:
    add(
        "ansible-become",
        "ansible-json",
        f'<{g.ip()}> (0, \'{{"ansible_become_password": "',
        g.pwsp(),
        '", "ansible_python_interpreter": "/usr/bin/python3"}\', \'\')',
    )
    add(
        "ansible-loop",
        "ansible-item",
        f"changed: [{g.host()}] => (item={{'name': 'ops', 'update_password': 'always', 'password': '",
        g.pw(),
        "'})",
    )
    add(
        "ansible-inventory",
        "inventory",
        f"[WARNING]:  * Failed to parse hosts.ini: {g.host()} ansible_host={g.ip()} "
        "ansible_user=root ansible_ssh_pass=",
        g.pwq('\\"'),
        " ansible_port=22",
    )
    add(
        "sshpass",
        "short-attached",
        f"root {g.dg(6)} S+ sshpass -p",
        g.pw(),
        f" ssh -o StrictHostKeyChecking=no {g.host()}",
    )
    add(
        "sshpass", "short-quoted", f'{g.py()} p={g.dg(4)} EXEC sshpass -p "', g.pwat(), f'" scp img.bin admin@{g.ip()}:'
    )
    add("shadow", "colon-fields", f"+{g.user()}:", f"$6${g.an(16)}${g.s(ALNUM + './', 86)}", ":19800:0:99999:7:::")
    add("chpasswd", "stdin-pipe", "+ echo root:", g.pwat(), "\n+ chpasswd\n+ systemctl restart sshd")
    add("crypt-md5", "stdin-pipe", f"+ echo '{g.user()}:", f"$1${g.an(8)}${g.s(ALNUM + './', 22)}", "'\n+ chpasswd -e")
    add(
        "htpasswd",
        "positional",
        f"+ htpasswd -bB /etc/nginx/.htpasswd {g.user()} ",
        g.pw(),
        "\nAdding password for user",
    )
    add(
        "cloudinit",
        "colon-pair",
        f"{g.py()} - cc_set_passwords.py[DEBUG]: Set the following 'random' passwords\nubuntu:",
        g.an(20),
    )
    add("kickstart", "directive", f"{g.hms()},221 INFO anaconda:ks: rootpw --plaintext ", g.pw(), "  (line 12)")
    add(
        "kernel-cmdline",
        "kernel-param",
        "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz-6.5 root=/dev/nvme0n1p2 netroot=iscsi rd.iscsi.password=",
        g.rnd(14),
        " console=ttyS0,115200",
    )
    add(
        "grub",
        "directive",
        f"{g.sysl()} grub-mkconfig: password_pbkdf2 root ",
        f"grub.pbkdf2.sha512.10000.{g.hxu(128)}.{g.hxu(128)}",
    )
    add(
        "systemd-unit",
        "systemd-env",
        f'{g.sysl()} systemd[1]: exporter.service: Invalid environment assignment, ignoring: "EXPORTER_PASS ',
        g.pwsp(),
        '"',
    )
    add(
        "auditd",
        "audit-execve",
        f'type=EXECVE msg=audit({g.n(1700000000, 1760000000)}.1:{g.dg(5)}): argc=5 a0="mysql" a1="-u" a2="root" a3="-p',
        g.pw(),
        '" a4="nova"',
    )
    add(
        "auditd",
        "proctitle-hex",
        f"type=PROCTITLE msg=audit({g.n(1700000000, 1760000000)}.7:{g.dg(5)}): proctitle="
        + b"sshpass\0-p\0".hex().upper(),
        g.pw().encode().hex().upper(),
        b"\0ssh\0root@n1".hex().upper(),
    )
    add(
        "sshd-typed",
        "sshd",
        f"{g.sysl()} sshd[{g.dg(5)}]: Failed none for invalid user ",
        g.pw(),
        f" from {g.ip()} port {g.port()} ssh2",
    )
    add(
        "login-typed",
        "pam",
        f"{g.sysl()} login[{g.dg(4)}]: FAILED LOGIN 1 FROM tty1 FOR ",
        g.pwq("#"),
        ", User not known to the underlying authentication module",
    )
    add(
        "terraform",
        "hcl",
        '  # module.db.aws_db_instance.mlflow will be updated in-place\n  ~ password = "',
        g.pwq('\\"'),
        '" -> (known after apply)',
    )
    add(
        "terraform-var",
        "long-space-eq",
        f'{g.iso()} [INFO] CLI args: []string{{"terraform", "apply", "-var", "bmc_admin_pw=',
        g.pwsp(),
        '", "-auto-approve"}',
    )
    add(
        "terraform-cloud",
        "hcl",
        'credentials "app.terraform.io" {\n  token = "',
        f"{g.an(14)}.atlasv1.{g.an(67)}",
        '"\n}',
    )
    add("terraform-output", "hcl", 'Outputs:\n\ngrafana_url = "https://g.corp"\ngrafana_login_pw = "', g.rnd(24), '"')
    add(
        "openstack",
        "header-curl",
        f'REQ: curl -g -i -X GET http://{g.ip()}:5000/v3/projects -H "X-Auth-Token: ',
        "gAAAAAB" + g.u64(176),
        '"',
    )
    add("openstack-rc", "export-shell", f"+ export OS_PROJECT_NAME=gpu OS_USERNAME={g.user()} OS_PASSWORD=", g.pwat())
    add(
        "vault",
        "two-column",
        "Key                  Value\n---                  -----\ntoken                ",
        "hvs.CAESI" + g.u64(86),
        f"\ntoken_accessor       {g.an(24)}\ntoken_duration       768h",
    )
    add("vault-unseal", "prose-colon", f"Unseal Key {g.n(1, 5)}: ", g.b64(33), "\nVault initialized with 5 key shares")
    add("vault-root", "prose-colon", f"{g.sysl()} vault[{g.dg(4)}]: Initial Root Token: ", "s." + g.an(24))
    add(
        "vault-approle",
        "key-eq-value",
        f"+ vault write -field=token auth/approle/login role_id={g.uuid()} secret_id=",
        g.uuid(),
    )
    add("vault-kv", "two-column", "====== Data ======\nKey         Value\n---         -----\nbmc_pass    ", g.pwsp())
    add("consul", "header-log", f"{g.iso()} [DEBUG] agent.http: GET /v1/kv/slurm?raw X-Consul-Token: ", g.uuid())
    add(
        "consul-acl",
        "aligned-colon",
        f"AccessorID:       {g.uuid()}\nSecretID:         ",
        g.uuid(),
        "\nDescription:      Bootstrap Token (Global Management)",
    )
    add("consul-gossip", "hcl", '==> Error parsing /etc/consul.d/consul.hcl: encrypt = "', g.b64(32), '" at 4:1')
    add("serf", "short-attached", f"{g.sysl()} serf[{g.dg(4)}]: serf agent -node={g.host()} -encrypt=", g.b64(32))
    add("ipmi", "short-space", f"{g.host()}: ipmitool -I lanplus -H {g.ip()} -U ADMIN -P ", g.pw(), " sel list last 20")
    add(
        "ipmi-set",
        "verb-positional",
        f"{g.sysl()} bmc-setup[{g.dg(4)}]: ipmitool user set password 2 ",
        g.pwq("\\ "),
        " 20",
    )
    add(
        "redfish",
        "json",
        f'{g.py()} DEBUG POST https://{g.ip()}/redfish/v1/SessionService/Sessions {{"UserName": "root", "Password": "',
        g.pwq('\\"'),
        '"}',
    )
    add(
        "redfish",
        "header-verbose",
        "< HTTP/1.1 201 Created\n< Location: /redfish/v1/SessionService/Sessions/4\n< X-Auth-Token: ",
        g.hx(32),
        "\n< OData-Version: 4.0",
    )
    add("racadm", "short-quoted", f"+ racadm -r {g.ip()} -u root -p '", g.pwsp(), "' get BIOS.ProcSettings")
    add(
        "snmp",
        "short-space",
        f"{g.sysl()} snmp-poll[{g.dg(4)}]: timeout: snmpbulkwalk -v2c -c ",
        f"{g.w().lower()}RO{g.n(10, 99)}",
        f" {g.ip()} 1.3.6.1.4.1.318",
    )
    add(
        "snmpv3",
        "short-quoted",
        "+ snmpget -v3 -l authPriv -u mon -a SHA -A '",
        g.pwat(),
        f"' -x AES {g.ip()} sysUpTime.0",
    )
    add(
        "snmpd",
        "space-conf",
        f"snmpd[{g.dg(4)}]: /etc/snmp/snmpd.conf: line 9: rwcommunity ",
        f"{g.w()}{g.n(100, 999)}rw",
        " 10.0.0.0/8",
    )
    add("snmpd-user", "space-quoted", 'net-snmp-create-v3-user: adding: createUser mon SHA "', g.pwsp(), '" AES')
    add(
        "cisco",
        "space-conf",
        "%PARSER-5-CFGLOG_LOGGEDCMD: User:admin  logged command:username netops privilege 15 password 0 ",
        g.pw(),
    )
    add("cisco-7", "space-conf", "+ line vty 0 4\n+  password 7 ", f"{g.n(0, 15):02d}" + g.hxu(22))
    add("bgp", "space-conf", f"frr: bgpd: vtysh: neighbor {g.ip()} password ", g.rnd(12))
    add("radius", "space-conf", f"{g.sysl()} nvue: tacacs-server host {g.ip()} key ", g.pw(), " timeout 5")
    add("ufm", "curl-user", "+ curl -sk -u admin:", g.pwat(), f" https://{g.ip()}/ufmRest/app/ufm_version")
    add(
        "ldap",
        "short-space",
        f"{g.sysl()} CMD (ldapsearch -x -H ldap://{g.ip()} -D cn=admin,dc=corp -w ",
        g.pwq("'"),
        " -b dc=corp uid)",
    )
    add(
        "sssd",
        "ini",
        "(confdb_get) [domain/corp]\nldap_default_bind_dn = cn=sssd,dc=corp\nldap_default_authtok = ",
        g.pw(),
        "\nldap_id_mapping = False",
    )
    add(
        "ldif",
        "ldif",
        f"dn: uid={g.user()},ou=people,dc=corp\nchangetype: modify\nreplace: userPassword\nuserPassword:: ",
        g.enc("{SSHA}" + g.b64(28)),
    )
    add(
        "ldap-bind",
        "python-kwarg",
        "ldap3.Connection(server, user='cn=svc,dc=corp', password=\"",
        g.pwsp(),
        '", auto_bind=False) -> invalidCredentials',
    )
    add("kinit", "stdin-pipe", "+ echo '", g.pwq('"'), f"'\n+ kinit {g.user()}@CORP.EXAMPLE")
    add(
        "kadmin", "short-quoted", f'kadmin.local[{g.dg(4)}]: addprinc -pw "', g.pwsp(), f'" nfs/{g.host()}@CORP.EXAMPLE'
    )
    add("adjoin", "percent-pair", "realmd: net ads join -k no -U Administrator%", g.pw(), " createcomputer=HPC")
    add(
        "otp-seed",
        "prose-is",
        f"google-authenticator[{g.user()}]: Your new secret key is: ",
        g.s(B32, 26),
        "\nEnter code from app (-1 to skip):",
    )
    add(
        "otp-scratch",
        "prose-nextline",
        "Your emergency scratch codes are:\n  ",
        g.dg(8) + "\n  " + g.dg(8) + "\n  " + g.dg(8),
    )
    add(
        "wireguard",
        "ini",
        f"wg-quick: [Interface]\nAddress = {g.ip()}/24\nPrivateKey = ",
        g.b64(32),
        "\nListenPort = 51820",
    )
    add(
        "tailscale",
        "long-eq",
        f"{g.sysl()} cloud-init[{g.dg(4)}]: tailscale up --authkey=",
        f"tskey-auth-{g.an(17)}-{g.an(32)}",
        " --ssh",
    )
    add("ipsec", "ipsec-secrets", f'charon: loading secrets: {g.ip()} {g.ip()} : PSK "', g.pwsp(), '"')
    add("keepalived", "space-conf", "Keepalived_vrrp: parsed authentication { auth_type PASS auth_pass ", g.an(8), " }")
    add(
        "haproxy",
        "colon-pair",
        "[ALERT] (1) : parsing [haproxy.cfg:31] : 'stats auth ops:",
        g.pw(),
        "' unknown keyword in 'frontend' section",
    )
    add("tsig", "named-conf", 'named-checkconf: key "ddns" { algorithm hmac-sha256; secret "', g.b64(32), '"; };')
    add("nsupdate", "colon-fields", "+ nsupdate -y hmac-sha512:ddns:", g.b64(64), " /tmp/upd")
    add(
        "proxy",
        "java-d",
        f"{g.user()} {g.dg(5)} java -Xmx8g -Dhttps.proxyUser={g.user()} -Dhttps.proxyPassword=",
        g.pwq("#"),
        " -Dfile.encoding=UTF-8 org.apache.spark.deploy.SparkSubmit",
    )
    add(
        "proxy-basic",
        "auth-basic",
        "> CONNECT huggingface.co:443 HTTP/1.1\n> Proxy-Authorization: Basic ",
        g.enc(f"{g.user()}:{g.pw()}"),
        "\n> User-Agent: curl/8.5.0",
    )
    add("maas", "colon-pair", f"maas login admin http://{g.ip()}:5240/MAAS/ ", f"{g.an(18)}:{g.an(18)}:{g.an(32)}")
    add("proxmox", "auth-scheme", f"{g.iso()} > Authorization: PVEAPIToken=root@pam!tf=", g.uuid())
    add("vcenter", "go-map", "vmware: POST /api/vcenter/vm headers map[vmware-api-session-id:[", g.hx(32), "]]")
    add(
        "nexus-ftp",
        "protocol-trace-ftp",
        f"[{g.dg(5)}] ---> USER firmware\n<--- 331 Please specify the password.\n---> PASS ",
        g.pwsp(),
        "\n<--- 230 Login successful.",
    )
    add(
        "expect",
        "expect-send",
        f"spawn ssh admin@{g.ip()}\nadmin@switch's password: \nsend: sending \"",
        g.pw(),
        '\\r" to { exp4 }',
    )
    add("openssl", "pass-colon", "+ openssl pkcs12 -export -in c.pem -out c.p12 -passout pass:", g.pwq("'"))
    add("keytool", "single-dash", "keytool -importkeystore -srckeystore c.p12 -srcstorepass ", g.pw(), " -noprompt")
    add("gpg", "long-space", "+ gpg --batch --pinentry-mode loopback --passphrase '", g.pwsp(), "' -d model.tar.gpg")
    add("zip", "short-attached", "7z x weights.7z -p", g.pwq("@"), " -o/models: Wrong password?")
    add("drbd", "space-quoted", 'drbd: net { cram-hmac-alg sha1; shared-secret "', g.pwsp(), '"; }')
    add("powershell", "powershell", "PS> $p = ConvertTo-SecureString '", g.pwq("''"), "' -AsPlainText -Force")
    add("winrm", "json-escaped", 'packer: {\\"communicator\\":\\"winrm\\",\\"winrm_password\\":\\"', g.pw(), '\\"}')


def _keys(g: _Gen, add: _Box) -> None:
    add(
        "ssh-key",
        "pem",
        f"{g.iso()} stdout F debug: id file:\n-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "b3BlbnNzaC1rZXktdjEAAAAA"
        + g.s(B64, 46)
        + "\n"
        + "\n".join(g.s(B64, 70) for _ in range(4))
        + "\n"
        + g.s(B64, 40)
        + "=",
        "\n-----END OPENSSH PRIVATE KEY-----",
    )
    lines = [g.s(B64, 64) for _ in range(5)]
    pre = "worker-1  | "
    add(
        "rsa-key",
        "pem-prefixed",
        f"{pre}-----BEGIN RSA PRIVATE KEY-----\n{pre}{lines[0]}\n{pre}{lines[1]}\n{pre}",
        lines[2],
        f"\n{pre}{lines[3]}\n{pre}{lines[4]}\n{pre}-----END RSA PRIVATE KEY-----",
    )
    add(
        "age",
        "bare",
        f"# created: {g.iso()}\n# public key: age1{g.s('023456789acdefghjklmnpqrstuvwxyz', 58)}\n",
        "AGE-SECRET-KEY-1" + g.s("023456789ACDEFGHJKLMNPQRSTUVWXYZ", 58),
    )
    add(
        "pgp",
        "pem",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n",
        "\n".join(g.s(B64, 64) for _ in range(4)) + "\n=" + g.s(B64, 4),
        "\n-----END PGP PRIVATE KEY BLOCK-----",
    )
    add("jwk", "json-jwk", f'jose: {{"kty":"oct","kid":"{g.an(8)}","alg":"HS256","k":"', g.b64u(32), '"}')
    add(
        "django",
        "python-assign",
        "settings.py:23  SECRET_KEY = 'django-insecure-",
        g.s(LOWER + "!@#$%^&*(-_=+)", 50),
        "'",
    )
    add(
        "flask-cookie",
        "cookie",
        f'{g.ip()} - - "GET /mlboard" 200 "-" Cookie: theme=dark; session=',
        f".eJw{g.u64(60)}.{g.u64(6)}.{g.u64(27)}",
        "; lang=en",
    )
    add(
        "werkzeug",
        "prose-colon",
        f"{g.py()} INFO:werkzeug: * Debugger is active!\n * Debugger PIN: ",
        f"{g.dg(3)}-{g.dg(3)}-{g.dg(3)}",
    )


def _dashboards(g: _Gen, add: _Box) -> None:
    add("jupyter", "url-query", f"[I {g.day()} {g.hms()}.119 ServerApp] http://{g.host()}:8888/lab?token=", g.hx(48))
    add(
        "jupyter-hash",
        "python-assign",
        f"[C {g.hms()} NotebookApp] c.NotebookApp.password = u'",
        f"argon2:$argon2id$v=19$m=10240,t=10,p=8${g.s(B64, 22)}${g.s(B64, 43)}",
        "'",
    )
    add("jupyterhub", "systemd-env", f"{g.sysl()} systemd-run: --setenv=JUPYTERHUB_API_TOKEN=", g.hx(32), " --uid=1004")
    add(
        "codeserver",
        "yaml",
        f"[{g.iso()}] info  Wrote default config file\nauth: password\npassword: ",
        g.hx(24),
        "\ncert: false",
    )
    add("vnc", "prose-colon", f"Desktop '{g.host()}:1 ({g.user()})' started; full control one-time password: ", g.dg(8))
    add("gradio", "pair-tuple", f"demo.launch(auth=('{g.user()}', '", g.pwsp(), "'), share=True)")
    add(
        "grafana",
        "auth-bearer",
        "> GET /api/dashboards/home HTTP/1.1\n> Authorization: Bearer ",
        f"glsa_{g.an(32)}_{g.hx(8)}",
    )
    add(
        "grafana-legacy",
        "auth-bearer",
        f"{g.iso()} provisioner: using 'Authorization: Bearer ",
        g.enc('{"k":"' + g.an(32) + '","n":"ci","id":1}'),
        "'",
    )
    add("grafana-session", "cookie", 'logger=http.server msg=dump cookie="grafana_session=', g.hx(32), '; Path=/"')
    add("grafana-cli", "verb-positional", f"INFO [{g.hms()}] grafana-cli admin reset-admin-password ", g.pwsp())
    add(
        "prometheus",
        "yaml",
        'ts=x caller=main.go err="yaml: unmarshal"\nremote_write:\n- basic_auth:\n'
        '    username: "8123"\n    password: "',
        g.pwq('\\"'),
        '"',
    )
    add(
        "thanos",
        "logfmt",
        f"ts={g.iso()} caller=factory.go:53 level=debug type=S3 access_key=thanos secret_key=",
        g.an(32),
        " endpoint=minio:9000",
    )
    add(
        "loki",
        "logfmt",
        "level=debug component=client host=logs.corp user=8123 password=",
        f"glc_{g.enc(g.an(60))}",
        ' msg="final error sending batch" status=429',
    )
    add(
        "alertmanager-slack",
        "url-path",
        f'ts={g.iso()} level=error component=dispatcher err="Post \\"https://hooks.slack.com/services/',
        f"T{g.s(UPPER, 8)}/B{g.s(UPPER, 10)}/{g.an(24)}",
        '\\": EOF"',
    )
    add(
        "slack-bot",
        "python-kwarg",
        "slack_sdk.WebClient(token='",
        f"xoxb-{g.dg(12)}-{g.dg(13)}-{g.an(24)}",
        "').chat_postMessage(channel='#gpu')",
    )
    add(
        "slack-app",
        "go-map",
        f"{g.iso()} debug headers map[Authorization:[Bearer ",
        f"xapp-1-A{g.s(UPPER, 10)}-{g.dg(13)}-{g.hx(64)}",
        "]]",
    )
    add(
        "slack-user",
        "form-body",
        f"POST /api/chat.postMessage channel=C{g.s(UPPER, 8)}&token=",
        f"xoxp-{g.dg(12)}-{g.dg(12)}-{g.dg(12)}-{g.hx(32)}",
        "&text=node+drained",
    )
    add(
        "teams",
        "url-path",
        "requests.exceptions.ReadTimeout: https://corp.webhook.office.com/webhookb2/"
        f"{g.uuid()}@{g.uuid()}/IncomingWebhook/",
        g.hx(32),
        f"/{g.uuid()}",
    )
    add(
        "telegram",
        "url-path",
        f'{g.py()} DEBUG https://api.telegram.org:443 "POST /bot',
        f"{g.dg(10)}:AA{g.u64(33)}",
        '/sendMessage HTTP/1.1" 200 312',
    )
    add("discord", "url-path", f"POST https://discord.com/api/webhooks/{g.dg(18)}/", g.u64(68), " -> 204")
    add(
        "discord-bot",
        "call-positional",
        'Traceback (most recent call last):\n  File "bot.py", line 9\n    client.run(\'',
        f"MT{g.an(24)}.{g.u64(6)}.{g.u64(38)}",
        "')\ndiscord.errors.LoginFailure: Improper token has been passed.",
    )
    add(
        "pagerduty",
        "go-struct",
        'level=debug msg="loaded receiver" cfg={Name:pd RoutingKey:',
        g.lo(32),
        " Severity:critical Class:gpu}",
    )
    add("opsgenie", "auth-scheme", "curl -H 'Authorization: GenieKey ", g.uuid(), "' https://api.opsgenie.com")
    add("smtp-plain", "smtp", f"{g.hms()} send: 'AUTH PLAIN ", g.enc(f"\0alerts@corp.example\0{g.pw()}"), "\\r\\n'")
    add(
        "smtp-login",
        "smtp",
        f"send: 'AUTH LOGIN {g.enc('alerts@corp')}\\r\\n'\nreply: b'334 UGFzc3dvcmQ6\\r\\n'\nsend: '",
        g.enc(g.pwsp()),
        "\\r\\n'\nreply: b'235 2.7.0 Authentication successful\\r\\n'",
    )
    add("imap", "imap", f"{g.hms()}.11 > b'PJBK1 LOGIN tickets \"", g.pwq('\\"'), "\"'")
    add("sendgrid", "bare", f"{g.iso()} mail relay refused credential ", f"SG.{g.u64(22)}.{g.u64(43)}", " (401)")
    add("mailgun", "auth-basic-plain", 'requests.post(url, auth=("api", "', f"key-{g.hx(32)}", '"))')
    add(
        "twilio",
        "curl-user",
        f"+ curl -X POST -u AC{g.hx(32)}:",
        g.hx(32),
        " https://api.twilio.com/2010-04-01/Accounts",
    )
    add(
        "datadog",
        "header-log",
        f"{g.iso()} | CORE | DEBUG | forwarder headers Dd-Api-Key: ",
        g.hx(32),
        " Dd-Agent-Version: 7.50.3",
    )
    add(
        "sentry",
        "header-params",
        f"{g.py()} DEBUG X-Sentry-Auth: Sentry sentry_version=7, sentry_client=raven/6, "
        f"sentry_key={g.hx(32)}, sentry_secret=",
        g.hx(32),
    )
    add("splunk", "auth-scheme", "fluentd: POST /services/collector Authorization: Splunk ", g.uuid())
    add(
        "newrelic",
        "logfmt",
        f'time={g.iso()} level=info msg="agent config" license_key=',
        g.hx(36) + "NRAL",
        " app=vllm",
    )
    add(
        "keycloak",
        "form-body",
        f"{g.iso()} POST /realms/ml/protocol/openid-connect/token body: grant_type=password&"
        f"username={g.user()}&password=",
        g.w() + "+" + g.w().lower() + str(g.n(10, 99)) + "%21",
        "&client_id=admin-cli",
    )
    add(
        "oauth-redirect",
        "url-fragment",
        f'{g.ip()} - "GET /callback#state={g.an(8)}&access_token=',
        g.jwt("HS256"),
        '&expires_in=300" 302',
    )
    add(
        "logfmt-pass",
        "logfmt",
        f't={g.iso()} lvl=dbug msg="ldap bind" dn=cn=g,dc=corp passwd="',
        g.pwq('\\"'),
        '" ok=false',
    )
    add(
        "chat-en",
        "prose-chat",
        f"{g.sysl()} wall[{g.dg(4)}]: Broadcast from {g.user()}: new login for the jump host is ops, pw is ",
        g.pw(),
        " , please do not share",
    )
    add(
        "chat-de",
        "prose-de",
        "# Motd: Das Passwort f\u00fcr den BMC-Zugang lautet ",
        g.w() + "stra\u00dfe" + str(g.n(10, 99)) + "!",
        " (bitte \u00e4ndern)",
    )
    add(
        "chat-ticket",
        "prose-chat",
        f'{g.iso()} rt-mailgate: subject="reset done" body="Hi, your temporary password: ',
        g.pw(),
        ' Regards, HPC team"',
    )


def secrets(rng: Random) -> list[Shape]:
    """Lines, each with one secret."""
    g, add = _Gen(rng), _Box()
    for part in (
        _databases,
        _messaging,
        _tracking,
        _models,
        _training,
        _slurm_kube,
        _storage,
        _code_hosts,
        _infra,
        _keys,
        _dashboards,
    ):
        part(g, add)
    return add.out


def _h_models(g: _Gen) -> list[tuple[str, str]]:
    return [
        (
            "llm-token-count",
            f"{g.py()} INFO engine: Avg prompt throughput: {g.n(100, 9999)}.4 tokens/s, Avg generation "
            f"throughput: {g.n(10, 999)}.1 tokens/s, GPU KV cache usage: {g.n(1, 99)}.2%",
        ),
        (
            "llm-long-seq",
            "Token indices sequence length is longer than the specified maximum sequence length for "
            f"this model ({g.n(5000, 99999)} > 4096). Running this sequence through the model will result in indexing "
            "errors",
        ),
        ("llm-pad-token", "Setting `pad_token_id` to `eos_token_id`:2 for open-end generation."),
        (
            "llm-special-token",
            "Special tokens have been added in the vocabulary, make sure the associated word "
            "embeddings "
            "are fine-tuned or trained.",
        ),
        (
            "llm-special-map",
            "special_tokens_map: {'bos_token': '<s>', 'eos_token': '</s>', 'unk_token': '<unk>', "
            "'pad_token': '<|endoftext|>'}",
        ),
        (
            "vllm-request",
            f"INFO logger.py:36] Received request cmpl-{g.hx(32)}-0: params: SamplingParams(n=1, "
            "stop_token_ids=[128009], max_tokens=512), prompt_token_ids: [128000, 9906, 1917], lora_request: None.",
        ),
        ("vllm-prefix-hash", f"DEBUG kv_cache_manager: prefix cache hit block hash {g.hx(64)} ref_cnt=3"),
        (
            "vllm-apikey-none",
            "INFO api_server.py:220] args: Namespace(api_key=None, hf_token=None, ssl_keyfile=None, "
            "trust_remote_code=True, tokenizer='meta/llama', token_limit=8192)",
        ),
        ("vllm-served", f'INFO: {g.ip()}:{g.port()} - "POST /v1/chat/completions HTTP/1.1" 401 Unauthorized'),
        (
            "statedict-keys",
            "RuntimeError: Error(s) in loading state_dict: Missing key(s) in state_dict: "
            '"layers.0.self_attn.k_proj.weight". Unexpected key(s): "layers.0.attn.key.bias"',
        ),
        ("kv-cache", f"# GPU blocks: {g.n(1000, 90000)}, key cache dtype=fp8_e4m3, value cache dtype=fp8_e4m3"),
        (
            "tok-budget",
            f"[{g.py()}] iteration {g.n(1, 9999)}/ 500000 | consumed tokens: {g.dg(12)} | lm loss: 2.13E+00",
        ),
        ("tok-vocab", f"> padded vocab (size: {g.n(32000, 128000)}) with 63 dummy tokens (new size: 128256)"),
        (
            "tok-par",
            "huggingface/tokenizers: The current process just got forked. To disable this warning set the "
            "environment variable TOKENIZERS_PARALLELISM=(true | false)",
        ),
        (
            "hf-env-missing",
            "OSError: You are trying to access a gated repo. Make sure to have access and pass a token "
            "with "
            "`token=<your_token>` or set HF_TOKEN.",
        ),
        ("hf-keyerror", "  token = os.environ['HF_TOKEN']\nKeyError: 'HF_TOKEN'"),
        (
            "hf-token-path",
            "The token has been saved to /home/ada/.cache/huggingface/token; HF_TOKEN_PATH=/home/ada/.cache/token",
        ),
        (
            "hf-token-name",
            "Token is valid (permission: fineGrained). The token `cluster-read` has been saved to "
            "/home/ada/.cache/huggingface/stored_tokens",
        ),
        ("hf-blob", f"Downloading shard to /hf/hub/models--meta/blobs/{g.hx(64)}.incomplete"),
        (
            "hf-snapshot",
            f"loading weights file from cache at /hf/hub/models--x--y/snapshots/{g.hx(40)}/model.safetensors",
        ),
        (
            "hf-request-id",
            f"huggingface_hub.errors.HfHubHTTPError: 504 (Request ID: Root=1-{g.hx(8)}-{g.hx(24)};{g.uuid()})",
        ),
        (
            "hf-deprecated",
            "FutureWarning: The `use_auth_token` argument is deprecated, use `token` instead. use_auth_token=True",
        ),
        (
            "ds-fingerprint",
            f"Loading cached processed dataset at /data/cache-{g.hx(16)}.arrow (fingerprint={g.hx(16)})",
        ),
        ("inductor-key", f"torch._inductor.codecache: fx graph cache miss for key f{g.s(B32L, 51)}"),
        ("triton-cache", f"triton: compile cached at /home/ada/.triton/cache/{g.s(B32, 52)}/matmul_kernel.cubin"),
        ("autotune-key", f"Autotuning kernel fwd with key (64, 128, 'torch.bfloat16') finished after {g.n(1, 30)}.52s"),
        (
            "wandb-user",
            f"wandb: Currently logged in as: {g.user()} (nlp-lab). Use `wandb login --relogin` to force relogin",
        ),
        ("wandb-howto", "wandb: You can find your API key in your browser here: https://wandb.ai/authorize"),
        ("wandb-noconf", "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])"),
        ("wandb-run", f"wandb: View run at https://wandb.ai/nlp/moe/runs/{g.lo(8)}"),
        ("wandb-artifact", f"wandb: Downloading large artifact ckpt:v{g.n(1, 99)}, digest {g.hx(32)}, 1402.11MB"),
        ("mlflow-run", f"View run rare-stork-{g.n(1, 999)} at: http://mlflow:5000/#/experiments/12/runs/{g.hx(32)}"),
        ("mlflow-tag", f"mlflow.source.git.commit={g.hx(40)} mlflow.user={g.user()} mlflow.rootRunId={g.hx(32)}"),
        ("comet-key", f"COMET INFO: Experiment is live on comet.com https://www.comet.com/nlp/moe/{g.hx(32)}"),
        ("comet-experiment", f"COMET INFO:     experiment key : {g.hx(32)}"),
        ("clearml-task", f"ClearML Task: created new task id={g.hx(32)}"),
        (
            "clearml-credmissing",
            "clearml.backend_api.session.defs.MissingConfigError: It seems ClearML is not "
            "configured on "
            "this machine! credentials access_key/secret_key not found",
        ),
        (
            "neptune-run",
            f"[neptune] [info   ] Neptune initialized. Open in the app: https://app.neptune.ai/nlp/e/NLP-{g.n(1, 999)}",
        ),
        (
            "openai-missing",
            "openai.OpenAIError: The api_key client option must be set either by passing api_key to the "
            "client or by setting the OPENAI_API_KEY environment variable",
        ),
        (
            "openai-usage",
            f"CompletionUsage(completion_tokens={g.n(1, 900)}, prompt_tokens={g.n(1, 900)}, total_tokens=1801)",
        ),
        ("openai-masked", f"Incorrect API key provided: sk-proj-****************{g.an(4)}."),
        ("openai-req", f"DEBUG openai._base_client request_id: req_{g.hx(32)} openai-processing-ms: 412"),
        ("chat-id", f'{{"id":"chatcmpl-{g.an(29)}","system_fingerprint":"fp_{g.hx(10)}","finish_reason":"stop"}}'),
        ("ngc-missing", f"ERROR: NGC_API_KEY is not set; the NIM cannot download model profile {g.hx(64)}"),
        (
            "attn-mask",
            "UserWarning: Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type.",
        ),
        (
            "argparse-help",
            "usage: launch.py [-h] [--token TOKEN] [--api-key API_KEY] [--password PASSWORD] "
            "[--hf-token HF_TOKEN] config",
        ),
        ("moe-router", "router: aux loss 0.0112, tokens_per_expert=[812, 790, 1011, 604], dropped tokens: 0"),
        (
            "pythonhashseed",
            "Launcher env: PYTHONHASHSEED=0 CUDA_DEVICE_MAX_CONNECTIONS=1 MASTER_ADDR=10.0.0.4 MASTER_PORT=29500",
        ),
    ]


def _h_nodes(g: _Gen) -> list[tuple[str, str]]:
    return [
        (
            "nccl-commid",
            f"{g.host()}:{g.n(1000, 99999)}:1 [0] NCCL INFO ncclCommInitRank comm 0x{g.hx(12)} rank 0 "
            "nranks "
            f"64 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x{g.hx(16)} - Init COMPLETE",
        ),
        (
            "nccl-ibkeys",
            f"NCCL WARN NET/IB : Got completion from peer {g.ip()}<{g.port()}> with status=12 opcode=0 "
            "len=0 "
            f"vendor err 129 lkey 0x{g.hx(8)} rkey 0x{g.hx(8)}",
        ),
        ("ib-mkey", f"opensm: ERR 1102: get M_Key mismatch, sm_key 0x{g.hx(16)} port_guid 0x{g.hx(16)}"),
        ("ib-pkey", f"mlx5_core 0000:1b:00.0: P_Key table changed, pkey 0x{g.hx(4)} qkey 0x{g.hx(8)} index 1"),
        ("ib-guid", f"ibstat: Node GUID: 0x{g.hx(16)} System image GUID: 0x{g.hx(16)}"),
        ("gpu-uuid", f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-{g.uuid()})"),
        ("gpu-mig", f"MIG 1g.10gb Device 0: (UUID: MIG-{g.uuid()})"),
        (
            "xid",
            f"[{g.n(1, 99999)}.{g.dg(6)}] NVRM: Xid (PCI:0000:9b:00): 79, pid={g.dg(5)}, GPU has fallen off the bus.",
        ),
        ("nvswitch-key", f"nv-fabricmanager: fabric clusterUuid {g.uuid()} partition key 0x{g.hx(8)}"),
        ("kern-x509", f"[    1.{g.dg(6)}] Loaded X.509 cert 'Build time autogenerated kernel key: {g.hx(40)}'"),
        (
            "kern-keytype",
            f"[    0.{g.dg(6)}] Key type dns_resolver registered; Key type fscrypt-provisioning registered",
        ),
        ("kern-taint", "nvidia: module verification failed: signature and/or required key missing - tainting kernel"),
        ("kern-regs", f"[{g.dg(5)}.112] RAX: {g.hx(16)} RBX: {g.hx(16)} RCX: {g.hx(16)} R08: {g.hx(16)}"),
        ("kern-code", f"[{g.dg(5)}.114] Code: {' '.join(g.hx(2) for _ in range(20))} <0f> 0b"),
        ("kern-hash", "[    0.412] Dentry cache hash table entries: 8388608 (order: 14, 67108864 bytes, linear)"),
        ("kern-syncookie", "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:8080. Sending cookies."),
        (
            "kern-audit",
            f'audit: type=1400 audit({g.dg(10)}.123:{g.dg(4)}): apparmor="DENIED" '
            'name="/home/ada/.ssh/id_rsa" '
            'requested_mask="r" key=(null)',
        ),
        ("kern-tipc", "tipc: Enabled bearer <eth:ib0>, priority 10"),
        ("kern-luks", "device-mapper: crypt: dm-3: INTEGRITY AEAD ERROR, sector 8388608; key size 64"),
        (
            "kern-nfs-cookie",
            f"NFS: directory ckpt/run1 contains a readdir loop. The file: s1 has duplicate cookie {g.dg(7)}",
        ),
        (
            "kern-cmdline",
            f"Command line: BOOT_IMAGE=/vmlinuz-6.5 root=UUID={g.uuid()} ro iommu=pt rd.luks.uuid=luks-{g.uuid()}",
        ),
        (
            "kern-keyring",
            "keyctl_read_alloc: Disk quota exceeded; cifs.upcall: key description: cifs.spnego;0;0;39010000",
        ),
        ("ima", f"integrity: Loaded X.509 cert 'Canonical Ltd. Secure Boot Signing: {g.hx(40)}'"),
        ("buildid", f"coredump: Module /usr/lib/libcuda.so.1 with build-id {g.hx(40)}"),
        ("systemd-session", f"{g.sysl()} systemd-logind[{g.dg(4)}]: New session {g.n(10, 9999)} of user {g.user()}."),
        ("systemd-scope", f"{g.sysl()} systemd[1]: session-{g.n(10, 9999)}.scope: Deactivated successfully."),
        (
            "systemd-askpw",
            f"{g.sysl()} systemd[1]: Started systemd-ask-password-wall.path - Forward Password Requests to Wall.",
        ),
        ("systemd-invocation", f"{g.sysl()} systemd[1]: run-r{g.hx(32)}.scope: Consumed 12.118s CPU time."),
        ("journald", f"{g.sysl()} systemd-journald[{g.dg(3)}]: Runtime Journal (/run/log/journal/{g.hx(32)}) is 8.0M"),
        (
            "systemd-cred",
            f"{g.sysl()} systemd[{g.dg(4)}]: vllm.service: Failed to set up credentials: No such file or directory",
        ),
        (
            "systemd-loadcred",
            f"{g.sysl()} systemd[1]: LoadCredential=db_password:/etc/creds/db_password ignored, no such file",
        ),
        ("sshd-failed", f"{g.sysl()} sshd[{g.dg(5)}]: Failed password for root from {g.ip()} port {g.port()} ssh2"),
        (
            "sshd-key",
            f"{g.sysl()} sshd[{g.dg(5)}]: Accepted publickey for {g.user()} from {g.ip()} port {g.port()} "
            "ssh2: "
            f"ED25519 SHA256:{g.s(B64, 43)}",
        ),
        ("sshd-invalid", f"{g.sysl()} sshd[{g.dg(5)}]: Invalid user oracle from {g.ip()} port {g.port()}"),
        (
            "sshd-pam",
            f"{g.sysl()} sshd[{g.dg(5)}]: pam_unix(sshd:session): session opened for user "
            f"{g.user()}(uid=1004) by (uid=0)",
        ),
        (
            "sshd-pamfail",
            f"{g.sysl()} sshd[{g.dg(5)}]: pam_sss(sshd:auth): authentication failure; logname= uid=0 "
            "euid=0 "
            f"tty=ssh ruser= rhost={g.ip()} user={g.user()}",
        ),
        (
            "sshd-cert",
            f'{g.sysl()} sshd[{g.dg(5)}]: Accepted certificate ID "{g.user()}@corp" (serial {g.dg(17)}) '
            "signed by "
            f"ED25519 CA SHA256:{g.s(B64, 43)} via /etc/ssh/ca.pub",
        ),
        (
            "ssh-offer",
            f"debug1: Offering public key: /home/{g.user()}/.ssh/id_ed25519 ED25519 SHA256:{g.s(B64, 43)} explicit",
        ),
        (
            "ssh-changed",
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nThe fingerprint for the ED25519 key "
            "sent by "
            f"the remote host is\nSHA256:{g.s(B64, 43)}.",
        ),
        ("ssh-md5fp", f"ECDSA key fingerprint is MD5:{':'.join(g.hx(2) for _ in range(16))}."),
        (
            "ssh-pubkey",
            f"authorized_keys: adding ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{g.s(B64, 43)} {g.user()}@login1",
        ),
        ("ssh-alg", "userauth_pubkey: key type ssh-rsa not in PubkeyAcceptedAlgorithms [preauth]"),
        ("ssh-perm", "Permissions 0644 for '/home/ada/.ssh/id_rsa' are too open. This private key will be ignored."),
        ("ssh-method", f"{g.user()}@{g.host()}: Permission denied (publickey,password,keyboard-interactive)."),
        ("ssh-libcrypto", 'Load key "/home/ada/.ssh/id_rsa": error in libcrypto: bad passphrase'),
        (
            "sudo",
            f"{g.sysl()} sudo: {g.user()} : 3 incorrect password attempts ; TTY=pts/1 ; PWD=/home ; USER=root ; "
            "COMMAND=/usr/bin/nvidia-smi",
        ),
        ("passwd", f"{g.sysl()} passwd[{g.dg(4)}]: pam_unix(passwd:chauthtok): password changed for {g.user()}"),
        ("pw-expiry", f"{g.sysl()} sssd[pam]: Your password will expire in {g.n(1, 14)} day(s)."),
        ("pw-policy", "BAD PASSWORD: The password is shorter than 12 characters"),
        ("cloudinit-fp", f"ci-info: | ssh-rsa | {':'.join(g.hx(2) for _ in range(16))} | - | {g.user()}@corp |"),
        (
            "cloudinit-lock",
            "cloud-init: util.py[DEBUG]: Running command ['passwd', '-l', 'ubuntu'] with allowed return codes",
        ),
        ("chage", f"usermod: change user '{g.user()}' password; shadow entry locked '!', last change 19800"),
        (
            "gssproxy",
            f"{g.sysl()} gssproxy[{g.dg(4)}]: (OID: {{ 1 2 840 113554 1 2 2 }}) Unspecified GSS failure. "
            "Credential "
            "cache is empty",
        ),
        (
            "krb-as",
            f"krb5kdc[{g.dg(4)}](info): AS_REQ (4 etypes {{18 17 20 19}}) {g.ip()}: NEEDED_PREAUTH: "
            f"{g.user()}@CORP "
            "for krbtgt/CORP@CORP, Additional pre-authentication required",
        ),
        ("krb-wrong", "kinit: Password incorrect while getting initial credentials"),
        (
            "krb-cc",
            f"KRB5CCNAME=FILE:/tmp/krb5cc_{g.n(1000, 60000)}_{g.an(6)}: Ticket expired while renewing credentials",
        ),
        (
            "krb-klist",
            f"Ticket cache: KCM:{g.n(1000, 60000)}\nDefault principal: {g.user()}@CORP.EXAMPLE\n03/02/25 11:00:00",
        ),
        (
            "ldap-49",
            f"ldap_bind: Invalid credentials (49) additional info: 80090308: LdapErr: DSID-0C090{g.dg(3)}, "
            "comment: "
            "AcceptSecurityContext error, data 52e, v4563",
        ),
        ("ldap-sssd", "[sssd[be[corp]]] [sdap_cli_auth_step] ldap_default_authtok_type = obfuscated_password"),
        (
            "sssd-token",
            "(2025-03-01): [pam] [pam_print_data] authtok type: 1 (Password), newauthtok type: 0 (No "
            "authentication "
            "token available)",
        ),
        ("ipmi-fail", "Error: Unable to establish IPMI v2 / RMCP+ session"),
        ("ipmi-hmac", "> RAKP 2 HMAC is invalid; Set Session Privilege Level to ADMINISTRATOR failed"),
        (
            "ipmi-sel",
            f"SEL {g.n(1, 999)} | 03/01/2025 | {g.hms()} | Session Audit #0x{g.hx(2)} | Invalid Username or Password",
        ),
        ("redfish-session", "POST /redfish/v1/SessionService/Sessions 401 MessageId=Base.1.8.NoValidSession"),
        (
            "redfish-uri",
            "Redfish: PATCH /redfish/v1/AccountService/Accounts/2 Password property required, see "
            "PasswordChangeRequired",
        ),
        ("snmp-auth", f"snmpd[{g.dg(4)}]: Authentication failed for mon (incorrect password, community or key)"),
        ("snmp-engine", f"snmpd: snmpEngineID 0x80001f88{g.hx(24)} usmStatsUnknownEngineIDs"),
        ("snmp-masked", f"snmp_exporter: community=<secret> module=if_mib target={g.ip()}"),
        (
            "bios-pw",
            "dmidecode: Hardware Security: Power-On Password Status: Disabled, Administrator Password Status: Enabled",
        ),
        ("nvme-sed", "sedutil: Locking Range 0, admin password: not set, MBREnabled = N"),
        ("disk-serial", f"smartd: Device: /dev/nvme3, SAMSUNG MZQL23T8, S/N:{g.s(UPPER, 15)}, FW:GDC5602Q"),
        ("scsi-wwn", f"sd 0:0:0:0: [sda] WWN naa.{g.hx(16)} session: 12 iqn.2003-01.org:{g.hx(12)}"),
        ("mac", f"bond0: (slave ens{g.n(1, 9)}): permanent hwaddr {':'.join(g.hx(2) for _ in range(6))}"),
        ("mokutil", f"mokutil: SHA1 Fingerprint: {':'.join(g.hx(2) for _ in range(20))}"),
        ("apt-key", f"W: GPG error: https://nvidia.github.io InRelease: NO_PUBKEY {g.hxu(16)}"),
        ("gpg-sig", f"gpg: Signature made Sat 01 Mar 2025\ngpg:                using RSA key {g.hxu(40)}"),
        ("rpm-sig", f"warning: pkg.rpm: Header V4 RSA/SHA512 Signature, key ID {g.hx(8)}: NOKEY"),
        ("env-socket", "SSH_AUTH_SOCK=/run/user/1000/keyring/ssh SSH_ASKPASS=/usr/bin/ksshaskpass XDG_SESSION_ID=412"),
        ("wifi-vpn", f"wg: peer {g.s(B64, 43)}= latest handshake: 1 minute, 12 seconds ago"),
        ("ipsec-sa", f"charon: CHILD_SA ml{{3}} established with SPIs {g.hx(8)}_i {g.hx(8)}_o"),
        ("bgp-md5", f"bgpd: {g.ip()}: MD5 password mismatch, TCP MD5 signature not found"),
        ("chrony", "chronyd: Key 1 in /etc/chrony.keys is too short; refid A29FC87B stratum 3"),
    ]


def _h_orch(g: _Gen) -> list[tuple[str, str]]:
    return [
        ("kube-masked", f"{g.klog()} round_trippers.go:463]     Authorization: Bearer <masked>"),
        (
            "kube-secret-missing",
            f"{g.klog('E')} kuberuntime_manager.go:1256] couldn't find key password in Secret ml/db-creds",
        ),
        (
            "kube-mount",
            f"{g.klog('E')} nestedpendingoperations.go:348] MountVolume.SetUp failed for volume "
            f'"kube-api-access-{g.lo(5)}" : failed to fetch token: serviceaccounts "default" not found',
        ),
        ("kube-token-secret", f'secret "trainer-token-{g.lo(5)}" not found'),
        (
            "kube-pullsecret",
            f"{g.klog('W')} kubelet_pods.go:979] Unable to retrieve pull secret ml/nvcr-cred for pod: secret not found",
        ),
        (
            "kube-401",
            f'{g.klog("E")} authentication.go:73] "Unable to authenticate the request" err="[invalid '
            "bearer token, "
            'service account token has expired]"',
        ),
        (
            "kube-poduid",
            f'{g.klog()} reconciler_common.go:172] "operationExecutor.UnmountVolume started for volume '
            "token "
            f'pod {g.uuid()}"',
        ),
        ("kube-cid", f'{g.klog()} scope.go:117] "RemoveContainer" containerID="{g.hx(64)}"'),
        ("kube-image", f'Successfully pulled image "nvcr.io/nvidia/pytorch@sha256:{g.hx(64)}" in 32.1s'),
        ("kube-envref", "      DB_PASSWORD:  <set to the key 'password' in secret 'db-creds'>  Optional: false"),
        ("kube-secretkeyref", "valueFrom:\n  secretKeyRef:\n    name: wandb-secret\n    key: WANDB_API_KEY"),
        ("kube-create", "secret/hf-token created\nserviceaccount/ray-head configured"),
        ("kube-describe", "Type:  Opaque\n\nData\n====\npassword:  16 bytes\ntoken:     1137 bytes"),
        ("kube-cahash", f"kubeadm: --discovery-token-ca-cert-hash sha256:{g.hx(64)}"),
        ("kube-token-ttl", "[bootstrap-token] Configured the RBAC rules to allow Node Bootstrap tokens to get nodes"),
        ("kube-rv", f"ml        configmap/nccl   resourceVersion={g.dg(9)} uid={g.uuid()}"),
        (
            "kube-etcdkey",
            'etcd: apply request took too long, range:"key:\\"/registry/secrets/ml/db-creds\\" limit:1" 212ms',
        ),
        ("etcd-member", f"etcd: {g.hx(16)} became leader at term 41; cluster-id {g.hx(16)}"),
        ("etcd-auth", "etcd: auth: simple token is not cryptographically signed; auth token ttl 300s"),
        (
            "cert-pem",
            "issued:\n-----BEGIN CERTIFICATE-----\nMIID"
            + g.s(B64, 60)
            + "\n"
            + g.s(B64, 40)
            + "==\n-----END CERTIFICATE-----",
        ),
        ("cert-public", "jwks: -----BEGIN PUBLIC KEY-----\nMIIBIjANBg" + g.s(B64, 54) + "\n-----END PUBLIC KEY-----"),
        ("cert-csr", f"certificate_manager: CSR csr-{g.lo(5)} approved, rotating certificates, serial {g.dg(38)}"),
        (
            "tls-keyfile",
            'level=info msg="TLS enabled" cert=/etc/tls/tls.crt key=/etc/tls/tls.key client_auth=RequireAndVerify',
        ),
        ("tls-mismatch", "tls: private key does not match public key"),
        (
            "tls-sig",
            'x509: certificate signed by unknown authority (possibly because of "crypto/rsa: verification error")',
        ),
        (
            "containerd-auth",
            f'time="{g.iso()}" level=error msg="PullImage failed" error="failed to authorize: '
            "failed to fetch "
            'anonymous token: unexpected status: 401 Unauthorized"',
        ),
        ("containerd-digest", f'level=info msg="ImageCreate event name:\\"sha256:{g.hx(64)}\\""'),
        (
            "docker-tokenurl",
            'failed to fetch oauth token: Post "https://auth.corp.example/token": dial tcp: i/o timeout',
        ),
        (
            "docker-scope",
            "GET https://auth.corp.example/token?scope=repository%3Alibrary%2Fpython%3Apull"
            "&service=registry.corp.example 429",
        ),
        ("docker-warn", "WARNING! Your password will be stored unencrypted in /home/ada/.docker/config.json."),
        ("docker-layer", f"{g.hx(12)}: Pull complete\n{g.hx(12)}: Verifying Checksum"),
        (
            "docker-secretmount",
            "#9 [4/7] RUN --mount=type=secret,id=hf_token,target=/run/secrets/hf_token python fetch.py",
        ),
        (
            "docker-lint",
            'SecretsUsedInArgOrEnv: Do not use ARG or ENV instructions for sensitive data (ENV "HF_TOKEN") (line 9)',
        ),
        (
            "swarm-hint",
            "To add a worker to this swarm, run 'docker swarm join-token worker' and follow the instructions.",
        ),
        (
            "slurm-munge",
            "slurmd: error: Munge decode failed: Expired credential\nslurmd: auth/munge: _print_cred: "
            "ENCODED: Sat Mar 01",
        ),
        ("slurm-cred", f"slurmd: error: Credential signature check: Credential replayed for JobId={g.dg(6)}"),
        ("slurm-revoked", f"slurmd: Job credential revoked for {g.dg(6)}: Job credential expired"),
        (
            "slurm-authinfo",
            "slurmctld: AuthType=auth/munge AuthInfo=(null) CredType=cred/munge AuthAltTypes=auth/jwt "
            "AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key",
        ),
        ("slurm-storagepass", "AccountingStoragePass = (null)\nStoragePass = (null)\nPrologSlurmctld = (null)"),
        ("slurm-userhash", f"slurmctld: _hash_token: job_id {g.dg(6)} script hash 1:{g.hx(64)}"),
        ("slurm-reservation", f"sacctmgr: QOS key=gold priority={g.n(1, 9999)} token-bucket limit reached"),
        ("ray-node", f"(raylet) node_id: {g.hx(56)}, worker_id={g.hx(56)}, exit type: SYSTEM_ERROR"),
        ("ray-object", f"ray.exceptions.ObjectLostError: Failed to retrieve object {g.hx(48)}01000000"),
        ("ray-session", f"session_dir=/tmp/ray/session_{g.day()}_12-00-01_{g.dg(6)}_{g.dg(4)}"),
        (
            "ray-auth",
            "Cluster authentication disabled: RAY_AUTH_MODE=disabled, no auth token file at ~/.ray/auth_token",
        ),
        ("ray-placement", f"placement group {g.hx(36)} created, bundle key (0, 1)"),
        (
            "ansible-censored",
            f'ok: [{g.host()}] => {{"censored": "the output has been hidden due to the fact that '
            "'no_log: true' "
            'was specified for this result", "changed": false}',
        ),
        ("ansible-task", "TASK [users : Set root password] ***********************************************"),
        ("ansible-nolog", '"module_args": {"password": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER", "name": "ops"}'),
        ("ansible-vault", "ERROR! Attempting to decrypt but no vault secrets found"),
        ("ansible-jinja", "password: \"{{ vault_db_password | password_hash('sha512') }}\""),
        ("ansible-become", 'fatal: FAILED! => {"msg": "Missing sudo password"}'),
        (
            "ansible-hostkey",
            '"checksum": "' + g.hx(40) + '", "md5sum": "' + g.hx(32) + '", "mode": "0600", '
            '"dest": "/etc/munge/munge.key"',
        ),
        ("tf-sensitive", "      + master_password = (sensitive value)\n      ~ auth_token      = (sensitive value)"),
        ("tf-known", "      + secret_key = (known after apply)\n      + token_ttl  = 3600"),
        (
            "tf-refresh",
            "aws_secretsmanager_secret.db: Refreshing state... "
            f"[id=arn:aws:secretsmanager:us-east-1:{g.dg(12)}:"
            f"secret:prod/db-{g.an(6)}]",
        ),
        ("tf-random", "random_password.db: Creation complete after 0s [id=none]"),
        ("tf-kms", f"aws_kms_key.ckpt: Still creating... arn:aws:kms:eu-west-1:{g.dg(12)}:key/{g.uuid()}"),
        ("tf-var", 'password = var.db_password\ntoken    = data.vault_generic_secret.ci.data["token"]'),
        ("tf-lock", f"Lock Info:\n  ID:        {g.uuid()}\n  Path:      tf/prod.tfstate"),
        ("tf-h1", f'.terraform.lock.hcl: "h1:{g.s(B64, 43)}=", "zh:{g.hx(64)}"'),
        ("vault-path", 'vault: path "secret/data/ml/wandb" capabilities denied: permission denied'),
        (
            "vault-policy",
            'token_policies       ["default" "ml-read"]\ntoken_renewable      true\ntoken_duration       768h',
        ),
        ("vault-audit", f'audit: {{"auth":{{"client_token":"hmac-sha256:{g.hx(64)}","policies":["ml"]}}}}'),
        ("vault-lease", f"vault: revoked lease: lease_id=database/creds/ml/{g.an(24)}"),
        ("vault-sealed", "Sealed                  true\nTotal Shares            5\nUnseal Progress         1/3"),
        ("vault-unwrap", "Error unwrapping: wrapping token is not valid or does not exist"),
        ("consul-acl", 'agent: Coordinate update blocked by ACLs: accessorID="anonymous token"'),
        ("consul-node", f"agent: Node ID: {g.uuid()} serf: EventMemberJoin: {g.host()}"),
        (
            "consul-gossip",
            "agent: Encrypt: Gossip: true, TLS-Outgoing: true; no installed keys could decrypt the message",
        ),
        ("helm-secret", f"creating secret sh.helm.release.v1.pg.v{g.n(1, 40)} in namespace ml"),
        (
            "helm-notes",
            'export PASSWORD=$(kubectl get secret --namespace ml pg -o jsonpath="{.data.password}" | base64 -d)',
        ),
        ("argo-hash", f"argocd: manifest cache hit: app=vllm revision={g.hx(40)} cacheKey=mfst|app|{g.hx(40)}"),
        (
            "external-secret",
            "external-secrets: could not get secret data from provider: key ml/prod property token not found",
        ),
        ("sealed", "sealed-secrets: no key could decrypt secret (wandb-api-key)"),
        ("cosign", f"cosign: Verified OK; tlog entry index {g.dg(8)}; signature subject keyless"),
        ("istio-jwt", "envoy: Jwt verification fails: Jwks doesn't have key to match kid or alg from Jwt"),
        (
            "oauth2proxy",
            "oauthproxy.go: Error redeeming code during OAuth2 callback: token exchange failed: invalid_grant",
        ),
        (
            "salt",
            f"[salt.master] Authentication request from {g.host()}; The Salt Master has cached the public key "
            "for this node",
        ),
    ]


def _h_data(g: _Gen) -> list[tuple[str, str]]:
    return [
        ("pg-authfail", f'{g.day()} FATAL:  password authentication failed for user "mlflow"'),
        ("pg-nopw", "psycopg2.OperationalError: connection to server failed: fe_sendauth: no password supplied"),
        (
            "pg-unique",
            'ERROR:  duplicate key value violates unique constraint "runs_pk" DETAIL:  Key '
            f"(run_uuid)=({g.hx(32)}) "
            "already exists.",
        ),
        (
            "pg-hba",
            f'FATAL:  no pg_hba.conf entry for host "{g.ip()}", user "etl", database "x", SSL off (scram-sha-256)',
        ),
        (
            "pg-hashjoin",
            f"LOG:  plan: Hash Join (cost={g.n(1, 99)}.12..812.4 rows=1) Hash Cond: (t.key = s.key) Buckets: 1024",
        ),
        ("pg-masked", "alembic: connecting to postgresql+psycopg2://mlflow:***@pg-1:5432/mlflow"),
        ("mysql-denied", f"[Warning] [MY-010926] Access denied for user 'slurm'@'{g.ip()}' (using password: YES)"),
        (
            "mysql-plugin",
            "[Warning] [MY-013360] Plugin mysql_native_password reported: ''mysql_native_password' is deprecated'",
        ),
        ("mysql-cli", "mysql: [Warning] Using a password on the command line interface can be insecure."),
        ("mysql-key", "ERROR 1062 (23000): Duplicate entry '812-4' for key 'cluster_job_table.PRIMARY'"),
        ("mysql-logfilter", "Query\tALTER USER 'slurm'@'%' IDENTIFIED BY <secret>"),
        ("redis-noauth", "redis.exceptions.AuthenticationError: NOAUTH Authentication required."),
        ("redis-wrong", "WRONGPASS invalid username-password pair or user is disabled."),
        ("redis-keys", f"db0:keys={g.n(10, 99999)},expires=12,avg_ttl=0  run_id:{g.hx(40)}"),
        ("redis-replid", f"Master replication ID {g.hx(40)}:{g.dg(9)} Partial resynchronization accepted"),
        ("redis-redacted", f'{g.dg(10)}.113 [0 {g.ip()}:{g.port()}] "AUTH" "(redacted)"'),
        (
            "mongo-auth",
            '"c":"ACCESS","msg":"Authentication '
            'failed","attr":{"mechanism":"SCRAM-SHA-256","error":'
            '"AuthenticationFailed: SCRAM authentication failed, storedKey mismatch"}',
        ),
        ("mongo-dup", f'E11000 duplicate key error collection: ds.img index: sha_1 dup key: {{ sha: "{g.hx(40)}" }}'),
        ("mongo-oid", f'"lsid":{{"id":{{"$uuid":"{g.uuid()}"}}}},"_id":ObjectId(\'{g.hx(24)}\')'),
        (
            "mongo-keyfile",
            '"msg":"Error reading '
            'file","attr":{"keyFile":"/etc/mongo/keyfile","error":"permissions on '
            '/etc/mongo/keyfile are too open"}',
        ),
        (
            "kafka-hidden",
            "\tsasl.jaas.config = [hidden]\n\tssl.keystore.password = [hidden]\n\tsasl.login.class = null",
        ),
        ("kafka-serializer", "\tkey.serializer = class org.apache.kafka.common.serialization.StringSerializer"),
        (
            "kafka-sasl",
            f"[SocketServer] Failed authentication with /{g.ip()} (Authentication failed during "
            "authentication due to "
            "invalid credentials with SASL mechanism SCRAM-SHA-512)",
        ),
        ("kafka-session", f"Member consumer-1-{g.uuid()} in group etl has failed, session.timeout.ms = 45000"),
        (
            "kafka-fetch",
            "[Consumer] FETCH_SESSION_ID_NOT_FOUND: Node 2 was unable to process the fetch request with "
            f"(sessionId={g.dg(10)}, epoch=12)",
        ),
        ("kafka-cluster", f"Cluster ID: {g.u64(22)} (org.apache.kafka.clients.Metadata)"),
        ("rabbit-refused", "Error on AMQP connection: PLAIN login refused: user 'pipeline' - invalid credentials"),
        (
            "rabbit-ok",
            f"connection <0.{g.n(100, 9999)}.0> ({g.ip()}:{g.port()}): user 'pipeline' authenticated and "
            "granted access "
            "to vhost '/ml'",
        ),
        ("rabbit-routing", f"NO_ROUTE exchange=ml routing_key=train.step.{g.n(1, 999)} delivery_tag=17"),
        ("rabbit-cookie", f"cookie hash        : {g.s(B64, 22)}=="),
        ("amqp-nopw", "consumer: Connected to amqp://guest:**@rabbit-0:5672//"),
        (
            "ceph-keyring",
            "monclient: keyring not found\nauth: unable to find a keyring on /etc/ceph/ceph.client.admin.keyring",
        ),
        ("ceph-cephx", f"cephx server client.ml:  unexpected key: req.key={g.hx(16)} expected_key={g.hx(16)}"),
        ("ceph-ticket", "cephx: verify_authorizer could not decrypt ticket info: error: bad magic in decode_decrypt"),
        ("ceph-fsid", f"cluster:\n    id:     {g.uuid()}\n    health: HEALTH_WARN"),
        ("ceph-globalid", f"mon.a client.? {g.ip()}:0/{g.dg(10)} auth: reclaim of global_id {g.dg(6)} denied"),
        (
            "ceph-rgw",
            f"req {g.dg(18)} 0.004s s3:get_obj NOTICE: signature does not match; auth engine: "
            "rgw::auth::s3::LocalEngine",
        ),
        (
            "lustre-key",
            f"LustreError: 11-0: ml-OST0012-osc-{g.hx(16)}: operation ost_connect to node {g.ip()}@o2ib "
            "failed: rc = -13",
        ),
        ("lustre-gss", "lgss_keyring: request_key failed: Required key not available for uid 0 on ml-MDT0000"),
        ("lustre-fid", f"Lustre: ml-MDT0000: [0x{g.hx(9)}:0x{g.hx(4)}:0x0] lock cookie 0x{g.hx(16)} evicted"),
        ("weka-auth", "weka: error: Authentication failed: token expired, run `weka user login`"),
        (
            "weka-join",
            f"weka-agent: container {g.uuid()} joined cluster {g.uuid()} auth-token-path=/home/ada/w/auth-token.json",
        ),
        (
            "s3-key",
            "botocore.errorfactory.NoSuchKey: The specified key does not exist. "
            f"Key=ckpt/step_{g.n(1, 99999)}/mp_rank_00.pt",
        ),
        (
            "s3-sigmismatch",
            "SignatureDoesNotMatch: The request signature we calculated does not match the signature "
            "you provided. "
            "Check your key and signing method.",
        ),
        ("s3-nocreds", "botocore.exceptions.NoCredentialsError: Unable to locate credentials"),
        (
            "s3-credsfound",
            "botocore.credentials - INFO - Found credentials in shared credentials file: ~/.aws/credentials",
        ),
        ("s3-iamrole", "botocore.credentials - INFO - Found credentials from IAM Role: gpu-node-role"),
        ("s3-expired", "ExpiredToken: The provided token has expired. (ClientError calling PutObject)"),
        ("s3-reqid", f"x-amz-request-id: {g.s(UPPER, 16)} x-amz-id-2: {g.b64(56)}"),
        ("s3-etag", f'upload part 12 ETag "{g.hx(32)}" UploadId={g.u64(60)}'),
        ("s3-md5", f"BadDigest: Content-MD5 {g.b64(16)} did not match; x-amz-checksum-sha256: {g.b64(32)}"),
        ("s3-page", f"ListObjectsV2 KeyCount=1000 IsTruncated=True NextContinuationToken={g.b64(48)}"),
        (
            "s3-role",
            f"arn:aws:sts::{g.dg(12)}:assumed-role/gpu-node/i-{g.hx(17)} is not authorized to perform: "
            "secretsmanager:"
            "GetSecretValue",
        ),
        ("aws-imds", "PUT http://169.254.169.254/latest/api/token 403 (X-aws-ec2-metadata-token-ttl-seconds: 21600)"),
        ("aws-webid", "AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/secrets/eks.amazonaws.com/serviceaccount/token"),
        ("gcs-adc", "google.auth.exceptions.DefaultCredentialsError: Your default credentials were not found."),
        ("gcs-path", "GOOGLE_APPLICATION_CREDENTIALS=/etc/gcp/key.json: file is not readable"),
        ("gcs-page", f"gcsfs list nextPageToken={g.enc(g.an(30))} prefix=ckpt/"),
        ("gcs-hash", f"Hashes for ckpt/0.pt: Hash (crc32c): {g.b64(4)} Hash (md5): {g.b64(16)}"),
        ("gcp-secret", f"projects/{g.dg(12)}/secrets/hf-token/versions/{g.n(1, 30)} is in DISABLED state"),
        ("gcp-scope", "Token has been granted scopes https://www.googleapis.com/auth/devstorage.read_write"),
        (
            "azure-invalid",
            f"AADSTS7000215: Invalid client secret provided. Trace ID: {g.uuid()} Correlation ID: {g.uuid()}",
        ),
        (
            "azure-auth",
            f"AuthenticationFailed: Server failed to authenticate the request. RequestId:{g.uuid()} Time:{g.iso()}",
        ),
        (
            "azure-managed",
            "azure.identity: ManagedIdentityCredential.get_token failed: no managed identity endpoint found",
        ),
        ("azure-etag", f"blob etag 0x8D{g.hxu(13)} x-ms-lease-id: {g.uuid()}"),
        (
            "azure-kv",
            "Secret https://mlkv.vault.azure.net/secrets/wandb-key/ is expired; KeyVaultErrorException: Forbidden",
        ),
        (
            "minio-warn",
            "WARNING: Detected default credentials, we recommend that you change these values with "
            "MINIO_ROOT_USER and "
            "MINIO_ROOT_PASSWORD environment variables",
        ),
        (
            "minio-deploy",
            f"minio: DeploymentID: {g.uuid()} RequestID: {g.hxu(16)} Error: file is corrupted (cmd.StorageErr)",
        ),
        (
            "iscsi-chap",
            f"iscsid: Login failed to authenticate with target iqn.2003-01.org.linux-iscsi.{g.host()}:sn.{g.hx(12)}",
        ),
        (
            "cifs-13",
            "CIFS: Status code returned 0xc000006d STATUS_LOGON_FAILURE; cifs_setup_session: Send error in "
            "SessSetup = -13",
        ),
        ("s3-uri", f"restoring s3://ckpt/run@{g.day()}/user:1000/step-{g.n(1, 9999)}.pt"),
        ("md5sum", f"{g.hx(32)}  /ckpt/global_step{g.n(1, 9999)}/mp_rank_00_model_states.pt: OK"),
        ("sha256", f"checksum mismatch: expected sha256 {g.hx(64)} got {g.hx(64)}"),
    ]


def _h_code(g: _Gen) -> list[tuple[str, str]]:
    return [
        ("git-authfail", "fatal: Authentication failed for 'https://gitlab.corp/ml/data.git/'"),
        (
            "git-noprompt",
            f"fatal: could not read Password for 'https://{g.user()}@github.com': terminal prompts disabled",
        ),
        ("git-basic", "remote: HTTP Basic: Access denied. The provided password or token is incorrect"),
        ("git-head", f"HEAD is now at {g.hx(9)} fix(auth): rotate session key on 401"),
        ("git-commit", f"Checking out {g.hx(40)} as detached HEAD (ref is refs/merge-requests/12/head)..."),
        ("git-lfs", f"git-lfs: oid sha256:{g.hx(64)} size {g.dg(9)}: [404] Object does not exist"),
        ("git-ssh", "Cloning from ssh://git@gitlab.corp:2222/ml/tokenizer.git: Permission denied (publickey)"),
        ("ci-masked", "+ curl --header 'JOB-TOKEN: [MASKED]' https://gitlab.corp/api/v4/projects/7"),
        ("ci-gha", "##[debug]Evaluating: secrets.HF_TOKEN\n  env:\n    HF_TOKEN: ***"),
        (
            "pip-hash",
            f"THESE PACKAGES DO NOT MATCH THE HASHES: Expected sha256 {g.hx(64)}\n             Got        {g.hx(64)}",
        ),
        ("pip-req", f"torch==2.4.0 --hash=sha256:{g.hx(64)}"),
        (
            "pip-index",
            "Looking in indexes: https://pypi.corp.example/simple, https://deploy:****@nexus.corp.example/simple",
        ),
        ("pip-keyring", "WARNING: Keyring is skipped due to an exception: Failed to unlock the collection!"),
        (
            "pip-pkg",
            "Successfully installed PyJWT-2.8.0 hf-transfer-0.1.6 keyring-25.2.1 python-jose-3.3.0 "
            "tiktoken-0.7.0 secretstorage-3.3",
        ),
        ("npm-integrity", f"npm ERR! code EINTEGRITY sha512-{g.b64(64)} integrity checksum failed"),
        (
            "npm-401",
            "npm ERR! code E401 Incorrect or missing password. If you were trying to login, change your "
            "password, or create "
            "an authentication token",
        ),
        ("npm-otp", "npm ERR! code EOTP This operation requires a one-time password from your authenticator."),
        ("conda-md5", f"conda: ChecksumMismatchError: expected md5: {g.hx(32)} actual md5: {g.hx(32)}"),
        ("twine-prompt", "Enter your API token: \nWARNING  Your API Token was not found in keyring"),
        ("cargo-hash", f"checksum for `tokenizers v0.19.1` changed between lock files: {g.hx(64)}"),
        (
            "jenkins-cred",
            "[withCredentials] Masking supported pattern matches of $NEXUS_PASS or $NEXUS_USER; Using "
            "credentialsId=nexus-ci",
        ),
        ("env-ref", 'docker compose: The "DB_PASSWORD" variable is not set. Defaulting to a blank string.'),
        ("env-var-use", "+ mysql -h db -u slurm -p\"$MYSQL_PASSWORD\" -e 'select 1'"),
        ("env-placeholder", "export WANDB_API_KEY=<your-api-key>  # see docs/setup.md"),
        ("env-brace", "command: redis-server --requirepass ${REDIS_PASSWORD} --appendonly yes"),
        ("env-empty", "PGPASSWORD= PGUSER=etl HF_TOKEN='' API_KEY=\"\" DEBUG=1"),
        (
            "py-secretstr",
            "Settings(db_user='etl', db_password=SecretStr('**********'), token=None, api_key=SecretStr('**********'))",
        ),
        ("py-none", "connect(host='db', password=None, auth=True, token=False, secret=null)"),
        (
            "py-getpass",
            '  File "/usr/lib/python3.11/getpass.py", line 77, in unix_getpass\n    passwd = '
            "_raw_input(prompt, stream)\n"
            "EOFError",
        ),
        (
            "py-code",
            "    password = cfg.get('db', 'password')\n               "
            "^^^^^^^^^^^^^^^^^^^^^^^^^\nconfigparser.NoOptionError",
        ),
        ("py-code2", "    self.session_token = resp.json()['token']\nTypeError: string indices must be integers"),
        ("py-keyerror", "KeyError: 'secret_key'"),
        ("py-jwt", "jwt.exceptions.InvalidSignatureError: Signature verification failed"),
        ("py-jwtexp", "jwt.exceptions.ExpiredSignatureError: Signature has expired"),
        (
            "py-sig",
            "ValueError: no signature found for builtin <built-in method forward>, signature=(self, key, value)",
        ),
        ("py-hash", "TypeError: unhashable type: 'list' (hash key=['a', 'b'])"),
        (
            "py-aiohttp",
            "aiohttp: Unclosed client session client_session: <aiohttp.client.ClientSession object at "
            "0x" + g.hx(12) + ">",
        ),
        ("json-unexpected", "json.decoder: Unexpected token } in JSON at position 412"),
        ("cpp-token", 'kernel.cu(112): error: expected a ";" before token "}"'),
        ("bash-token", "/opt/run.sh: line 41: syntax error near unexpected token `fi'"),
        ("yaml-token", "yaml.scanner.ScannerError: found character '\\t' that cannot start any token"),
        ("ssl-file", "SSLError: [SSL] PEM lib: could not load private key file /etc/ssl/private/node.pem"),
        (
            "cookie-jar",
            "curl: WARNING: failed to save cookies in /tmp/jar: (23); * Replaced cookie for domain corp, path /",
        ),
        (
            "basic-realm",
            '< HTTP/1.1 401 Unauthorized\n< WWW-Authenticate: Basic realm="nexus"\n< WWW-Authenticate: Bearer',
        ),
        (
            "bearer-error",
            '< WWW-Authenticate: Bearer error="invalid_token", error_description="The access token expired"',
        ),
        ("curl-redacted", "> Authorization: Basic [redacted]\n> Accept: */*"),
        ("cors", "access-control-allow-headers: authorization, x-api-key, x-auth-token, content-type"),
        ("traceparent", f"otel: traceparent=00-{g.hx(32)}-{g.hx(16)}-01 span=auth.verify_token"),
        ("b3", f"X-B3-TraceId: {g.hx(32)} X-B3-SpanId: {g.hx(16)} X-Request-Id: {g.uuid()}"),
        ("cf-ray", f'cf-ray: {g.hx(16)}-FRA etag: W/"{g.hx(32)}"'),
    ]


def _h_dash(g: _Gen) -> list[tuple[str, str]]:
    return [
        ("jupyter-kernel", f"[I {g.day()} ServerApp] Kernel started: {g.uuid()}"),
        ("jupyter-403", f"[W {g.day()} ServerApp] 403 GET /api/sessions ({g.ip()}): Forbidden: token missing"),
        ("jupyter-xsrf", "[W] 403 POST /api/contents: '_xsrf' argument missing from POST"),
        ("jupyter-dots", f"[I ServerApp] http://{g.host()}:8888/lab?token=..."),
        (
            "jupyterhub-scope",
            f"[I JupyterHub log:192] 200 GET /hub/api/user ({g.user()}@{g.ip()}) scopes=self,tokens!user",
        ),
        ("jupyterhub-cookie", "[W JupyterHub base:414] Invalid or expired cookie token"),
        (
            "grafana-invalid",
            'logger=context userId=0 orgId=0 uname= level=warn msg="Failed to authenticate request" '
            "error="
            '"[api-key.invalid] API key is invalid"',
        ),
        ("grafana-rotate", 'logger=authn.service level=debug msg="session token rotated" tokenId=' + g.dg(5)),
        ("grafana-uid", f'logger=provisioning.dashboard msg="saved" uid={g.lo(14)} folderUid={g.lo(14)} key=default'),
        ("prom-config", "basic_auth:\n  username: metrics\n  password: <secret>\nbearer_token_file: /var/run/token"),
        (
            "prom-401",
            'level=warn component="scrape manager" err="server returned HTTP status 401 Unauthorized" '
            "bearer_token_file="
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
        ),
        (
            "prom-ulid",
            f'level=info component=tsdb msg="write block" mint=0 ulid=01{g.s("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24)}',
        ),
        (
            "am-groupkey",
            "level=debug component=dispatcher "
            'aggrGroup="{}/{severity=\\"page\\"}:{alertname=\\"GPUDown\\"}" msg=flushing '
            f"alerts=[GPUDown[{g.hx(7)}][active]]",
        ),
        ("am-fingerprint", f'{{"fingerprint":"{g.hx(16)}","status":"firing","labels":{{"alertname":"XidError"}}}}'),
        (
            "am-slackfail",
            'level=error msg="Notify for alerts failed" err="slack/webhook[0]: channel_not_found: <redacted>"',
        ),
        ("pd-dedup", f"pagerduty: accepted dedup_key={g.hx(32)} incident Q{g.s(UPPER, 13)}"),
        ("pd-badkey", 'pagerduty: 400 Bad Request {"errors":["Invalid routing key"]}'),
        ("slack-ts", f"slack: message posted channel=C{g.s(UPPER, 10)} ts={g.dg(10)}.{g.dg(6)} team=T{g.s(UPPER, 8)}"),
        (
            "slack-auth",
            "slack_sdk.errors.SlackApiError: {'ok': False, 'error': 'invalid_auth', 'warning': 'token_revoked'}",
        ),
        ("teams-410", "teams: webhook returned 410 Gone: connector was removed, message-id " + g.dg(13)),
        (
            "telegram-chat",
            f"telegram: Bad Request: chat not found chat_id=-100{g.dg(10)}; 401 Unauthorized: bot token invalid",
        ),
        ("discord-id", f"discord.gateway: Shard ID None session ID: {g.hx(32)} connected, guild {g.dg(18)}"),
        ("smtp-535", "smtplib.SMTPAuthenticationError: (535, b'5.7.8 Error: authentication failed: UGFzc3dvcmQ6')"),
        ("smtp-cap", "250-AUTH PLAIN LOGIN XOAUTH2\n250-ENHANCEDSTATUSCODES\n250 STARTTLS"),
        (
            "postfix-id",
            f"postfix/smtp[{g.dg(5)}]: {g.hxu(10)}: to=<{g.user()}@corp.example>, status=sent, message-id=<"
            f"{g.hx(32)}@{g.host()}>",
        ),
        (
            "postfix-sasl",
            f"postfix/smtpd[{g.dg(5)}]: warning: unknown[{g.ip()}]: SASL LOGIN authentication failed: UGFzc3dvcmQ6",
        ),
        (
            "dkim",
            f"opendkim: {g.hxu(10)}: DKIM-Signature field added (s=mail, d=corp.example); dkim=pass header.b={g.an(8)}",
        ),
        ("zabbix", 'zabbix_agentd: active check "system.auth.token" is not supported: Unknown item key'),
        (
            "elastic-401",
            "security_exception: unable to authenticate with provided credentials and anonymous access is not allowed",
        ),
        ("loki-stream", f'level=warn msg="stream limit exceeded" tenant=fake hash={g.dg(19)}'),
        ("kibana", "kibana: config validation: [xpack.security.encryptionKey] generating a random key"),
        (
            "keycloak-err",
            f'type="LOGIN_ERROR", realmId="{g.uuid()}", clientId="grafana", '
            'error="invalid_user_credentials", '
            'auth_method="openid-connect"',
        ),
        ("oauth-scope", 'oauth2: cannot fetch token: 400 Bad Request Response: {"error":"unauthorized_client"}'),
        ("sse-hash", f"tensorboard: event hash {g.hx(40)} bad CRC at token 0x{g.hx(8)}"),
        ("tool-usage", "Usage: mc alias set ALIAS URL ACCESSKEY SECRETKEY [--api S3v4]"),
        ("man-hint", "hint: pass credentials with -u user:password or --netrc-file FILE"),
        ("pw-prompt", f"{g.user()}@{g.host()}'s password: \nPermission denied, please try again."),
        (
            "rendezvous",
            f"torchrun: rdzv_endpoint=tcp://{g.host()}:29500 rdzv_id={g.uuid()} rdzv store key=torchelastic/agent",
        ),
        (
            "cookie-consent",
            f"nginx: upstream sent too big header (session cookie larger than 4096 bytes) client: {g.ip()}",
        ),
        (
            "haproxy-sticky",
            f"haproxy: {g.ip()}:{g.port()} fe be/{g.host()} 0/0/1/12/13 200 512 - - --VN 1/1/0/0/0 0/0 cookie=valid",
        ),
    ]


def harmless(rng: Random) -> list[tuple[str, str]]:
    """(kind, line) of lines without any secret."""
    g = _Gen(rng)
    return _h_models(g) + _h_nodes(g) + _h_orch(g) + _h_data(g) + _h_code(g) + _h_dash(g)
