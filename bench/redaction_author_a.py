"""Lines with a secret, and harmless lines that look alike, by an author who had not seen the patterns.

The same seed gives the same lines. Don't add lines for patterns here: an author who knows the patterns measures little.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from random import Random

from bench.redaction_shapes import Shape

HEX = "0123456789abcdef"
UPHEX = "0123456789ABCDEF"
LOWER = string.ascii_lowercase
UPPER = string.ascii_uppercase
DIGITS = string.digits
B62 = string.ascii_letters + DIGITS
B64 = B62 + "+/"
B64U = B62 + "-_"
B32 = UPPER + "234567"
LOWNUM = LOWER + DIGITS
UPNUM = UPPER + DIGITS
BECH32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"
CRYPT = "./" + B62
WORDS = (
    *("Winter", "Summer", "Falcon", "Copper", "Granite", "Harbor", "Maple", "Saturn", "Walnut", "Ribbon"),
    *("Thunder", "Velvet", "Orchid", "Pepper", "Quartz", "Badger", "Canyon", "Dragon", "Ember", "Glacier"),
    *("Hazel", "Indigo", "Jasper", "Kestrel", "Lantern", "Meadow", "Nickel", "Otter", "Pigeon", "Raven"),
)
HOLE = "§"
Put = Callable[[str, str, str], None]


class _Gen:
    """Random values with true alphabets and true lengths."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def s(self, alphabet: str, n: int) -> str:
        return "".join(self.rng.choice(alphabet) for _ in range(n))

    def n(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def hex(self, n: int) -> str:
        return self.s(HEX, n)

    def b62(self, n: int) -> str:
        return self.s(B62, n)

    def b64u(self, n: int) -> str:
        """URL-safe characters which start and end with a letter or digit."""
        return self.s(B62, 1) + self.s(B64U, n - 2) + self.s(B62, 1)

    def raw(self, n: int) -> bytes:
        return bytes(self.rng.randrange(256) for _ in range(n))

    def b64(self, nbytes: int) -> str:
        return base64.b64encode(self.raw(nbytes)).decode()

    def uuid(self) -> str:
        return f"{self.hex(8)}-{self.hex(4)}-4{self.hex(3)}-{self.rng.choice('89ab')}{self.hex(3)}-{self.hex(12)}"

    def word(self) -> str:
        return self.rng.choice(WORDS)

    def pw(self, n: int = 14) -> str:
        """Letters and digits, at least one of each."""
        chars = [self.s(LOWER, 1), self.s(UPPER, 1), self.s(DIGITS, 2), self.s(B62, n - 4)]
        mixed = list("".join(chars))
        self.rng.shuffle(mixed)
        return "".join(mixed)

    def human(self, marks: str = "!") -> str:
        """The kind of password a person makes up: a word, digits, a mark."""
        return f"{self.word()}{self.s(DIGITS, 4)}{self.s(marks, 1)}{self.s(LOWER, 2)}"

    def phrase(self, joint: str = "-", n: int = 4) -> str:
        return joint.join(self.word().lower() for _ in range(n)) + joint + self.s(DIGITS, 3)

    def strong(self, marks: str = "!#%^*+=~.@", n: int = 18) -> str:
        """Letters, digits and several marks inside; letters at both ends."""
        body = list(self.s(B62, n - 5) + self.s(marks, 3))
        self.rng.shuffle(body)
        return self.s(B62, 1) + "".join(body) + self.s(B62, 1)

    def b64of(self, text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    def jwt(self, issuer: str = "https://login.example.org", alg: str = "RS256") -> str:
        def part(value: dict[str, object]) -> str:
            text = json.dumps(value, separators=(",", ":"))
            return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

        head = part({"alg": alg, "typ": "JWT", "kid": self.hex(8)})
        now = 1_700_000_000 + self.n(0, 60_000_000)
        body = part({"iss": issuer, "sub": self.word().lower(), "iat": now, "exp": now + 3600, "jti": self.uuid()})
        return f"{head}.{body}.{self.b64u(342 if alg == 'RS256' else 43)}"

    def pem(self, lines: int = 6, joint: str = "\n", indent: str = "") -> str:
        rows = [self.s(B64, 64) for _ in range(lines)] + [self.s(B64, 42) + "=="]
        return (joint + indent).join(rows)

    def node(self) -> str:
        return f"{self.rng.choice(['gpu', 'node', 'dgx', 'worker', 'h100-'])}{self.n(1, 512):03d}"

    def ip(self) -> str:
        return f"10.{self.n(0, 255)}.{self.n(0, 255)}.{self.n(1, 254)}"

    def hms(self) -> str:
        return f"{self.n(0, 23):02d}:{self.n(0, 59):02d}:{self.n(0, 59):02d}"

    def iso(self) -> str:
        return f"2025-{self.n(1, 12):02d}-{self.n(1, 28):02d}T{self.hms()}.{self.n(0, 999):03d}Z"

    def day(self) -> str:
        return f"2025-{self.n(1, 12):02d}-{self.n(1, 28):02d} {self.hms()}"

    def syslog(self) -> str:
        return f"{self.rng.choice(['Jan', 'Mar', 'Jun', 'Oct'])} {self.n(10, 28)} {self.hms()} {self.node()}"

    def pid(self) -> int:
        return self.n(1000, 99999)

    def ceph(self) -> str:
        """A CephX key: type 1, a time, a length of 16, 16 bytes of key; 40 characters."""
        head = b"\x01\x00" + self.raw(4) + self.raw(4) + b"\x10\x00"
        return base64.b64encode(head + self.raw(16)).decode()


def secrets(rng: Random) -> list[Shape]:
    """Lines, each with one secret."""
    g = _Gen(rng)
    out: list[Shape] = []

    def add(kind: str, line: str, secret: str) -> None:
        if line.count(HOLE) != 1:
            raise ValueError(f"{kind}: one hole expected")
        out.append(Shape(kind, line.replace(HOLE, secret), secret))

    _cloud(g, add)
    _services(g, add)
    _models(g, add)
    _cluster(g, add)
    _databases(g, add)
    _keys(g, add)
    _places(g, add)
    _web(g, add)
    _shells(g, add)
    return out


def _cloud(g: _Gen, put: Put) -> None:
    akid = "AKIA" + g.s(B32, 16)
    put("aws-env-export", f"export AWS_ACCESS_KEY_ID={akid} AWS_SECRET_ACCESS_KEY=§ AWS_REGION=eu-west-1", g.s(B64, 40))
    put("aws-credentials-ini", f"[default]\naws_access_key_id = {akid}\naws_secret_access_key = §\n", g.s(B64, 40))
    put(
        "aws-sts-json",
        f'{{"Credentials": {{"AccessKeyId": "ASIA{g.s(B32, 16)}", "SecretAccessKey": "§", '
        f'"Expiration": "{g.iso()}"}}}}',
        g.s(B64, 40),
    )
    put("aws-session-token-env", f"[{g.node()}] AWS_SESSION_TOKEN=§", "IQoJb3JpZ2luX2Vj" + g.s(B64, 340) + "==")
    put(
        "aws-boto-debug-header",
        f"{g.day()} botocore.endpoint [DEBUG] headers={{'X-Amz-Security-Token': b'§', 'User-Agent': b'Boto3/1.34.11'}}",
        "IQoJb3JpZ2luX2Vj" + g.s(B64, 300),
    )
    put(
        "s3-presigned-url",
        f"INFO fetching shard https://ckpt.s3.us-east-1.amazonaws.com/run7/shard-{g.n(0, 99):05d}.tar"
        "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20250611T101500Z&X-Amz-Expires=3600"
        "&X-Amz-SignedHeaders=host&X-Amz-Signature=§",
        g.hex(64),
    )
    put(
        "s3-v2-signed-url",
        f"GET http://rgw.local:7480/data/x.bin?AWSAccessKeyId={akid}&Expires=1749999999&Signature=§",
        g.s(B62, 26) + "%3D",
    )
    put(
        "cloudfront-signed-url",
        f"curl -O 'https://d1.cloudfront.net/weights.bin?Expires=1750000000&Key-Pair-Id=K{g.s(UPNUM, 13)}&Signature=§'",
        g.s(B62 + "-~", 342) + "__",
    )
    put(
        "ecr-login-pipe",
        f"+ docker login --username AWS --password § {g.s(DIGITS, 12)}.dkr.ecr.eu-west-1.amazonaws.com",
        "eyJwYXlsb2FkIjoi" + g.s(B64, 420),
    )
    put(
        "spark-s3a-conf",
        "--conf spark.hadoop.fs.s3a.secret.key=§ --conf spark.hadoop.fs.s3a.path.style.access=true",
        g.s(B64, 40),
    )
    put("hadoop-site-xml", "<property><name>fs.s3a.secret.key</name><value>§</value></property>", g.s(B64, 40))
    put(
        "gcp-api-key-url",
        "GET https://maps.googleapis.com/maps/api/geocode/json?address=x&key=§ 200",
        "AIza" + g.b64u(35),
    )
    put("gcp-access-token-header", "DEBUG:google.auth.transport:> authorization: Bearer §", "ya29." + g.b64u(210))
    put("gcloud-print-token", "$ gcloud auth print-access-token\n§\n$", "ya29.a0" + g.b64u(205))
    put(
        "gcp-refresh-token",
        '{"client_id": "'
        + g.s(DIGITS, 12)
        + '.apps.googleusercontent.com", "refresh_token": "§", "type": "authorized_user"}',
        "1//0" + g.b64u(99),
    )
    put(
        "gcp-oauth-client-secret",
        "oauth2client: client_secret='§' redirect_uri=http://localhost:8085/",
        "GOCSPX-" + g.b64u(28),
    )
    put(
        "gcp-sa-private-key",
        '{"type": "service_account", "private_key_id": "'
        + g.hex(40)
        + '", "private_key": "-----BEGIN PRIVATE KEY-----\\n§\\n-----END PRIVATE KEY-----\\n", '
        '"client_email": "train@proj.iam.gserviceaccount.com"}',
        g.pem(25, "\\n"),
    )
    put(
        "gcs-signed-url",
        "downloading https://storage.googleapis.com/bkt/obj?X-Goog-Algorithm=GOOG4-RSA-SHA256"
        "&X-Goog-Expires=900&X-Goog-SignedHeaders=host&X-Goog-Signature=§",
        g.hex(512),
    )
    put(
        "gcs-hmac-boto",
        f"[Credentials]\ngs_access_key_id = GOOG1E{g.s(B32, 55)}\ngs_secret_access_key = §",
        g.s(B64, 40),
    )
    put(
        "azure-storage-connstr",
        "AZURE_STORAGE_CONNECTION_STRING=DefaultEndpointsProtocol=https;AccountName=trainblob;"
        "AccountKey=§;EndpointSuffix=core.windows.net",
        g.b64(64),
    )
    put(
        "azure-sas-url",
        "azcopy copy ./ckpt 'https://trainblob.blob.core.windows.net/c?sv=2023-11-03&ss=b&srt=sco&sp=rwl"
        "&se=2026-01-01T00:00:00Z&spr=https&sig=§' --recursive",
        g.b62(20) + "%2B" + g.b62(21) + "%3D",
    )
    put(
        "azure-client-secret-env",
        f"ARM_CLIENT_ID={g.uuid()} ARM_CLIENT_SECRET=§ ARM_TENANT_ID={g.uuid()}",
        g.b62(3) + "8Q~" + g.s(B62 + "_-.~", 33) + "d",
    )
    put(
        "azure-az-login",
        f"az login --service-principal -u {g.uuid()} -p § --tenant contoso.onmicrosoft.com",
        g.b62(3) + "8Q~" + g.b64u(34),
    )
    put(
        "azure-servicebus",
        "Endpoint=sb://gpuq.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=§",
        g.b64(32),
    )
    put(
        "azure-devops-pat",
        "git -c http.extraheader='AUTHORIZATION: basic §' fetch --depth=1 origin main",
        g.b64of(":" + g.s(LOWER + "234567", 52)),
    )
    put("azure-cosmos", "AccountEndpoint=https://c.documents.azure.com:443/;AccountKey=§;", g.b64(64))
    put("digitalocean-token", "doctl auth init -t §", "dop_v1_" + g.hex(64))
    put("openstack-os-password", "OS_AUTH_URL=https://keystone:5000/v3\nOS_USERNAME=hpc\nOS_PASSWORD=§\n", g.human())
    put(
        "openstack-x-auth-token",
        'REQ: curl -g -i -X GET http://nova:8774/v2.1/servers -H "X-Auth-Token: §"',
        "gAAAAAB" + g.b64u(176),
    )
    put(
        "swift-temp-url", "GET /v1/AUTH_acc/models/a.bin?temp_url_sig=§&temp_url_expires=1750000000 HTTP/1.1", g.hex(40)
    )
    put("cloudflare-api-token", "CLOUDFLARE_API_TOKEN: '§'", g.b64u(40))
    put("oci-auth-token", 'oci_auth_token="§" namespace=axb', g.strong("()}{;<>.", 20))
    put("alibaba-access-key", f"ossutil config -e oss-cn -i LTAI5t{g.b62(18)} -k §", g.b62(30))
    put("linode-token", "linode-cli: LINODE_CLI_TOKEN=§", g.hex(64))
    put("hetzner-token", "hcloud: error with HCLOUD_TOKEN=§: unauthorized", g.b62(64))
    put(
        "lambda-cloud-key",
        "curl -u §: https://cloud.lambdalabs.com/api/v1/instances",
        f"secret_mycluster_{g.hex(32)}.{g.b62(32)}",
    )
    put("runpod-key", "runpodctl config --apiKey=§", "rpa_" + g.s(UPNUM, 40) + g.s(LOWNUM, 6))
    put("vast-api-key", "vastai set api-key §", g.hex(64))
    put("modal-token", f"modal token set --token-id ak-{g.b62(22)} --token-secret §", "as-" + g.b62(22))


def _services(g: _Gen, put: Put) -> None:
    put("github-pat-clone", "Cloning into 'repo'... https://§@github.com/acme/train.git", "ghp_" + g.b62(36))
    put("github-fine-pat", "GITHUB_TOKEN=§ make release", f"github_pat_{g.b62(22)}_{g.b62(59)}")
    put(
        "github-actions-remote",
        "fatal: unable to access 'https://x-access-token:§@github.com/acme/kernels/': 403",
        "ghs_" + g.b62(36),
    )
    put("github-oauth-netrc", "machine github.com login ci password §", "gho_" + g.b62(36))
    put(
        "gitlab-pat-header",
        'curl --header "PRIVATE-TOKEN: §" https://gitlab.local/api/v4/projects',
        "glpat-" + g.b64u(20),
    )
    put(
        "gitlab-runner-register",
        "gitlab-runner register --url https://gitlab.local --token § --executor docker",
        "glrt-" + g.b64u(20),
    )
    put("gitlab-ci-job-token", "remote: https://gitlab-ci-token:§@gitlab.local/ml/infra.git", "glcbt-64_" + g.b64u(20))
    put(
        "gitlab-deploy-token",
        "pip install --index-url https://deploy:§@gitlab.local/api/v4/projects/7/packages/pypi/simple x",
        "gldt-" + g.b64u(20),
    )
    put(
        "bitbucket-app-password",
        "git remote set-url origin https://bob:§@bitbucket.org/t/r.git",
        "ATBB" + g.b62(28) + g.s(UPHEX, 8),
    )
    put("atlassian-api-token", "jira: auth=('bot@acme.io', '§')", "ATATT3xFfGF0" + g.b64u(171) + "=" + g.s(UPHEX, 8))
    put(
        "slack-bot-token",
        "slack_sdk: Bearer § -> {'ok': False, 'error': 'not_in_channel'}",
        f"xoxb-{g.s(DIGITS, 12)}-{g.s(DIGITS, 13)}-{g.b62(24)}",
    )
    put("slack-app-token", "SLACK_APP_TOKEN='§'", f"xapp-1-A{g.s(UPNUM, 10)}-{g.s(DIGITS, 13)}-{g.hex(64)}")
    put(
        "slack-webhook",
        'alertmanager: notify failed: Post "https://hooks.slack.com/services/§": dial tcp: timeout',
        f"T{g.s(UPNUM, 8)}/B{g.s(UPNUM, 10)}/{g.b62(24)}",
    )
    put("discord-webhook", f"POST https://discord.com/api/webhooks/{g.s(DIGITS, 19)}/§ 204", g.b64u(68))
    put(
        "teams-webhook",
        f"webhook_url=https://acme.webhook.office.com/webhookb2/{g.uuid()}@{g.uuid()}/IncomingWebhook/§/{g.uuid()}",
        g.hex(32),
    )
    put(
        "telegram-bot-url",
        'HTTP Request: POST https://api.telegram.org/bot§/sendMessage "HTTP/1.1 200 OK"',
        f"{g.s(DIGITS, 10)}:AA{g.b64u(33)}",
    )
    put("stripe-live-key", "stripe: request failed key=§ status=402", "sk_live_" + g.b62(99))
    put("stripe-webhook-secret", "endpoint_secret = '§'", "whsec_" + g.b62(32))
    put("twilio-auth-token", f"TWILIO_ACCOUNT_SID=AC{g.hex(32)}\nTWILIO_AUTH_TOKEN=§", g.hex(32))
    put("sendgrid-key", "smtp: AUTH user=apikey pass=§", f"SG.{g.b64u(22)}.{g.b64u(43)}")
    put("mailgun-key", "curl -s --user 'api:§' https://api.mailgun.net/v3/x/messages", "key-" + g.hex(32))
    put("npm-token-npmrc", "//npm.corp.example/:_authToken=§", "npm_" + g.b62(36))
    put("pypi-token-twine", "twine upload -u __token__ -p § dist/*", "pypi-AgEIcHlwaS5vcmc" + g.b64u(150))
    put(
        "conda-token-url",
        "CondaHTTPError: HTTP 403 for url <https://conda.anaconda.org/t/§/acme/linux-64/repodata.json>",
        f"ac-{g.uuid()}",
    )
    put("docker-hub-pat", "docker login -u acme --password=§", "dckr_pat_" + g.b64u(27))
    put("docker-config-auth", '{"auths": {"nvcr.io": {"auth": "§"}}}', g.b64of("$oauthtoken:" + g.b62(84)))
    put(
        "registry-x-registry-auth",
        "POST /v1.43/images/create?fromImage=a X-Registry-Auth: §",
        g.b64of(json.dumps({"username": "ci", "password": g.pw()})),
    )
    put("artifactory-api-key", "curl -H 'X-JFrog-Art-Api: §' -T wheel.whl https://art.local/pypi/", "AKCp" + g.b62(69))
    put("artifactory-ref-token", "ARTIFACTORY_TOKEN=§", "cmVmdGtuOjAx" + g.b64u(52))
    put("datadog-api-key", "agent: DD_API_KEY=§ DD_SITE=datadoghq.eu", g.hex(32))
    put("datadog-app-key-header", "> DD-APPLICATION-KEY: §", g.hex(40))
    put("newrelic-license", "newrelic.ini: license_key = §", g.hex(36) + "NRAL")
    put("newrelic-user-key", "newrelic profile add --apiKey § --region EU", "NRAK-" + g.s(UPNUM, 27))
    put("grafana-sa-token", "grafana: Authorization=Bearer §", f"glsa_{g.b62(32)}_{g.hex(8)}")
    put(
        "grafana-cloud-token",
        "remote_write: basic_auth: password: §",
        "glc_"
        + g.b64of(json.dumps({"o": "654321", "n": "push", "k": g.b62(24), "m": {"r": "eu"}}, separators=(",", ":"))),
    )
    put("sentry-dsn-secret", "SENTRY_DSN=https://§@o451.ingest.sentry.io/4505", g.hex(32))
    put("sentry-org-token", "sentry-cli --auth-token § releases list", "sntryu_" + g.hex(64))
    put("pagerduty-key", "Authorization: Token token=§", "u+" + g.b64u(18))
    put("opsgenie-geniekey", "Authorization: GenieKey §", g.uuid())
    put(
        "pagerduty-routing-key",
        '{"routing_key": "§", "event_action": "trigger", "payload": {"severity": "critical"}}',
        "R0" + g.s(UPNUM, 30),
    )
    put("vault-root-token", "Initial Root Token: §", "hvs." + g.b62(24))
    put("vault-service-token-header", "vault: PUT /v1/auth/token/renew-self X-Vault-Token=§", "hvs.CAESI" + g.b64u(86))
    put("vault-legacy-token", "VAULT_TOKEN=§ vault kv get secret/x", "s." + g.b62(24))
    put("vault-unseal-key", "Unseal Key 1: §", g.b64(33))
    put("vault-approle", f"vault write auth/approle/login role_id={g.uuid()} secret_id=§", g.uuid())
    put("consul-acl-token", "CONSUL_HTTP_TOKEN=§", g.uuid())
    put("consul-gossip-encrypt", '{"datacenter": "dc1", "encrypt": "§", "server": true}', g.b64(32))
    put("nomad-secret-id", f"Accessor ID  = {g.uuid()}\nSecret ID    = §\nName         = Bootstrap Token", g.uuid())
    put(
        "terraform-cloud-token",
        'credentials "app.terraform.io" {\n  token = "§"\n}',
        f"{g.b62(14)}.atlasv1.{g.b64u(67)}",
    )
    put("pulumi-token", "PULUMI_ACCESS_TOKEN=§", "pul-" + g.hex(40))
    put("tailscale-authkey", "tailscale up --authkey=§ --hostname gpu7", f"tskey-auth-k{g.b62(11)}CNTRL-{g.b62(32)}")
    put("heroku-key", "HEROKU_API_KEY = §", g.uuid())
    put("databricks-token", "spark.databricks.token § spark.master local", "dapi" + g.hex(32))
    put("postman-key", "newman --postman-api-key §", f"PMAK-{g.hex(24)}-{g.hex(34)}")
    put("linear-key", "LINEAR_API_KEY:§", "lin_api_" + g.b62(40))
    put("notion-token", "notion_client token='§' status=401", "ntn_" + g.s(DIGITS, 11) + g.b62(35))
    put("airtable-pat", "airtable: Bearer §", f"pat{g.b62(14)}.{g.hex(64)}")
    put("buildkite-agent-token", 'buildkite-agent start --token "§" --tags queue=gpu', "bkua_" + g.hex(40))
    put("circleci-token", "Circle-Token: §", f"CCIPAT_{g.b62(22)}_{g.hex(40)}")
    put("sonar-token", "-Dsonar.login=§ -Dsonar.host.url=https://sonar.local", "sqp_" + g.hex(40))
    put("doppler-token", "doppler run --token='§' -- python train.py", "dp.pt." + g.b62(43))
    put("onepassword-sa", "OP_SERVICE_ACCOUNT_TOKEN=§", "ops_eyJ" + g.b64u(400))
    put("shopify-token", "X-Shopify-Access-Token: §", "shpat_" + g.hex(32))
    put("splunk-hec", "curl -k https://splunk:8088/services/collector -H 'Authorization: Splunk §'", g.uuid())
    put("loggly-url", "POST https://logs-01.loggly.com/inputs/§/tag/gpu/ 200", g.uuid())
    put(
        "jenkins-initial-password",
        "Please use the following password to proceed to installation:\n\n§\n\n"
        "This may also be found at: /var/jenkins_home/secrets/initialAdminPassword",
        g.hex(32),
    )
    put("argocd-login", "argocd login argo.local --username admin --password §", g.b62(16))
    put("pushover", f"pushover user=u{g.s(LOWNUM, 29)} token=§", "a" + g.s(LOWNUM, 29))
    put("launchdarkly-sdk", "LD_SDK_KEY=§", f"sdk-{g.uuid()}")
    put("age-secret-key", "# created: 2025-03-01T10:11:12Z\n§", "AGE-SECRET-KEY-1" + g.s(BECH32, 58))


def _models(g: _Gen, put: Put) -> None:
    hf = "hf_"
    put("hf-env", f"{g.node()}: HF_TOKEN=§", hf + g.s(string.ascii_letters, 34))
    put("hf-login-cli", "+ huggingface-cli login --token § --add-to-git-credential", hf + g.s(string.ascii_letters, 34))
    put(
        "hf-argparse-namespace",
        "Namespace(model='meta-llama/Llama-3-8B', hf_token='§', lr=0.0003, seed=42)",
        hf + g.s(string.ascii_letters, 34),
    )
    put("hf-git-url", "git lfs clone https://user:§@huggingface.co/acme/w", hf + g.s(string.ascii_letters, 34))
    put(
        "hf-vllm-args",
        "vLLM API server args: {'model': 'x', 'hf_token': '§', 'max_model_len': 8192}",
        hf + g.s(string.ascii_letters, 34),
    )
    put(
        "hf-bare-in-sentence",
        "OSError: 401 for the token § - request access to the gated repo",
        hf + g.s(string.ascii_letters, 34),
    )
    put("wandb-env", "WANDB_API_KEY=§ WANDB_PROJECT=pretrain torchrun train.py", g.hex(40))
    put("wandb-login", "wandb login --relogin §", g.hex(40))
    put("wandb-netrc", "machine api.wandb.ai\n  login user\n  password §", g.hex(40))
    put("wandb-python-call", '    wandb.login(key="§")', g.hex(40))
    put("ngc-nvapi", "NGC_API_KEY=§", "nvapi-" + g.b64u(64))
    put("ngc-docker-login", "docker login nvcr.io -u '$oauthtoken' -p '§'", g.b64of(g.s(LOWNUM, 26) + ":" + g.uuid()))
    put(
        "ngc-config-ini",
        "[CURRENT]\napikey = §\nformat_type = ascii\norg = acme",
        g.b64of(g.s(LOWNUM, 26) + ":" + g.uuid()),
    )
    put("mlflow-password-env", "MLFLOW_TRACKING_USERNAME=bob MLFLOW_TRACKING_PASSWORD=§", g.human())
    put("mlflow-tracking-uri", "mlflow: tracking uri https://bob:§@mlflow.acme.io/ unreachable", g.pw())
    put("mlflow-tracking-token", "MLFLOW_TRACKING_TOKEN: §", g.jwt())
    put("comet-key", "COMET_API_KEY=§", g.b62(25))
    put(
        "neptune-token",
        "NEPTUNE_API_TOKEN='§'",
        g.b64of(
            json.dumps(
                {"api_address": "https://app.neptune.ai", "api_url": "https://app.neptune.ai", "api_key": g.uuid()}
            )
        ),
    )
    put(
        "clearml-secret",
        'api { credentials { "access_key" = "' + g.s(UPNUM, 20) + '", "secret_key" = "§" } }',
        g.b62(50),
    )
    put("kaggle-json", '{"username":"bob","key":"§"}', g.hex(32))
    put(
        "openai-project-key",
        "openai.AuthenticationError: Error code: 401 - Incorrect API key provided: §.",
        f"sk-proj-{g.b64u(74)}T3BlbkFJ{g.b64u(74)}",
    )
    put("openai-legacy-key", "client = OpenAI(api_key='§')", f"sk-{g.b62(20)}T3BlbkFJ{g.b62(20)}")
    put("anthropic-key-header", "x-api-key: §", f"sk-ant-api03-{g.b64u(93)}AA")
    put("openrouter-key", 'OPENROUTER_API_KEY="§"', "sk-or-v1-" + g.hex(64))
    put("groq-key", "GROQ_API_KEY -> §", "gsk_" + g.b62(52))
    put("replicate-token", "REPLICATE_API_TOKEN=§", "r8_" + g.b62(37))
    put("perplexity-key", "headers={'Authorization': 'Bearer §'}", "pplx-" + g.b62(48))
    put("xai-key", "'api_key': '§'", "xai-" + g.b62(80))
    put("fireworks-key", "fireworks.client.api_key=§", "fw_" + g.b62(24))
    put("together-key", "TOGETHER_API_KEY=§", g.hex(64))
    put("cohere-key", 'co = cohere.Client("§")', g.b62(40))
    put("mistral-key", "MISTRAL_API_KEY=§", g.b62(32))
    put("pinecone-key", "pinecone.init api_key=§ env=us-east1-gcp", f"pcsk_{g.b62(6)}_{g.b62(63)}")
    put("dagshub-token", "Accessing as bob with token §", g.hex(40))
    put(
        "litellm-master-key",
        "general_settings:\n  master_key: §\n  database_url: os.environ/DATABASE_URL",
        "sk-" + g.b64u(22),
    )
    put("vllm-api-key-flag", "vllm serve acme/x --port 8000 --api-key § --tensor-parallel-size 8", g.b64u(43))
    put("triton-http-header-forward", "tritonclient: headers={'triton-grpc-protocol': 'infer-key=§'}", g.pw(24))


def _cluster(g: _Gen, put: Put) -> None:
    put("ceph-keyring", '[client.admin]\n\tkey = §\n\tcaps mds = "allow *"\n\tcaps mon = "allow *"', g.ceph())
    put("ceph-mount-secret", f"mount -t ceph {g.ip()}:6789:/ /mnt/cephfs -o name=admin,secret=§,noatime", g.ceph())
    put("ceph-auth-json", '[{"entity":"client.k8s","key":"§","caps":{"mon":"profile rbd"}}]', g.ceph())
    put("ceph-auth-print", "# ceph auth get-key client.rbd\n§", g.ceph())
    put("ceph-bootstrap-cli", "ceph-authtool --create-keyring /etc/ceph/x --name client.x --add-key §", g.ceph())
    put("ceph-kernel-mount", f"{g.syslog()} kernel: libceph: bad option at 'secret=§'", g.ceph())
    put(
        "rgw-user-json",
        '"keys": [{"user": "train", "access_key": "' + g.s(UPNUM, 20) + '", "secret_key": "§"}]',
        g.b62(40),
    )
    put("ceph-dashboard-password", "INFO:cephadm:\t    User: admin\n\tPassword: §", g.s(LOWNUM, 10))
    put("slurm-jwt-env", "SLURM_JWT=§", g.jwt("slurm", "HS256"))
    put("slurm-user-token-header", f"slurmrestd: [{g.iso()}] X-SLURM-USER-TOKEN: §", g.jwt("slurm", "HS256"))
    put(
        "slurmdbd-storagepass",
        "StorageHost=db1\nStorageUser=slurm\nStoragePass=§\nStorageLoc=slurm_acct_db",
        g.strong(),
    )
    put("slurmdbd-error-pass", f"[{g.iso()}] slurmdbd: debug: StoragePass = §", g.pw(16))
    put("slurm-export-all", "srun --export=ALL,HF_HOME=/scratch,DB_PASSWORD=§ --ntasks=8 ./run.sh", g.pw(16))
    put("munge-credential", "munge: credential MUNGE:§:", "AwQFAA" + g.s(B64, 150))
    put("munge-key-base64", 'base64 /etc/munge/munge.key -> munge_key: "§"', g.b64(128))
    put(
        "kubeadm-join",
        f"kubeadm join {g.ip()}:6443 --token § --discovery-token-ca-cert-hash sha256:{g.hex(64)}",
        f"{g.s(LOWNUM, 6)}.{g.s(LOWNUM, 16)}",
    )
    put("kubeadm-certificate-key", "[upload-certs] Using certificate key:\n§", g.hex(64))
    put("kubeadm-cert-key-flag", "  --control-plane --certificate-key §", g.hex(64))
    put("k3s-token", "K3S_URL=https://m:6443 K3S_TOKEN=§", f"K10{g.hex(64)}::server:{g.hex(32)}")
    put("rke2-config-yaml", "server: https://rke2:9345\ntoken: §\nnode-label:\n  - gpu=h100", g.b62(32))
    put(
        "docker-swarm-join",
        f"docker swarm join --token § {g.ip()}:2377",
        f"SWMTKN-1-{g.s(LOWNUM, 50)}-{g.s(LOWNUM, 25)}",
    )
    put(
        "k8s-secret-data",
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: pg\ndata:\n  password: §\n",
        g.b64of(g.human()),
    )
    put("k8s-secret-stringdata-block", "kind: Secret\nstringData:\n  password: |\n    §\ntype: Opaque", g.strong())
    put(
        "k8s-env-yaml",
        '    env:\n    - name: DB_PASSWORD\n      value: §\n    - name: WORLD_SIZE\n      value: "64"',
        g.pw(18),
    )
    put("k8s-env-json", '{"env":[{"name":"API_TOKEN","value":"§"},{"name":"RANK","value":"0"}]}', g.b62(32))
    put("kubectl-describe-env", "    Environment:\n      REDIS_PASSWORD:  §\n      RANK:            3", g.pw(20))
    put(
        "kubectl-create-literal",
        "kubectl create secret generic db --from-literal=username=bob --from-literal=password='§'",
        g.strong(),
    )
    put(
        "kubectl-dockerconfigjson",
        ".dockerconfigjson: §",
        g.b64of(
            json.dumps({"auths": {"ghcr.io": {"username": "ci", "password": g.pw(), "auth": g.b64of("ci:" + g.pw())}}})
        ),
    )
    put("kubeconfig-user-token", "users:\n- name: sa\n  user:\n    token: §", g.jwt("kubernetes/serviceaccount"))
    put("kubeconfig-client-key-data", "    client-key-data: §", g.b64of("-----BEGIN EC PRIVATE KEY-----\n" + g.pem(2)))
    put(
        "kubectl-bearer-verbose",
        f"I0611 {g.hms()}.1 {g.pid()} round_trippers.go:466] Authorization: Bearer §",
        g.jwt("kubernetes/serviceaccount"),
    )
    put("kubectl-token-flag", "kubectl --server=https://k:6443 --token=§ get pods", g.jwt("kubernetes/serviceaccount"))
    put(
        "helm-set",
        "helm upgrade pg bitnami/postgresql --set auth.postgresPassword=§,primary.persistence.size=8Gi",
        g.pw(16),
    )
    put(
        "docker-inspect-env",
        '            "Env": [\n                "PATH=/usr/bin",\n                "POSTGRES_PASSWORD=§",\n'
        '                "NVIDIA_VISIBLE_DEVICES=all"\n            ],',
        g.strong(),
    )
    put("docker-run-e", "docker run --gpus all -e SECRET_KEY=§ -e RANK=0 nvcr.io/nvidia/pytorch:24.05-py3", g.hex(48))
    put("docker-build-arg", "docker build --build-arg NPM_AUTH=§ -t x .", g.b62(36))
    put("compose-yaml", "  redis:\n    command: redis-server --requirepass §\n    ports: ['6379:6379']", g.pw(20))
    put("ray-redis-password", f"ray start --address={g.ip()}:6379 --redis-password='§' --num-gpus=8", g.pw(20))
    put("ray-log-redis-password", f"{g.day()},123\tINFO node.py:311 -- redis_password=§ node_ip={g.ip()}", g.hex(16))
    put("dask-scheduler-auth", "dask-gateway: JUPYTERHUB_API_TOKEN=§", g.hex(32))
    put("jupyter-token-url", f"    http://{g.node()}:8888/?token=§", g.hex(48))
    put("jupyter-lab-token-url", f"[I {g.day()}.222 ServerApp]     http://127.0.0.1:8888/lab?token=§", g.hex(48))
    put("jupyter-argv-token", "jupyter lab --ip=0.0.0.0 --NotebookApp.token='§' --no-browser", g.pw(12))
    put(
        "jupyter-password-hash",
        "c.ServerApp.password = '§'",
        f"argon2:$argon2id$v=19$m=10240,t=10,p=8${g.s(B64, 22)}${g.s(B64, 43)}",
    )
    put("code-server-password", "bind-addr: 0.0.0.0:8080\nauth: password\npassword: §\ncert: false", g.hex(24))
    put("mpirun-x-env", "mpirun -np 16 -x NCCL_DEBUG=INFO -x MY_API_KEY=§ python train.py", g.b62(32))
    put("ansible-become-pass", "gpu01 ansible_host=10.0.0.1 ansible_user=root ansible_become_password=§", g.human())
    put("ansible-ssh-pass-inventory", "gpu[01:64] ansible_ssh_pass='§' ansible_connection=ssh", g.strong("!#%^*"))
    put(
        "ansible-item-dict",
        "changed: [db1] => (item={'name': 'slurm', 'password': '§', 'priv': '*.*:ALL'})",
        g.strong(),
    )
    put(
        "ansible-module-args",
        'ok: [gpu7] => {"changed": false, "invocation": {"module_args": {"login_password": "§", '
        '"login_user": "root"}}}',
        g.strong("!#%^*"),
    )
    put(
        "ansible-failed-cmd",
        'fatal: [gpu3]: FAILED! => {"cmd": ["mysql", "-uroot", "-p§", "-e", "select 1"], "rc": 1}',
        g.pw(16),
    )
    put(
        "terraform-plan",
        '  + resource "aws_db_instance" "db" {\n      + engine   = "postgres"\n      + password = "§"\n    }',
        g.strong(),
    )
    put("terraform-plan-change", '  ~ master_password = "§" -> (known after apply)', g.pw(20))
    put("terraform-tfvars-env", "TF_VAR_db_password=§ terraform apply", g.pw(20))
    put("terraform-output", 'grafana_admin_password = "§"', g.strong("!#%^*"))
    put(
        "terraform-state-json",
        '"attributes": {"id": "none", "length": 20, "result": "§", "special": true}, "type": "random_password"',
        g.strong("!#%^*", 20),
    )
    put("puppet-diff", "Notice: /Stage[main]/File[/etc/my.cnf]/content: +password = §", g.pw(16))
    put(
        "salt-pillar",
        "    db:\n        ----------\n        password:\n            §\n        user:\n            bob",
        g.pw(18),
    )
    put("cloud-init-chpasswd", "chpasswd:\n  list: |\n    root:§\n  expire: false", g.human())
    put("kickstart-rootpw", "rootpw --plaintext §", g.human())
    put("kickstart-rootpw-crypted", "rootpw --iscrypted §", f"$6${g.s(CRYPT, 16)}${g.s(CRYPT, 86)}")
    put(
        "kernel-cmdline-iscsi",
        f"{g.syslog()} kernel: Command line: BOOT_IMAGE=/vmlinuz root=iscsi:bob:§@{g.ip()}::3260::iqn.x ro quiet",
        g.pw(14),
    )
    put(
        "kernel-cmdline-param",
        "[    0.000000] Command line: ro console=ttyS0 ansible.token=§ crashkernel=512M",
        g.b62(28),
    )
    put("ipmitool-P", f"ipmitool -I lanplus -H {g.ip()} -U ADMIN -P § chassis power cycle", g.human("!#"))
    put("ipmi-fence-agent", f"fence_ipmilan[{g.pid()}]: ipaddr={g.ip()} login=ADMIN passwd=§ action=reboot", g.pw(12))
    put("ipmi-password-env", "IPMI_PASSWORD=§ ipmitool -E -H bmc7 sel list", g.pw(12))
    put("ipmi-user-set", "ipmitool user set password 2 §", g.human("!#"))
    put("racadm", f"racadm -r {g.ip()} -u root -p § getsysinfo", g.human("!#"))
    put(
        "redfish-login-json",
        'POST /redfish/v1/SessionService/Sessions {"UserName": "admin", "Password": "§"}',
        g.strong(),
    )
    put(
        "redfish-x-auth-token", "HTTP/1.1 201 Created\r\nX-Auth-Token: §\r\nLocation: /redfish/v1/Sessions/4", g.hex(32)
    )
    put(
        "redfish-patch-accounts",
        "curl -k -u admin:§ -X PATCH https://bmc/redfish/v1/AccountService/Accounts/2",
        g.pw(14),
    )
    put("snmp-community-cli", f"snmpwalk -v2c -c § {g.ip()} 1.3.6.1.2.1.1", g.pw(12))
    put("snmp-rocommunity", f"rocommunity § {g.ip()}/24", g.pw(12))
    put("snmpv3-auth", f"snmpget -v3 -l authPriv -u mon -a SHA -A § -x AES {g.ip()} sysUpTime.0", g.pw(16))
    put("switch-snmp-config", "snmp-server community § RO 10", g.pw(12))
    put("switch-enable-secret", "username admin privilege 15 secret 5 §", f"$1${g.s(CRYPT, 4)}${g.s(CRYPT, 22)}")
    put("mlnx-ufm-curl", "curl -s -k -u admin:'§' https://ufm/ufmRest/resources/ports", g.strong("!#%^*"))
    put("bgp-md5-password", "neighbor 10.1.1.1 password §", g.pw(14))
    put("radius-shared-secret", "client switch1 {\n\tipaddr = 10.9.9.9\n\tsecret = §\n}", g.pw(22))
    put("tacacs-key", "tacacs-server host 10.2.2.2 key §", g.pw(18))
    put("lustre-shared-key", "lgss_sk: key hex dump shared_key=§", g.hex(64))
    put("beegfs-conn-auth", "connAuthFile contents: beegfs_auth_secret=§", g.b64(48))
    put("nfs-cifs-mount", "mount -t cifs //nas/data /mnt -o username=bob,password=§,vers=3.0", g.human("!#%"))
    put("fstab-cifs", "//nas/home /home cifs user=bob,pass=§,uid=1000 0 0", g.pw(14))
    put("iscsi-chap", "node.session.auth.username = init1\nnode.session.auth.password = §", g.pw(14))
    put("luks-echo", "echo -n '§' | cryptsetup luksOpen /dev/nvme1n1 scratch -", g.phrase())
    put("wireguard-conf", "[Interface]\nAddress = 10.8.0.7/24\nPrivateKey = §\nListenPort = 51820", g.b64(32))
    put("wireguard-psk", "wg set wg0 peer " + g.b64(32) + "\nPresharedKey = §", g.b64(32))
    put("ldap-bindpw", "ldap_default_bind_dn = cn=ro,dc=hpc\nldap_default_authtok = §", g.strong("!#%^*"))
    put("ldapsearch-w", "ldapsearch -x -D cn=admin,dc=hpc,dc=org -w § -b dc=hpc,dc=org uid=bob", g.human("!#"))
    put("ldap-nslcd-bindpw", "bindpw §", g.pw(16))
    put("ldap-userpassword-ssha", "dn: uid=bob,ou=people,dc=hpc\nuserPassword: {SSHA}§", g.b64(24))
    put("ldap-userpassword-b64", "uid: alice\nuserPassword:: §", g.b64of("{SSHA}" + g.b64(24)))
    put("kerberos-kinit-pipe", "echo '§' | kinit bob@HPC.EXAMPLE.ORG", g.strong("!#%^*"))
    put("kerberos-kadmin", "kadmin.local: addprinc -pw § nfs/gpu01@HPC.EXAMPLE.ORG", g.pw(16))
    put("kerberos-negotiate", "> Authorization: Negotiate §", "YII" + g.s(B64, 400) + "==")
    put("kerberos-keytab-key", "   2 aes256-cts-hmac-sha1-96  nfs/gpu01@HPC.ORG (0x§)", g.hex(64))
    put("realm-join", "adcli join hpc.local -U joiner --stdin-password <<< '§'", g.human("!#"))
    put("gurobi-wls", f"WLSACCESSID={g.uuid()}\nWLSSECRET=§\nLICENSEID={g.s(DIGITS, 6)}", g.uuid())
    put("flexlm-increment", "INCREMENT MATLAB MLM 41 01-jan-2026 8 § SN=40000 VENDOR_STRING=x", g.s(UPHEX, 20))
    put("license-key-dashes", "Applying license key: §", "-".join(g.s(UPNUM, 5) for _ in range(5)))
    put("nvidia-grid-license", "nls: license_token=§ feature=NVIDIA-vComputeServer", g.jwt("nls"))
    put("vmware-licence-json", '{"licenseKey": "§", "product": "vsphere"}', "-".join(g.s(UPNUM, 5) for _ in range(5)))
    put("spack-mirror-url", "spack mirror add --s3-access-key-id x --s3-access-key-secret § m s3://spack", g.s(B64, 40))
    put(
        "globus-refresh-token",
        '"transfer.api.globus.org": {"refresh_token": "§", "expires_at_seconds": 1750000000}',
        "Ag" + g.b62(89),
    )
    put("airflow-fernet", "AIRFLOW__CORE__FERNET_KEY=§", g.s(B64U, 43) + "=")
    put("airflow-conn-uri", "AIRFLOW_CONN_PG='postgres://air:§@pg:5432/air'", g.pw(16))
    put("prefect-key", "prefect cloud login -k §", "pnu_" + g.b62(36))
    put("jupyterhub-crypt-key", "JUPYTERHUB_CRYPT_KEY=§", g.hex(64))
    put("jupyterhub-proxy-token", 'CONFIGPROXY_AUTH_TOKEN: "§"', g.hex(64))
    put("rclone-conf", "[s3]\ntype = s3\nprovider = Minio\nsecret_access_key = §\n", g.b62(40))
    put("mc-alias-set", f"mc alias set minio http://{g.ip()}:9000 minioadm §", g.b62(40))
    put("minio-banner", "MinIO Object Storage Server\nRootUser: minioadm\nRootPass: §", g.b62(24))
    put("minio-root-password-env", "MINIO_ROOT_PASSWORD=§", g.strong("!#%^*"))
    put("s3cmd-flag", f"s3cmd --access_key={g.s(UPNUM, 20)} --secret_key=§ ls", g.b62(40))
    put("restic-password", "RESTIC_PASSWORD=§ restic -r s3:http://m/bk snapshots", g.phrase())
    put("borg-passphrase", "BORG_PASSPHRASE='§'", g.phrase(" "))


def _databases(g: _Gen, put: Put) -> None:
    put("postgres-url", "sqlalchemy.url = postgresql+psycopg2://mlflow:§@pg.local:5432/mlflow", g.pw(16))
    put("postgres-url-escaped", "DATABASE_URL=postgres://u:§@db/x?sslmode=require", g.pw(8) + "%40" + g.pw(5) + "%2F")
    put("postgres-url-at-sign", "postgresql://svc:§@db.internal/ray", g.pw(7) + "@" + g.pw(6))
    put("postgres-libpq-dsn", "connecting: host=pg port=5432 dbname=exp user=bob password=§ sslmode=disable", g.pw(16))
    put("postgres-libpq-quoted", "dsn=\"host=pg user=bob password='§' connect_timeout=5\"", g.word() + " " + g.pw(8))
    put("postgres-pgpassword", "PGPASSWORD=§ psql -h pg -U bob -c 'select 1'", g.strong("!%^*"))
    put("postgres-pgpass-line", "pg.local:5432:mlflow:mlflow:§", g.pw(18))
    put("postgres-alter-role", "STATEMENT:  ALTER ROLE mlflow WITH LOGIN PASSWORD '§';", g.strong("!#%^*"))
    put("postgres-create-user", "LOG:  statement: CREATE USER slurm WITH ENCRYPTED PASSWORD '§' NOSUPERUSER", g.human())
    put("postgres-scram", "rolpassword | §", f"SCRAM-SHA-256$4096:{g.b64(16)}${g.b64(32)}:{g.b64(32)}")
    put("postgres-md5-hash", '"mlflow" "md5§"', g.hex(32))
    put("jdbc-postgres-query", "jdbc:postgresql://pg:5432/x?user=bob&password=§&ssl=true", g.pw(14))
    put(
        "jdbc-mysql-semicolon",
        "jdbc:sqlserver://sql:1433;databaseName=x;user=sa;password=§;encrypt=true",
        g.strong("!#%^*"),
    )
    put("jdbc-oracle-thin", "jdbc:oracle:thin:scott/§@//ora:1521/ORCL", g.pw(12))
    put(
        "odbc-braces",
        "Driver={ODBC Driver 18 for SQL Server};Server=sql;UID=sa;PWD={§};Encrypt=yes",
        g.pw(6) + ";" + g.pw(6) + "=",
    )
    put(
        "mssql-adonet", "Server=tcp:s.database.windows.net,1433;User ID=adm;Password=§;Encrypt=True;", g.strong("!#%^*")
    )
    put("sqlcmd-P", "sqlcmd -S sql -U sa -P '§' -Q 'select 1'", g.strong("!#%^*"))
    put("mysql-short-p", f"root {g.pid()} mysql -h db1 -u slurm -p§ slurm_acct_db", g.pw(14))
    put(
        "mysql-long-password",
        "mysqldump --user=root --password=§ --single-transaction slurm_acct_db",
        g.strong("%^*+."),
    )
    put(
        "mysql-temp-root-password",
        f"{g.iso()} 6 [Note] [MY-010454] [Server] A temporary password is generated for root@localhost: §",
        g.strong("!#%^*+=<>&;:,."),
    )
    put("mysql-identified-by", "Query\tCREATE USER 'slurm'@'%' IDENTIFIED BY '§'", g.strong("!#%^*"))
    put("mysql-hash", "IDENTIFIED BY PASSWORD '*§'", g.s(UPHEX, 40))
    put("mysql-cnf", '[client]\nuser=root\npassword="§"\nhost=db1', g.strong("!#%^*"))
    put("mysql-set-password", "SET PASSWORD FOR 'root'@'localhost' = PASSWORD('§');", g.human())
    put("mysql-pwd-env", "MYSQL_PWD=§", g.pw(16))
    put("pymysql-connect-repr", "pymysql.connect(host='db1', user='slurm', passwd='§', db='acct')", g.strong("!#%^*"))
    put("mongodb-srv", "MongoClient mongodb+srv://app:§@cluster0.ab1cd.mongodb.net/?retryWrites=true", g.pw(16))
    put("mongo-cli", "mongosh --host m1 -u admin -p § --authenticationDatabase admin", g.pw(16))
    put("mongo-pwd-json", 'db.createUser({user: "ray", pwd: "§", roles: ["readWrite"]})', g.strong("!#%^*"))
    put("redis-url", "celery: Connected to redis://:§@redis.local:6379/0", g.pw(24))
    put("redis-cli-a", f"redis-cli -h {g.ip()} -a § ping", g.pw(24))
    put("redis-auth-monitor", f'1750000000.123456 [0 {g.ip()}:53122] "AUTH" "§"', g.pw(24))
    put("redis-acl-setuser", "ACL SETUSER ray on >§ ~* +@all", g.pw(20))
    put("rediss-user-url", "rediss://default:§@r.upstash.io:6379", "A" + g.b62(50))
    put("amqp-url", "pika: amqp://guest2:§@rabbit:5672/%2F?heartbeat=30", g.pw(16))
    put("rabbitmq-conf", "default_user = gpu\ndefault_pass = §", g.pw(16))
    put("rabbitmqctl-change", "rabbitmqctl change_password gpu '§'", g.strong("!#%^*"))
    put("erlang-cookie", "RABBITMQ_ERLANG_COOKIE=§", g.s(UPPER, 20))
    put(
        "kafka-jaas",
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="§";',
        g.b64u(32),
    )
    put("kafka-librdkafka", "{'bootstrap.servers': 'k:9093', 'sasl.username': 'u', 'sasl.password': '§'}", g.s(B64, 64))
    put("kafka-keystore", "ssl.keystore.password = §", g.pw(14))
    put("kafka-truststore-java", "-Djavax.net.ssl.trustStorePassword=§ -Xmx4g", g.pw(12))
    put("nats-url", "nats: connecting to nats://worker:§@nats:4222", g.pw(22))
    put("nats-nkey-seed", "nats seed loaded: §", "SU" + g.s(B32, 56))
    put("mqtt-mosquitto", "mosquitto_pub -h mq -u sensor -P § -t gpu/temp -m 71", g.pw(14))
    put(
        "elastic-reset-password",
        "Password for the [elastic] user successfully reset.\nNew value: §",
        g.s(B62 + "*=+-_", 18) + "Zq",
    )
    put("elastic-apikey-header", "Authorization: ApiKey §", g.b64of(g.b64u(20) + ":" + g.b64u(22)))
    put("elastic-url", "GET http://elastic:§@es:9200/_cluster/health [status:200 duration:0.01s]", g.pw(20))
    put(
        "elastic-enrollment-token",
        "Kibana enrollment token (valid for the next 30 minutes):\n  §",
        g.b64of(json.dumps({"ver": "8.11.0", "adr": ["10.0.0.1:9200"], "fgr": g.hex(64), "key": g.b64u(43)})),
    )
    put("influx-token", "influx write --bucket gpu --token § --org hpc", g.s(B64U, 86) + "==")
    put("influx-token-header", "> Authorization: Token §", g.s(B64U, 86) + "==")
    put("influx-v1-query", "GET /query?db=telegraf&u=tele&p=§&q=show+databases 200", g.pw(14))
    put("clickhouse-client", "clickhouse-client --host ch --user default --password § --query 'select 1'", g.pw(14))
    put("clickhouse-http", "http://ch:8123/?user=default&password=§&query=select+1", g.pw(14))
    put(
        "clickhouse-xml",
        "<users><default><password>§</password><profile>default</profile></default></users>",
        g.strong("!#%^*"),
    )
    put("cassandra-auth-provider", "PlainTextAuthProvider(username='cassandra', password='§')", g.strong("!#%^*"))
    put("neo4j-auth", "NEO4J_AUTH=neo4j/§", g.pw(14))
    put("snowflake-url", "snowflake://BOB:§@acme-xy123/DB/PUBLIC?warehouse=WH", g.pw(16))
    put("snowflake-yml", 'snowflake:\n  account: xy123\n  user: BOB\n  password: "§"\n  role: ML', g.strong("!#%^*"))
    put("dbt-profile-pass", "      pass: §", g.pw(16))
    put(
        "django-databases-dict",
        "{'ENGINE': 'django.db.backends.postgresql', 'USER': 'bob', 'PASSWORD': '§', 'PORT': 5432}",
        g.strong("!#%^*"),
    )
    put("oracle-sqlplus", "sqlplus -S system/§@ORCL @check.sql", g.pw(12))
    put("etcdctl-user", "etcdctl --endpoints=https://e:2379 --user root:§ member list", g.pw(14))
    put("couchdb-url", "http://admin:§@couch:5984/_all_dbs", g.pw(14))
    put("hive-beeline", "beeline -u jdbc:hive2://h:10000 -n hive -p §", g.pw(12))
    put("supabase-service-key", "SUPABASE_SERVICE_ROLE_KEY=§", g.jwt("supabase", "HS256"))
    put("smtp-url", "alert: sending through smtps://bot%40acme.io:§@smtp.acme.io:465", g.pw(16))
    put("smtp-auth-plain", "smtplib: send: 'AUTH PLAIN §\\r\\n'", g.b64of("\0bot\0" + g.pw(16)))
    put("ftp-url", "wget ftp://data:§@ftp.local/imagenet.tar", g.pw(10))
    put("proxy-url", "http_proxy=http://bob:§@proxy.local:3128 https_proxy=", g.pw(12))
    put("alertmanager-smtp", "global:\n  smtp_auth_username: 'bot'\n  smtp_auth_password: '§'", g.pw(16))


def _keys(g: _Gen, put: Put) -> None:
    for label, kind in (
        ("RSA ", "pem-rsa"),
        ("EC ", "pem-ec"),
        ("OPENSSH ", "pem-openssh"),
        ("ENCRYPTED ", "pem-encrypted"),
        ("", "pem-pkcs8"),
    ):
        put(kind, f"-----BEGIN {label}PRIVATE KEY-----\n§\n-----END {label}PRIVATE KEY-----", g.pem(g.n(3, 12)))
    put(
        "pem-yaml-block",
        "tls.key: |\n    -----BEGIN PRIVATE KEY-----\n    §\n    -----END PRIVATE KEY-----",
        g.pem(5, "\n", "    "),
    )
    put(
        "pem-one-line-env",
        'SSH_KEY="-----BEGIN OPENSSH PRIVATE KEY-----\\n§\\n-----END OPENSSH PRIVATE KEY-----\\n"',
        g.pem(5, "\\n"),
    )
    put(
        "pem-json-crlf",
        '{"key":"-----BEGIN RSA PRIVATE KEY-----\\r\\n§\\r\\n-----END RSA PRIVATE KEY-----"}',
        g.pem(6, "\\r\\n"),
    )
    put("pem-log-prefixed-base64", "TLS_KEY_B64=§", g.b64of("-----BEGIN PRIVATE KEY-----\n" + g.pem(4)))
    put(
        "pgp-private",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n§\n-----END PGP PRIVATE KEY BLOCK-----",
        g.pem(8) + "\n=" + g.s(B64, 4),
    )
    put(
        "putty-ppk",
        f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n§\nPrivate-MAC: {g.hex(64)}",
        g.s(B64, 47) + "=",
    )
    put(
        "jwk-private-d",
        '{"kty":"EC","crv":"P-256","x":"' + g.b64u(43) + '","y":"' + g.b64u(43) + '","d":"§"}',
        g.b64u(43),
    )
    put("jwk-oct-k", '{"kty":"oct","alg":"HS256","k":"§"}', g.b64u(43))
    put("shadow-sha512", "bob:§:19800:0:99999:7:::", f"$6${g.s(CRYPT, 16)}${g.s(CRYPT, 86)}")
    put("shadow-yescrypt", "root:§:19800:0:99999:7:::", f"$y$j9T${g.s(CRYPT, 22)}${g.s(CRYPT, 43)}")
    put(
        "usermod-p",
        f"{g.syslog()} sudo: root : COMMAND=/usr/sbin/usermod -p § bob",
        f"$6$rounds=5000${g.s(CRYPT, 16)}${g.s(CRYPT, 86)}",
    )
    put("htpasswd-apr1", "admin:§", f"$apr1${g.s(CRYPT, 8)}${g.s(CRYPT, 22)}")
    put("bcrypt-column", "INSERT INTO users (name, pw) VALUES ('bob', '§')", f"$2b$12${g.s(CRYPT, 53)}")
    put("django-pbkdf2", "user.password = §", f"pbkdf2_sha256$600000${g.b62(22)}${g.b64(32)}")
    put("argon2-json", '"password_hash": "§"', f"$argon2id$v=19$m=65536,t=3,p=4${g.s(B64, 22)}${g.s(B64, 43)}")
    put("ntlm-hash", "smbclient --pw-nt-hash -U bob%§ //nas/x", g.hex(32))
    put("grub-pbkdf2", "password_pbkdf2 root §", f"grub.pbkdf2.sha512.10000.{g.s(UPHEX, 128)}.{g.s(UPHEX, 128)}")
    put("totp-uri", "otpauth://totp/HPC:bob?secret=§&issuer=HPC&digits=6", g.s(B32, 32))
    put("recovery-code", "vault: Recovery Key 2: §", g.b64(33))
    put("ssh-passphrase", "ssh-keygen -t ed25519 -N '§' -f /home/ada/.ssh/id", g.phrase(" "))
    put("openssl-passin", "openssl rsa -in key.pem -passin pass:§ -out out.pem", g.strong("!%^*"))
    put("keytool-storepass", "keytool -importcert -keystore ks.jks -storepass § -noprompt", g.pw(12))
    put("gpg-passphrase", "gpg --batch --passphrase § -d weights.gpg", g.pw(20))
    put(
        "encryption-config",
        "      - secretbox:\n          keys:\n            - name: key1\n              secret: §",
        g.b64(32),
    )
    put("laravel-app-key", "APP_KEY=base64:§", g.b64(32))
    put("rails-secret-key-base", "SECRET_KEY_BASE=§", g.hex(128))
    put("django-secret-key", "SECRET_KEY = 'django-insecure-§'", g.s(LOWNUM + "!@#%^*(-_=+)", 49) + "k")
    put("flask-config-repr", "<Config {'DEBUG': True, 'SECRET_KEY': '§', 'SESSION_COOKIE_NAME': 'session'}>", g.hex(48))
    put("flask-secret-bytes", "app.secret_key = b'§'", "\\x8f" + g.pw(10) + "\\xe2" + g.pw(6))


def _places(g: _Gen, put: Put) -> None:
    esc = "\x1b"
    put(
        "ansi-key-value",
        f"{esc}[32mINFO{esc}[0m connect {esc}[36mpassword{esc}[0m={esc}[33m§{esc}[0m host=db",
        g.pw(14),
    )
    put("ansi-inside-yaml", f'{esc}[1;34mapi_key{esc}[0m: {esc}[0;32m"§"{esc}[0m', g.b62(32))
    put(
        "structlog-console",
        f"{esc}[2m{g.day()}{esc}[0m [{esc}[32minfo{esc}[0m] login {esc}[36mtoken{esc}[0m={esc}[35m§{esc}[0m",
        g.b64u(40),
    )
    put(
        "escaped-json",
        'level=info msg="request" body="{\\"user\\":\\"bob\\",\\"password\\":\\"§\\"}"',
        g.strong("!#%^*"),
    )
    put(
        "escaped-json-twice",
        '{"log":"{\\"msg\\":\\"{\\\\\\"api_key\\\\\\":\\\\\\"§\\\\\\"}\\"}\\n","stream":"stdout"}',
        g.b62(32),
    )
    put("docker-json-log", f'{{"log":"export DB_PASSWORD=§\\n","stream":"stderr","time":"{g.iso()}"}}', g.pw(16))
    put("url-encoded-json", "GET /cfg?data=%7B%22user%22%3A%22bob%22%2C%22password%22%3A%22§%22%7D HTTP/1.1", g.pw(14))
    put(
        "form-body",
        "request body: grant_type=password&username=bob&password=§&scope=openid",
        g.pw(10) + "%21" + g.pw(4),
    )
    put("json-spaces", '{ "Password" : "§" , "Host" : "db1" }', g.strong("!#%^*"))
    put("json-camel", '{"accessToken":"§","userId":17}', g.b64u(64))
    put("json-nested-auth", '{"auth": {"type": "basic", "user": "bob", "pass": "§"}}', g.human())
    put("json-pretty-multi", '{\n  "host": "db1",\n  "db_passwd": "§",\n  "port": 3306\n}', g.strong("!#%^*"))
    put("json-list-of-pairs", '[["Host", "db"], ["Authorization", "Bearer §"]]', g.b64u(48))
    put("yaml-inline-map", "db: {host: pg, user: bob, password: §}", g.pw(16))
    put("yaml-folded", "credentials:\n  secret_key: >-\n    §\n  region: eu", g.s(B64, 40))
    put("yaml-single-quoted", "admin_password: '§'  # rotate me", g.strong("!#%^*"))
    put("yaml-dash-key", "- secret-access-key: §", g.s(B64, 40))
    put("toml", '[s3]\naccess_key = "x"\nsecret_key = "§"\n', g.b62(40))
    put("toml-streamlit", "[connections.pg]\npassword='''§'''", g.strong("!#%^*"))
    put("ini-spaces", "[smtp]\npassword        =        §", g.pw(14))
    put("ini-colon", "[auth]\nadmin_secret : §", g.pw(22))
    put("java-properties", "spring.datasource.password=§", g.strong("!%^*"))
    put("java-system-prop", "java -Ddb.password=§ -jar x.jar", g.pw(16))
    put("java-map-tostring", "Config{host=db, user=bob, password=§, port=5432}", g.pw(16))
    put("xml-element", "<config><user>bob</user><ApiKey>§</ApiKey></config>", g.b62(32))
    put("xml-attribute", '<datasource user="sa" password="§" url="jdbc:x"/>', g.strong("!#%^*"))
    put("xml-add-key", '<add key="ClientSecret" value="§" />', g.b64u(40))
    put(
        "xml-maven-server",
        "<server>\n  <id>nexus</id>\n  <username>ci</username>\n  <password>§</password>\n</server>",
        g.pw(16),
    )
    put(
        "xml-soap-wsse",
        '<wsse:Password Type="http://docs.oasis-open.org/x#PasswordText">§</wsse:Password>',
        g.strong("!#%^*"),
    )
    put("xml-cdata", "<secret><![CDATA[§]]></secret>", g.strong("!#%^*"))
    put("xml-escaped", "body=&lt;password&gt;§&lt;/password&gt;", g.pw(14))
    put("python-tuple-auth", "requests.get(url, auth=('bob', '§'), timeout=5)", g.strong("!#%^*"))
    put("python-header-tuple", "metadata=(('authorization', 'Bearer §'), ('x-rank', '3'))", g.b64u(43))
    put("python-bytes-headers", "headers: [(b'host', b'x'), (b'authorization', b'Bearer §')]", g.b64u(43))
    put("python-environ-repr", "environ({'HOME': '/root', 'DB_PASSWORD': '§', 'RANK': '0'})", g.strong("!#%^*"))
    put("python-dataclass-repr", "Settings(host='db', api_key='§', retries=3)", g.b62(40))
    put("python-repr-double-quotes", "Cfg(password=\"§\", user='bob')", g.pw(5) + "'" + g.pw(6))
    put(
        "python-traceback-line",
        'Traceback (most recent call last):\n  File "/app/t.py", line 9, in <module>\n'
        '    c = Client(token="§")\nValueError: bad',
        g.b62(40),
    )
    put("python-traceback-locals", "│ │   password = '§'                       │", g.strong("!#%^*"))
    put("python-keyerror-dict", "TypeError: connect() got unexpected kwargs {'user': 'x', 'passwd': '§'}", g.human())
    put(
        "pydantic-input-value",
        "validation error for Settings\nsecret_key\n  Input should be a valid integer "
        "[type=int_parsing, input_value='§', input_type=str]",
        g.b62(32),
    )
    put(
        "requests-max-retries",
        "HTTPSConnectionPool(host='api.x.io', port=443): Max retries exceeded with url: "
        "/v1/q?api_key=§&n=1 (Caused by NewConnectionError)",
        g.b62(32),
    )
    put("hydra-yaml-print", "logger:\n  _target_: WandbLogger\n  api_key: §\n  offline: false", g.hex(40))
    put("hydra-override", "python train.py +logger.api_key=§ model=gpt trainer.devices=8", g.b62(40))
    put("go-struct", "config: &{Host:db User:bob Password:§ Port:5432 TLS:<nil>}", g.pw(16))
    put("go-struct-sharp", 'main.Cfg{User:"bob", Secret:"§", N:3}', g.strong("!#%^*"))
    put("rust-debug", 'Config { user: "bob", password: Some("§"), port: 5432 }', g.strong("!#%^*"))
    put("ruby-hash", '{:user=>"bob", :password=>"§"}', g.strong("!#%^*"))
    put("rails-params", 'Parameters: {"user"=>{"email"=>"a@b.c", "password"=>"§"}, "commit"=>"Log in"}', g.human())
    put("php-array", "Array\n(\n    [user] => bob\n    [password] => §\n)", g.pw(14))
    put("perl-dumper", "$VAR1 = { 'passwd' => '§', 'n' => 1 };", g.strong("!#%^*"))
    put("lua-table", "conf = { secret = [[§]], port = 80 }", g.strong("!#%^*"))
    put("logfmt-quoted", f'time={g.iso()} level=debug msg=login user=bob secret="§" took=3ms', g.strong("!#%^*"))
    put("logfmt-token-bare", f"ts={g.iso()} caller=main.go:71 access_token=§ status=200", g.b62(40))
    put("sentence-password-is", "Your new password is §, please change it", g.pw(12))
    put("sentence-generated", "Generated admin password: §", g.b62(20))
    put("sentence-password-for-user", "Created user 'gpuadmin' with password '§'", g.strong("!#%^*"))
    put("sentence-using-token", "INFO registering worker using token §", g.b62(40))
    put("sentence-login-failed", "login failed for bob with password: §", g.human())
    put("bracketed", "auth [password=§] ok", g.pw(14))
    put("parenthesised", "connect(user=bob, password=§)", g.pw(14))
    put("angle", "credentials <bob:§@db>", g.pw(14))
    put("backtick", "the api key `§` was rejected", g.b62(36))
    put("arrow", "db_password => §", g.pw(16))
    put("tab-separated", "DB_PASSWORD\t§\tprod", g.pw(16))
    put("pipe-table", "| admin_password | § |", g.pw(16))
    put("uppercase-colon", "ROOT PASSWORD: §", g.human())
    put("csv-row", "user,password,role\nbob,§,admin", g.pw(16))
    put("proc-environ-nul", "PATH=/usr/bin\0SECRET_TOKEN=§\0HOME=/root\0", g.b62(40))
    put("declare-x", 'declare -x REGISTRY_PASSWORD="§"', g.strong("%^*"))
    put("set-x-export", "++ export 'DB_PASS=§'", g.strong("!#%^*"))
    put("dollar-quote", "export API_SECRET=$'§'", g.b62(32))
    put("fish-set", "set -gx OPENAI_KEY §", f"sk-proj-{g.b64u(156)}")
    put("csh-setenv", "setenv MY_SECRET_TOKEN §", g.b62(40))
    put("dockerfile-env", "Step 4/9 : ENV DB_PASSWORD=§", g.pw(16))
    put("dockerfile-arg-history", "<missing> 2 days ago |1 PIP_TOKEN=§ /bin/sh -c pip install x  12MB", g.b62(40))
    put("systemd-environment", f'{g.syslog()} systemd[1]: Environment="NODE_ENV=prod" "DB_PASSWORD=§"', g.pw(16))
    put(
        "systemd-show", "ExecStart={ path=/usr/bin/exporter ; argv[]=/usr/bin/exporter --password=§ ; pid=0 }", g.pw(16)
    )
    put(
        "ps-aux",
        f"root {g.pid()}  0.0  0.1 12000 900 ? Ssl 10:00 0:00 /usr/bin/svc --user bob --password § --port 80",
        g.pw(16),
    )
    put(
        "auditd-execve",
        f'type=EXECVE msg=audit(1750000000.123:{g.n(1, 999)}): argc=4 a0="mysql" a1="-uroot" a2="--password=§" a3="x"',
        g.pw(16),
    )
    put(
        "sudo-command",
        f"{g.syslog()} sudo: bob : TTY=pts/0 ; PWD=/home/bob ; USER=root ; COMMAND=/usr/bin/x --secret-key §",
        g.b62(40),
    )
    put("strace-execve", 'execve("/usr/bin/curl", ["curl", "-u", "bob:§", "http://x"], 0x7ffd) = 0', g.pw(14))
    put("strace-write", 'write(3, "PASS §\\r\\n", 20) = 20', g.pw(13))
    put("python-argv-list", "Popen(['sshpass', '-p', '§', 'ssh', 'gpu1'])", g.strong("!#%^*"))
    put("json-argv-list", '{"args": ["--user", "bob", "--password", "§"]}', g.strong("!#%^*"))
    put("windows-set", "C:\\> set DB_PASSWORD=§", g.pw(16))
    put("powershell-env", '$env:API_KEY = "§"', g.b62(40))
    put("powershell-securestring", 'ConvertTo-SecureString "§" -AsPlainText -Force', g.strong("!#%^*"))
    put("windows-net-use", "net use Z: \\\\nas\\data /user:HPC\\bob §", g.human("!"))
    put("slash-option", "xfreerdp /v:node1 /u:bob /p:§ /cert:ignore", g.pw(14))
    put("colon-key-no-space", "password:§ user:bob", g.pw(14))
    put("equals-spaces", "secret_access_key   =   §", g.s(B64, 40))
    put("walrus-assign", 'token := "§"', g.b62(40))
    put("typescript-const", "const apiKey: string = '§';", g.b62(40))
    put("js-object", "{ user: 'bob', clientSecret: '§' }", g.b64u(40))
    put("js-bearer-template", "headers: { Authorization: `Bearer §` }", g.b64u(48))
    put("smart-quotes", "password = “§”", g.pw(14))
    put("html-input", '<input type="hidden" name="csrf_token" value="§">', g.b64u(64))
    put("html-password-input", '<input type="password" name="password" value="§"/>', g.pw(12))
    put("multi-prefixed-torchrun", "[rank3]: [default3]: os.environ['SECRET_KEY'] = '§'", g.b62(40))
    put("klog-flag-dump", f'I0611 {g.hms()}.000001 {g.pid()} flags.go:64] FLAG: --oidc-client-secret="§"', g.b62(32))
    put(
        "nginx-access-query",
        f'{g.ip()} - - [11/Jun/2025:10:00:00 +0000] "GET /api?access_token=§ HTTP/1.1" 200 12',
        g.b62(40),
    )
    put("referer-token", '"GET /a HTTP/1.1" 200 5 "https://hub.local/x?token=§" "Mozilla/5.0"', g.hex(32))
    put("journal-json", '{"MESSAGE":"bob_password=§","PRIORITY":"6"}', g.pw(16))
    put("env-suffix-key", "MY_SERVICE_SIGNING_KEY=§", g.b62(48))
    put("env-passphrase", "KEY_PASSPHRASE=§", g.phrase("_"))
    put("env-credentials-pair", "ES_CREDENTIALS=elastic:§", g.pw(18))
    put("env-auth-pair", "GRAFANA_BASIC_AUTH=admin:§", g.pw(18))
    put("kv-semicolon", "host=db;uid=bob;pwd=§;timeout=3", g.pw(14))
    put("percent-in-value", "password=§ host=x", g.pw(6) + "%" + g.pw(6))
    put("backslash-quote-in-value", 'password="§"', g.pw(6) + '\\"' + g.pw(6))
    put("comma-in-quoted", "{'password': '§', 'user': 'b'}", g.pw(6) + "," + g.pw(6))
    put("hash-in-quoted", 'password: "§"', g.pw(6) + " # " + g.pw(6))
    put("slash-in-value", "password=§ retries=2", g.pw(6) + "/" + g.pw(4) + "/" + g.pw(4))
    put("equals-in-value", "secret=§ next=1", g.pw(6) + "=" + g.pw(4) + "==")
    put("dollar-in-value", "password: '§'", g.pw(6) + "$" + g.pw(6))
    put("short-password", "user=root password=§ rc=0", g.s(LOWER, 4) + g.s(DIGITS, 2))
    put("digits-password", "BMC password: §", g.s(DIGITS, 10))
    put("dictionary-password", "mysql password=§ db=acct", g.word().lower() + g.word().lower())
    put("unicode-password", "passwort=§ benutzer=bob", "Schl" + "ü" + g.pw(8) + "ß")


def _web(g: _Gen, put: Put) -> None:
    put("jwt-bearer", "Authorization: Bearer §", g.jwt())
    put("jwt-bare-hs256", "decoded session for §", g.jwt(alg="HS256"))
    put("jwt-in-query", "ws://hub/api/kernels/1/channels?session_id=7&jwt=§", g.jwt(alg="HS256"))
    put("jwt-lowercase-http2", "[h2] send: authorization: bearer §", g.jwt())
    put("oidc-token-response", '{"token_type":"Bearer","expires_in":3599,"access_token":"§"}', g.jwt())
    put("oidc-id-token", "id_token=§&state=abc", g.jwt())
    put("oidc-refresh-token-body", "grant_type=refresh_token&refresh_token=§&client_id=jhub", g.b64u(120))
    put("oidc-client-secret-body", "grant_type=client_credentials&client_id=slurm-rest&client_secret=§", g.b64u(40))
    put("oauth-code-callback", f"302 GET /hub/oauth_callback?code=§&state={g.hex(8)} (@{g.ip()}) 31ms", g.b64u(43))
    put("oauth-code-verifier", "code_verifier=§&grant_type=authorization_code", g.b64u(64))
    put("keycloak-secret", "KEYCLOAK_CLIENT_SECRET=§", g.b62(32))
    put("saml-response", "POST /saml/acs SAMLResponse=§", g.s(B62, 300) + "%3D")
    put("basic-auth-header", "Authorization: Basic §", g.b64of("admin:" + g.pw(14)))
    put(
        "basic-auth-curl-verbose",
        "> GET /v2/ HTTP/1.1\n> Host: reg\n> authorization: Basic §\n> Accept: */*",
        g.b64of("ci:" + g.pw(14)),
    )
    put("proxy-authorization", "Proxy-Authorization: Basic §", g.b64of("bob:" + g.pw(12)))
    put(
        "digest-auth-response",
        'Authorization: Digest username="bmc", realm="x", nonce="' + g.hex(32) + '", uri="/", response="§"',
        g.hex(32),
    )
    put("curl-u-single", "curl -u 'bob:§' https://x/api", g.strong("!#%^*"))
    put("curl-user-long", "curl --user bob:§ -o /dev/null https://x", g.pw(14))
    put("curl-data-json", 'curl -X POST -d \'{"username":"bob","password":"§"}\' http://x/login', g.strong("!#%^*"))
    put("curl-header-token", 'curl -H "Authorization: token §" https://gitea.local/api/v1/user', g.hex(40))
    put("curl-x-api-key", "curl -H 'X-API-Key: §' https://x", g.b62(32))
    put("wget-password", "wget --user=bob --password='§' https://x/f", g.strong("!#%^*"))
    put("httpie-auth", "http -a bob:§ GET https://x", g.pw(14))
    put("set-cookie-session", "< Set-Cookie: sessionid=§; HttpOnly; Path=/; SameSite=Lax", g.s(LOWNUM, 32))
    put("cookie-jsessionid", "Cookie: lang=en; JSESSIONID=§", g.s(UPHEX, 32))
    put("cookie-connect-sid", "cookie: connect.sid=§; theme=dark", "s%3A" + g.b64u(32) + "." + g.b62(43))
    put("cookie-jupyterhub", "Cookie: jupyterhub-session-id=§", g.hex(32))
    put(
        "cookie-tornado-signed",
        'set-cookie: username-hub="§"; HttpOnly; Path=/',
        f"2|1:0|10:1750000000|12:username-hub|44:{g.b64(32)}|{g.hex(64)}",
    )
    put("cookie-flask", "Set-Cookie: session=§; HttpOnly; Path=/", f"eyJ{g.b64u(60)}.{g.b64u(6)}.{g.b64u(27)}")
    put("cookie-grafana", "Cookie: grafana_session=§", g.hex(32))
    put(
        "cookie-oauth2-proxy",
        "set-cookie: _oauth2_proxy=§; Path=/; Secure",
        g.b64u(90) + "|1750000000|" + g.b64u(43) + "=",
    )
    put("csrf-header", "X-CSRFToken: §", g.b62(64))
    put("x-vault-curl", 'curl -H "X-Vault-Token: §" http://vault:8200/v1/secret/data/x', "hvs." + g.b64u(91))
    put("x-gitlab-token-header", "X-Gitlab-Token: §", g.b62(24))
    put("api-key-header-mixed", "headers=Headers({'host': 'x', 'api-key': '§', 'accept': '*/*'})", g.hex(32))
    put("x-auth-key", "X-Auth-Email: a@b.c\nX-Auth-Key: §", g.hex(37))
    put("apikey-scheme", "authorization: Apikey §", g.b62(40))
    put(
        "aws4-signature-header",
        f"Authorization: AWS4-HMAC-SHA256 Credential=AKIA{g.s(B32, 16)}/20250611/us-east-1/s3/"
        "aws4_request, SignedHeaders=host;x-amz-date, Signature=§",
        g.hex(64),
    )
    put("url-userinfo-only-token", "pip install git+https://§@git.local/x.git", g.hex(40))
    put("url-path-secret", "POST https://chat.googleapis.com/v1/spaces/AAAA/messages?key=x&token=§", g.b64u(43) + "%3D")
    put("url-fragment-token", "redirect https://app/cb#access_token=§&token_type=bearer", g.b64u(60))
    put("url-sig-param", "https://cdn.local/x.tar?expires=1750000000&signature=§", g.b64u(43))
    put("zapier-hook", "zapier https://hooks.zapier.com/hooks/catch/123456/§/ 200", g.s(LOWNUM, 7))
    put("websocket-query", "wss://x/socket?apikey=§&v=1", g.b62(32))
    put("login-form-log", "POST /login {'username': ['bob'], 'password': ['§']}", g.human())
    put("graphql-mutation", 'mutation { login(user: "bob", password: "§") { id } }', g.strong("!#%^*"))
    put("grpc-metadata", "grpc: metadata: map[authorization:[Bearer §] x-rank:[3]]", g.b64u(64))
    put("http-header-dump-go", "Header:map[Accept:[*/*] X-Api-Key:[§] User-Agent:[Go]]", g.b62(32))
    put("email-reset-link", "sent https://hub.local/reset?reset_token=§", g.b64u(43))
    put(
        "pip-extra-index",
        "Looking in indexes: https://pypi.corp.example/simple, https://ci:§@nexus.local/simple",
        g.pw(16),
    )
    put("s3-uri-inline-keys", f"s3://{g.s(UPNUM, 20)}:§@rgw.local/bucket/x", g.b62(40))


def _shells(g: _Gen, put: Put) -> None:
    put("echo-sudo-S", "echo § | sudo -S systemctl restart slurmd", g.human("!"))
    put("echo-quoted-sudo-S", "+ echo '§' | sudo -S -p '' reboot", g.strong("!#%^*"))
    put("herestring-sudo", 'sudo -S apt-get update <<< "§"', g.pw(12))
    put("printf-sudo", "printf '%s\\n' '§' | sudo -S true", g.strong("!#^*"))
    put("chpasswd-echo", "echo 'root:§' | chpasswd", g.strong("!#%^*"))
    put("passwd-stdin", 'echo "§" | passwd --stdin bob', g.human("#"))
    put("sshpass-p", f"sshpass -p '§' ssh -o StrictHostKeyChecking=no root@{g.ip()}", g.strong("!#%^*"))
    put("sshpass-attached", f"sshpass -p§ scp x root@{g.ip()}:/tmp", g.pw(12))
    put("sshpass-env", "SSHPASS=§ sshpass -e ssh gpu01", g.pw(12))
    put("expect-send", 'expect "assword:" { send "§\\r" }', g.pw(14))
    put("docker-login-stdin", "echo § | docker login -u ci --password-stdin reg.local", g.pw(24))
    put("gh-auth-with-token", "echo § | gh auth login --with-token", "gho_" + g.b62(36))
    put("skopeo-creds", "skopeo copy --src-creds=bob:§ docker://reg/x oci:x", g.pw(16))
    put("singularity-docker-password", "SINGULARITY_DOCKER_PASSWORD=§ singularity pull docker://nvcr.io/x", g.b62(64))
    put("enroot-credentials", "machine nvcr.io login $oauthtoken password §", "nvapi-" + g.b64u(64))
    put("smbclient-percent", "smbclient //nas/x -U bob%§", g.pw(12))
    put("lftp-u", "lftp -u bob,§ sftp://x", g.pw(12))
    put("nmcli-psk", "nmcli dev wifi connect lab password §", g.pw(12))
    put("vncpasswd", "echo § | vncpasswd -f > ~/.vnc/passwd", g.pw(8))
    put("xauth-cookie", f"xauth add {g.node()}/unix:10  MIT-MAGIC-COOKIE-1  §", g.hex(32))
    put("zip-P", "7z x -p§ data.7z", g.pw(12))
    put("unzip-P", "unzip -P § data.zip", g.pw(12))
    put("git-credential-fill", "protocol=https\nhost=git.local\nusername=bob\npassword=§", g.pw(20))
    put("git-credentials-file", "https://bob:§@git.local", g.pw(20))
    put("az-acr-login", "az acr login -n acme --username 00000000-0000-0000-0000-000000000000 --password §", g.jwt())
    put("aws-configure-set", "aws configure set aws_secret_access_key §", g.s(B64, 40))
    put("curl-netrc-block", "machine h default\nlogin bob\npassword §", g.pw(14))
    put("realm-sssd-debug", "[sssd[be[hpc]]] [simple_bind_send] ldap_default_authtok: §", g.pw(16))
    put("crictl-creds", "crictl pull --creds bob:§ reg.local/x:1", g.pw(16))
    put("nerdctl-password", "nerdctl login -u bob -p § reg.local", g.pw(16))
    put("xtrace-local", "+ local password=§", g.pw(16))
    put("bash-history-line", "  512  export TOKEN=§", g.b62(40))
    put("wpa-psk", "wpa_passphrase=§", g.phrase("-", 2))
    put("ipmi-console", "conserver: console gpu7 { exec ipmiconsole -u ADMIN -p §; }", g.pw(12))


def harmless(rng: Random) -> list[tuple[str, str]]:
    """(kind, line) of lines without any secret."""
    g = _Gen(rng)
    out: list[tuple[str, str]] = []

    def put(kind: str, line: str) -> None:
        out.append((kind, line))

    for part in (
        _plain_training,
        _plain_hardware,
        _plain_cluster,
        _plain_identity,
        _plain_digests,
        _plain_placeholders,
        _plain_public,
        _plain_services,
    ):
        part(g, put)
    return out


PutLine = Callable[[str, str], None]


def _plain_training(g: _Gen, put: PutLine) -> None:
    put(
        "tokens-per-second",
        f"iter {g.n(1, 9999)} | loss 2.31 | tokens/s {g.n(1000, 99999)} | tokens_seen={g.n(10**8, 10**11)}",
    )
    put(
        "megatron-line",
        f" iteration {g.n(1, 9999)}/ 500000 | consumed samples: 1024 | tokens per sec per GPU: {g.n(900, 9999)}.3 |",
    )
    put("max-tokens", '{"model": "llama", "max_tokens": 4096, "stop_token_ids": [128001, 128009], "n": 1}')
    put("max-new-tokens", "GenerationConfig(max_new_tokens=512, pad_token_id=0, eos_token_id=[128001, 128008])")
    put("special-tokens", "tokenizer.special_tokens_map={'bos_token': '<|begin_of_text|>', 'eos_token': '<|eot_id|>'}")
    put(
        "tokenizer-class",
        "Setting tokenizer_class=PreTrainedTokenizerFast pad_token=<pad> unk_token=<unk> sep_token=[SEP]",
    )
    put(
        "tokenizer-load",
        "loading file tokenizer.json from cache at /home/ada/.cache/huggingface/hub/models--x/snapshots/"
        f"{g.hex(40)}/tokenizer.json",
    )
    put(
        "tokenizer-warning",
        "Token indices sequence length is longer than the specified maximum sequence length for this model "
        f"({g.n(5000, 9000)} > 4096)",
    )
    put(
        "tokenizers-parallelism",
        "huggingface/tokenizers: set TOKENIZERS_PARALLELISM=(true | false) TOKENIZERS_PARALLELISM=false",
    )
    put(
        "vllm-throughput",
        f"Avg prompt throughput: {g.n(100, 9000)}.1 tokens/s, Avg generation throughput: {g.n(100, 900)}.4 "
        "tokens/s, GPU KV cache usage: 41.2%",
    )
    put(
        "kv-cache",
        f"# GPU blocks: {g.n(1000, 90000)}, KV cache size: {g.n(10**5, 10**6)} tokens, cache_key_dtype=fp8_e4m3",
    )
    put("attention-key-shape", "key shape: torch.Size([8, 32, 4096, 128]) query=torch.Size([8, 32, 4096, 128])")
    put("state-dict-key", 'Missing key(s) in state_dict: "model.layers.0.self_attn.k_proj.weight", "lm_head.weight".')
    put("unexpected-keys", "unexpected key: module.transformer.h.11.attn.key_value.bias size=[3072]")
    put("key-padding-mask", "key_padding_mask=None need_weights=False key_dim=128 num_key_value_heads=8")
    put("secret-loss-word", "eval/needle_secret_recall=0.97 eval/password_leak_rate=0.00 eval/token_acc=0.734")
    put(
        "moe-token-drop",
        f"moe: dropped_tokens={g.n(1, 999)} tokens_per_expert=[128, 131, 119, 140] capacity_factor=1.25",
    )
    put("rank-token", f"rendezvous joined rank_token=rank-{g.n(0, 4096):05d} world_size=4096")
    put(
        "nccl-unique-id",
        f"{g.node()}:{g.pid()}:{g.pid()} [3] NCCL INFO ncclCommInitRank comm 0x{g.hex(12)} rank 3 nranks 16 "
        f"cudaDev 3 busId 5d000 commId 0x{g.hex(16)} - Init START",
    )
    put(
        "nccl-net-key",
        f"NCCL INFO NET/IB : lkey 0x{g.hex(8)} rkey 0x{g.hex(8)} qpn {g.n(100, 9999)} gid fe80::{g.hex(4)}",
    )
    put("nccl-hosthash", f"NCCL TRACE hostHash 0x{g.hex(16)} pidHash 0x{g.hex(16)} busId 1b000")
    put("ib-pkey", "mlx5_0: pkey[0]=0xffff pkey_tbl_len=128 bad_pkey_cntr=0 qkey_viol_cntr=0 QKey violation counter: 0")
    put(
        "ucx-rkey",
        f"ucp_ep.c:91 UCX DEBUG ep 0x7f{g.hex(10)}: rkey_ptr 0x7f{g.hex(10)} md_map 0x3f packed key length 74",
    )
    put(
        "torch-store-key", f"TCPStore: wait for key 'default_pg/0//{g.n(1, 99)}/barrier_key' timed out after 1800000 ms"
    )
    put("torch-store-get", f'[Rank {g.n(0, 9)}] store->get("NCCL_SPLIT_key_0:1") failed: Connection reset by peer')
    put("torchelastic-run-id", f"run_id = {g.uuid()}, rdzv_id={g.uuid()} rdzv_backend=c10d")
    put(
        "inductor-hash",
        f"torch._inductor cache key: f{g.s(LOWER + '234567', 51)} fx graph cache miss for key"
        f" f{g.s(LOWER + '234567', 51)}",
    )
    put("triton-cache", f"~/.triton/cache/{g.hex(64)}/kernel.cubin hash={g.hex(64)}")
    put("wandb-run-path", f"wandb: View run at https://wandb.ai/acme/pretrain/runs/{g.s(LOWNUM, 8)}")
    put("wandb-login-info", "wandb: Currently logged in as: bob (acme). Use `wandb login --relogin` to force relogin")
    put("wandb-missing-key", "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])")
    put("wandb-find-key", "wandb: You can find your API key in your browser here: https://wandb.ai/authorize")
    put("wandb-sync-dir", f"wandb: Run data is saved locally in /scratch/wandb/run-20250611_101500-{g.s(LOWNUM, 8)}")
    put(
        "mlflow-run-id",
        f"mlflow run_id={g.hex(32)} experiment_id={g.s(DIGITS, 18)} artifact_uri=s3://mlflow/1/{g.hex(32)}/artifacts",
    )
    put(
        "hf-token-missing",
        "Token is required (`token=True`), but no token found. You need to provide a token or be logged in.",
    )
    put(
        "hf-gated",
        "401 Client Error. Access to model meta-llama/Llama-3 is restricted. You must have access and be"
        " authenticated.",
    )
    put(
        "hf-token-valid",
        "Token is valid (permission: read). Your token has been saved to /home/ada/.cache/huggingface/token",
    )
    put(
        "hf-request-id",
        f"(Request ID: Root=1-{g.hex(8)}-{g.hex(24)};{g.uuid()}) Invalid credentials in Authorization header",
    )
    put("hf-snapshot-commit", f"Fetching 17 files from revision {g.hex(40)}")
    put("hf-etag", f'etag "{g.hex(64)}" x-linked-etag={g.hex(64)} size={g.n(10**9, 10**10)}')
    put("lfs-pointer", f"version https://git-lfs.github.com/spec/v1\noid sha256:{g.hex(64)}\nsize {g.n(10**6, 10**9)}")
    put("dataset-fingerprint", f"datasets: fingerprint={g.hex(16)} cache-{g.hex(16)}.arrow")
    put("seed-hash", f"config_hash={g.hex(32)} data_seed={g.n(1, 10**6)} code_sha={g.hex(40)}")
    put("ckpt-checksum", f"checkpoint step {g.n(1, 10**6)} crc32=0x{g.hex(8)} xxh64={g.hex(16)} blake3={g.hex(64)}")
    put(
        "lr-hparams", "hparams: hidden=8192 heads=64 kv_heads=8 auth=False password=None token_dropout=0.1 key_norm=rms"
    )
    put(
        "prompt-text",
        "prompt: 'How do I reset my password if I forgot the secret question?' tokens=14 finish_reason=length",
    )
    put(
        "usage-json",
        '{"usage": {"prompt_tokens": 5120, "completion_tokens": 318, "total_tokens": 5438, "cached_tokens": 4096}}',
    )
    put("token-logprobs", '{"token": " secret", "logprob": -1.234, "bytes": [32, 115], "top_logprobs": []}')
    put(
        "vllm-request-id",
        f"Received request chatcmpl-{g.hex(32)}: prompt_token_ids: [1, 15043, 3186, 29871], lora_request: None",
    )
    put("prefix-hash", f"prefix cache: block_hash={g.s(DIGITS, 18)} parent=-{g.s(DIGITS, 18)} num_tokens=16")
    put("speculative", "SpecDecoding metrics: Accepted: 712 tokens, Drafted: 1024 tokens, num_speculative_tokens=4")
    put(
        "lightning-ckpt-keys",
        "dict_keys(['epoch', 'global_step', 'state_dict', 'hyper_parameters', 'optimizer_states'])",
    )
    put("keyerror", "KeyError: 'password_encoder.weight'")
    put("dataloader-keys", "sample keys: input_ids, attention_mask, labels, doc_key; key=doc-000123 shard=17")
    put("webdataset-key", f"__key__=n0{g.s(DIGITS, 7)}_{g.n(1, 9999)} __url__=/data/imagenet-{g.n(1, 999):06d}.tar")
    put(
        "random-key-jax",
        f"jax.random.PRNGKey({g.n(0, 99)}) -> Array([0, {g.n(0, 10**9)}], dtype=uint32) key_impl=threefry2x32",
    )
    put("ray-object-id", f"ObjectRef({g.hex(56)}) lost; owner worker={g.hex(56)} node={g.hex(56)}")
    put("ray-actor", f"ActorDiedError: class_name: Trainer actor_id: {g.hex(32)} pid: {g.pid()} namespace: {g.uuid()}")
    put(
        "perf-kv",
        f"step={g.n(1, 9999)} tok_s={g.n(100, 999)}k key_cache_hit=0.91 auth_ms=0.2 token_budget=8192 secret_sauce=off",
    )
    put("token-bucket", f"rate limiter token_bucket refill={g.n(1, 99)}/s tokens_left={g.n(1, 99)} retry_after=1.2")
    put("bpe-merge", "bpe: merged pair ('pass', 'word') -> 'password' freq=192331 new_token_id=4321")
    put("cuda-graph-key", "cudagraph: capturing key=(bs=8, seqlen=4096, dtype=bf16) hits=12 pool_id=(0, 1)")
    put("nsys-hash", f"autotune key=(4096, 4096, 'torch.bfloat16') best BLOCK_M=128 cache_key={g.hex(16)}")
    put("safetensors-meta", "safetensors header: {'format': 'pt'} key=model.embed_tokens.weight shape=[128256, 8192]")
    put("sft-mask", "label_mask: ignoring 312 of 1024 tokens; first_token=<s> last_token=</s> auth_tokens=0")


def _plain_hardware(g: _Gen, put: PutLine) -> None:
    put("gpu-uuid", f"GPU 3: NVIDIA H100 80GB HBM3 (UUID: GPU-{g.uuid()})")
    put("mig-uuid", f"  MIG 1g.10gb     Device  0: (UUID: MIG-{g.uuid()})")
    put(
        "gpu-serial", f"Serial Number : {g.s(DIGITS, 13)}  VBIOS Version : 96.00.74.00.01  GPU Part Number: 2330-885-A1"
    )
    put(
        "xid",
        f"{g.syslog()} kernel: NVRM: Xid (PCI:0000:5d:00): 79, pid={g.pid()}, name=python, GPU has fallen off the bus.",
    )
    put(
        "xid-31",
        "NVRM: Xid (PCI:0000:1b:00): 31, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS faulted @"
        f" 0x7f{g.hex(2)}_{g.hex(8)}",
    )
    put(
        "kernel-registers",
        f"RIP: 0010:nv_alloc+0x{g.hex(2)}/0x{g.hex(3)} RSP: 0018:ffff{g.hex(12)} RAX: {g.hex(16)} RBX: ffff{g.hex(12)}",
    )
    put("kernel-code", "Code: " + " ".join(g.hex(2) for _ in range(32)))
    put("kernel-keyring", "[    1.234567] Loading compiled-in X.509 certificates; Key type asymmetric registered")
    put("kernel-x509", f"[    1.3] Loaded X.509 cert 'Build time autogenerated kernel key: {g.hex(40)}'")
    put(
        "kernel-module-taint",
        "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    )
    put("kernel-lockdown-key", f"integrity: Loaded X.509 cert 'Red Hat Secure Boot CA 5: {g.hex(40)}'")
    put(
        "kernel-cmdline-plain",
        f"Command line: BOOT_IMAGE=/vmlinuz-5.14 root=UUID={g.uuid()} ro rd.luks.uuid=luks-{g.uuid()} iommu=pt quiet",
    )
    put(
        "keyboard",
        "input: AT Translated Set 2 keyboard as /devices/platform/i8042/serio0/input/input3; sysrq: Keybinding: h",
    )
    put("mac-address", f"mlx5_core 0000:5e:00.0 ens1f0np0: link up, hwaddr {':'.join(g.hex(2) for _ in range(6))}")
    put("ib-guid", f"CA 'mlx5_4' node GUID: 0x{g.hex(16)} System image GUID: 0x{g.hex(16)} port_guid 0x{g.hex(16)}")
    put("pci-id", "0000:ca:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)")
    put("nvme-serial", f"nvme3n1 model=SAMSUNG MZQL23T8 serial=S64H{g.s(UPNUM, 10)} wwid=eui.{g.hex(32)}")
    put("disk-wwn", f"/dev/disk/by-id/wwn-0x{g.hex(16)} -> ../../sda PARTUUID={g.uuid()}")
    put("ecc", f'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu="3",UUID="GPU-{g.uuid()}",pci_bus_id="00000000:5D:00.0"}} 0')
    put(
        "mce",
        f"mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: {g.hex(16)} TSC {g.hex(14)} ADDR {g.hex(9)} MISC"
        f" {g.hex(16)}",
    )
    put("tpm", f"tpm_tis: PCR-07 sha256 0x{g.s(UPHEX, 64)}; TPM2_RC_AUTH_FAIL not seen, lockoutAuth not set")
    put(
        "sel-record",
        f"  {g.hex(2)} | 06/11/2025 | 10:15:00 | Platform Security #0x{g.hex(2)} | Out-of-band access password"
        " violation | Asserted",
    )
    put(
        "bmc-auth-fail",
        f"ipmitool: Error: Unable to establish IPMI v2 / RMCP+ session (invalid user name or password) bmc={g.node()}",
    )
    put(
        "ipmi-lan-print",
        "Auth Type Enable        : Callback : MD2 MD5 PASSWORD\n                        : User     : MD2 MD5 PASSWORD",
    )
    put("ipmi-cipher", "RMCP+ Cipher Suites     : 1,2,3,6,7,8,11,12,17  Bad Password Threshold : 3")
    put(
        "redfish-account-null",
        '{"Id": "2", "UserName": "admin", "Password": null, "PasswordChangeRequired": false, "RoleId":'
        ' "Administrator"}',
    )
    put(
        "redfish-session-path",
        f"DELETE /redfish/v1/SessionService/Sessions/{g.n(1, 99)} 204; SessionTimeout=1800"
        " AuthFailureLoggingThreshold=3",
    )
    put("secure-boot", "SecureBoot enabled; SetupMode: user; Platform Key (PK) enrolled; KeyManagement=Factory Keys")
    put("nvlink", f"NVLink: remote device 00000000:0{g.hex(1)}:00.0 link 3 key exchange: not applicable, active")
    put("fabric-manager", f"fabricmanager: partition key 0x{g.hex(4)} cluster UUID {g.uuid()} clique 0")
    put(
        "perf-counters",
        f"port_xmit_data={g.s(DIGITS, 14)} port_rcv_data={g.s(DIGITS, 14)} symbol_error=0 VL15_dropped=0",
    )


def _plain_cluster(g: _Gen, put: PutLine) -> None:
    put("slurm-cred-invalid", f"slurmd: error: slurm_cred_verify: credential for job {g.n(1, 99999)} revoked")
    put(
        "slurm-cred-expired",
        "slurmd: error: Credential signature check: Invalid job credential from uid=1000, credential expired",
    )
    put(
        "slurm-munge-decode",
        "slurmctld: error: Munge decode failed: Expired credential; ENCODED: Wed Jun 11 2025 DECODED: Wed Jun 11",
    )
    put(
        "munge-unmunge",
        "unmunge: STATUS: Success (0) ENCODE_HOST: gpu001 CIPHER: aes128 (4) MAC: sha256 (5) ZIP: none (0)",
    )
    put(
        "slurm-auth-type",
        "AuthType=auth/munge CredType=cred/munge AuthAltTypes=auth/jwt AuthInfo=socket=/run/munge/munge.socket.2",
    )
    put("slurm-jwt-path", "AuthAltParameters=jwt_key=/var/spool/slurm/statesave/jwt_hs256.key")
    put("slurm-storagepass-none", "slurmdbd: StorageUser=slurm StoragePass=(null) StoragePort=3306")
    put(
        "slurm-job",
        f"JobId={g.n(1, 99999)} UserId=bob(1001) TRES=cpu=64,mem=1T,gres/gpu=8 Requeue=1 MCS_label=N/A Priority=4294",
    )
    put(
        "slurm-protocol-auth",
        "slurm_unpack_received_msg: Protocol authentication error: auth_g_verify: REQUEST_NODE_REGISTRATION has"
        " authentication error",
    )
    put("sacct-key", "sacctmgr: association key: cluster=hpc account=ml user=bob partition=gpu")
    put("pmix-cred", f"[{g.node()}:{g.pid()}] PMIX ERROR: INVALID-CREDENTIAL in file ptl_tcp.c at line 790")
    put("mpi-key-mismatch", f"ORTE: modex key pml.base.2.0 not found for proc [[{g.n(1, 9999)},1],{g.n(0, 64)}]")
    put("k8s-secret-not-found", 'MountVolume.SetUp failed for volume "tls" : secret "wandb-api-key" not found')
    put(
        "k8s-secret-ref",
        "    - name: HF_TOKEN\n      valueFrom:\n        secretKeyRef:\n          name: hf-credentials\n          key:"
        " token",
    )
    put(
        "kubectl-describe-ref",
        "      WANDB_API_KEY:  <set to the key 'api-key' in secret 'wandb-secret'>  Optional: false",
    )
    put(
        "kubectl-get-secrets",
        "NAME                    TYPE                                  DATA   AGE\npg-password             Opaque   "
        "                             1      41d",
    )
    put(
        "kubectl-describe-secret",
        "Type:  Opaque\n\nData\n====\npassword:  24 bytes\nca.crt:    1099 bytes\ntoken:     912 bytes",
    )
    put(
        "k8s-sa-name",
        'serviceaccount: system:serviceaccount:training:token-refresher cannot get resource "secrets" in API group ""',
    )
    put(
        "k8s-sa-token-path",
        "using token file /var/run/secrets/kubernetes.io/serviceaccount/token with ca.crt in the same directory",
    )
    put(
        "k8s-image-pull-secret",
        "Unable to retrieve some image pull secrets (regcred-nvcr); attempting to pull the image may not succeed.",
    )
    put("k8s-projected-volume", f"kube-api-access-{g.s(LOWNUM, 5)}: Type: Projected; TokenExpirationSeconds:  3607")
    put("k8s-pod-uid", f"pod_uid={g.uuid()} container=containerd://{g.hex(64)} restartCount=3")
    put(
        "k8s-pod-name",
        f"pod/trainer-{g.hex(9)}-{g.s(LOWNUM, 5)} controller-revision-hash={g.hex(10)} pod-template-hash={g.hex(10)}",
    )
    put("k8s-resource-version", f'{{"resourceVersion":"{g.s(DIGITS, 9)}","uid":"{g.uuid()}","continue":""}}')
    put(
        "k8s-bootstrap-token-id",
        "[bootstrap-token] Using token group system:bootstrappers:kubeadm:default-node-token ttl=24h0m0s",
    )
    put("k8s-ca-cert-hash", f"--discovery-token-ca-cert-hash sha256:{g.hex(64)}")
    put(
        "k8s-csr", f"csr-{g.s(LOWNUM, 5)}   12s   kubernetes.io/kubelet-serving   system:node:gpu001   <none>   Pending"
    )
    put(
        "k8s-token-expired",
        'Unable to authenticate the request" err="[invalid bearer token, service account token has expired]"',
    )
    put(
        "k8s-token-rotated",
        "I0611 token_manager.go:121] Service account token for pod trainer-0 will be rotated in 48m12s",
    )
    put(
        "k8s-label-kv",
        "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3,feature.node.kubernetes.io/cpu-security.sgx.enabled=true",
    )
    put("k8s-toleration", 'tolerations: [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]')
    put("k8s-configmap-key", "configMapKeyRef: {name: train-config, key: learning_rate}")
    put(
        "k8s-externalsecret",
        "ExternalSecret training/hf-token SecretSynced: secret was synced remoteRef.key=kv/ml/hf property=token",
    )
    put(
        "cert-manager",
        "Issuing certificate as Secret does not contain a private key; stored new private key in temporary Secret "
        f'resource "web-tls-{g.s(LOWNUM, 5)}"',
    )
    put(
        "sealed-secrets",
        f"sealed-secrets controller: New key written to kube-system/sealed-secrets-key{g.s(LOWNUM, 5)}",
    )
    put("kyverno", "policy disallow-secrets-in-env: rule check-secretKeyRef passed for Pod/trainer-0")
    put("helm-hook", "helm: existingSecret=pg-credentials secretKeys.adminPasswordKey=postgres-password")
    put("flux-revision", f"flux: stored artifact for commit 'rotate db password' revision main@sha1:{g.hex(40)}")
    put("argocd-app", "app auth-proxy sync=Synced health=Healthy passwordMtime=2025-02-11T10:00:00Z")
    put(
        "etcd-key-path",
        'etcd: took too long (212ms) to execute request key:"/registry/secrets/training/hf-token" range_end:""',
    )
    put("etcd-member", f"etcd member {g.hex(16)} cluster-id {g.hex(16)} raft_term=12 auth-token=simple auth_revision=1")
    put("docker-digest", f"registry.corp.example/nvidia/cuda@sha256:{g.hex(64)}: Pulled in 12.3s")
    put("docker-layer", f"{g.hex(12)}: Pull complete; Digest: sha256:{g.hex(64)}; Status: Downloaded newer image")
    put(
        "docker-build-secret-mount",
        "RUN --mount=type=secret,id=pip_token,target=/run/secrets/pip_token pip install -r req.txt",
    )
    put(
        "docker-denied",
        "pull access denied for acme/train, repository does not exist or may require 'docker login': denied",
    )
    put("docker-cred-helper", 'credsStore: ecr-login; credHelpers: {"nvcr.io": "secretservice"}')
    put("docker-login-warning", "WARNING! Using --password via the CLI is insecure. Use --password-stdin.")
    put("docker-unencrypted", "WARNING! Your password will be stored unencrypted in /home/ada/.docker/config.json.")
    put(
        "docker-network-id",
        f"network gpu-net id={g.hex(64)} endpoint={g.hex(64)} sandbox=/var/run/docker/netns/{g.hex(12)}",
    )
    put("swarm-secret-list", f"{g.s(LOWNUM, 25)}   db_password   3 weeks ago   3 weeks ago")
    put("ceph-osd-fsid", f"osd.{g.n(0, 99)} fsid {g.uuid()} cluster {g.uuid()} bluestore key_count 129381")
    put(
        "ceph-auth-fail",
        f"auth: could not find secret_id={g.n(1, 9999)}; cephx: verify_authorizer could not get service secret for"
        " service osd",
    )
    put(
        "ceph-keyring-missing",
        "unable to find a keyring on /etc/ceph/ceph.client.admin.keyring,/etc/ceph/keyring: (2) No such file",
    )
    put("ceph-auth-caps", "client.rbd caps: [mon] profile rbd [osd] profile rbd pool=k8s key=<redacted>")
    put(
        "ceph-secretfile",
        "mount -t ceph mon1:/ /mnt -o name=train,secretfile=/etc/ceph/train.secret,ms_mode=prefer-crc",
    )
    put("ceph-omap", f"rbd_header.{g.hex(14)} omap key=snapshot_{g.hex(16)} value_len=131")
    put(
        "ceph-pg",
        f"pg 3.{g.hex(2)} deep-scrub ok; object_hash=rjenkins data_digest 0x{g.hex(8)} omap_digest 0xffffffff",
    )
    put(
        "lustre-fid",
        f"LustreError: ldlm lock handle 0x{g.hex(16)} fid [0x{g.hex(9)}:0x{g.hex(4)}:0x0] expref: 12 pid: {g.pid()}"
        f" remote: 0x{g.hex(16)}",
    )
    put("lustre-key-upcall", "LustreError: sptlrc: key request for uid 1000 failed: Required key not available (-126)")
    put(
        "nfs-gss",
        "rpc.gssd: WARNING: Failed to create krb5 context for user with uid 0 using keytab FILE:/etc/krb5.keytab",
    )
    put(
        "s3-object-key",
        f'Key: checkpoints/run7/step-{g.n(1, 10**6)}/token_embeddings.pt ETag: "{g.hex(32)}-{g.n(2, 900)}"'
        " StorageClass: STANDARD",
    )
    put(
        "s3-error",
        f"<Error><Code>SignatureDoesNotMatch</Code><RequestId>{g.s(UPNUM, 16)}</RequestId>"
        f"<HostId>{g.b64(56)}</HostId></Error>",
    )
    put("s3-upload-id", f"multipart upload part=17 UploadId={g.b62(64)} key=weights.bin")
    put("aws-no-credentials", "botocore.exceptions.NoCredentialsError: Unable to locate credentials")
    put(
        "aws-found-credentials",
        "botocore.credentials - INFO - Found credentials in shared credentials file: ~/.aws/credentials",
    )
    put("aws-imds", "botocore.credentials: Found credentials from IAM Role: gpu-node-role (token refresh in 5h)")
    put(
        "aws-arn-secret",
        f"arn:aws:secretsmanager:us-east-1:{g.s(DIGITS, 12)}:secret:prod/db-password-{g.b62(6)} AccessDenied",
    )
    put(
        "aws-kms-key-id",
        f"SSEKMSKeyId=arn:aws:kms:eu-west-1:{g.s(DIGITS, 12)}:key/{g.uuid()} ServerSideEncryption=aws:kms",
    )
    put("aws-keypair-name", f"KeyName=hpc-keypair KeyPairId=key-0{g.hex(16)} InstanceId=i-0{g.hex(16)}")
    put(
        "aws-token-expired",
        "An error occurred (ExpiredToken) when calling the GetObject operation: The provided token has expired.",
    )
    put("gcp-sa-email", f"Active service account: trainer@acme-ml.iam.gserviceaccount.com unique_id={g.s(DIGITS, 21)}")
    put("gcp-creds-path", "GOOGLE_APPLICATION_CREDENTIALS=/var/secrets/google/key.json")
    put("gcp-kms-path", "projects/acme/locations/global/keyRings/ml/cryptoKeys/ckpt/cryptoKeyVersions/3 state=ENABLED")
    put("azure-ids", f"tenantId={g.uuid()} subscriptionId={g.uuid()} clientId={g.uuid()} correlation_id={g.uuid()}")
    put(
        "azure-vault-name",
        "DefaultAzureCredential failed to retrieve a token from the included credentials. EnvironmentCredential"
        " unavailable.",
    )
    put("azure-keyvault-url", f"secret id https://acme-kv.vault.azure.net/secrets/db-password/{g.hex(32)} enabled=true")
    put("terraform-sensitive", "  + password = (sensitive value)\n  + token    = (known after apply)")
    put("terraform-output-sensitive", "db_password = <sensitive>")
    put("terraform-random-id", f"random_password.db: Refreshing state... [id=none]; random_id.x [id={g.b64u(6)}]")
    put("terraform-lock-h1", f'    "h1:{g.b64(32)}",\n    "zh:{g.hex(64)}",')
    put(
        "ansible-no-log",
        'changed: [db1] => {"censored": "the output has been hidden due to the fact that \'no_log: true\' was'
        ' specified"}',
    )
    put("ansible-value-hidden", '"login_password": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER", "login_user": "root"')
    put("ansible-task-name", "TASK [common : rotate root password and ssh keys] *****************************")
    put(
        "ansible-authorized-key",
        "TASK [authorized_key] ok: [gpu7] => (item=bob) key_options=null exclusive=false state=present",
    )
    put("ansible-vault-file", "ERROR! Attempting to decrypt but no vault secrets found")
    put(
        "cloud-init-keys",
        "ci-info: | ssh-ed25519 | authorized keys from /home/ubuntu/.ssh/authorized_keys for user ubuntu |",
    )
    put("systemd-cred", "systemd[1]: LoadCredential=db-pass:/etc/credstore/db-pass SetCredentialEncrypted= not set")
    put("systemd-ask-password", "systemd[1]: Started Dispatch Password Requests to Console Directory Watch.")
    put("systemd-invocation", f"_SYSTEMD_INVOCATION_ID={g.hex(32)} _MACHINE_ID={g.hex(32)} _BOOT_ID={g.hex(32)}")
    put(
        "audit-login",
        f'type=USER_AUTH msg=audit(1750000000.1:{g.n(1, 999)}): pid={g.pid()} uid=0 op=PAM:authentication acct="bob"'
        " res=failed",
    )
    put(
        "audit-crypto",
        "type=CRYPTO_KEY_USER msg=audit(1.1:2): op=destroy kind=server"
        f" fp=SHA256:{':'.join(g.hex(2) for _ in range(32))} direction=?",
    )


def _plain_identity(g: _Gen, put: PutLine) -> None:
    put(
        "sshd-accepted-key",
        f"sshd[{g.pid()}]: Accepted publickey for bob from {g.ip()} port 51234 ssh2: ED25519 SHA256:{g.s(B64, 43)}",
    )
    put(
        "sshd-failed-password", f"sshd[{g.pid()}]: Failed password for invalid user admin from {g.ip()} port 40022 ssh2"
    )
    put("sshd-accepted-password", f"sshd[{g.pid()}]: Accepted password for alice from {g.ip()} port 40111 ssh2")
    put("ssh-fingerprint-md5", f"RSA key fingerprint is MD5:{':'.join(g.hex(2) for _ in range(16))}.")
    put("ssh-host-changed", f"The fingerprint for the ED25519 key sent by the remote host is\nSHA256:{g.s(B64, 43)}.")
    put(
        "ssh-keygen-path",
        "Your identification has been saved in /home/ada/.ssh/id_ed25519\nYour public key has been saved in"
        " /home/ada/.ssh/id_ed25519.pub",
    )
    put("ssh-verbose-offer", f"debug1: Offering public key: /home/bob/.ssh/id_rsa RSA SHA256:{g.s(B64, 43)} agent")
    put("ssh-methods", "debug1: Authentications that can continue: publickey,gssapi-keyex,gssapi-with-mic,password")
    put("ssh-bad-perms", "Permissions 0644 for '/home/ada/.ssh/id_rsa' are too open. This private key will be ignored.")
    put("ssh-kex", "debug1: kex: algorithm: curve25519-sha256 host key algorithm: ssh-ed25519 MAC: <implicit>")
    put(
        "pam-unix",
        "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=10.1.2.3 user=bob",
    )
    put("pam-chauthtok", "passwd[812]: pam_unix(passwd:chauthtok): password changed for bob")
    put("sudo-password-required", "sudo: a password is required; sudo: 3 incorrect password attempts")
    put("password-prompt", "[sudo] password for bob: \nSorry, try again.")
    put("password-expiry-notice", "Warning: your password will expire in 7 days, on 2025-06-18 10:00:00")
    put(
        "token-expiry-notice",
        f"API token 'ci-deploy' (id {g.n(1, 9999)}) expires at 2025-09-01T00:00:00Z, last used 3 days ago",
    )
    put(
        "cert-expiry-notice",
        "certificate apiserver-kubelet-client expires in 29d; private key /etc/kubernetes/pki/x.key mode 0600",
    )
    put("chage", "Password inactive\t\t\t\t: never\nMinimum number of days between password change\t\t: 0")
    put(
        "kerberos-ticket",
        "06/11/25 10:00:00  06/11/25 20:00:00  krbtgt/HPC.EXAMPLE.ORG@HPC.EXAMPLE.ORG\n\trenew until 06/18/25",
    )
    put(
        "kerberos-cache", "Ticket cache: FILE:/tmp/krb5cc_1001_" + g.b62(6) + "\nDefault principal: bob@HPC.EXAMPLE.ORG"
    )
    put(
        "kerberos-preauth",
        "kinit: Preauthentication failed while getting initial credentials; kinit: Password incorrect",
    )
    put(
        "kerberos-keytab-list",
        "   2 nfs/gpu01@HPC.ORG (aes256-cts-hmac-sha1-96)\n   3 host/gpu01@HPC.ORG (aes128-cts-hmac-sha1-96)",
    )
    put(
        "kdc-log",
        "krb5kdc: AS_REQ (4 etypes {18 17 20 19}) 10.0.0.3: NEEDED_PREAUTH: bob@HPC for krbtgt/HPC@HPC, Additional"
        " pre-authentication required",
    )
    put(
        "ldap-invalid",
        "ldap_bind: Invalid credentials (49)\n\tadditional info: 80090308: LdapErr: DSID-0C090569, data 52e",
    )
    put(
        "sssd-auth",
        "sssd_be: Backend is offline; pam_sss(sshd:auth): received for user bob: 9 (Authentication service cannot"
        " retrieve authentication info)",
    )
    put("ldap-dn", "cn=password-policy,ou=policies,dc=hpc pwdMaxAge: 7776000 pwdMinLength: 12 pwdCheckQuality: 2")
    put("shadow-locked", "bob:!!:19800:0:99999:7:::\nnobody:*:19800::::::")
    put("etc-passwd", "slurm:x:64030:64030:Slurm,,,:/nonexistent:/usr/sbin/nologin")
    put("getent-group", "secret-readers:x:5012:alice,bob")
    put(
        "oidc-discovery",
        '{"token_endpoint":"https://kc/realms/hpc/protocol/openid-connect/token","jwks_uri":"https://kc/certs"}',
    )
    put("oidc-token-meta", '{"token_type":"Bearer","expires_in":3599,"scope":"openid profile"}')
    put("jwks-public", f'{{"kty":"RSA","use":"sig","kid":"{g.b64u(43)}","n":"{g.b64u(342)}","e":"AQAB"}}')
    put("jwt-claims-error", "jwt.exceptions.ExpiredSignatureError: Signature has expired; alg=RS256 aud=slurmrestd")
    put(
        "www-authenticate",
        "WWW-Authenticate: Bearer"
        ' realm="https://auth.corp.example/token",service="registry.corp.example",scope="repository:x:pull"',
    )
    put("www-authenticate-basic", 'www-authenticate: Basic realm="Registry Realm"')
    put("auth-scheme-error", "401 Unauthorized: Bearer token malformed; expected 'Authorization: Bearer <token>'")
    put("auth-status", "user=bob auth=success method=oidc token_ttl=3600 session_count=2 mfa=required")
    put(
        "auth-mode-kv",
        "auth=none security_protocol=PLAINTEXT sasl_mechanism=GSSAPI ssl_key_location=/etc/kafka/client.key",
    )
    put(
        "vault-accessor-policy",
        "vault: policies=[default train] token_policies=[train] lease_duration=768h renewable=true",
    )
    put(
        "vault-seal-status",
        "Key                Value\nSeal Type          shamir\nTotal Shares       5\nThreshold          3\nUnseal"
        " Progress    2/3",
    )
    put(
        "vault-path",
        'GET /v1/secret/data/training/hf 403 permission denied; path "secret/data/training/*" capabilities=[read]',
    )
    put("github-actions-mask", "Run actions/checkout@v4\n  with:\n    token: ***\n    ssh-strict: true")
    put("gitlab-runner-id", f"Running with gitlab-runner 17.0.0 on gpu-runner {g.b62(8)}, system ID: s_{g.hex(12)}")
    put(
        "jupyter-no-auth",
        "[W ServerApp] All authentication is disabled. Anyone who can connect to this server will be able to run code.",
    )
    put(
        "jupyter-kernel-id",
        f"[I ServerApp] Kernel started: {g.uuid()} name: python3 connection file kernel-{g.uuid()}.json",
    )
    put(
        "jupyterhub-cookie-file",
        "[I JupyterHub app:1880] Loading cookie_secret from /srv/jupyterhub/jupyterhub_cookie_secret",
    )
    put(
        "jupyterhub-adding-token",
        "[I JupyterHub app:2120] Adding API token for service: idle-culler scopes=['list:users']",
    )
    put("pw-policy-fail", "BAD PASSWORD: The password is shorter than 8 characters")
    put("login-form-get", "GET /hub/login?next=%2Fhub%2Ftoken 302 password_field=present csrf=ok")
    put("access-log-reset", f'{g.ip()} - - "POST /api/v1/password/reset HTTP/1.1" 202 0 "-" "curl/8.5"')
    put("access-log-tokens-page", f'{g.ip()} - bob "GET /settings/tokens?page=2&sort=name HTTP/1.1" 200 5123')
    put("oauth-error", "error=invalid_grant error_description=Token+is+not+active state_valid=true")
    put("token-count-auth", "revoked 3 tokens for user bob; remaining tokens: 2; oldest token age: 41d")
    put("key-rotation", "rotated signing key: kid=2025-06 alg=ES256 previous_kid=2025-03 retire_at=2025-07-01")


def _plain_digests(g: _Gen, put: PutLine) -> None:
    put("git-sha", f"HEAD is now at {g.hex(7)} fix: do not log the api key; parent {g.hex(40)}")
    put("git-diff-index", f"index {g.hex(7)}..{g.hex(7)} 100644\n--- a/auth/token.py\n+++ b/auth/token.py")
    put("git-describe", f"build v2.4.1-37-g{g.hex(9)} dirty=false tree={g.hex(40)}")
    put("sha256sum", f"{g.hex(64)}  /data/checkpoints/password_model.safetensors")
    put("md5sum", f"{g.hex(32)}  secrets-manager_1.2_amd64.deb")
    put("pip-hash", f"    --hash=sha256:{g.hex(64)} \\")
    put("pip-direct-url", f"Using cached torch-2.5.0-cp311-cp311-linux_x86_64.whl (sha256={g.hex(64)}, 780 MB)")
    put("npm-integrity", f'"integrity": "sha512-{g.b64(64)}",')
    put("sri", f'<script src="/static/app.js" integrity="sha384-{g.b64(48)}" crossorigin="anonymous"></script>')
    put("go-sum", f"github.com/hashicorp/vault/api v1.12.0 h1:{g.b64(32)}")
    put("cargo-lock", f'name = "secrecy"\nversion = "0.8.0"\nchecksum = "{g.hex(64)}"')
    put("nix-store", f"/nix/store/{g.s('0123456789abcdfghijklmnpqrsvwxyz', 32)}-python3.11-keyring-24.3.0")
    put("spack-hash", f"[+] /opt/spack/linux-rhel9/gcc-12.3/openssl-3.1.3-{g.s(LOWER + '234567', 32)}")
    put("conda-build", f"pytorch-2.5.0-py3.11_cuda12.4_cudnn9.1_0 md5={g.hex(32)}")
    put("content-md5", f"Content-MD5: {g.b64(16)} x-amz-checksum-crc32c: {g.b64(4)} x-amz-content-sha256: {g.hex(64)}")
    put("http-request-id", f"x-amz-request-id: {g.s(UPNUM, 16)} x-amz-id-2: {g.b64(56)}")
    put("traceparent", f"traceparent: 00-{g.hex(32)}-{g.hex(16)}-01")
    put("trace-id-kv", f"trace_id={g.hex(32)} span_id={g.hex(16)} request_id={g.uuid()}")
    put("sentry-event", f"Sentry event id: {g.hex(32)}")
    put("core-build-id", f"python3: ELF BuildID[sha1]={g.hex(40)}, stripped")
    put("coredump", f"core.python.1001.{g.hex(32)}.{g.pid()}.1750000000000000.zst")
    put("pointer-dump", f"freed 0x7f{g.hex(10)} size=1048576 stream=0x{g.hex(12)} pool_key=(0x7f{g.hex(10)}, 0)")
    put("uuid-list", f"volumes: {g.uuid()}, {g.uuid()}, {g.uuid()}")
    put("lvm-uuid", f"PV UUID {g.b62(6)}-{g.b62(4)}-{g.b62(4)}-{g.b62(4)}-{g.b62(4)}-{g.b62(4)}-{g.b62(6)}")
    put("zfs-guid", f"pool tank guid {g.s(DIGITS, 19)} keystatus none encryption off keyformat none keylocation none")
    put("luks-dump", "Keyslots:\n  0: luks2\n\tKey:        512 bits\n\tPriority:   normal\n\tPBKDF:      argon2id")
    put("hexdump", f"00000010  {' '.join(g.hex(2) for _ in range(16))}  |................|")
    put("xxhash-shards", f"shard-{g.n(1, 999):05d} xxh3={g.hex(32)} bytes={g.n(10**8, 10**9)} ok")
    put("blob-layer-path", f"/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/{g.hex(64)}")
    put(
        "cgroup-path",
        f"/kubepods.slice/kubepods-burstable-pod{g.uuid().replace('-', '_')}.slice/cri-containerd-{g.hex(64)}.scope",
    )
    put("tls-session-info", "SSL-Session: Protocol: TLSv1.3 Cipher: TLS_AES_256_GCM_SHA384 Verify return code: 0 (ok)")
    put("tls-cipher", "TLSv1.2 (OUT), TLS handshake, Client key exchange (16): Server Temp Key: X25519, 253 bits")
    put("cert-serial", f"serial=0{g.s(UPHEX, 35)} subject=CN=kube-apiserver notAfter=Jun 11 10:00:00 2026 GMT")
    put("cert-fingerprint", f"sha256 Fingerprint={':'.join(g.s(UPHEX, 2) for _ in range(32))}")
    put("cert-key-id", f"X509v3 Subject Key Identifier: {':'.join(g.s(UPHEX, 2) for _ in range(20))}")
    put("gpg-key-id", f'gpg: key {g.s(UPHEX, 16)}: public key "CUDA Packaging <cudatools@nvidia.com>" imported')
    put(
        "apt-no-pubkey",
        "W: GPG error: The following signatures couldn't be verified because the public key is not available:"
        f" NO_PUBKEY {g.s(UPHEX, 16)}",
    )
    put("rpm-key", f"warning: slurm.rpm: Header V4 RSA/SHA256 Signature, key ID {g.hex(8)}: NOKEY")
    put(
        "cosign",
        f"cosign: tlog entry verified; log index {g.s(DIGITS, 8)} digest sha256:{g.hex(64)} signature verified with"
        " cosign.pub",
    )
    put("hash-partitions", f"partition key hash={g.n(0, 10**9)} bucket={g.n(0, 512)} hash_seed=0x{g.hex(8)}")
    put("pyhash", f"PYTHONHASHSEED=0 cudnn_hash={g.hex(16)} graph_hash=0x{g.hex(16)}")


def _plain_placeholders(g: _Gen, put: PutLine) -> None:
    put("placeholder-angle", "usage: export HF_TOKEN=<your token here>")
    put("placeholder-angle-short", "Authorization: Bearer <token>")
    put("placeholder-stars", "password=**** user=bob host=db1")
    put("placeholder-secretstr", "Settings(api_key=SecretStr('**********'), url='http://x')")
    put("placeholder-redacted", "api_key=[REDACTED] region=eu; db_password: <redacted>; Authorization: [FILTERED]")
    put("placeholder-env-braces", "docker run -e HF_TOKEN=${HF_TOKEN} -e WANDB_API_KEY=$WANDB_API_KEY x")
    put("placeholder-env-default", "command: redis-server --requirepass ${REDIS_PASSWORD:?err}")
    put("placeholder-env-url", "postgres://$PGUSER:$PGPASSWORD@pg:5432/x")
    put("placeholder-url-stars", "engine = Engine(postgresql://mlflow:***@pg:5432/mlflow)")
    put("placeholder-jinja", 'ansible_become_password: "{{ vault_become_password }}"')
    put("placeholder-gha", "password: ${{ secrets.REGISTRY_PASSWORD }}")
    put("placeholder-helm", '{{ .Values.auth.existingSecret | default (printf "%s-pg" .Release.Name) }}')
    put(
        "placeholder-terraform-var", 'password = var.db_password\ntoken    = data.vault_generic_secret.hf.data["token"]'
    )
    put("placeholder-python-getenv", "token=os.environ['HF_TOKEN'], api_key=os.getenv(\"OPENAI_API_KEY\")")
    put("placeholder-shell-subst", "PGPASSWORD=$(cat /run/secrets/pg) psql -h pg")
    put("placeholder-shell-file", "docker login -u ci --password-stdin reg.local < /run/secrets/reg")
    put("placeholder-percent", "C:\\> set TOKEN=%GITHUB_TOKEN%")
    put("placeholder-your-key", "api_key=YOUR_API_KEY  # replace with your own")
    put("placeholder-xxx", "AWS_SECRET_ACCESS_KEY=xxxxxxxxxxxxxxxxxxxx")
    put("placeholder-hf-stars", "HF_TOKEN=hf_***************")
    put("password-none", "password: (none)")
    put("password-null-json", '{"user": "bob", "password": null, "token": "", "secret": false}')
    put("password-empty", "mysql: connect user='root' (using password: NO)")
    put("password-using-yes", "ERROR 1045 (28000): Access denied for user 'slurm'@'gpu01' (using password: YES)")
    put("password-not-set", "REDIS_PASSWORD is not set; SECRET_KEY: unset; API_TOKEN=<unset>")
    put("token-none-repr", "Namespace(hf_token=None, api_key=None, password='', auth=False, use_auth_token=True)")
    put("token-go-nil", "cfg: {Host:db Password: Token:<nil> Secret:<nil>}")
    put("token-set-flag", "hf_token: set, wandb_key: present, db_password: missing, ngc_key: ok")
    put("token-length-only", "loaded token (length 37) from HF_TOKEN; key length=40 chars")
    put("env-file-vars", "POSTGRES_PASSWORD_FILE=/run/secrets/pg_password WANDB_API_KEY_FILE=/etc/keys/wandb")
    put("env-key-file", "SSL_KEY_FILE=/etc/ssl/private/node.key SSH_AUTH_SOCK=/tmp/ssh-" + g.b62(10) + "/agent.812")
    put("arg-password-file", "restic --password-file /etc/restic.pw snapshots; borg --token-file=/run/tok")
    put("arg-bool", "--enable-auth=true --token-auth-file= --use-auth-token --no-password --key-type=rsa")
    put("env-token-bool", "HF_HUB_DISABLE_IMPLICIT_TOKEN=1 JUPYTER_TOKEN_REQUIRED=false SKIP_PASSWORD_CHECK=yes")
    put("env-names-list", "required variables: AWS_SECRET_ACCESS_KEY, HF_TOKEN, WANDB_API_KEY, DB_PASSWORD")
    put("missing-env", "KeyError: 'WANDB_API_KEY' - environment variable AWS_SECRET_ACCESS_KEY not found")
    put("help-text", "  --password PASSWORD   database password (default: None)\n  --token TOKEN         API token")
    put("help-text-curl", "-u, --user <user:password>  Server user and password")
    put(
        "psql-usage",
        "  -w, --no-password        never prompt for password\n  -W, --password           force password prompt",
    )
    put("doc-url", "See https://docs.acme.io/auth/tokens#rotate-api-key for how to create a personal access token.")
    put("doc-scheme", "expected a URL of the form postgresql://user:password@host:port/dbname")
    put("argparse-error", "train.py: error: argument --hf-token: expected one argument")
    put(
        "validation-missing",
        "1 validation error for Settings\napi_key\n  Field required [type=missing, input_value={}, input_type=dict]",
    )


def _plain_public(g: _Gen, put: PutLine) -> None:
    put("ssh-public-rsa", f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{g.s(B64, 340)}== bob@login1")
    put("ssh-public-ed25519", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{g.s(B64, 43)} root@gpu01")
    put(
        "ssh-known-host",
        f"gpu01,{g.ip()} ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBB{g.s(B64, 87)}=",
    )
    put("pem-public-key", f"-----BEGIN PUBLIC KEY-----\n{g.pem(5)}\n-----END PUBLIC KEY-----")
    put("pem-certificate", f"-----BEGIN CERTIFICATE-----\n{g.pem(12)}\n-----END CERTIFICATE-----")
    put("pem-csr", f"-----BEGIN CERTIFICATE REQUEST-----\n{g.pem(8)}\n-----END CERTIFICATE REQUEST-----")
    put("pem-dh-params", f"-----BEGIN DH PARAMETERS-----\n{g.pem(4)}\n-----END DH PARAMETERS-----")
    put("pgp-public-block", f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{g.pem(6)}\n-----END PGP PUBLIC KEY BLOCK-----")
    put("pgp-signature", f"-----BEGIN PGP SIGNATURE-----\n\n{g.pem(4)}\n-----END PGP SIGNATURE-----")
    put(
        "kubeconfig-ca",
        f"    certificate-authority-data: {g.b64of('-----BEGIN CERTIFICATE-----' + chr(10) + g.pem(4))}",
    )
    put("wireguard-public", f"peer: {g.b64(32)}\n  endpoint: {g.ip()}:51820\n  latest handshake: 12 seconds ago")
    put("age-recipient", "age public key: age1" + g.s(BECH32.lower(), 58))
    put("cosign-pub-path", "verifying with --key /etc/cosign/cosign.pub")
    put(
        "pem-begin-mention", "ssl: unable to load key: expected '-----BEGIN PRIVATE KEY-----' in /etc/ssl/private/x.key"
    )
    put(
        "openssl-no-start-line",
        "140:error:0909006C:PEM routines:get_name:no start line:crypto/pem/pem_lib.c:745:Expecting: ANY PRIVATE KEY",
    )
    put("sentry-public-host", "sentry: sending envelope to https://o451.ingest.sentry.io/api/4505/envelope/")
    put("stripe-publishable-note", "stripe: publishable key configured (pk), mode=test")
    put("dkim-record", f"k=rsa; p={g.s(B64, 216)}")
    put("dnssec", f"example.org. 3600 IN DNSKEY 257 3 13 {g.b64(64)}")
    put(
        "license-text",
        "SPDX-License-Identifier: Apache-2.0; license check ok, 12 seats of feature nvidia-vcs, expires 01-jan-2027",
    )
    put("flexlm-log", '(lmgrd) OUT: "MATLAB" bob@gpu01 (license key valid, 7 of 8 in use)')
    put("oauth-client-id", f"client_id={g.s(DIGITS, 12)}-{g.s(LOWNUM, 32)}.apps.googleusercontent.com scope=openid")
    put(
        "user-at-host-url",
        "Cloning into 'train'... git@github.com:acme/secret-sauce.git; ssh://git@gitlab.local:2222/ml/auth.git",
    )
    put("url-port-only", "redis://redis.local:6379/0 amqp://rabbit:5672 postgresql://bob@pg:5432/x")
    put("email-with-colon", "notify: bob@acme.io: job 812 done; cc: alice@acme.io:ops")
    put("image-with-port", f"reg.local:5000/ml/auth-token-service:1.4@sha256:{g.hex(64)}")


def _plain_services(g: _Gen, put: PutLine) -> None:
    put(
        "postgres-auth-failed",
        'FATAL:  password authentication failed for user "mlflow"; pg_hba.conf line 95: "host all all all'
        ' scram-sha-256"',
    )
    put("postgres-no-password", "fe_sendauth: no password supplied")
    put(
        "postgres-key-violation",
        'ERROR: duplicate key value violates unique constraint "tokens_pkey" DETAIL:  Key (id)=(8812) already exists.',
    )
    put("postgres-alter-log", "STATEMENT:  ALTER TABLE users ADD COLUMN password_hash text NOT NULL DEFAULT ''")
    put(
        "postgres-select",
        "LOG:  duration: 812.1 ms  statement: SELECT id, token_hash, secret_name FROM api_tokens WHERE id = $1",
    )
    put("mysql-key", "Duplicate entry '812-17' for key 'job_table.PRIMARY'; KEY `token_idx` (`token_id`)")
    put("mysql-plugin", "Plugin caching_sha2_password reported: 'Authentication requires secure connection.'")
    put("mysql-cli-warning", "mysql: [Warning] Using a password on the command line interface can be insecure.")
    put("mongo-auth-failed", "MongoServerError: Authentication failed. code: 18 mechanism: SCRAM-SHA-256 db: admin")
    put("mongo-objectid", f"_id: ObjectId('{g.hex(24)}') lsid: {{ id: UUID(\"{g.uuid()}\") }}")
    put(
        "redis-noauth",
        "(error) NOAUTH Authentication required. WRONGPASS invalid username-password pair or user is disabled.",
    )
    put("redis-keys", f"db0:keys={g.n(1, 9999)},expires=12,avg_ttl=0 keyspace_hits:{g.n(1, 9999)} evicted_keys:0")
    put("redis-monitor-get", f'1750000000.1 [0 {g.ip()}:53122] "GET" "session:count:bob"')
    put("redis-crossslot", "CROSSSLOT Keys in request don't hash to the same slot; hash_tag={job:812}")
    put("redis-runid", f"run_id:{g.hex(40)} master_replid:{g.hex(40)} master_replid2:{'0' * 40}")
    put(
        "kafka-record",
        f"offset={g.n(1, 9999)} key=gpu-{g.n(1, 999)} partition=3 leaderEpoch=12 key.serializer=StringSerializer",
    )
    put("kafka-sasl-error", "SaslAuthenticationException: Authentication failed: Invalid username or password")
    put(
        "kafka-config-hidden",
        "\tsasl.jaas.config = [hidden]\n\tssl.key.password = null\n\tssl.keystore.password = null",
    )
    put("kafka-cluster-id", f"Cluster ID: {g.b64u(22)}")
    put("rabbit-refused", "PLAIN login refused: user 'gpu' - invalid credentials")
    put("rabbit-cookie-hash", f"rabbit: cookie hash    : {g.b64(16)}")
    put("nats-auth-violation", 'nats: authorization violation: cid:812 - authentication error - Nkey "user"')
    put(
        "elastic-missing",
        '{"type":"security_exception","reason":"missing authentication credentials for REST request [/_cat]"}',
    )
    put("elastic-doc-id", f"_index=gpu-logs-2025.06 _id={g.b64u(20)} _primary_term=3 _seq_no=9912")
    put("prom-secret-metric", 'kube_secret_info{namespace="training",secret="hf-token"} 1')
    put("prom-auth-metric", 'apiserver_authentication_attempts{result="success"} 81223; token_cache_hits_total 991')
    put("prom-token-metric", f'vllm:generation_tokens_total{{model_name="llama"}} {g.n(10**6, 10**9)}.0')
    put("prom-password-file", "basic_auth: {username: prom, password_file: /etc/prometheus/pw}")
    put(
        "prom-scrape-hidden",
        "remote_write:\n- url: https://x\n  basic_auth:\n    username: u\n    password: <secret>\n  name: m",
    )
    put(
        "grafana-log",
        f'logger=context userId=0 orgId=1 uname= t={g.iso()} level=info msg="Request Completed" path=/api/auth/keys'
        " status=401",
    )
    put(
        "grafana-token-rotate", 'logger=auth.token level=debug msg="auth token rotated" affected=1 userId=7 tokenId=812'
    )
    put("django-csrf-fail", "Forbidden (CSRF token missing or incorrect.): /api/login/")
    put("flask-warning", "UserWarning: SECRET_KEY is too short or not configured; sessions are disabled")
    put("uvicorn", f'INFO:     {g.ip()}:51234 - "POST /v1/tokenize HTTP/1.1" 200 OK')
    put(
        "uvicorn-token-route",
        f'INFO:     {g.ip()}:51234 - "GET /users/me/api-keys/{g.n(1, 99)} HTTP/1.1" 403 Forbidden',
    )
    put(
        "nginx-auth-request",
        'auth request unexpected status: 500 while sending to client, client: 10.0.0.3, request: "GET /token/refresh"',
    )
    put(
        "nginx-no-user",
        'no user/password was provided for basic authentication, client: 10.1.1.1, server: _, request: "GET /'
        ' HTTP/1.1"',
    )
    put("nginx-ssl-key", 'cannot load certificate key "/etc/nginx/tls/tls.key": BIO_new_file() failed')
    put("istio-jwt", "envoy: jwt_authn: Jwt is missing, provider_name=keycloak; x-request-id: " + g.uuid())
    put(
        "requests-401",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url:"
        " https://api.x.io/v1/tokens?limit=10&page=2",
    )
    put("openai-rate", "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29871, Requested 812")
    put(
        "openai-missing-key",
        "openai.OpenAIError: The api_key client option must be set by setting the OPENAI_API_KEY environment variable",
    )
    put(
        "sqlalchemy-engine",
        "sqlalchemy.engine.Engine SELECT users.id, users.password AS users_password FROM users WHERE users.id = ?",
    )
    put("sqlalchemy-cached", "[cached since 12.1s ago] (812, 17) key_count=2")
    put("python-source-line", '    raise AuthenticationError("invalid password for user %s" % user)')
    put("python-import-error", "ModuleNotFoundError: No module named 'keyrings.google_artifactregistry_auth'")
    put("python-signature", "TypeError: login() missing 2 required positional arguments: 'username' and 'password'")
    put(
        "python-json-error",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0); unexpected token: '<'",
    )
    put("js-syntax", "SyntaxError: Unexpected token 'export' at wrapSafe (node:internal/modules/cjs/loader:1378:20)")
    put("cpp-parse", "error: expected ';' before '}' token; note: macro expands to multiple tokens")
    put(
        "yaml-scan",
        "yaml.scanner.ScannerError: while scanning for the next token found character '\\t' that cannot start any"
        " token",
    )
    put("bash-syntax", "bash: -c: line 1: syntax error near unexpected token `('")
    put(
        "java-token",
        "JsonParseException: Unrecognized token 'null1': was expecting (JSON String, Number, Array, Object)",
    )
    put(
        "spark-deleg",
        "HadoopDelegationTokenManager: Using the following builtin delegation token providers: hadoopfs, hbase.",
    )
    put(
        "spark-security",
        "SecurityManager: authentication disabled; ui acls disabled; users with view permissions: Set(bob)",
    )
    put(
        "hdfs-token-renew",
        f"Token cancelled: HDFS_DELEGATION_TOKEN owner=bob, renewer=yarn, realUser=, sequenceNumber={g.n(1, 9999)},"
        " masterKeyId=12",
    )
    put(
        "zookeeper-session",
        f"zookeeper: Session establishment complete, sessionid = 0x{g.hex(15)}, negotiated timeout = 40000",
    )
    put(
        "cassandra-token-ring",
        f"Node /{g.ip()} state jump to NORMAL; tokens: [-{g.s(DIGITS, 18)}, {g.s(DIGITS, 18)}] num_tokens=16",
    )
    put("dynamo-key", "ProvisionedThroughputExceeded table=jobs partition_key=job_id sort_key=created_at consumed=12.5")
    put("ntp-keys", "ntpd: key 0 not found; chronyd: Could not open keyfile /etc/chrony.keys; trustedkey none")
    put("snmp-engine", f"snmpd: engineID 0x80001f88{g.hex(18)} authNoPriv user=mon usmStatsWrongDigests=0")
    put(
        "dhcp",
        f"dhcpd: DHCPACK on {g.ip()} to {':'.join(g.hex(2) for _ in range(6))} via eth0 client-id"
        f" 01:{':'.join(g.hex(2) for _ in range(6))}",
    )
    put(
        "smart-log",
        "Security: password NOT set, frozen, NOT locked; supported: enhanced erase; Master password revision code ="
        " 65534",
    )
    put("hdparm-pw", "\tMaster password revision code = 65534\n\t\tsupported\n\tnot\tenabled\n\tnot\tlocked")
    put("conda-solve", "  - pytorch::pytorch-2.5.0 requires python-keyring >=23, secretstorage, tokenizers 0.20.*")
    put(
        "pip-install",
        "Successfully installed PyJWT-2.9.0 bcrypt-4.2.0 keyring-25.4 passlib-1.7.4 tiktoken-0.8.0 tokenizers-0.20.1",
    )
    put(
        "keyring-backend",
        "keyring.backends.fail: No recommended backend was available; skipping keyring password lookup",
    )
    put(
        "helm-notes",
        "To get your password run:\n    export PG=$(kubectl get secret pg -o jsonpath='{.data.password}' | base64 -d)",
    )
    put(
        "argocd-hint",
        'kubectl -n argocd get secret argocd-initial-admin-secret -o jsonpath="{.data.password}" | base64 -d',
    )
    put("csv-header", "user,password_last_changed,token_count,key_age_days\nbob,2025-01-03,2,41")
    put("table-header", "| token_id | name      | last_used  |\n|       12 | ci-deploy | 2025-06-01 |")
    put(
        "schema-json",
        '{"properties": {"password": {"type": "string", "format": "password", "minLength": 12}}, "required":'
        ' ["password"]}',
    )
    put(
        "openapi-security",
        '"securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}',
    )
    put(
        "feature-flags",
        "auth_backend=oidc password_login=disabled token_source=env secret_store=vault key_provider=kms",
    )
    put("timing", "auth took 12ms, token refresh took 81ms, key lookup took 0.3ms (cache=miss)")
    put(
        "secret-scan-clean",
        "gitleaks: 812 commits scanned, no leaks found; rules: aws-access-token, slack-webhook, private-key",
    )
    put("trivy", "trivy: Number of secrets found: 0 (HIGH: 0) /etc/ssl/private: skipped")
