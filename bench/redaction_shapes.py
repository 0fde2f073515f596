"""Lines with a made-up credential: each kind of secret in its typical surroundings, from a seed."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

Make = Callable[[Random], str]
Around = Callable[[str, str], str]

_LOWER, _UPPER, _DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
_WORD: Final = _LOWER + _UPPER + _DIGITS
_HEX: Final = "0123456789abcdef"
_BASE64: Final = _WORD + "+/"
_URL_SAFE: Final = _WORD + "-_"


@dataclass(frozen=True)
class Shape:
    """A line and the secret in it; the text around the secret should stay."""

    kind: str
    line: str
    secret: str


def shapes(seed: int, count: int = 200) -> list[Shape]:
    """`count` different shapes, every kind among them; the same ones for the same seed."""
    rng = Random(seed)
    ways = [
        (kind, name, make, around) for kind, (names, make, found) in KINDS.items() for name in names for around in found
    ]
    rng.shuffle(ways)
    firsts = {way[0]: way for way in ways}
    others = [way for way in ways if firsts[way[0]] is not way]
    return [_shape(*way, rng) for way in [*firsts.values(), *others][:count]]


def _shape(kind: str, name: str, make: Make, around: Around, rng: Random) -> Shape:
    secret = make(rng)
    return Shape(kind, around(name, secret), secret)


def _of(alphabet: str, length: int, prefix: str = "", suffix: str = "") -> Make:
    return lambda rng: prefix + "".join(rng.choices(alphabet, k=length)) + suffix


def _password(rng: Random) -> str:
    """Like those of people and generators: letters and digits with some signs."""
    signs = "".join(rng.choices("!#$%^*-_+.?@", k=2))
    return rng.choice(_LOWER) + "".join(rng.choices(_WORD, k=rng.randint(5, 12))) + signs + rng.choice(_DIGITS)


def _pass_phrase(rng: Random) -> str:
    return " ".join(rng.sample(["correct", "horse", "battery", "staple", "granite", "lantern", "pickle"], 4))


def _url_password(rng: Random) -> str:
    return "".join(rng.choices(_WORD, k=10)) + rng.choice(["%40", "%2F", "!", "-"]) + rng.choice(_DIGITS)


def _jwt(rng: Random) -> str:
    def part(fields: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    claims = {"sub": rng.choice(["slurm", "system:serviceaccount:ml:train"]), "iat": rng.randint(10**9, 2 * 10**9)}
    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.{_of(_URL_SAFE, 86)(rng)}"


def _user_and_password(rng: Random) -> str:
    return base64.b64encode(f"admin:{_password(rng)}".encode()).decode()


def _pem(label: str, end_of_line: str = "\n") -> Make:
    def make(rng: Random) -> str:
        lines = [
            "MII" + _of(_BASE64, 61)(rng),
            *(_of(_BASE64, 64)(rng) for _ in range(5)),
            _of(_BASE64, 22)(rng) + "==",
        ]
        return end_of_line.join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])

    return make


def _base64_of_pem(rng: Random) -> str:
    return base64.b64encode(_pem("RSA PRIVATE KEY")(rng).encode()).decode()


ENV: Final[list[Around]] = [
    lambda name, secret: f"{name}={secret}",
    lambda name, secret: f"+ export {name}={secret}",
    lambda name, secret: f"++ {name}='{secret}'",
    lambda name, secret: f'declare -x {name}="{secret}"',
    lambda name, secret: f"+ docker run --rm --gpus all -e {name}={secret} nvcr.io/nvidia/pytorch:25.01-py3 bash",
    lambda name, secret: (
        f"srun: error: launch failed: sbatch --export=ALL,{name}={secret},NCCL_DEBUG=INFO train.sbatch"
    ),
    lambda name, secret: (
        f"RuntimeError: bad environment: environ({{'HOME': '/root', '{name}': '{secret}', 'LANG': 'C'}})"
    ),
    lambda name, secret: f'"Env":["PATH=/usr/bin","{name}={secret}","NVIDIA_VISIBLE_DEVICES=all"]',
    lambda name, secret: f"env: [{{'name': '{name}', 'value': '{secret}'}}, {{'name': 'HOME', 'value': '/root'}}]",
]
"""Around the value of an environment variable."""

CALL: Final[list[Around]] = [
    lambda name, secret: f'{{"level":"error","message":"login failed","{name}":"{secret}","step":1200}}',
    lambda name, secret: json.dumps({"log": json.dumps({"config": {name: secret, "lr": 0.1}})}),
    lambda name, secret: f'  {name}: "{secret}"',
    lambda name, secret: f"{name} = '{secret}'",
    lambda name, secret: f"    client = connect(host, {name}='{secret}', timeout=30)",
    lambda name, secret: f"Namespace(lr=0.0001, {name}='{secret}', max_tokens=4096)",
]
"""Around a value that has a name in a program, a log or a configuration."""

PLAIN: Final[list[Around]] = [
    lambda name, secret: f"  {name}: {secret}",
    lambda name, secret: f"level=info msg=starting {name}={secret} node=gpu-017",
    lambda name, secret: f"Kernel command line: BOOT_IMAGE=/vmlinuz-6.8 ro quiet {name}={secret} iommu=pt",
    lambda name, secret: f"python train.py --{name.replace('_', '-')} {secret} --lr 1e-4",
    lambda name, secret: f"python train.py --{name}={secret} --max-tokens 4096",
    lambda name, secret: f"Exited with 1: ['python', 'train.py', '--{name}', '{secret}', '--lr', '1e-4']",
]
"""The same without quotes, and on command lines."""

HEADER: Final[list[Around]] = [
    lambda name, secret: f"> {name}: {secret}",
    lambda name, secret: f"requests headers={{'Accept': '*/*', '{name}': '{secret}', 'Host': 'api.example.org'}}",
    lambda name, secret: f"DEBUG httpcore send_request_headers [(b'Host', b'api'), (b'{name}', b'{secret}')]",
    lambda name, secret: f"curl -sS -H '{name}: {secret}' https://api.example.org/v1/runs",
]
BEARER: Final[list[Around]] = [
    lambda name, secret: f"> {name}: Bearer {secret}",
    lambda name, secret: f"headers={{'{name}': 'Bearer {secret}', 'Accept': '*/*'}}",
    lambda name, secret: f'curl -H "{name}: Bearer {secret}" https://api.example.org',
    lambda name, secret: json.dumps({"message": json.dumps({"headers": {name.lower(): f"Bearer {secret}"}})}),
]
BASIC: Final[list[Around]] = [
    lambda name, secret: f"> {name}: Basic {secret}",
    lambda name, secret: f"headers={{'{name}': 'Basic {secret}'}}",
]
BARE: Final[list[Around]] = [
    lambda _, secret: f"openai.AuthenticationError: Incorrect API key provided: {secret}.",
    lambda _, secret: f"+ git clone https://{secret}@git.example.org/acme/train.git",
    lambda _, secret: f"huggingface_hub.errors.HfHubHTTPError: 401 for token {secret} (Request ID: Root=1-65)",
    lambda _, secret: f'  File "train.py", line 12, in <module>\n    login("{secret}")',
    lambda _, secret: f"ps: root 4711 0.3 python /app/main.py {secret}",
]
"""Around a token with a recognizable form."""

CLONE: Final[list[Around]] = [
    lambda _, secret: f"fatal: unable to access 'https://oauth2:{secret}@git.example.org/acme/train.git/': 403",
]
DATABASE: Final[list[Around]] = [
    lambda name, secret: (
        f"sqlalchemy.exc.OperationalError: can't reach {name}://trainer:{secret}@db.example.org:5432/runs"
    ),
    lambda name, secret: f"DATABASE_URL={name}://trainer:{secret}@10.0.0.5/runs?sslmode=require",
    lambda name, secret: f'"dsn": "{name}://trainer:{secret}@db:5432/runs"',
]


def _line(text: str) -> Around:
    return lambda _, secret: text.replace("SECRET", secret)


_TOKEN_NAMES: Final = ["access_token", "auth_token"]
KINDS: Final[dict[str, tuple[list[str], Make, list[Around]]]] = {
    "github classic": (["GITHUB_TOKEN"], _of(_WORD, 36, "ghp_"), [*ENV[:3], *BARE, *CLONE]),
    "github fine-grained": (["GH_TOKEN"], _of(_WORD, 82, "github_pat_"), [*ENV[:3], *BARE[:2], *CLONE]),
    "github app": (["GITHUB_TOKEN"], _of(_WORD, 36, "ghs_"), [*ENV[3:5], *CLONE]),
    "gitlab": (["GITLAB_TOKEN"], _of(_URL_SAFE, 20, "glpat-"), [*ENV[:2], *BARE[3:], *CLONE]),
    "hugging face": (["HF_TOKEN"], _of(_LOWER + _UPPER, 34, "hf_"), [*ENV, *BARE]),
    "wandb": (
        ["WANDB_API_KEY"],
        _of(_HEX, 40),
        [*ENV, _line("+ wandb login --relogin SECRET"), _line("    wandb.login(key='SECRET')")],
    ),
    "openai": (["OPENAI_API_KEY"], _of(_URL_SAFE, 60, "sk-proj-0"), [*ENV[:4], *BARE]),
    "openai old": (["OPENAI_API_KEY"], _of(_WORD, 47, "sk-7"), [*ENV[2:5], *BARE[:2]]),
    "anthropic": (["ANTHROPIC_API_KEY"], _of(_URL_SAFE, 90, "sk-ant-api03-"), [*ENV[:4], *BARE[3:]]),
    "nvidia": (["NVIDIA_API_KEY", "NGC_API_KEY"], _of(_URL_SAFE, 63, "nvapi-4"), [*ENV[:4], *BARE[3:]]),
    "replicate": (["REPLICATE_API_TOKEN"], _of(_WORD, 36, "r8_4"), [*ENV[:2], *BARE[4:]]),
    "groq": (["GROQ_API_KEY"], _of(_WORD, 51, "gsk_9"), [*ENV[:2], *BARE[4:]]),
    "databricks": (["DATABRICKS_TOKEN"], _of(_HEX, 32, "dapi"), [*ENV[:2], *BARE[4:]]),
    "slack": (["SLACK_BOT_TOKEN"], _of(_WORD, 24, "xoxb-123456789012-1234567890123-"), [*ENV[:3], *BARE[3:]]),
    "slack webhook": (
        [""],
        _of(_WORD, 24, "T01ABCDEF/B01ABCDEF/"),
        [
            _line("POST https://hooks.slack.com/services/SECRET 404"),
            _line("slack_url: https://hooks.slack.com/services/SECRET"),
        ],
    ),
    "discord webhook": ([""], _of(_URL_SAFE, 68), [_line("POST https://discord.com/api/webhooks/1234567890/SECRET")]),
    "telegram": (
        [""],
        _of(_URL_SAFE, 33, "123456789:AA"),
        [_line("GET https://api.telegram.org/botSECRET/sendMessage 401")],
    ),
    "aws key id": (
        ["AWS_ACCESS_KEY_ID", "aws_access_key_id"],
        _of(_UPPER + "234567", 16, "AKIA"),
        [*ENV[:4], *PLAIN[:2]],
    ),
    "aws secret": (
        ["AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"],
        _of(_BASE64, 38, "a1"),
        [*ENV, *CALL[:3], *PLAIN[:2]],
    ),
    "aws session": (["AWS_SESSION_TOKEN"], _of(_BASE64, 300, "IQoJb3JpZ2luX2VjE0", "=="), [*ENV[:4], *CALL[:1]]),
    "google key": (
        ["GOOGLE_API_KEY"],
        _of(_URL_SAFE, 35, "AIza"),
        [*ENV[:2], _line("GET https://maps.googleapis.com/x?key=SECRET&y=1")],
    ),
    "google oauth": (["Authorization"], _of(_URL_SAFE, 120, "ya29.a0"), BEARER),
    "google client": (["client_secret"], _of(_URL_SAFE, 28, "GOCSPX-"), CALL[:4]),
    "azure account": (
        [""],
        _of(_BASE64, 86, "", "=="),
        [
            _line("AccountName=acme;AccountKey=SECRET;EndpointSuffix=core.windows.net"),
            _line("AZURE_STORAGE_CONNECTION_STRING='AccountName=a;AccountKey=SECRET'"),
        ],
    ),
    "azure client": (["AZURE_CLIENT_SECRET"], _of(_WORD + "~._-", 33, "abc8Q~", "x"), [*ENV[:4], *CALL[:2]]),
    "azure sas": (
        [""],
        _of(_WORD, 40, "", "%3D"),
        [_line("PUT https://acme.blob.core.windows.net/ckpt/a.pt?sv=2024-11-04&sp=rw&sig=SECRET 403")],
    ),
    "npm": ([""], _of(_WORD, 36, "npm_"), [_line("//packages.example.org/:_authToken=SECRET"), *BARE[4:]]),
    "pypi": (
        ["TWINE_PASSWORD"],
        _of(_URL_SAFE, 150, "pypi-AgEIcHlwaS5vcmc"),
        [*ENV[:3], _line("twine upload -u __token__ -p SECRET dist/*")],
    ),
    "docker": (["DOCKER_TOKEN"], _of(_URL_SAFE, 27, "dckr_pat_"), [*ENV[:2], _line("docker login -u acme -p SECRET")]),
    "docker auth": (
        [""],
        _user_and_password,
        [
            _line('{"auths":{"nvcr.io":{"auth":"SECRET"}}}'),
            _line('{\\"auths\\":{\\"nvcr.io\\":{\\"auth\\":\\"SECRET\\"}}}'),
        ],
    ),
    "docker login": (
        [""],
        _password,
        [
            _line("+ docker login -u acme -p SECRET registry.example.org"),
            _line("podman login --username acme --password SECRET quay.io"),
        ],
    ),
    "jwt": (["SLURM_JWT", "K8S_TOKEN"], _jwt, [*ENV[:3], *BARE[3:]]),
    "jwt header": (["Authorization", "X-SLURM-USER-TOKEN"], _jwt, [*BEARER[:2], *HEADER[:1]]),
    "kubeadm": (
        [""],
        _of(_LOWER + _DIGITS, 16, "abcde7."),
        [_line("kubeadm join 10.0.0.1:6443 --token SECRET --discovery-token-unsafe-skip-ca-verification")],
    ),
    "rsa key": (
        [""],
        _pem("RSA PRIVATE KEY"),
        [_line("ValueError: could not read key: SECRET"), _line("+ cat id_rsa\nSECRET\nthen it failed")],
    ),
    "openssh key": ([""], _pem("OPENSSH PRIVATE KEY"), [_line("deploy key:\nSECRET")]),
    "key in json": (
        [""],
        _pem("PRIVATE KEY", "\\n"),
        [_line('{"type":"service_account","private_key":"SECRET\\n","client_email":"a@b.iam"}')],
    ),
    "key in an envelope": (
        [""],
        _pem("EC PRIVATE KEY", "\\n"),
        [_line('{"log":"loaded SECRET\\n","stream":"stderr"}')],
    ),
    "kubeconfig key": (
        [""],
        _base64_of_pem,
        [_line("    client-key-data: SECRET"), _line('"client-key-data":"SECRET"')],
    ),
    "age key": ([""], _of(_UPPER + _DIGITS, 58, "AGE-SECRET-KEY-1"), [_line("sops: failed with SECRET")]),
    "wireguard key": ([""], _of(_BASE64, 42, "4", "="), [_line("PrivateKey = SECRET")]),
    "stripe": ([""], _of(_WORD, 24, "sk_live_"), BARE[3:]),
    "sendgrid": (
        ["SENDGRID_API_KEY"],
        lambda rng: f"SG.{_of(_URL_SAFE, 22)(rng)}.{_of(_URL_SAFE, 43)(rng)}",
        [*ENV[:2], *BARE[4:]],
    ),
    "vault": (["VAULT_TOKEN", "X-Vault-Token"], _of(_URL_SAFE, 90, "hvs.CAES"), [*ENV[:2], *HEADER[:2]]),
    "grafana": (["GRAFANA_TOKEN"], _of(_WORD, 32, "glsa_", "_1a2b3c4d"), [*ENV[:2], *BARE[4:]]),
    "digitalocean": (["DO_TOKEN"], _of(_HEX, 64, "dop_v1_"), [*ENV[:2], *BARE[4:]]),
    "basic auth": (["Authorization", "Proxy-Authorization"], _user_and_password, BASIC),
    "opaque bearer": (["Authorization"], _of(_URL_SAFE, 43, "8"), BEARER),
    "header token": (["X-Auth-Token", "X-Api-Key", "PRIVATE-TOKEN"], _of(_WORD, 32, "3"), HEADER),
    "cookie": (["Cookie"], lambda rng: f"sessionid={_of(_WORD, 32)(rng)}; csrftoken={_of(_WORD, 32)(rng)}", HEADER),
    "set-cookie": (["Set-Cookie"], lambda rng: f"session={_of(_URL_SAFE, 40)(rng)}; Path=/; HttpOnly", HEADER[:2]),
    "database url": (["postgresql", "mysql+pymysql", "mongodb+srv", "amqp", "redis"], _url_password, DATABASE),
    "proxy url": (["http"], _url_password, [_line("HTTPS_PROXY=http://proxyuser:SECRET@proxy.example.org:3128")]),
    "password": (["password", "db_password", "passwd"], _password, [*CALL, *PLAIN]),
    "password in env": (["PGPASSWORD", "MYSQL_PASSWORD", "MLFLOW_TRACKING_PASSWORD", "MYSQL_PWD"], _password, ENV),
    "pass phrase": (["password", "passphrase"], _pass_phrase, CALL),
    "odbc": (
        [""],
        _password,
        [
            _line("Driver={ODBC Driver 18};Server=db,1433;Uid=sa;Pwd=SECRET;Encrypt=yes"),
            _line("Server=db;User Id=sa;Password=SECRET;Encrypt=true"),
        ],
    ),
    "netrc": (
        [""],
        _of(_HEX, 40),
        [
            _line("machine api.wandb.ai login user password SECRET"),
            _line("machine api.wandb.ai\n  login user\n  password SECRET"),
        ],
    ),
    "sshpass": ([""], _password, [_line("+ sshpass -p SECRET ssh -o StrictHostKeyChecking=no root@gpu-017")]),
    "mysql client": ([""], _password, [_line("+ mysqldump -h db -u root -pSECRET runs")]),
    "curl user": (
        [""],
        _password,
        [
            _line("+ curl -sS -u admin:SECRET https://grafana.example.org/api"),
            _line("curl --user admin:SECRET -O https://x.example.org/a"),
        ],
    ),
    "redis client": (
        ["REDIS_PASSWORD", "REDISCLI_AUTH"],
        _password,
        [*ENV[:2], _line("redis-cli -h 10.0.0.5 -a SECRET ping")],
    ),
    "named api key": (["api_key", "apiKey", "secret_key"], _of(_WORD, 31, "5"), [*CALL, *PLAIN]),
    "service api key": (
        ["COMET_API_KEY", "DD_API_KEY", "CLEARML_API_SECRET_KEY", "KAGGLE_KEY"],
        _of(_HEX, 31, "7"),
        ENV[:4],
    ),
    "neptune": (
        ["NEPTUNE_API_TOKEN"],
        lambda rng: base64.b64encode(f'{{"api_key":"{_of(_HEX, 32)(rng)}"}}'.encode()).decode(),
        ENV[:3],
    ),
    "named token": (_TOKEN_NAMES, _of(_WORD, 39, "2"), [*CALL, *PLAIN]),
    "plain token": (["token", "hub_token"], _of(_WORD, 39, "6"), [*CALL, *PLAIN]),
    "named secret": (["client_secret", "jwt_secret"], _of(_URL_SAFE, 39, "6"), [*CALL, *PLAIN[:3]]),
    "twilio": (["TWILIO_AUTH_TOKEN"], _of(_HEX, 31, "9"), ENV[:2]),
    "pagerduty": (["routing_key"], _of(_HEX, 31, "4"), CALL[:3]),
    "kaggle json": ([""], _of(_HEX, 32), [_line('{"username":"acme","key":"SECRET"}')]),
    "jupyter": (
        [""],
        _of(_HEX, 48),
        [
            _line("[I 09:00:01 ServerApp] http://gpu-017:8888/lab?token=SECRET"),
            _line("    or http://127.0.0.1:8888/tree?token=SECRET"),
        ],
    ),
    "s3 presigned": (
        [""],
        _of(_HEX, 64),
        [
            _line(
                "GET https://acme.s3.amazonaws.com/ckpt/a.pt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600&X-Amz-Signature=SECRET"
            )
        ],
    ),
    "gcs presigned": (
        [""],
        _of(_HEX, 128),
        [_line("https://storage.googleapis.com/b/o?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature=SECRET")],
    ),
    "sigv4 header": (
        [""],
        _of(_HEX, 64),
        [_line("Authorization: AWS4-HMAC-SHA256 Credential=x/r/s3/aws4_request, SignedHeaders=host, Signature=SECRET")],
    ),
    "sentry": ([""], _of(_HEX, 31, "7"), [_line("SENTRY_DSN=https://SECRET@o4504.ingest.sentry.io/12")]),
    "x11 cookie": ([""], _of(_HEX, 32), [_line("gpu-017/unix:10  MIT-MAGIC-COOKIE-1  SECRET")]),
    "query token": (
        ["access_token", "api_key", "token"],
        _of(_WORD, 31, "4"),
        [lambda name, secret: f"GET /v1/runs?{name}={secret}&limit=10 HTTP/1.1"],
    ),
}
"""Kind -> (its names, how to make one, the text around it)."""
