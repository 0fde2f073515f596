"""Lines with a secret, and harmless lines that look alike, as often as in practice, by another such author.

As in `redaction_author_b`: this author had not seen the patterns, and no pattern was made for these lines.
"""

from __future__ import annotations

import base64
import json
from random import Random

from bench.redaction_shapes import Shape

HEX = "0123456789abcdef"
LOW = "abcdefghijklmnopqrstuvwxyz"
UP = LOW.upper()
DIG = "0123456789"
AN = LOW + UP + DIG
B64 = AN + "+/"
URL = AN + "-_"
WORDS = (
    "gpu",
    "train",
    "falcon",
    "winter",
    "cluster",
    "orange",
    "llama",
    "tensor",
    "rocket",
    "summer",
    "granite",
    "copper",
    "shadow",
    "maple",
    "harbor",
    "violet",
    "nimbus",
    "badger",
    "quartz",
    "meadow",
)


class _Gen:
    """Random building blocks; everything comes from one seeded source."""

    def __init__(self, rng: Random) -> None:
        self.r = rng

    def s(self, alphabet: str, n: int) -> str:
        return "".join(self.r.choice(alphabet) for _ in range(n))

    def hex(self, n: int) -> str:
        return self.s(HEX, n)

    def an(self, n: int) -> str:
        return self.s(AN, n)

    def low(self, n: int) -> str:
        return self.s(LOW + DIG, n)

    def url(self, n: int) -> str:
        return self.s(AN, 1) + self.s(URL, n - 2) + self.s(AN, 1)

    def b64(self, nbytes: int) -> str:
        return base64.b64encode(bytes(self.r.randrange(256) for _ in range(nbytes))).decode()

    def b64u(self, nbytes: int) -> str:
        return base64.urlsafe_b64encode(bytes(self.r.randrange(256) for _ in range(nbytes))).decode().rstrip("=")

    def num(self, n: int) -> str:
        return self.s("123456789", 1) + self.s(DIG, n - 1)

    def i(self, low: int, high: int) -> int:
        return self.r.randint(low, high)

    def uuid(self) -> str:
        return "-".join((self.hex(8), self.hex(4), "4" + self.hex(3), self.s("89ab", 1) + self.hex(3), self.hex(12)))

    def pw(self) -> str:
        """A password as a person or a generator chooses it; no quotes, blanks or URL specials."""
        kind = self.r.randrange(5)
        if kind == 0:
            return self.word().capitalize() + "-" + self.word().capitalize() + self.num(3) + "!"
        if kind == 1:
            return self.an(20)
        if kind == 2:
            return self.word() + "_" + self.num(4) + self.s(UP, 2)
        if kind == 3:
            return self.an(7) + "." + self.an(9)
        return self.s(UP, 1) + self.low(5) + "!" + self.num(4) + self.s(LOW, 3)

    def weak(self) -> str:
        return self.word() + self.num(4)

    def special(self) -> str:
        return self.an(4) + "$" + self.an(3) + "#" + self.an(3) + "^" + self.an(3) + "!"

    def word(self) -> str:
        return self.r.choice(WORDS)

    def ts(self) -> str:
        return f"2025-{self.i(1, 12):02d}-{self.i(1, 28):02d} {self.clock()}"

    def iso(self) -> str:
        return f"2025-{self.i(1, 12):02d}-{self.i(1, 28):02d}T{self.clock()}.{self.num(6)}Z"

    def clock(self) -> str:
        return f"{self.i(0, 23):02d}:{self.i(0, 59):02d}:{self.i(0, 59):02d}"

    def sysl(self) -> str:
        month = self.r.choice(("Jan", "Feb", "Mar", "May", "Jun", "Sep", "Nov"))
        return f"{month} {self.i(1, 28):2d} {self.clock()} {self.node()}"

    def klog(self, level: str = "I") -> str:
        return f"{level}{self.i(1, 12):02d}{self.i(1, 28):02d} {self.clock()}.{self.num(6)} {self.i(1, 9999):7d}"

    def node(self) -> str:
        return f"{self.r.choice(('gpu', 'node', 'dgx', 'h100-', 'worker'))}{self.i(1, 999):03d}"

    def ip(self) -> str:
        return f"10.{self.i(0, 255)}.{self.i(0, 255)}.{self.i(1, 254)}"

    def pid(self) -> int:
        return self.i(1000, 4000000)

    def jwt(self) -> str:
        head = self._seg({"alg": "RS256", "typ": "JWT", "kid": self.an(20)})
        body = self._seg({"iss": "https://sso.corp.example", "sub": self.word(), "exp": int(self.num(10))})
        return f"{head}.{body}.{self.b64u(256)}"

    def jwt_hs(self) -> str:
        head = self._seg({"alg": "HS256", "typ": "JWT"})
        return f"{head}.{self._seg({'sub': self.num(8), 'iat': int(self.num(10))})}.{self.b64u(32)}"

    @staticmethod
    def _seg(obj: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(obj, separators=(",", ":")).encode()).decode().rstrip("=")

    def pem_body(self, lines: int, sep: str, first: str = "MII", width: int = 64) -> str:
        rows = [first + self.s(B64, width - len(first))]
        rows += [self.s(B64, width) for _ in range(lines - 2)]
        rows.append(self.s(B64, 34) + "==")
        return sep.join(rows)

    def basic(self) -> str:
        return base64.b64encode(f"{self.word()}:{self.an(16)}".encode()).decode()

    # vendors' tokens
    def hf(self) -> str:
        return "hf" + "_" + self.s(LOW + UP, 34)

    def akid(self) -> str:
        return "AK" + "IA" + self.s(UP + "234567", 16)

    def asid(self) -> str:
        return "AS" + "IA" + self.s(UP + "234567", 16)

    def aws(self) -> str:
        return self.s(B64, 18) + "/" + self.s(B64, 20) + self.an(1)

    def sess(self) -> str:
        return "IQoJb3JpZ2luX2Vj" + self.s(B64, 420) + "=="

    def oai(self) -> str:
        return "sk-" + "proj-" + self.url(74) + "T3Blbk" + "FJ" + self.url(74)

    def oai_old(self) -> str:
        return "sk-" + self.an(20) + "T3Blbk" + "FJ" + self.an(20)

    def ant(self) -> str:
        return "sk-" + "ant-" + "api03-" + self.url(93) + "AA"

    def ghp(self) -> str:
        return "gh" + "p_" + self.an(36)

    def ghs(self) -> str:
        return "gh" + "s_" + self.an(36)

    def ghpat(self) -> str:
        return "github" + "_pat_" + self.an(22) + "_" + self.an(59)

    def glpat(self) -> str:
        return "gl" + "pat-" + self.url(20)

    def slack_hook(self) -> str:
        return f"T{self.s(UP + DIG, 8)}/B{self.s(UP + DIG, 10)}/{self.an(24)}"

    def xoxb(self) -> str:
        return "xo" + "xb-" + self.num(12) + "-" + self.num(13) + "-" + self.an(24)

    def ngc(self) -> str:
        return "nv" + "api-" + self.url(64)

    def ngc_old(self) -> str:
        return base64.b64encode((self.low(26) + ":" + self.uuid()).encode()).decode()

    def vault(self) -> str:
        return "hv" + "s." + self.an(24)

    def vault_long(self) -> str:
        return "hv" + "s.CAESI" + self.url(90)

    def goog(self) -> str:
        return "AI" + "zaSy" + self.s(URL, 32) + self.an(1)

    def ya29(self) -> str:
        return "ya" + "29.a0A" + self.url(180)

    def azkey(self) -> str:
        return self.b64(64)

    def sas_sig(self) -> str:
        raw = self.b64(32)
        return raw.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")

    def ceph(self) -> str:
        return "AQ" + self.s(B64, 36) + "=="

    def kbootstrap(self) -> str:
        return self.low(6) + "." + self.low(16)

    def grafana(self) -> str:
        return "gl" + "sa_" + self.an(32) + "_" + self.hex(8)

    def pypi(self) -> str:
        return "py" + "pi-AgEIcHlwaS5vcmc" + self.url(150)

    def npm(self) -> str:
        return "np" + "m_" + self.an(36)


def secrets(rng: Random) -> list[Shape]:
    """At least 150 leaks, each with one secret that occurs once."""
    g = _Gen(rng)
    out: list[Shape] = []

    def add(kind: str, before: str, secret: str, after: str = "") -> None:
        out.append(Shape(kind, before + secret + after, secret))

    # ---- environment dumps
    add("env-hf", "HF_TOKEN=", g.hf())
    add("env-rank-prefix", f"[rank{g.i(0, 7)}]: HUGGING_FACE_HUB_TOKEN=", g.hf(), " HF_HOME=/scratch/hf")
    add("env-wandb", "WANDB_API_KEY=", g.hex(40))
    add("env-wandb-export", "+ export WANDB_API_KEY=", g.hex(40))
    add("env-declare-x", 'declare -x WANDB_API_KEY="', g.hex(40), '"')
    add("env-aws-secret", "AWS_SECRET_ACCESS_KEY=", g.aws())
    add("env-aws-both", f"AWS_ACCESS_KEY_ID={g.akid()} AWS_SECRET_ACCESS_KEY=", g.aws(), " AWS_REGION=us-east-1")
    add("env-aws-session", "AWS_SESSION_TOKEN=", g.sess())
    add("env-openai", "OPENAI_API_KEY=", g.oai())
    add("env-anthropic", f"{g.ts()} INFO env: ANTHROPIC_API_KEY=", g.ant())
    add("env-pgpassword", "PGPASSWORD=", g.pw())
    add("env-mysql-pwd", "MYSQL_PWD=", g.pw(), "\nMYSQL_HOST=db01")
    add("env-mysql-root", "MYSQL_ROOT_PASSWORD=", g.weak())
    add("env-minio", "MINIO_ROOT_USER=admin\nMINIO_ROOT_PASSWORD=", g.pw(), "\nMINIO_VOLUMES=/data{1...4}")
    add("env-mlflow", "MLFLOW_TRACKING_USERNAME=ci MLFLOW_TRACKING_PASSWORD=", g.pw())
    add("env-redis", "REDIS_PASSWORD=", g.low(24))
    add("env-ngc", "NGC_API_KEY=", g.ngc())
    add("env-ngc-old", "NGC_CLI_API_KEY=", g.ngc_old())
    add("env-vault", "VAULT_ADDR=https://vault:8200\nVAULT_TOKEN=", g.vault())
    add("env-jupyter", "JUPYTER_TOKEN=", g.hex(48))
    add(
        "env-environ-repr",
        f"environ({{'HOSTNAME': '{g.node()}', 'RANK': '0', 'HF_TOKEN': '",
        g.hf(),
        "', 'LOCAL_RANK': '0', 'PATH': '/usr/bin:/bin'})",
    )
    add(
        "env-environ-repr-wandb",
        f"{g.ts()},{g.num(3)} DEBUG os.environ = {{'SLURM_JOB_ID': '{g.num(6)}', 'WANDB_API_KEY': '",
        g.hex(40),
        "', 'WORLD_SIZE': '64'}",
    )
    add(
        "env-deepspeed-cmd",
        f"[{g.ts()},{g.num(3)}] [INFO] [multinode_runner.py:80:get_cmd] Running on the following "
        f"workers: {g.node()},{g.node()} export NCCL_DEBUG=INFO; export WANDB_API_KEY=",
        g.hex(40),
        "; cd /workspace; /usr/bin/python -u -m deepspeed.launcher.launch",
    )
    add(
        "env-deepspeed-pdsh",
        f"[{g.ts()},{g.num(3)}] [INFO] [runner.py:568:main] cmd = pdsh -S -f 1024 -w {g.node()} "
        "export PYTHONPATH=/workspace; export HF_TOKEN=",
        g.hf(),
        "; cd /workspace; python train.py",
    )
    add("env-slurm-export", "srun: sbatch --export=ALL,HF_TOKEN=", g.hf(), ",NCCL_IB_HCA=mlx5 train.sbatch")
    add(
        "env-docker-inspect",
        '            "Env": [\n                "NVIDIA_VISIBLE_DEVICES=all",\n                "POSTGRES_PASSWORD=',
        g.pw(),
        '",\n                "PGDATA=/var/lib/postgresql/data"\n            ]',
    )
    add(
        "env-ray-runtime",
        f"{g.ts()},{g.num(3)} INFO worker.py:1234 -- runtime_env={{'env_vars': {{'WANDB_API_KEY': '",
        g.hex(40),
        "', 'NCCL_DEBUG': 'INFO'}, 'working_dir': '/app'}",
    )
    add(
        "env-ray-json",
        f"[{g.ts()},{g.num(3)} I {g.pid()} {g.pid()}] (raylet) runtime_env_agent: Creating runtime "
        f"env: "
        '{"envVars":{"AWS_SECRET_ACCESS_KEY":"',
        g.aws(),
        '","OMP_NUM_THREADS":"8"}}',
    )
    add(
        "env-systemd-environment",
        f"{g.sysl()} systemctl[{g.pid()}]: Environment=DATA_SOURCE_NAME=postgresql://exporter:",
        g.an(18),
        "@localhost:5432/postgres?sslmode=disable",
    )
    add(
        "env-k8s-describe",
        "    Environment:\n      NCCL_DEBUG:  INFO\n      HF_TOKEN:    ",
        g.hf(),
        "\n      RANK:        0",
    )
    add(
        "env-k8s-podspec",
        f'{g.klog()} kuberuntime_manager.go:{g.i(800, 1300)}] "container start failed" '
        'container="&Container{Name:vllm,Env:[]EnvVar{EnvVar{Name:HF_TOKEN,Value:',
        g.hf(),
        ',ValueFrom:nil,},EnvVar{Name:TP,Value:8,ValueFrom:nil,},},}"',
    )
    add(
        "env-k8s-podspec-plain",
        f"{g.klog('E')} pod_workers.go:1298] container &Container{{Name:mlflow,Env:[]EnvVar{{"
        "EnvVar{Name:MLFLOW_TRACKING_PASSWORD,Value:",
        g.pw(),
        ",ValueFrom:nil,},},} start failed in pod",
    )
    add(
        "env-k8s-yaml",
        "        env:\n        - name: WANDB_API_KEY\n          value: ",
        g.hex(40),
        '\n        - name: WORLD_SIZE\n          value: "64"',
    )
    add(
        "env-k8s-yaml-pass",
        '    - name: DB_PASSWORD\n      value: "',
        g.pw(),
        '"\n    - name: DB_HOST\n      value: pg',
    )
    add("env-k8s-json", '{"name":"S3_SECRET_KEY","value":"', g.an(40), '"},{"name":"S3_ENDPOINT","value":"minio:9000"}')
    add("env-lower-proxy", "https_proxy=http://svc-train:", g.an(14), "@proxy.corp.example:3128")
    add("env-null-separated", f"/proc/{g.pid()}/environ: LANG=C\\0GITHUB_TOKEN=", g.ghp(), "\\0HOME=/root\\0")
    add("env-custom-key", "INTERNAL_LLM_GATEWAY_KEY=", g.hex(32))
    add("env-django", "SECRET_KEY=", g.an(50))
    add("env-airflow-fernet", "AIRFLOW__CORE__FERNET_KEY=", g.b64u(32) + "=")
    add(
        "env-airflow-conn",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=postgresql+psycopg2://airflow:",
        g.an(16),
        "@airflow-db/airflow",
    )
    add(
        "env-azure-client",
        f"AZURE_TENANT_ID={g.uuid()} AZURE_CLIENT_ID={g.uuid()} AZURE_CLIENT_SECRET=",
        g.an(3) + "8Q~" + g.url(34),
    )
    add("env-comet", "COMET_API_KEY=", g.an(25))
    add("env-slurm-jwt", "SLURM_JWT=", g.jwt_hs())
    add("env-ansible-become", "ANSIBLE_BECOME_PASS=", g.pw())
    add("env-restic", "RESTIC_PASSWORD='", g.special(), "'")
    add("env-quoted-blank", 'SMTP_PASSWORD="', f"{g.word()} {g.word()} {g.word()} {g.num(3)}", '"')
    add("env-pet", "PET_RDZV_CONF=join_timeout=600 REPLICATE_API_TOKEN=", "r8" + "_" + g.an(37))

    # ---- command lines
    add(
        "cmd-vllm-api-key",
        f"root {g.pid()} 0.3 python3 -m vllm.entrypoints.openai.api_server --model llama --api-key ",
        g.an(32),
        " --port 8000",
    )
    add(
        "cmd-vllm-serve-eq",
        "+ vllm serve meta-llama/Llama-3.1-70B-Instruct --api-key=token-",
        g.low(12),
        " --tensor-parallel-size 8",
    )
    add("cmd-hf-login", "+ huggingface-cli login --token ", g.hf(), " --add-to-git-credential")
    add("cmd-wandb-login", "+ wandb login ", g.hex(40))
    add("cmd-wandb-relogin", "+ wandb login --relogin --host=https://wandb.corp.example ", g.hex(40))
    add("cmd-mysql-p", f"{g.sysl()} CRON[{g.pid()}]: (root) CMD (mysqldump -u backup -p", g.pw(), " --all-databases)")
    add("cmd-mysql-long", "mysql: executing: mysql --user=root --password=", g.pw(), " -h db01 -e 'show slave status'")
    add("cmd-redis-cli", "+ redis-cli -h redis-master -a ", g.an(22), " --no-auth-warning ping")
    add(
        "cmd-redis-server", f"redis {g.pid()} 1 0 ? 00:01:02 redis-server *:6379 --requirepass ", g.an(20), " --save ''"
    )
    add(
        "cmd-ray-redis",
        "/usr/lib/ray/gcs_server --redis_address=10.0.0.4 --redis_password=",
        g.hex(32),
        " --gcs_server_port=6379 --node-ip-address=" + g.ip(),
    )
    add(
        "cmd-ray-raylet",
        f"ray {g.pid()} python -u dashboard/agent.py --gcs-address={g.ip()}:6379 --redis-password=",
        g.an(24),
        " --log-dir=/tmp/ray/session_latest/logs",
    )
    add("cmd-ray-start", "+ ray start --head --port=6379 --redis-password='", g.pw(), "' --num-gpus=8")
    add("cmd-curl-bearer", "+ curl -s -H 'Authorization: Bearer ", g.jwt(), "' https://api.corp.example/v1/jobs")
    add(
        "cmd-curl-bearer-hf",
        '+ curl -L -H "Authorization: Bearer ',
        g.hf(),
        '" https://huggingface.co/meta-llama/Llama-2-7b/resolve/main/config.json',
    )
    add("cmd-curl-u", "+ curl -fsSL -u deploy:", g.pw(), " https://artifactory.corp.example/api/storage/wheels")
    add("cmd-curl-user", "+ curl --user 'admin:", g.special(), "' -k https://harbor.corp.example/api/v2.0/projects")
    add(
        "cmd-curl-openai",
        'curl https://api.openai.com/v1/chat/completions -H "Authorization: Bearer ',
        g.oai_old(),
        '" -d \'{"model": "gpt-4o"}\'',
    )
    add(
        "cmd-curl-anthropic",
        "curl https://api.anthropic.com/v1/messages -H 'x-api-key: ",
        g.ant(),
        "' -H 'anthropic-version: 2023-06-01'",
    )
    add("cmd-curl-redfish", "+ curl -k -u root:", g.weak(), f" https://{g.ip()}/redfish/v1/Systems/1/Actions")
    add("cmd-curl-vault", "+ curl -H 'X-Vault-Token: ", g.vault(), "' https://vault:8200/v1/secret/data/train")
    add(
        "cmd-curl-gitlab",
        "+ curl --header 'PRIVATE-TOKEN: ",
        g.glpat(),
        "' https://gitlab.corp.example/api/v4/projects",
    )
    add(
        "cmd-curl-slack",
        "+ curl -X POST -H 'Content-type: application/json' --data '{\"text\":\"job failed\"}' "
        "https://hooks.slack.com/services/",
        g.slack_hook(),
    )
    add("cmd-wget", "+ wget --http-user=mirror --http-password=", g.an(12), " -q https://mirror.corp.example/img.sqsh")
    add(
        "cmd-ipmitool",
        f"{g.sysl()} sudo: ops : TTY=pts/0 ; USER=root ; COMMAND=/usr/bin/ipmitool -I lanplus -H {g.ip()} -U ADMIN -P ",
        g.weak(),
        " chassis power cycle",
    )
    add("cmd-ipmitool-user-set", f"{g.sysl()} sudo: root : COMMAND=/usr/bin/ipmitool user set password 2 ", g.pw())
    add("cmd-ipmi-powerman", f"ipmipower -h {g.node()}-bmc -u admin -p ", g.weak(), " --stat")
    add("cmd-docker-login", "+ docker login nvcr.io -u $oauthtoken -p ", g.ngc_old())
    add("cmd-docker-login-pass", "+ docker login --username ci --password ", g.pw(), " registry.corp.example")
    add(
        "cmd-docker-run-e", "+ docker run --gpus all -e NCCL_DEBUG=INFO -e HF_TOKEN=", g.hf(), " nvcr.io/nvidia/pytorch"
    )
    add("cmd-podman-build-arg", "STEP 3/9: buildah bud --build-arg PIP_INDEX_PASSWORD=", g.pw(), " --tag train:1 .")
    add("cmd-sshpass", "+ sshpass -p '", g.pw(), f"' ssh -o StrictHostKeyChecking=no admin@{g.ip()} show version")
    add("cmd-kubectl-literal", "+ kubectl create secret generic hf --from-literal=token=", g.hf(), " -n train")
    add(
        "cmd-kubectl-regcred",
        "+ kubectl create secret docker-registry ngc --docker-server=nvcr.io "
        "--docker-username='$oauthtoken' --docker-password=",
        g.ngc(),
    )
    add("cmd-kubectl-token", "+ kubectl --server=https://k8s:6443 --token=", g.jwt(), " get nodes -o wide")
    add(
        "cmd-kubeadm",
        f"  kubeadm join {g.ip()}:6443 --token ",
        g.kbootstrap(),
        f" --discovery-token-ca-cert-hash sha256:{g.hex(64)}",
    )
    add("cmd-kubeadm-certkey", f"kubeadm join {g.ip()}:6443 --control-plane --certificate-key ", g.hex(64))
    add(
        "cmd-k3s",
        f"{g.sysl()} k3s[{g.pid()}]: k3s agent --server https://{g.ip()}:6443 --token ",
        "K10" + g.hex(64) + "::server:" + g.hex(32),
    )
    add(
        "cmd-helm-set",
        "+ helm upgrade --install grafana grafana/grafana --set adminPassword=",
        g.pw(),
        " -n monitoring",
    )
    add(
        "cmd-helm-set-nested",
        "+ helm install pg bitnami/postgresql --set auth.postgresPassword=",
        g.an(16),
        ",primary.persistence.size=50Gi",
    )
    add("cmd-mc-alias", f"+ mc alias set ckpt http://{g.ip()}:9000 {g.s(UP + DIG, 20)} ", g.an(40))
    add(
        "cmd-mongo",
        "+ mongosh --host mongo-0 -u root -p ",
        g.pw(),
        " --authenticationDatabase admin --eval 'rs.status()'",
    )
    add(
        "cmd-ldapsearch",
        "+ ldapsearch -x -H ldaps://ldap -D cn=admin,dc=corp,dc=example -w ",
        g.pw(),
        " -b dc=corp uid",
    )
    add("cmd-kinit", "+ echo '", g.pw(), "' | kinit svc-hdfs@CORP.EXAMPLE")
    add("cmd-chpasswd", "+ echo 'ubuntu:", g.pw(), "' | chpasswd")
    add(
        "cmd-az-login",
        f"+ az login --service-principal -u {g.uuid()} -p ",
        g.an(3) + "8Q~" + g.url(34),
        f" --tenant {g.uuid()}",
    )
    add(
        "cmd-azcopy",
        "+ azcopy copy /ckpt 'https://ckptstore.blob.core.windows.net/runs?sv=2022-11-02&ss=b&srt=sco&"
        "sp=rwl&se=2026-01-01T00:00:00Z&sig=",
        g.sas_sig(),
        "' --recursive",
    )
    add("cmd-aws-configure", "+ aws configure set aws_secret_access_key ", g.aws(), " --profile train")
    add(
        "cmd-ceph-mount",
        f"{g.sysl()} sudo: root : COMMAND=/bin/mount -t ceph {g.ip()}:6789:/ /mnt/ceph -o name=train,secret=",
        g.ceph(),
    )
    add(
        "cmd-cifs-mount", "mount -t cifs //nas/data /mnt/data -o username=svc,password=", g.an(15), ",vers=3.0,uid=1000"
    )
    add("cmd-ansible-e", "+ ansible-playbook -i hosts site.yml -e ansible_become_pass=", g.pw(), " --limit gpu")
    add("cmd-terraform-var", "+ terraform apply -auto-approve -var 'db_password=", g.pw(), "' -var region=eu-west-1")
    add("cmd-vault-login", "+ vault login ", g.vault_long())
    add("cmd-vault-kv-put", "+ vault kv put secret/train/db username=app password=", g.pw())
    add("cmd-vault-approle", f"+ vault write auth/approle/login role_id={g.uuid()} secret_id=", g.uuid())
    add("cmd-jupyter", f"[C {g.ts()} ServerApp] jupyter lab --no-browser --ip=0.0.0.0 --ServerApp.token=", g.hex(48))
    add(
        "cmd-git-extraheader",
        "git -c http.extraheader='AUTHORIZATION: basic ",
        base64.b64encode(("x-access-token:" + g.ghs()).encode()).decode(),
        "' fetch --depth=1 origin main",
    )
    add("cmd-torchrun-args", "torchrun --nproc_per_node=8 train.py --wandb_key ", g.hex(40), " --lr 3e-4 --bf16")
    add(
        "cmd-openssl-pass", "+ openssl pkcs12 -export -in node.crt -inkey node.key -out node.p12 -passout pass:", g.pw()
    )
    add(
        "cmd-keytool",
        "+ keytool -importkeystore -srckeystore node.p12 -deststorepass ",
        g.an(12),
        " -destkeystore kafka.jks",
    )
    add(
        "cmd-audit-execve",
        f'type=EXECVE msg=audit({g.num(10)}.{g.num(3)}:{g.num(5)}): argc=5 a0="mysql" a1="-u" a2="root" a3="-p',
        g.pw(),
        '" a4="metrics"',
    )
    add(
        "cmd-argv-list",
        "subprocess.CalledProcessError: Command '['huggingface-cli', 'login', '--token', '",
        g.hf(),
        "']' returned non-zero exit status 1.",
    )
    add(
        "cmd-argv-list-pass",
        "subprocess.CalledProcessError: Command '['pg_dump', '-h', 'db', '--password', '",
        g.pw(),
        "', '-Fc']' returned non-zero exit status 2.",
    )
    add(
        "cmd-sysargv-json",
        f'{{"time":"{g.iso()}","msg":"exec","args":["/bin/exporter","--db.password","',
        g.pw(),
        '","--web.listen-address",":9104"]}',
    )

    # ---- connection strings, URLs
    add(
        "url-postgres",
        f"{g.ts()} INFO mlflow.store.db.utils: Creating engine postgresql://mlflow:",
        g.pw(),
        "@pg-0.pg:5432/mlflow",
    )
    add(
        "url-postgres-special",
        "sqlalchemy.exc.OperationalError: could not connect: postgresql+psycopg2://app:",
        g.an(5) + "%40" + g.an(6) + "%21",
        "@10.1.2.3/app",
    )
    add("url-at-in-pass", "dsn = mysql+pymysql://slurm:", g.an(4) + "@" + g.an(7), "@dbhost:3306/slurm_acct_db")
    add("url-redis", f"{g.ts()} celery.worker: Connected to redis://:", g.an(24), "@redis-master:6379/0")
    add(
        "url-redis-hash",
        "redis.exceptions.ConnectionError: Error 111 connecting to rediss://default:",
        g.an(6) + "#" + g.an(8),
        "@cache:6380",
    )
    add("url-amqp", "kombu.connection: amqp://guest-ci:", g.pw(), "@rabbit:5672//")
    add(
        "url-mongo-srv",
        "pymongo.errors.ServerSelectionTimeoutError: mongodb+srv://trainer:",
        g.an(16),
        "@cluster0.ab1cd.mongodb.net/runs?retryWrites=true",
    )
    add("url-mongo-multi", "mongodb://root:", g.pw(), "@m-0:27017,m-1:27017,m-2:27017/admin?replicaSet=rs0")
    add(
        "url-libpq",
        "psycopg2.OperationalError: dsn: host=pg port=5432 user=app password=",
        g.pw(),
        " dbname=metrics connect_timeout=5",
    )
    add(
        "url-libpq-quoted",
        "conninfo=\"host=pg-1 user=replicator password='",
        g.an(9) + " " + g.an(6),
        "' application_name=walreceiver\"",
    )
    add(
        "url-odbc",
        "DRIVER={ODBC Driver 18 for SQL Server};SERVER=tcp:sql,1433;DATABASE=bill;UID=sa;PWD=",
        g.special(),
        ";Encrypt=yes",
    )
    add("url-ado", "Server=db;Database=runs;User Id=app;Password=", g.pw(), ";TrustServerCertificate=true")
    add("url-jdbc", "jdbc:postgresql://pg:5432/hive?user=hive&password=", g.pw(), "&ssl=true")
    add("url-go-mysql", f'{g.ts()} [error] dial failed dsn="exporter:', g.an(16), '@tcp(127.0.0.1:3306)/?timeout=5s"')
    add(
        "url-azure-conn",
        "DefaultEndpointsProtocol=https;AccountName=ckptstore;AccountKey=",
        g.azkey(),
        ";EndpointSuffix=core.windows.net",
    )
    add(
        "url-azure-sb",
        "Endpoint=sb://train.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=",
        g.b64(32),
    )
    add(
        "url-sas",
        f"{g.ts()} azure.core GET https://ckptstore.blob.core.windows.net/m/w.bin?sp=r&st=2025-01-"
        f"01T00:00:00Z"
        "&spr=https&sv=2022-11-02&sr=b&sig=",
        g.sas_sig(),
        " 403",
    )
    add(
        "url-s3-presigned",
        f"GET https://ckpt.s3.amazonaws.com/step_1000.pt?X-Amz-Algorithm=AWS4-HMAC-SHA256&"
        f"X-Amz-Credential={g.akid()}%2F20250301%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20250301T010203Z&"
        "X-Amz-Expires=3600&X-Amz-SignedHeaders=host&X-Amz-Signature=",
        g.hex(64),
        " HTTP/1.1 200",
    )
    add(
        "url-s3-presigned-token",
        'urllib3.connectionpool: https://ckpt.s3.amazonaws.com:443 "GET /a.pt?X-Amz-Date='
        "20250301T010203Z&X-Amz-Security-Token=",
        g.sess().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
        '&X-Amz-SignedHeaders=host HTTP/1.1" 200 None',
    )
    add(
        "url-gcs-signed",
        "https://storage.googleapis.com/bkt/shard-0001.tar?X-Goog-Algorithm=GOOG4-RSA-SHA256&"
        "X-Goog-Date=20250301T010203Z&X-Goog-Expires=900&X-Goog-SignedHeaders=host&X-Goog-Signature=",
        g.hex(512),
    )
    add(
        "url-cloudfront",
        "Redirect to https://cdn-lfs.huggingface.co/repos/a/b/c?response-content-disposition=inline&"
        "Policy=" + g.an(60) + "__&Key-Pair-Id=" + "K" + g.s(UP + DIG, 13) + "&Signature=",
        g.s(AN + "-~", 340) + "__",
    )
    add(
        "url-google-key",
        "httpx: HTTP Request: POST https://generativelanguage.googleapis.com/v1beta/models/gemini-pro"
        ":generateContent?key=",
        g.goog(),
        ' "HTTP/1.1 429 Too Many Requests"',
    )
    add(
        "url-access-token-q",
        f'{g.ip()} - - [01/Mar/2025:01:02:03 +0000] "GET /api/v1/runs?limit=50&access_token=',
        g.url(43),
        ' HTTP/1.1" 200 1543',
    )
    add("url-jupyter", "    http://127.0.0.1:8888/lab?token=", g.hex(48))
    add("url-jupyter-or", f"[I {g.ts()}.{g.num(3)} ServerApp] http://{g.node()}:8888/tree?token=", g.hex(48))
    add(
        "url-git-clone",
        "Cloning into 'train'...\nfatal: unable to access 'https://oauth2:",
        g.glpat(),
        "@gitlab.corp.example/ml/train.git/': Could not resolve host",
    )
    add("url-git-remote", "origin\thttps://", g.ghp(), "@github.com/acme/megatron.git (fetch)")
    add("url-git-x-access", "remote: https://x-access-token:", g.ghs(), "@github.com/acme/infra.git")
    add(
        "url-git-pip",
        "  Running command git clone --filter=blob:none --quiet https://",
        g.ghpat(),
        "@github.com/acme/kernels.git /tmp/pip-req-build-x",
    )
    add(
        "url-git-user-pass",
        "fatal: Authentication failed for 'https://ci-bot:",
        g.pw(),
        "@git.corp.example/ml/data.git/'",
    )
    add("url-git-hf", "Cloning https://user:", g.hf(), "@huggingface.co/acme/private-model to /scratch/m")
    add(
        "url-pip-index",
        "Looking in indexes: https://pypi.corp.example/simple, https://ci:",
        g.an(20),
        "@artifactory.corp.example/api/pypi/pypi/simple",
    )
    add(
        "url-pip-codeartifact",
        "Looking in indexes: https://aws:",
        g.jwt_hs(),
        "@acme-1.d.codeartifact.us-east-1.amazonaws.com/pypi/ml/simple/",
    )
    add("url-conda-token", "  - https://conda.anaconda.org/t/", "ac-" + g.uuid(), "/acme/linux-64")
    add(
        "url-slack-hook",
        f'{g.ts()} alertmanager level=error msg="notify failed" err="Post https://hooks.slack.com/services/',
        g.slack_hook(),
        ': context deadline exceeded"',
    )
    add(
        "url-discord-hook",
        f"requests.exceptions.HTTPError: 429 for url: https://discord.com/api/webhooks/{g.num(18)}/",
        g.url(68),
    )
    add(
        "url-teams-hook",
        "POST https://acme.webhook.office.com/webhookb2/"
        + g.uuid()
        + "@"
        + g.uuid()
        + "/IncomingWebhook/"
        + g.hex(32)
        + "/",
        g.uuid(),
        " 400",
    )
    add(
        "url-telegram",
        "HTTPSConnectionPool(host='api.telegram.org', port=443): url: /bot",
        g.num(10) + ":AA" + g.url(33),
        "/sendMessage (Caused by NewConnectionError)",
    )
    add("url-feishu", "notify: POST https://open.feishu.cn/open-apis/bot/v2/hook/", g.uuid(), " -> 200")
    add("url-dingtalk", "POST https://oapi.dingtalk.com/robot/send?access_token=", g.hex(64))
    add("url-wecom", "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=", g.uuid(), " errcode=93000")
    add(
        "url-pagerduty", '{"event_action":"trigger","routing_key":"', g.hex(32), '","payload":{"summary":"GPU Xid 79"}}'
    )
    add("url-sentry", f"sentry_sdk init dsn=https://{g.hex(32)}:", g.hex(32), f"@sentry.corp.example/{g.i(2, 40)}")
    add("url-smtp", "smtp://alerts%40corp.example:", g.an(16), "@smtp.corp.example:587")
    add("url-ftp", "wget: ftp://mirror:", g.weak(), "@ftp.corp.example/cuda/cuda_12.4.run: 550")
    add("url-nats", f"[{g.pid()}] {g.ts()} [INF] route nats-route://ruser:", g.an(22), "@nats-1:6222 connected")
    add("url-proxy-apt", 'Acquire::http::Proxy "http://apt:', g.an(12), '@proxy:3128";')
    add(
        "url-oauth-callback",
        f'{g.ip()} "GET /oauth2/callback?code=',
        "4/0A" + g.url(70),
        "&state=" + "x" * 6 + ' HTTP/1.1" 302 -',
    )
    add("url-clickhouse", "http://clickhouse:8123/?user=default&password=", g.pw(), "&query=SELECT+1")
    add("url-influx", "POST http://influx:8086/write?db=dcgm&u=telegraf&p=", g.an(14), "&precision=ns 401")
    add("url-rabbit-etcd", "etcdctl --endpoints=https://etcd:2379 --user root:", g.pw(), " endpoint health")

    # ---- config dumps
    add("cfg-namespace", "Namespace(model='llama', lr=0.0003, hf_token='", g.hf(), "', seed=42, bf16=True)")
    add(
        "cfg-namespace-vllm",
        f"INFO {g.ts()} [api_server.py:{g.i(200, 1900)}] args: Namespace(host='0.0.0.0', "
        f"port=8000, "
        "allow_credentials=False, api_key='",
        g.an(28),
        "', lora_modules=None, tokenizer=None, max_model_len=8192)",
    )
    add(
        "cfg-vllm-api-key-list",
        f"INFO {g.ts()} [utils.py:233] non-default args: {{'model': 'q', 'api_key': ['",
        g.an(24),
        "'], 'tensor_parallel_size': 4}",
    )
    add(
        "cfg-megatron-args",
        "  wandb_api_key .................................. ",
        g.hex(40),
        "\n  weight_decay ................................... 0.1",
    )
    add("cfg-hydra-yaml", "wandb:\n  project: pretrain\n  api_key: ", g.hex(40), "\n  mode: online")
    add("cfg-hydra-pass", "tracking:\n  uri: http://mlflow:5000\n  username: ci\n  password: ", g.pw(), "\nseed: 1234")
    add(
        "cfg-omegaconf-dict",
        "{'data': {'s3': {'endpoint': 'minio:9000', 'access_key': 'train', 'secret_key': '",
        g.an(32),
        "'}}, 'trainer': {'devices': 8}}",
    )
    add(
        "cfg-dataclass",
        "S3Config(endpoint='https://s3', bucket='ckpt', access_key_id='" + g.akid() + "', secret_access_key='",
        g.aws(),
        "', verify=True)",
    )
    add("cfg-dataclass-pass", "DBConfig(host='pg', port=5432, user='app', password='", g.special(), "', pool_size=20)")
    add("cfg-pydantic", "host='0.0.0.0' port=8080 jwt_secret='", g.hex(64), "' log_level='info'")
    add(
        "cfg-json",
        f'{{"level":"debug","ts":"{g.iso()}","msg":"config loaded","cfg":{{"db":{{"user":"app","password":"',
        g.pw(),
        '","host":"pg"}}}}',
    )
    add(
        "cfg-json-escaped",
        '{"log":"loaded {\\"api_key\\": \\"',
        g.an(40),
        f'\\", \\"region\\": \\"eu\\"}}\\n","stream":"stderr","time":"{g.iso()}"}}',
    )
    add(
        "cfg-json-pretty",
        '{\n  "endpoint": "https://api.corp.example",\n  "clientSecret": "',
        g.url(40),
        '",\n  "scopes": ["read"]\n}',
    )
    add(
        "cfg-go-struct",
        f"{g.klog()} main.go:{g.i(10, 300)}] config: &{{Addr:redis:6379 Username: Password:",
        g.an(20),
        " DB:0 MaxRetries:3}",
    )
    add(
        "cfg-go-struct-q",
        'cfg=&config.S3{Endpoint:"minio:9000", AccessKey:"loki", SecretKey:"',
        g.an(40),
        '", Insecure:true}',
    )
    add(
        "cfg-ini", "[default]\naws_access_key_id = " + g.akid() + "\naws_secret_access_key = ", g.aws(), "\nregion = us"
    )
    add("cfg-pgpass", "pg.corp.example:5432:metrics:grafana:", g.pw())
    add("cfg-netrc", "machine api.wandb.ai\n  login user\n  password ", g.hex(40))
    add("cfg-netrc-line", "machine git.corp.example login ci password ", g.pw())
    add("cfg-git-credentials", "git-credential: protocol=https\nhost=github.com\nusername=ci\npassword=", g.ghp())
    add(
        "cfg-dockerconfig",
        '{"auths":{"nvcr.io":{"auth":"',
        base64.b64encode(("$oauthtoken:" + g.ngc()).encode()).decode(),
        '"}}}',
    )
    add("cfg-dockerconfig-pw", '{"auths":{"registry.corp.example":{"username":"ci","password":"', g.an(18), '"}}}')
    add(
        "cfg-containerd",
        '      [plugins.cri.registry.configs."nvcr.io".auth]\n        username = "$oauthtoken"\n        password = "',
        g.ngc(),
        '"',
    )
    add("cfg-slurmdbd", f"[{g.iso()[:-1]}] debug2: StoragePass       = ", g.pw())
    add("cfg-slurmdbd-conf", "StorageHost=db01\nStoragePass=", g.pw(), "\nStorageUser=slurm")
    add("cfg-ceph-keyring", "[client.admin]\n\tkey = ", g.ceph(), '\n\tcaps mon = "allow *"')
    add(
        "cfg-ceph-auth-get",
        'ceph auth get-or-create: {"entity":"client.train","key":"',
        g.ceph(),
        '","caps":{"osd":"rw"}}',
    )
    add(
        "cfg-ceph-rgw-user",
        '"keys": [{"user": "train", "access_key": "' + g.s(UP + DIG, 20) + '", "secret_key": "',
        g.an(40),
        '"}],',
    )
    add(
        "cfg-kafka-jaas",
        "sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="producer" password="',
        g.an(20),
        '";',
    )
    add(
        "cfg-librdkafka",
        "{'bootstrap.servers': 'kafka:9092', 'security.protocol': 'SASL_SSL', 'sasl.username': 'p', 'sasl.password': '",
        g.b64(48),
        "'}",
    )
    add("cfg-kafka-ssl", "ssl.keystore.password = ", g.an(14), "\n\tssl.keystore.type = JKS")
    add("cfg-hadoop", "<property><name>fs.s3a.secret.key</name><value>", g.aws(), "</value></property>")
    add("cfg-spark", "spark.hadoop.fs.s3a.secret.key=", g.aws())
    add(
        "cfg-fsspec",
        "storage_options={'key': '" + g.akid() + "', 'secret': '",
        g.aws(),
        "', 'client_kwargs': {'endpoint_url': 'http://minio:9000'}}",
    )
    add(
        "cfg-boto-client",
        "boto3.client('s3', aws_access_key_id='" + g.akid() + "', aws_secret_access_key='",
        g.aws(),
        "')",
    )
    add(
        "cfg-sts-json",
        '{"Credentials":{"AccessKeyId":"' + g.asid() + '","SecretAccessKey":"',
        g.aws(),
        '","Expiration":"2025-03-01T02:03:04Z"}}',
    )
    add(
        "cfg-sts-xml",
        "<Credentials><AccessKeyId>" + g.asid() + "</AccessKeyId><SecretAccessKey>",
        g.aws(),
        "</SecretAccessKey></Credentials>",
    )
    add("cfg-sts-token", '"SessionToken": "', g.sess(), '", "Expiration": "2025-03-01T02:03:04Z"')
    add(
        "cfg-imds",
        f'{{"Code" : "Success", "Type" : "AWS-HMAC", "AccessKeyId" : "{g.asid()}", "SecretAccessKey" : "',
        g.aws(),
        '"}',
    )
    add("cfg-gcp-token", '{"access_token":"', g.ya29(), '","expires_in":3599,"token_type":"Bearer"}')
    add(
        "cfg-refresh",
        f'{{"client_id":"{g.num(12)}.apps.googleusercontent.com","refresh_token":"',
        "1//0" + g.url(99),
        '","type":"authorized_user"}',
    )
    add(
        "cfg-client-secret-google",
        '"client_secret": "',
        "GOC" + "SPX-" + g.url(28),
        '", "redirect_uris": ["http://lo"]',
    )
    add(
        "cfg-k8s-secret-yaml",
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: hf\ndata:\n  token: ",
        base64.b64encode(g.hf().encode()).decode(),
    )
    add("cfg-k8s-secret-stringdata", "kind: Secret\nstringData:\n  password: ", g.pw(), "\ntype: Opaque")
    add("cfg-kubeconfig-token", "users:\n- name: admin\n  user:\n    token: ", g.jwt())
    add(
        "cfg-kubeconfig-keydata",
        "    client-key-data: ",
        base64.b64encode(("-----BEGIN RSA " + "PRIVATE KEY-----\n" + g.pem_body(20, "\n")).encode()).decode(),
    )
    add("cfg-ansible-out", f'ok: [{g.node()}] => {{\n    "ansible_ssh_pass": "', g.pw(), '"\n}')
    add(
        "cfg-ansible-invocation",
        f'changed: [{g.node()}] => {{"invocation": {{"module_args": {{"login_user": "root", "login_password": "',
        g.pw(),
        '", "name": "slurm", "state": "present"}}}',
    )
    add("cfg-terraform-output", 'Outputs:\n\ndb_password = "', g.special(), '"\nvpc_id = "vpc-' + g.hex(17) + '"')
    add(
        "cfg-terraform-plan",
        '  + resource "random_password" "db" {\n      + length = 20\n      ~ master_password = "',
        g.an(20),
        '" -> (known after apply)',
    )
    add("cfg-tfstate", '"attributes": {"engine": "postgres", "password": "', g.an(24), '", "port": 5432}')
    add(
        "cfg-vault-table",
        "Key                  Value\n---                  -----\ntoken                ",
        g.vault(),
        "\ntoken_duration       768h",
    )
    add("cfg-vault-unseal", "Unseal Key 1: ", g.b64(33))
    add("cfg-vault-root", "Initial Root Token: ", g.vault())
    add(
        "cfg-vault-json",
        f'{{"request_id":"{g.uuid()}","auth":{{"client_token":"',
        g.vault_long(),
        '","policies":["default"]}}',
    )
    add(
        "cfg-wandb-settings",
        "wandb: DEBUG settings: {'entity': 'acme', 'api_key': '",
        g.hex(40),
        "', 'mode': 'online'}",
    )
    add(
        "cfg-ds-json",
        '{"train_batch_size": 512, "comet": {"enabled": true, "api_key": "',
        g.an(25),
        '"}, "zero_optimization": {"stage": 3}}',
    )
    add("cfg-litellm", "model_list:\n- model_name: gpt-4o\n  litellm_params:\n    api_key: ", g.oai_old())
    add("cfg-litellm-master", "general_settings: {'master_key': '", "sk-" + g.low(16), "', 'database_url': None}")
    add(
        "cfg-azure-openai",
        "AzureOpenAI(azure_endpoint='https://acme.openai.azure.com', api_key='",
        g.hex(32),
        "', api_version='2024-06-01')",
    )
    add("cfg-camel", f"{g.iso()} debug loaded {{ dbPassword: '", g.pw(), "', dbHost: 'pg' }")
    add("cfg-toml", '[auth]\nbearer_token = "', g.url(43), '"\ntimeout = 30')
    add("cfg-grafana-ini", "admin_user = admin\nadmin_password = ", g.pw(), "\nallow_sign_up = false")
    add(
        "cfg-grafana-env",
        f'logger=settings t={g.iso()} level=info msg="Config overridden from Environment '
        f'variable" '
        'var="GF_SMTP_PASSWORD=',
        g.pw(),
        '"',
    )
    add("cfg-loki", "storage_config:\n  aws:\n    s3: s3://loki:", g.an(30), "@minio:9000/loki")
    add(
        "cfg-prom-remote",
        "remote_write:\n- url: https://prom/api/v1/write\n  basic_auth:\n    username: '12345'\n    password: ",
        "gl" + "c_" + g.b64(90),
    )
    add(
        "cfg-alertmanager",
        "smtp_auth_username: alerts\nsmtp_auth_password: ",
        g.s(LOW, 4) + " " + g.s(LOW, 4) + " " + g.s(LOW, 4) + " " + g.s(LOW, 4),
    )
    add(
        "cfg-sssd",
        "(2025-03-01  1:02:03): [be[corp]] [dp_get_options] (0x0400): Option ldap_default_authtok has value ",
        g.pw(),
    )
    add(
        "cfg-mongo-kv",
        "MongoClient(host=['m:27017'], document_class=dict, username='u', password='",
        g.pw(),
        "', authsource='admin')",
    )
    add("cfg-psycopg-kwargs", "connect() kwargs: {'host': 'pg', 'user': 'app', 'passwd': '", g.pw(), "', 'port': 3306}")
    add("cfg-tuple", "cursor.execute args: ('alice', 'alice@corp.example') password: '", g.pw(), "'")
    add("cfg-bytes", "{b'authkey': b'", g.hex(32), "', b'rank': b'0'}")
    add("cfg-wireguard", "[Interface]\nPrivateKey = ", g.b64(32), "\nListenPort = 51820")
    add("cfg-snmp", "snmpd[812]: createUser monitor SHA ", g.pw(), " AES")
    add("cfg-snmp-community", "snmpget -v2c -c ", g.weak(), f" {g.ip()} 1.3.6.1.2.1.1.5.0")
    add("cfg-rsync", "rsync: RSYNC_PASSWORD=", g.an(11), " rsync -a ckpt rsync://bk@nas/ckpt")
    add(
        "cfg-django-dict",
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.postgresql', 'USER': 'lbl', 'PASSWORD': '",
        g.pw(),
        "', 'HOST': 'pg'}}",
    )
    add(
        "cfg-redfish-body",
        'POST /redfish/v1/SessionService/Sessions {"UserName": "root", "Password": "',
        g.weak(),
        '"}',
    )
    add("cfg-pxe-rootpw", "rootpw --plaintext ", g.pw())
    add("cfg-shadow", "root:", "$6$" + g.an(16) + "$" + g.s(AN + "./", 86), ":19876:0:99999:7:::")
    add("cfg-pg-md5", f"{g.ts()} UTC [{g.pid()}] LOG:  statement: CREATE ROLE app LOGIN PASSWORD 'md5", g.hex(32), "'")
    add("cfg-htpasswd", "prometheus:", "$2y$10$" + g.s(AN + "./", 53))

    # ---- SQL statements
    add("sql-alter-role", f"{g.ts()} UTC [{g.pid()}] LOG:  statement: ALTER USER mlflow WITH PASSWORD '", g.pw(), "';")
    add(
        "sql-create-user",
        f"{g.ts()} UTC [{g.pid()}] STATEMENT:  CREATE ROLE grafana LOGIN ENCRYPTED PASSWORD '",
        g.pw(),
        "'",
    )
    add(
        "sql-mysql-identified",
        f"{g.iso()}\t   {g.i(3, 99)} Query\tCREATE USER 'slurm'@'%' IDENTIFIED BY '",
        g.pw(),
        "'",
    )
    add(
        "sql-mysql-grant",
        "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost' IDENTIFIED BY '",
        g.weak(),
        "' WITH GRANT",
    )
    add(
        "sql-mysql-temp",
        f"{g.iso()} 6 [Note] [MY-010454] [Server] A temporary password is generated for root@localhost: ",
        g.an(4) + "/" + g.an(3) + "!" + g.an(4),
    )
    add("sql-redis-auth", f'{g.num(10)}.{g.num(6)} [0 {g.ip()}:50412] "AUTH" "', g.an(20), '"')
    add("sql-redis-config", f'{g.num(10)}.{g.num(6)} [0 {g.ip()}:50412] "CONFIG" "SET" "requirepass" "', g.pw(), '"')
    add(
        "sql-change-master",
        "CHANGE MASTER TO MASTER_HOST='db02', MASTER_USER='repl', MASTER_PASSWORD='",
        g.pw(),
        "', MASTER_LOG_POS=154",
    )
    add("sql-duckdb", "CREATE SECRET (TYPE s3, KEY_ID '" + g.akid() + "', SECRET '", g.aws(), "', REGION 'eu')")
    add(
        "sql-clickhouse-s3",
        "SELECT * FROM s3('https://s3/b/*.parquet', '" + g.akid() + "', '",
        g.aws(),
        "', 'Parquet')",
    )

    # ---- HTTP headers
    add(
        "hdr-auth-bearer-dict",
        "DEBUG:urllib3: headers={'User-Agent': 'hub/0.23', 'Authorization': 'Bearer ",
        g.hf(),
        "', 'Accept': '*/*'}",
    )
    add("hdr-bearer-opaque", "> Authorization: Bearer ", g.url(43))
    add("hdr-lower", "authorization: Bearer ", g.jwt())
    add("hdr-basic", "> Authorization: Basic ", g.basic(), "\r")
    add(
        "hdr-http-client",
        "send: b'GET /api/2.0/mlflow/runs/search HTTP/1.1\\r\\nHost: mlflow\\r\\nAuthorization: Basic ",
        g.basic(),
        "\\r\\nAccept: */*\\r\\n\\r\\n'",
    )
    add(
        "hdr-httpx-tuples",
        "send_request_headers.started headers=[(b'Host', b'api.x'), (b'Authorization', b'Bearer ",
        g.oai(),
        "'), (b'Accept', b'*/*')]",
    )
    add("hdr-openai-api-key", "Request options: {'method': 'post', 'headers': {'api-key': '", g.hex(32), "'}}")
    add("hdr-x-api-key", "x-api-key: ", g.an(40))
    add("hdr-x-auth-redfish", "< HTTP/1.1 201 Created\n< X-Auth-Token: ", g.hex(32), "\n< Location: /redfish/v1/Sess/1")
    add(
        "hdr-openstack", 'REQ: curl -g -i -X GET https://nova:8774/v2.1 -H "X-Auth-Token: ', "gAAAAAB" + g.url(170), '"'
    )
    add("hdr-cookie", "< Set-Cookie: sessionid=", g.low(32), "; Path=/; HttpOnly; SameSite=Lax")
    add("hdr-cookie-grafana", "Cookie: grafana_session=", g.hex(32), "; grafana_session_expiry=1741000000")
    add(
        "hdr-cookie-jupyter",
        "'Cookie': 'username-localhost-8888=\"",
        "2|1:0|10:" + g.num(10) + "|23:username|44:" + g.b64(33) + "|" + g.hex(64),
        "\"'",
    )
    add(
        "hdr-aws-sigv4",
        f"Authorization: AWS4-HMAC-SHA256 Credential={g.akid()}/20250301/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=",
        g.hex(64),
    )
    add("hdr-amz-token", "botocore.endpoint DEBUG headers: X-Amz-Security-Token:", g.sess())
    add("hdr-imds-token", "X-aws-ec2-metadata-token: ", "AQAEA" + g.url(49) + "==")
    add("hdr-go-map", "http: request headers map[Accept:[*/*] Authorization:[Bearer ", g.jwt(), "] User-Agent:[curl]]")
    add("hdr-grpc-meta", "metadata=(('authorization', 'Bearer ", g.url(48), "'), ('x-request-id', '" + g.uuid() + "'))")
    add("hdr-grafana", "curl: > Authorization: Bearer ", g.grafana())
    add("hdr-slack", "slack_sdk.web.base_client: headers: {'Authorization': 'Bearer ", g.xoxb(), "'}")
    add("hdr-token-scheme", "Authorization: token ", g.ghp())
    add("hdr-slurmrestd", "X-SLURM-USER-NAME:root X-SLURM-USER-TOKEN:", g.jwt_hs())
    add("hdr-negotiate", "Authorization: Negotiate ", "YII" + g.s(B64, 400) + "==")
    add("hdr-proxy-auth", "* Proxy auth using Basic\n> Proxy-Authorization: Basic ", g.basic())
    add(
        "hdr-nginx-debug",
        f'2025/03/01 01:02:03 [debug] {g.pid()}#0: *{g.num(4)} http header: "Authorization: Bearer ',
        g.an(40),
        '"',
    )
    add(
        "hdr-envoy",
        "[debug][http] request headers complete:\n':path', '/v1/completions'\n'authorization', 'Bearer ",
        "sk-" + g.an(32),
        "'",
    )
    add("hdr-x-goog", "x-goog-api-key: ", g.goog())

    # ---- tracebacks and free text
    add("tb-locals", "    token      = '", g.hf(), "'\n    revision   = 'main'")
    add("tb-rich-locals", "│ password = '", g.pw(), "'                                     │")
    add("tb-call", '  File "/app/train.py", line 41, in <module>\n    login(token="', g.hf(), '")')
    add("tb-wandb-call", '  File "train.py", line 12, in main\n    wandb.login(key="', g.hex(40), '")')
    add("tb-connect-call", '    conn = psycopg2.connect(host="pg", user="app", password="', g.pw(), '")')
    add("tb-env-set", '    os.environ["AWS_SECRET_ACCESS_KEY"] = "', g.aws(), '"')
    add(
        "tb-openai-401",
        "openai.AuthenticationError: Error code: 401 - {'error': {'message': 'Incorrect API key provided: ",
        g.oai_old(),
        ". You can find your API key at https://platform.openai.com/account/api-keys.'}}",
    )
    add(
        "tb-hf-illegal-header",
        "requests.exceptions.InvalidHeader: Invalid leading whitespace, reserved character(s),"
        " or "
        "return character(s) in header value: 'Bearer ",
        g.hf(),
        "\\n'",
    )
    add("tb-ray-actor", f"ray::Worker.init() (pid={g.pid()}, ip={g.ip()})\n  kwargs={{'api_key': '", g.an(36), "'}")
    add(
        "tb-pydantic",
        "pydantic_core.ValidationError: 1 validation error for Settings\ndb_password\n  Extra inputs "
        "are not "
        "permitted [type=extra_forbidden, input_value='",
        g.pw(),
        "', input_type=str]",
    )
    add("tb-hydra-override", "Error parsing override 'wandb.api_key=", g.hex(40), " extra'")
    add("tb-argparse-unrec", "train.py: error: unrecognized arguments: --wandb-api-key ", g.hex(40))
    add("tb-bash-notfound", "/var/spool/slurmd/job123/slurm_script: line 14: ", g.hf(), ": command not found")
    add("tb-bash-export-bad", "bash: export: `", g.ghp(), "': not a valid identifier")
    add("txt-password-is", f"{g.ts()} INFO Created admin user; the password is ", g.an(16))
    add("txt-generated-pass", "Generated password for 'admin': ", g.an(20))
    add("txt-harbor-robot", "robot$ci created, secret: ", g.an(32))
    add("txt-grafana-reset", "Admin password changed successfully to '", g.pw(), "'")
    add("txt-user-pass-slash", f"{g.ts()} WARN login failed for ipmi ADMIN/", g.weak(), " on lanplus")
    add(
        "txt-elastic",
        "Password for the elastic user (reset with `bin/elasticsearch-reset-password -u elastic`):\n  ",
        g.an(10) + "*" + g.an(9),
    )
    add("txt-argocd", "argocd initial admin password: ", g.an(16))
    add("txt-debug-login", f"{g.ts()} DEBUG ldap3: bind user=uid=ops,ou=people password='", g.pw(), "' result=49")
    add("txt-jenkins", "Please use the following password to proceed to installation:\n\n", g.hex(32), "\n\n")
    add("txt-minio-banner", "API: http://10.0.0.5:9000\nRootUser: admin\nRootPass: ", g.pw())
    add("txt-bmc-sol", f"{g.node()} login: root\nPassword: ", g.weak())
    add("txt-using-token", f"{g.ts()} [DEBUG] hub: using token ", g.hf(), " from /home/ada/.cache/huggingface/token")
    add("txt-slack-bot", f"{g.ts()} notifier starting with bot token ", g.xoxb())
    add("txt-gitlab-runner", "Registering runner... token=", "gl" + "rt-" + g.url(20), " succeeded")
    add(
        "txt-gitlab-job",
        "$ docker login -u gitlab-ci-token -p ",
        "gl" + "cbt-64_" + g.url(20),
        " registry.corp.example",
    )
    add("txt-pypi", "twine upload: ERROR HTTPError 403 with password ", g.pypi())
    add("txt-npm", "//npm.corp.example/:_authToken=", g.npm())
    add("txt-groq", "GroqClient key ", "gs" + "k_" + g.an(52), " rate limited")
    add("txt-docker-pat", "Login with access token ", "dckr" + "_pat_" + g.url(27), " failed: unauthorized")
    add("txt-databricks", "MLFLOW: databricks host=https://adb-1.azuredatabricks.net token=", "da" + "pi" + g.hex(32))
    add("txt-sendgrid", "mailer: SENDGRID ", "S" + "G." + g.url(22) + "." + g.url(43), " 401")
    add("txt-ray-cluster-token", "Cluster auth enabled, RAY_AUTH_TOKEN=", g.hex(64))
    add(
        "txt-tailscale",
        f"{g.sysl()} cloud-init[{g.pid()}]: + tailscale up --authkey ",
        "ts" + "key-auth-" + g.an(12) + "-" + g.an(32),
    )
    add("txt-cloudinit-pass", "ci-info: chpasswd:\n  list: |\n    root:", g.weak(), "\n  expire: false")
    add("txt-luks", "cryptsetup: passphrase='", f"{g.word()}-{g.word()}-{g.word()}-{g.num(2)}", "' slot 0")
    add("txt-wifi-radius", '(12) pap: Login attempt with password "', g.pw(), '" (radiusd -X)')
    add("txt-radius-attr", '(0)   User-Password = "', g.pw(), '"\n(0)   NAS-IP-Address = 10.0.0.1')
    add(
        "txt-smtp-auth",
        "DEBUG smtp: send: 'AUTH PLAIN ",
        base64.b64encode(f"\0alerts\0{g.an(16)}".encode()).decode(),
        "\\r\\n'",
    )

    # ---- private keys
    for name, first in (
        ("RSA PRIVATE KEY", "MIIEpAIBAAKCAQEA"),
        ("PRIVATE KEY", "MIIEvQIBADANBgkq"),
        ("EC PRIVATE KEY", "MHcCAQEEI"),
        ("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXktdjEAAAAA"),
    ):
        lines = 4 if name.startswith("EC") else 25
        width = 70 if name.startswith("OPENSSH") else 64
        add(
            "pem-" + name.split()[0].lower(),
            f"-----BEGIN {name}-----\n",
            g.pem_body(lines, "\n", first, width),
            f"\n-----END {name}-----",
        )
    add(
        "pem-json-escaped",
        '{"type": "service_account", "private_key_id": "' + g.hex(40) + '", "private_key": "-----'
        "BEGIN " + "PRIVATE KEY-----\\n",
        g.pem_body(26, "\\n", "MIIEvQIBADANBgkq"),
        '\\n-----END PRIVATE KEY-----\\n", "client_email": "t@p.iam.gserviceaccount.com"}',
    )
    pre = g.sysl() + " cloud-init[812]: "
    add("pem-truncated", f"{pre}-----BEGIN OPENSSH " + "PRIVATE KEY-----\n", g.pem_body(9, "\n", "b3BlbnNzaC1r", 70))
    add(
        "pem-k8s-tls",
        "data:\n  tls.key: ",
        base64.b64encode(("-----BEGIN " + "PRIVATE KEY-----\n" + g.pem_body(24, "\n")).encode()).decode(),
        "\nkind: Secret",
    )
    add(
        "pem-yaml-indent",
        "ssh_key: |\n  -----BEGIN RSA " + "PRIVATE KEY-----\n  ",
        g.pem_body(25, "\n  ", "MIIEowIBAAKC"),
        "\n  -----END RSA " + "PRIVATE KEY-----",
    )
    add(
        "pem-one-line",
        "GIT_SSH_KEY=-----BEGIN OPENSSH " + "PRIVATE KEY----- ",
        g.pem_body(8, " ", "b3BlbnNzaC1r", 70),
        " -----END OPENSSH " + "PRIVATE KEY-----",
    )
    add("age-key", "# public key: age1" + g.low(58) + "\n", "AGE-" + "SECRET-KEY-1" + g.s(UP + DIG, 58))
    add("ssh-rsa-munge", "munge.key (base64): ", g.b64(128))
    add("jwt-bare", f"{g.ts()} oidc: raw id_token ", g.jwt())
    add(
        "jwt-claims-log",
        f'{g.klog("E")} authentication.go:73] "Unable to authenticate the request" err="invalid bearer token, ',
        g.jwt(),
        ': token expired"',
    )
    return out


def harmless(rng: Random) -> list[tuple[str, str]]:
    """At least 200 lines without any secret that look like one."""
    g = _Gen(rng)
    out: list[tuple[str, str]] = []

    def add(kind: str, line: str) -> None:
        out.append((kind, line))

    t = g.ts
    # ---- tokens of language models
    add("tok-throughput", f"step {g.num(5)} | loss 2.{g.num(4)} | tokens/sec/gpu {g.num(5)} | tokens seen: {g.num(12)}")
    add(
        "tok-megatron",
        f" iteration {g.num(5)}/ 500000 | consumed samples: {g.num(8)} | consumed tokens: {g.num(12)} "
        f"| "
        "learning rate: 3.000E-04 | grad norm: 0.412 |",
    )
    add(
        "tok-vllm-stats",
        f"INFO {t()} [loggers.py:111] Engine 000: Avg prompt throughput: {g.num(4)}.3 tokens/s, Avg "
        f"generation throughput: {g.num(4)}.0 tokens/s, Running: 12 reqs, GPU KV cache usage: 43.1%",
    )
    add(
        "tok-special",
        "special_tokens_map: {'bos_token': '<|begin_of_text|>', 'eos_token': '<|end_of_text|>', "
        "'pad_token': '<|finetune_right_pad_id|>'}",
    )
    add("tok-pad", "Setting `pad_token_id` to `eos_token_id`:128001 for open-end generation.")
    add("tok-pad2", "tokenizer has no padding token, setting pad_token=eos_token='</s>'")
    add("tok-ids", f"prompt_token_ids: [128000, {g.num(5)}, {g.num(4)}, {g.num(5)}, 315], lora_request: None.")
    add(
        "tok-sampling",
        f"INFO {t()} [logger.py:39] Received request cmpl-{g.hex(32)}: prompt: 'Hi', params: "
        f"SamplingParams("
        "n=1, temperature=0.7, stop_token_ids=[], max_tokens=16384, min_tokens=0, skip_special_tokens=True)",
    )
    add("tok-len", f"Token indices sequence length is longer than the specified maximum ({g.num(5)} > 2048)")
    add("tok-usage", f'"usage":{{"prompt_tokens":{g.num(3)},"completion_tokens":{g.num(3)},"total_tokens":{g.num(4)}}}')
    add(
        "tok-yaml",
        "tokenizer:\n  name: gpt2\n  bos_token: <s>\n  eos_token: </s>\n  unk_token: <unk>\n  mask_token: <mask>",
    )
    add(
        "tok-namespace",
        "Namespace(tokenizer='meta-llama/Llama-3.1-8B', max_tokens=4096, token_drop_policy='probs', "
        "key_value_channels=128, use_auth_token=False, hf_token=None, api_key=None)",
    )
    add(
        "tok-megatron-args",
        "  padded_vocab_size ............................... 128256\n  tokens_to_generate "
        ".............................. None\n  tokenizer_type .................................. HuggingFaceTokenizer",
    )
    add("tok-moe", "  moe_token_dispatcher_type ....................... alltoall")
    add("tok-moe2", "moe_token_drop_policy=probs moe_expert_capacity_factor=1.25 moe_pad_expert_input_to_capacity=True")
    add("tok-added", "Assigning ['<|im_start|>', '<|im_end|>'] to the additional_special_tokens key of the tokenizer")
    add(
        "tok-num-new",
        "num_batched_tokens=8192 num_scheduled_tokens={'" + g.hex(32) + "': 512} max_num_batched_tokens=16384",
    )
    add(
        "tok-embed",
        "size mismatch for model.embed_tokens.weight: copying a param with shape torch.Size([128256, 4096])",
    )
    add("tok-missing-key", 'Missing key(s) in state_dict: "model.layers.0.self_attn.k_proj.weight", "lm_head.weight".')
    add("tok-unexpected-key", "_IncompatibleKeys(missing_keys=[], unexpected_keys=['rotary_emb.inv_freq'])")
    add(
        "tok-cost",
        f"llm-gateway model=gpt-4o input_tokens={g.num(4)} output_tokens={g.num(3)} cached_tokens=0 "
        f"req_id=req_{g.hex(32)}",
    )
    add(
        "tok-chatcmpl",
        f"httpx: openai response id=chatcmpl-{g.an(29)} system_fingerprint=fp_{g.hex(10)} finish_reason=stop",
    )
    add("tok-first", "ttft_ms=231 time_per_output_token=0.0184 token_count=2048")
    add("tok-logprobs", "top_logprobs=[{'token': ' secret', 'logprob': -1.337}, {'token': ' key', 'logprob': -2.71}]")
    add(
        "tok-json-null",
        '"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": null, "tokenizer_class": "LlamaTokenizer"',
    )
    add(
        "tok-kvcache",
        f"# GPU blocks: {g.num(5)}, # CPU blocks: 2048; key cache dtype=fp8_e5m2, key_cache shape=(16, 8, 128)",
    )
    add(
        "tok-sglang",
        f"[{t()} TP0] Prefill batch. #new-seq: 1, #new-token: {g.num(4)}, #cached-token: 0, token "
        f"usage: 0.12, "
        "#running-req: 3",
    )
    add("tok-trtllm", "[TensorRT-LLM][INFO] max_tokens_in_paged_kv_cache=32768 secret_sauce plugin=disabled")

    # ---- absent, redacted, or referring values
    add("abs-none", "S3Config(endpoint='http://minio:9000', access_key=None, secret_key=None, session_token=None)")
    add("abs-empty", "HF_TOKEN= WANDB_API_KEY= WANDB_MODE=offline")
    add("abs-stars", f"{t()} INFO config: {{'db_user': 'app', 'db_password': '********', 'db_host': 'pg'}}")
    add("abs-redacted", "Authorization: Bearer [REDACTED]")
    add("abs-hidden", "postgresql+psycopg2://mlflow:***@pg-0.pg:5432/mlflow")
    add("abs-xxxxx", "postgres://exporter:xxxxx@localhost:5432/postgres?sslmode=disable")
    add("abs-secretstr", "api_key=SecretStr('**********') base_url='http://vllm:8000/v1'")
    add("abs-go-secret", "    bearer_token: <secret>\n    basic_auth:\n      username: prom\n      password: <secret>")
    add("abs-tf-sensitive", "db_password = <sensitive>\n  + master_password = (sensitive value)")
    add(
        "abs-ansible-nolog",
        f'changed: [{g.node()}] => {{"censored": "the output has been hidden due to the fact '
        f"that "
        "'no_log: true' was specified for this result\"}",
    )
    add("abs-ansible-param", '"login_password": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"')
    add("abs-env-ref", "+ docker login -u '$oauthtoken' -p $NGC_API_KEY nvcr.io")
    add("abs-env-ref2", 'curl -H "Authorization: Bearer ${HF_TOKEN}" https://huggingface.co/api/whoami-v2')
    add("abs-hydra-interp", "wandb:\n  api_key: ${oc.env:WANDB_API_KEY}\n  project: pretrain")
    add("abs-helm-tpl", "password: {{ .Values.auth.password | quote }}")
    add("abs-jinja", 'ansible_become_pass: "{{ vault_become_pass }}"')
    add("abs-gha", "token: ${{ secrets.GITHUB_TOKEN }}")
    add("abs-gha-mask", "  env:\n    HF_TOKEN: ***\n    PYTHONUNBUFFERED: 1")
    add("abs-k8s-ref", "      HF_TOKEN:  <set to the key 'token' in secret 'hf-token'>  Optional: false")
    add(
        "abs-k8s-ref2",
        "        valueFrom:\n          secretKeyRef:\n            key: WANDB_API_KEY\n            name: wandb-secret",
    )
    add(
        "abs-k8s-go",
        "EnvVar{Name:HF_TOKEN,Value:,ValueFrom:&EnvVarSource{SecretKeyRef:&SecretKeySelector{"
        "LocalObjectReference:LocalObjectReference{Name:hf-token,},Key:token,Optional:nil,},},}",
    )
    add("abs-k8s-describe-secret", "Type:  Opaque\n\nData\n====\ntoken:     37 bytes\npassword:  16 bytes")
    add("abs-bool", "use_auth_token=True trust_remote_code=True password_auth=False require_token=True")
    add("abs-placeholder", "export OPENAI_API_KEY=<your-api-key>  # set this before you start the server")
    add("abs-changeme-help", "  --api-key API_KEY     If provided, the server will require this key in the header.")
    add("abs-usage", "usage: train.py [-h] [--hf-token HF_TOKEN] [--wandb-key WANDB_KEY] [--password-file FILE]")
    add("abs-file-ref", "mysqld_exporter --config.my-cnf=/etc/.my.cnf --password-file=/run/secrets/db_password")
    add(
        "abs-ceph-secretfile", "mount -t ceph 10.0.0.1:6789:/ /mnt/ceph -o name=train,secretfile=/etc/ceph/train.secret"
    )
    add("abs-pass-stdin", "+ docker login --username ci --password-stdin registry.corp.example")
    add("abs-vault-ref", "password: vault:secret/data/train/db#password")
    add("abs-awssm", f"secretArn=arn:aws:secretsmanager:us-east-1:{g.num(12)}:secret:prod/db-{g.an(6)}")
    add("abs-ssm", "parameter: arn:aws:ssm:us-east-1:123456789012:parameter/train/wandb_api_key")
    add("abs-gcpsm", f"name=projects/{g.num(12)}/secrets/hf-token/versions/3 state=ENABLED")
    add("abs-azkv", "https://acme-kv.vault.azure.net/secrets/wandb-api-key/" + g.hex(32))
    add("abs-mask-short", "Incorrect API key provided: sk-pr***************************************9fQA.")
    add("abs-wandb-mask", "wandb: Appending key for api.wandb.ai to your netrc file: /home/ada/.netrc")
    add("abs-url-nopass", "fatal: could not read Password for 'https://ci-bot@github.com': terminal prompts disabled")
    add("abs-git-ssh", "origin\tgit@github.com:acme/megatron.git (fetch)")
    add("abs-redis-noauth", "+ redis-cli -h redis -a '' ping\nNOAUTH Authentication required.")
    add("abs-ini-comment", ";admin_password =\n# change password at first login")
    add("abs-slurm-none", "AuthInfo                = (null)\nStoragePass             = (null)")

    # ---- messages about credentials
    for msg in (
        "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
        "INFO botocore.credentials: Found credentials in shared credentials file: ~/.aws/credentials",
        "INFO botocore.credentials: Found credentials in environment variables.",
        "botocore.credentials: Found credentials from IAM Role: gpu-node-role",
        "DEBUG botocore.credentials: Looking for credentials via: assume-role-with-web-identity",
        "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the PutObject operation: The "
        "provided token has expired.",
        "An error occurred (InvalidAccessKeyId) when calling the ListObjectsV2 operation: The AWS Access Key Id you "
        "provided does not exist in our records.",
        "An error occurred (SignatureDoesNotMatch) when calling the GetObject operation: The request signature we "
        "calculated does not match the signature you provided. Check your key and signing method.",
        "botocore.exceptions.ClientError: An error occurred (NoSuchKey) when calling the GetObject operation: The "
        "specified key does not exist.",
        "google.auth.exceptions.DefaultCredentialsError: Your default credentials were not found.",
        "google.auth.exceptions.RefreshError: ('invalid_grant: Token has been expired or revoked.')",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. Access to model meta-llama/Llama-3.1-70B is "
        "restricted.",
        "Token is valid (permission: read).\nYour token has been saved to /home/ada/.cache/huggingface/token\nLogin "
        "successful",
        "Note: Environment variable`HF_TOKEN` is set and is the current active token independently from the stored "
        "one.",
        "UserWarning: The secret `HF_TOKEN` does not exist in your Colab secrets.",
        "FutureWarning: The `use_auth_token` argument is deprecated, use `token` instead.",
        "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
        "wandb: Currently logged in as: alice (acme). Use `wandb login --relogin` to force relogin",
        'FATAL:  password authentication failed for user "mlflow"',
        "psycopg2.OperationalError: fe_sendauth: no password supplied",
        'DETAIL:  Role "grafana" does not exist. Connection matched pg_hba.conf line 99: "host all all all scram-'
        'sha-256"',
        "ERROR 1045 (28000): Access denied for user 'slurm'@'10.0.0.7' (using password: YES)",
        "mysql: [Warning] Using a password on the command line interface can be insecure.",
        "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.",
        "redis.exceptions.AuthenticationError: WRONGPASS invalid username-password pair or user is disabled.",
        "pymongo.errors.OperationFailure: Authentication failed., full error: {'code': 18, 'codeName': "
        "'AuthenticationFailed'}",
        "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username or "
        "password",
        "kafka.consumer: group coordinator authenticated; sasl.mechanism=SCRAM-SHA-512 security.protocol=SASL_SSL",
        "slurmctld: error: Munge decode failed: Invalid credential",
        "slurmd: error: auth_g_verify: REQUEST_LAUNCH_TASKS has authentication error: Expired credential",
        "slurmstepd: error: slurm_receive_msg: auth_p_verify failed: Unspecified error",
        "munged: Info: Unauthorized credential for client UID=1001 GID=1001",
        "slurmctld: AuthType=auth/munge AuthAltTypes=auth/jwt CredType=cred/munge",
        "kinit: Pre-authentication failed: Password incorrect while getting initial credentials",
        "krb5_child: Decrypt integrity check failed",
        "klist: No credentials cache found (filename: /tmp/krb5cc_1001)",
        "rpc.gssd: ERROR: no credentials found for connecting to server nfs01",
        "ldap_bind: Invalid credentials (49)",
        'Error response from daemon: Get "https://nvcr.io/v2/": unauthorized: authentication required',
        "remote: HTTP Basic: Access denied. The provided password or token is incorrect or your account has 2FA "
        "enabled",
        "error: RPC failed; HTTP 401 curl 22 The requested URL returned error: 401",
        "Error: IPMI LAN set session privilege: password incorrect; unable to establish IPMI v2 / RMCP+ session",
        "vault: permission denied: error making API request; Code: 403. Errors: * 1 error: invalid token",
        "core: post-unseal setup complete; seal configuration: secret_shares=5 secret_threshold=3",
        "[INFO]  expiration: revoked lease: lease_id=auth/kubernetes/login/h1",
        "Unseal Key (will be hidden): ",
        "[W ServerApp] Couldn't authenticate WebSocket connection; token authentication is enabled",
        "[I ServerApp] Generating new cookie secret, writing to /home/ada/.local/share/jupyter/runtime/"
        "jupyter_cookie_secret",
        "WARNING: All config is being ignored because the password is set in both jupyter_server_config.json and token",
        'grafana: level=warn msg="Failed to get session cookie" error="token needs to be rotated"',
        "openai.RateLimitError: Error code: 429 - Rate limit reached on tokens per min (TPM): Limit 30000, Used 29011",
        "anthropic.AuthenticationError: Error code: 401 - {'error': {'type': 'authentication_error', 'message': "
        "'invalid "
        "x-api-key'}}",
        "ValueError: The api_key client option must be set either by passing api_key to the client or by setting the "
        "OPENAI_API_KEY environment variable",
        "KeyError: 'WANDB_API_KEY'",
        "AssertionError: secret key must not be empty",
        "kubelet: Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.",
        'MountVolume.SetUp failed for volume "certs" : secret "webhook-tls" not found',
        "Error: couldn't find key password in Secret train/mlflow-db",
        "token-cleaner: Deleting expired secret kube-system/bootstrap-token-abcdef",
        "password: ok",
        "Password for user postgres: ",
        "passwd: password updated successfully",
        "Enter passphrase for key '/home/ops/.ssh/id_ed25519': ",
        "Password complexity: minimum length 12; password expires in 14 days",
        "debug1: Next authentication method: publickey",
        "debug1: Authentications that can continue: publickey,password,keyboard-interactive",
        "Host key verification failed.",
        "Permission denied (publickey,gssapi-keyex,gssapi-with-mic,password).",
        "gpg: WARNING: unsafe permissions on homedir; no secret key",
        "Could not open a connection to your authentication agent.",
        "FutureWarning: `clean_up_tokenization_spaces` was not set. It will be set to `True` by default.",
        "torch.distributed.elastic: rdzv backend c10d, store key prefix 'torch.rendezvous' not found",
        "[c10d] The client socket cannot be initialized; TCPStore key store_based_barrier_key:1 not set",
        "DistStoreError: Timed out waiting for key: default_pg/0//worker_count:8",
    ):
        add("msg", msg)

    # ---- long ids, digests, fingerprints
    add("id-git", f"HEAD is now at {g.hex(9)} Fix token shift in rope\ncommit {g.hex(40)}")
    add("id-git-fetch", f"   {g.hex(10)}..{g.hex(10)}  main -> origin/main")
    add(
        "id-hf-snap", f"loading file tokenizer.json from /hf/models--meta-llama--L/snapshots/{g.hex(40)}/tokenizer.json"
    )
    add("id-hf-revision", f"revision={g.hex(40)} local_files_only=True token=None")
    add("id-hf-etag", f'etag: "{g.hex(64)}" x-repo-commit: {g.hex(40)} x-linked-size: 4976698672')
    add("id-s3-etag", f"'ETag': '\"{g.hex(32)}-{g.i(2, 900)}\"', 'ServerSideEncryption': 'AES256'")
    add("id-amz", f"x-amz-request-id: {g.s(UP + DIG, 16)} x-amz-id-2: {g.b64(56)}")
    add(
        "id-amz-dict",
        f"'ResponseMetadata': {{'RequestId': '{g.s(UP + DIG, 16)}', 'HostId': '{g.b64(56)}', 'HTTPStatusCode': 200}}",
    )
    add("id-upload", f"CreateMultipartUpload key=ckpt/step_{g.num(5)}/rank0.pt UploadId={g.an(60)}")
    add(
        "id-docker-digest",
        f"Digest: sha256:{g.hex(64)}\nStatus: Downloaded newer image for nvcr.io/nvidia/pytorch:24.05-py3",
    )
    add("id-image-ref", f"Pulled image nvcr.io/nvidia/tritonserver@sha256:{g.hex(64)} in 41.2s")
    add("id-containerd", f'time="{g.iso()}" level=info msg="StartContainer for \\"{g.hex(64)}\\" returns successfully"')
    add("id-shim", f"shim disconnected id={g.hex(64)} namespace=k8s.io")
    add("id-layer", f"extracting sha256:{g.hex(64)} 1.2 GiB / 4.1 GiB")
    add("id-cgroup", f"oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/kubepods/pod{g.uuid()}/{g.hex(64)},task=python")
    add("id-pod", f'pod="train/llama-master-0" podUID="{g.uuid()}" containerID="containerd://{g.hex(64)}"')
    add(
        "id-k8s-sa-volume",
        f'MountVolume.SetUp succeeded for volume "kube-api-access-{g.low(5)}" (UniqueName: '
        f'"kubernetes.io/projected/{g.uuid()}-kube-api-access-{g.low(5)}")',
    )
    add(
        "id-k8s-secret-name",
        f'reflector.go:368] Caches populated for *v1.Secret from object-"train"/"hf-token-{g.low(5)}"',
    )
    add("id-k8s-resource", f'resourceVersion: "{g.num(9)}"\nuid: {g.uuid()}\ntype: kubernetes.io/service-account-token')
    add("id-ca-hash", f"[discovery] cluster CA public key pin sha256:{g.hex(64)} validated")
    add(
        "id-ssh-fp",
        f"{g.sysl()} sshd[{g.pid()}]: Accepted publickey for ops from {g.ip()} port 50122 ssh2: ED25519 "
        f"SHA256:{g.s(B64, 43)}",
    )
    add(
        "id-ssh-failed",
        f"{g.sysl()} sshd[{g.pid()}]: Failed password for invalid user admin from {g.ip()} port 4022 ssh2",
    )
    add("id-ssh-hostkey", f"256 SHA256:{g.s(B64, 43)} root@{g.node()} (ED25519)")
    add("id-ssh-md5fp", "RSA key fingerprint is MD5:" + ":".join(g.hex(2) for _ in range(16)) + ".")
    add("id-ssh-pub", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{g.s(B64, 43)} ops@{g.node()}")
    add("id-ssh-pub-rsa", f"authorized_keys: ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{g.s(B64, 300)} ops@bastion")
    add("id-known-host", f"|1|{g.b64(20)}|{g.b64(20)} ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAy{g.s(B64, 80)}=")
    add(
        "id-cert",
        "-----BEGIN CERTIFICATE-----\n" + g.pem_body(8, "\n", "MIIDXTCCAkWgAwIBAgI") + "\n-----END CERTIFICATE-----",
    )
    add(
        "id-pubkey",
        "-----BEGIN PUBLIC KEY-----\n" + g.pem_body(6, "\n", "MIIBIjANBgkqhkiG") + "\n-----END PUBLIC KEY-----",
    )
    add("id-ca-data", "    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" + g.s(B64, 400) + "==")
    add(
        "id-cert-serial",
        f"X509 subject=CN={g.node()} serial={g.hex(40)} SHA1 Fingerprint="
        + ":".join(g.hex(2).upper() for _ in range(20)),
    )
    add("id-ski", "X509v3 Subject Key Identifier: " + ":".join(g.hex(2).upper() for _ in range(20)))
    add("id-gpg", f'gpg: using RSA key {g.hex(40).upper()}\ngpg: Good signature from "NVIDIA cudatools"')
    add(
        "id-apt-nopubkey", f"W: GPG error: the following signatures couldn't be verified: NO_PUBKEY {g.hex(16).upper()}"
    )
    add("id-kernel-x509", f"kernel: Loaded X.509 cert 'Build time autogenerated kernel key: {g.hex(40)}'")
    add(
        "id-kernel-module",
        "kernel: nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    )
    add(
        "id-kernel-keyring",
        "kernel: Key type dns_resolver registered; Key type .fscrypt registered; trusted keys enabled",
    )
    add(
        "id-ceph-fsid",
        f"cluster {g.uuid()} health HEALTH_WARN; mon.a auth: unable to find a keyring on "
        "/etc/ceph/ceph.client.admin.keyring: (2) No such file or directory",
    )
    add("id-ceph-cephx", "monclient(hunting): handle_auth_bad_method server allowed_methods [2] but i only support [2]")
    add(
        "id-ceph-rotating",
        f"mon.a auth handle_request: rotating_secrets expired; cephx server osd.{g.i(1, 99)}: secret_id={g.num(4)}",
    )
    add(
        "id-ceph-pg",
        f"pg 3.{g.hex(3)} is active+undersized; hash seed 0x{g.hex(8)}; object rbd_data.{g.hex(12)}.{g.hex(16)}",
    )
    add("id-rgw", f"req {g.num(19)} 0.004s s3:put_obj txid=tx{g.hex(21)}-00{g.hex(8)}-{g.hex(5)}-default")
    add(
        "id-lustre",
        f"LustreError: 11-0: scratch-OST{g.hex(4)}-osc-ffff{g.hex(12)}: operation ost_connect to node "
        f"{g.ip()}@o2ib failed: rc = -19",
    )
    add("id-lustre-fid", f"lfs: FID [0x{g.hex(9)}:0x{g.hex(4)}:0x0] cookie 0x{g.hex(16)} lrc: 3/1,0 mode: PR/PR res")
    add("id-gpu-uuid", f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-{g.uuid()})")
    add("id-mig", f"MIG 1g.10gb Device 0: (UUID: MIG-{g.uuid()})")
    add("id-xid", f"NVRM: Xid (PCI:0000:1b:00): 79, pid={g.pid()}, name=python, GPU has fallen off the bus.")
    add(
        "id-xid13",
        f"NVRM: Xid (PCI:0000:4e:00): 31, pid={g.pid()}, MMU Fault: ENGINE GRAPHICS faulted @ "
        f"0x7f{g.hex(2)}_"
        f"{g.hex(8)}.",
    )
    add(
        "id-nccl",
        f"{g.node()}:{g.pid()}:{g.pid()} [0] NCCL INFO ncclCommInitRank comm 0x{g.hex(12)} rank 0 nranks 64 "
        f"cudaDev 0 busId 1b000 commId 0x{g.hex(16)} - Init COMPLETE",
    )
    add(
        "id-nccl-ib",
        f"NCCL INFO NET/IB : GID {g.hex(16)} (FE80) LID {g.num(4)} qpn={g.num(5)} mtu=5 "
        f"rkey=0x{g.hex(8)} "
        f"lkey=0x{g.hex(8)}",
    )
    add(
        "id-ib", f"mlx5_0: Port 1 node_guid {g.hex(4)}:{g.hex(4)}:{g.hex(4)}:{g.hex(4)} pkey 0xffff sm_key violations 0"
    )
    add("id-ib-mkey", "ibwarn: mkey_violations=0 pkey_violations=0 qkey_violations=12 port_guid=0x" + g.hex(16))
    add("id-ray-session", f"Ray session_2025-03-01_01-02-03_{g.num(6)}_{g.pid()}; node id {g.hex(56)}")
    add(
        "id-ray-worker",
        f"The worker died unexpectedly. Worker ID: {g.hex(56)} Node ID: {g.hex(56)} actor_id={g.hex(32)}",
    )
    add("id-ray-object", f"Failed to retrieve object {g.hex(56)}; owner has died. ObjectRef({g.hex(56)})")
    add("id-ray-job", f"Job 'raysubmit_{g.an(16)}' submitted successfully")
    add("id-wandb-run", f"wandb: View run at https://wandb.ai/acme/pretrain/runs/{g.low(8)}")
    add(
        "id-mlflow",
        f"mlflow run_id={g.hex(32)} experiment_id={g.num(18)} artifact_uri=s3://mlflow/1/{g.hex(32)}/artifacts",
    )
    add(
        "id-torchelastic",
        f"[INFO] rdzv_id={g.uuid()} torchelastic run_id={g.num(6)} restart_count=0 "
        f"store=<TCPStore object at 0x7f{g.hex(10)}>",
    )
    add("id-trace", f"traceparent: 00-{g.hex(32)}-{g.hex(16)}-01")
    add(
        "id-trace-json",
        f'{{"trace_id":"{g.hex(32)}","span_id":"{g.hex(16)}","level":"info","msg":"token bucket refilled"}}',
    )
    add("id-req", f"X-Request-Id: {g.uuid()} cf-ray: {g.hex(16)}-FRA")
    add("id-ollama", f"pulling {g.hex(12)}... 100% verifying sha256 digest; blob sha256-{g.hex(64)}")
    add("id-sha-sum", f"{g.hex(64)}  checkpoint-{g.num(4)}/model-00001-of-00030.safetensors: OK")
    add("id-md5-mismatch", f"ERROR: checksum mismatch: expected md5={g.hex(32)} got md5={g.hex(32)}")
    add("id-content-md5", f"Content-MD5: {g.b64(16)} x-goog-hash: crc32c={g.b64(4)}")
    add("id-crc", f"x-amz-checksum-crc32={g.b64(4)} x-amz-content-sha256: {g.hex(64)}")
    add("id-unsigned", "x-amz-content-sha256: UNSIGNED-PAYLOAD x-amz-date: 20250301T010203Z")
    add("id-pip-hash", f"    --hash=sha256:{g.hex(64)} \\\n    --hash=sha256:{g.hex(64)}")
    add(
        "id-pip-url",
        f"Downloading https://files.corp.example/packages/{g.hex(2)}/{g.hex(2)}/{g.hex(60)}/torch-2.4.0.whl",
    )
    add(
        "id-pip-hash-err",
        f"THESE PACKAGES DO NOT MATCH THE HASHES: Expected sha256 {g.hex(64)}\n         Got        {g.hex(64)}",
    )
    add("id-triton-cache", f"/home/ada/.triton/cache/{g.s(UP + '234567', 52)}/fused_kernel.cubin")
    add("id-inductor", f"torch._inductor.codecache: fx graph cache miss for key f{g.s(LOW + '234567', 51)}")
    add("id-inductor-key", f"FXGraphCache hit key={g.s(LOW + '234567', 52)} cache_state=hit")
    add(
        "id-vllm-compile",
        f"Using cache directory: /home/ada/.cache/vllm/torch_compile_cache/{g.hex(10)}/rank_0_0 for compile",
    )
    add("id-prefix-hash", f"prefix caching block_hash={g.num(19)} hash_algo=sha256 hash_value={g.hex(64)}")
    add("id-pyhash", "PYTHONHASHSEED=0 random_seed=1234 data_hash=" + g.hex(32))
    add(
        "id-dataset-fp",
        f"Loading cached processed dataset at /cache/json/default-{g.hex(16)}/0.0.0/{g.hex(64)}/"
        f"cache-{g.hex(16)}.arrow; _fingerprint={g.hex(16)}",
    )
    add("id-megatron-cache", f"Build and save the GPTDataset train indices; unique_description_hash: {g.hex(32)}")
    add("id-azure-req", f"x-ms-request-id: {g.uuid()} x-ms-client-request-id: {g.uuid()} ErrorCode:BlobNotFound")
    add(
        "id-azure-ids",
        f"AZURE_TENANT_ID={g.uuid()} AZURE_CLIENT_ID={g.uuid()} AZURE_FEDERATED_TOKEN_FILE=/var/run/"
        f"secrets/"
        "azure/tokens/azure-identity-token",
    )
    add(
        "id-aws-role",
        f"AWS_ROLE_ARN=arn:aws:iam::{g.num(12)}:role/train AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/secrets/"
        "eks.amazonaws.com/serviceaccount/token",
    )
    add("id-kms", f"SSEKMSKeyId: arn:aws:kms:us-east-1:{g.num(12)}:key/{g.uuid()}")
    add("id-ec2", f"i-{g.hex(17)} vpc-{g.hex(17)} ami-{g.hex(17)} eipalloc-{g.hex(17)} key_name=ops-keypair")
    add("id-gcp-project", f"GOOGLE_APPLICATION_CREDENTIALS=/etc/gcp/key.json project_number={g.num(12)}")
    add("id-gcs-page", f"storage.objects.list prefix=ckpt/ generation={g.num(16)} metageneration=1")
    add(
        "id-kafka",
        f"[Consumer clientId=c-1, groupId=train] Successfully joined group with generation Generation{{"
        f"generationId=5, memberId='c-1-{g.uuid()}', protocol='range'}}",
    )
    add("id-kafka-cluster", f"[Producer clientId=producer-1] Cluster ID: {g.url(22)}")
    add("id-kafka-cfg", "ssl.key.password = null\n\tssl.keystore.password = null\n\tsasl.jaas.config = [hidden]")
    add(
        "id-kafka-ser",
        "key.serializer = class org.apache.kafka.common.serialization.StringSerializer\n"
        "\tkey.deserializer = null\n\tpartition.key.hash = murmur2",
    )
    add("id-kafka-hidden", "\tssl.truststore.password = [hidden]\n\tsasl.mechanism = PLAIN")
    add(
        "id-mongo",
        f'{{"t":{{"$date":"{g.iso()}"}},"s":"I","c":"ACCESS","id":5286306,"msg":"Successfully '
        f'authenticated",'
        f'"attr":{{"client":"{g.ip()}:40022","mechanism":"SCRAM-SHA-256","user":"app","db":"admin"}}}}',
    )
    add("id-mongo-oid", f"_id: ObjectId('{g.hex(24)}') lsid: {{ id: UUID(\"{g.uuid()}\") }}")
    add(
        "id-mongo-dupkey",
        f'E11000 duplicate key error collection: runs.tokens index: key_1 dup key: {{ key: "{g.hex(24)}" }}',
    )
    add(
        "id-pg-dupkey",
        f'ERROR:  duplicate key value violates unique constraint "api_keys_pkey"\nDETAIL:  Key (id)='
        f"({g.num(6)}) already exists.",
    )
    add(
        "id-pg-stmt",
        f"LOG:  duration: 812.4 ms  execute <unnamed>: SELECT token_count, key FROM runs WHERE run_uuid "
        f"= $1\n"
        f"DETAIL:  parameters: $1 = '{g.hex(32)}'",
    )
    add("id-pg-fkey", 'ERROR:  insert or update on table "sessions" violates foreign key constraint "session_user_fk"')
    add("id-pg-method", 'LOG:  connection authenticated: identity="mlflow" method=scram-sha-256 (pg_hba.conf:14)')
    add("id-pg-enc", "password_encryption = scram-sha-256\nssl_key_file = 'server.key'")
    add("id-mysql-plugin", "Plugin mysql_native_password reported: ''mysql_native_password' is deprecated'")
    add("id-mysql-gtid", f"Executed_Gtid_Set: {g.uuid()}:1-{g.num(7)}")
    add("id-redis-repl", f"Partial resynchronization not possible; Full resync from master: {g.hex(40)}:{g.num(9)}")
    add("id-redis-node", f"{g.hex(40)} {g.ip()}:6379@16379 master - 0 {g.num(13)} 3 connected 0-5460")
    add("id-redis-keys", "db0:keys=10234,expires=321,avg_ttl=86400000; evicted_keys:0 keyspace_hits:991231")
    add("id-etcd", f'{{"level":"info","msg":"raft.node: {g.hex(16)} elected leader {g.hex(16)} at term 7"}}')
    add(
        "id-etcd-key",
        'apply request took too long; request="header:<ID:123> txn:<compare:<target:MOD '
        'key:\\"/registry/secrets/train/hf-token\\">>"',
    )
    add("id-fs-uuid", f"UUID={g.uuid()} /data xfs defaults 0 2; PARTUUID={g.hex(8)}-01")
    add("id-machine", f"systemd[1]: Initializing machine ID: {g.hex(32)}; boot ID {g.hex(32)}")
    add("id-journal", f"__CURSOR=s={g.hex(32)};i={g.hex(6)};b={g.hex(32)};m={g.hex(8)};t={g.hex(13)};x={g.hex(16)}")
    add(
        "id-mac",
        f"link becomes ready eth0 {':'.join(g.hex(2) for _ in range(6))} IPv6 fe80::{g.hex(4)}:{g.hex(4)}:{g.hex(4)}",
    )
    add("id-wwn", f"scsi 0:0:1:0: wwn-0x{g.hex(16)} nvme eui.{g.hex(32)} S/N {g.s(UP + DIG, 14)}")
    add("id-bmc-serial", f"Redfish SerialNumber={g.num(13)} UUID={g.uuid()} PartNumber=692-2G506-0200-003")
    add(
        "id-redfish-session",
        "GET /redfish/v1/SessionService/Sessions 200 OK; AccountLockoutThreshold=5; "
        "MaxPasswordLength=20 MinPasswordLength=8",
    )
    add("id-ipmi-sel", "SEL Record ID 0a1f | 03/01/2025 | Session Audit #0x4a | Invalid password | Asserted")
    add("id-systemd-sess", f"{g.sysl()} systemd-logind[{g.pid()}]: New session {g.num(4)} of user ops.")
    add("id-systemd-pass", f"{g.sysl()} systemd[1]: Started Forward Password Requests to Wall Directory Watch.")
    add(
        "id-pam",
        f"{g.sysl()} sshd[{g.pid()}]: pam_unix(sshd:session): session opened for user ops(uid=1001) by (uid=0)",
    )
    add(
        "id-sudo",
        f"{g.sysl()} sudo: ops : TTY=pts/2 ; PWD=/home/ops ; USER=root ; COMMAND=/usr/bin/cat /etc/munge/munge.key",
    )
    add("id-sudo-req", f"{g.sysl()} sudo: ops : a password is required ; TTY=unknown ; COMMAND=/usr/sbin/nvidia-smi")
    add("id-pwd-env", "PWD=/workspace/pretrain OLDPWD=/root SHLVL=2 _=/usr/bin/env")
    add(
        "id-authsock",
        f"SSH_AUTH_SOCK=/tmp/ssh-{g.an(10)}/agent.{g.pid()} XDG_SESSION_ID={g.num(3)} XAUTHORITY=/home/ada/.Xauth",
    )
    add("id-krb-cc", f"KRB5CCNAME=FILE:/tmp/krb5cc_1001_{g.an(6)} Default principal: alice@CORP.EXAMPLE")
    add(
        "id-krb-tgs",
        f"krb5kdc[{g.pid()}](info): TGS_REQ (8 etypes {{18 17 20}}) {g.ip()}: ISSUE: authtime "
        f"{g.num(10)}, "
        "etypes {rep=18 tkt=18 ses=18}, alice@CORP for nfs/nas01@CORP",
    )
    add("id-kid", f"jwks: no key found for kid={g.url(43)} iss=https://sso.corp.example aud=grafana")
    add("id-jwt-claims", f"verified claims: sub=system:serviceaccount:train:default exp={g.num(10)} jti={g.uuid()}")
    add(
        "id-tokenreview",
        f'{g.klog()} httplog.go:132] "HTTP" verb="CREATE" URI="/apis/authentication.k8s.io/v1/'
        f'tokenreviews" latency="2.1ms" audit-ID="{g.uuid()}" resp=201',
    )
    add(
        "id-rbac",
        'secrets "hf-token" is forbidden: User "system:serviceaccount:train:default" cannot get '
        "resource "
        '"secrets" in API group "" in the namespace "train"',
    )
    add(
        "id-k8s-token-req", "POST /api/v1/namespaces/train/serviceaccounts/default/token 201 Created in 12 milliseconds"
    )
    add(
        "id-vault-accessor",
        "path=auth/token/lookup-self policies=[default train] token_type=service token_ttl=768h renewable=true",
    )
    add(
        "id-tf-refresh",
        "random_password.db: Refreshing state... [id=none]\naws_key_pair.ops: Refreshing state... [id=ops-key]",
    )
    add(
        "id-tf-sg",
        f"aws_secretsmanager_secret.db: Creation complete after 1s [id=arn:aws:secretsmanager:eu-west-1:"
        f"{g.num(12)}:secret:db-{g.an(6)}]",
    )
    add(
        "id-ansible-task",
        f"TASK [mysql : Set root password] ************************************************\nok: [{g.node()}]",
    )
    add("id-ansible-vault", "ERROR! Attempting to decrypt but no vault secrets found")
    add("id-apt-key", "Warning: apt-key is deprecated. Manage keyring files in trusted.gpg.d instead (see apt-key(8)).")
    add(
        "id-keyring-file",
        "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] https://nvidia.github.io",
    )
    add(
        "id-tls",
        "TLS handshake error: tls: failed to verify certificate: x509: certificate signed by unknown authority",
    )
    add("id-openssl", "SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384 / X25519 / RSASSA-PSS")
    add("id-curl-alpn", "* Server auth using Bearer with user ''\n* [HTTP/2] [1] [authorization: <masked>]")
    add(
        "id-nginx",
        f'{g.ip()} - grafana [01/Mar/2025:01:02:03 +0000] "POST /api/login HTTP/1.1" 401 71 "-" "python-requests/2.32"',
    )
    add(
        "id-nginx-token",
        f'{g.ip()} - - [01/Mar/2025:01:02:03 +0000] "GET /v1/tokenize?add_special_tokens=true HTTP/1.1" 200 912',
    )
    add(
        "id-url-key",
        "GET https://minio:9000/ckpt?list-type=2&prefix=run1%2F&key-marker=run1%2Fstep_100&max-keys=1000 200",
    )
    add("id-url-rev", f"GET https://huggingface.co/acme/m/resolve/{g.hex(40)}/tokenizer_config.json 200")
    add("id-url-user", "ssh://git@gitlab.corp.example:2222/ml/train.git")
    add("id-url-email", "alertmanager: notified ops@corp.example via smtp.corp.example:587 auth=LOGIN")
    add(
        "id-minio-key",
        f"Error: Storage reached its minimum free drive threshold; object key=ckpt/{g.uuid()}/xl.meta, "
        f"requestID={g.hex(16).upper()}, deploymentID={g.uuid()}",
    )
    add(
        "id-minio-warn",
        "WARNING: Detected default credentials, we recommend that you change these values with "
        "'MINIO_ROOT_USER' and 'MINIO_ROOT_PASSWORD' environment variables",
    )
    add(
        "id-slack-channel",
        f"slack: posted to channel C{g.s(UP + DIG, 10)} ts={g.num(10)}.{g.num(6)} error=invalid_auth",
    )
    add(
        "id-cookie-names", "Set-Cookie header dropped: session cookie exceeds 4096 bytes; SameSite=None requires Secure"
    )
    add("id-csrf", "Forbidden (CSRF token missing.): /api/tasks/12/annotations")
    add("id-xsrf", "403 POST /api/kernels (10.0.0.4): '_xsrf' argument missing from POST")
    add("id-session-dur", "session timeout: session.timeout.ms=45000 max_session_duration=3600 auth_timeout=60")
    add("id-http-session", f"<requests.sessions.Session object at 0x7f{g.hex(10)}> auth=None cert=None verify=True")
    add(
        "id-tb-addr",
        f"AuthToken(type=Bearer) at 0x7f{g.hex(10)}; credentials=<google.auth.compute_engine.credentials."
        f"Credentials object at 0x7f{g.hex(10)}>",
    )
    add("id-tb-code", "    token = os.environ[\"HF_TOKEN\"]\n    ~~~~~~~~~~^^^^^^^^^^^^\nKeyError: 'HF_TOKEN'")
    add("id-tb-code2", "    secret_key = config.get('s3', 'secret_key')\n                 ^^^^^^^^^^^^^^^^^^^^")
    add("id-tb-code3", "    conn = connect(host=cfg.host, user=cfg.user, password=cfg.password)")
    add("id-tb-code4", '    headers = {"Authorization": f"Bearer {token}"}')
    add("id-tb-type", "TypeError: login() got an unexpected keyword argument 'token'")
    add("id-tb-attr", "AttributeError: 'NoneType' object has no attribute 'secret_key'")
    add("id-keyerr-sd", "KeyError: 'model.layers.31.mlp.down_proj.weight_scale_inv'")
    add("id-omega-missing", "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: s3.secret_key")
    add(
        "id-pyd-missing",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error\napi_key\n  Field required "
        "[type=missing, input_value={'port': 8080}, input_type=dict]",
    )
    add(
        "id-attn",
        "query_key_value.weight: [12288, 4096]; key_padding_mask=None; attn key shape torch.Size([8, 32, 2048, 128])",
    )
    add("id-qk", "qk_layernorm=True apply_query_key_layer_scaling=False num_key_value_heads=8 head_dim=128")
    add(
        "id-fsdp",
        "sharded_state_dict key=optimizer.state.exp_avg.module.decoder.layers.self_attention.linear_qkv.weight",
    )
    add("id-ckpt-sig", "signature: inputs: ['input_ids': Tensor((-1, -1), int64)] mlflow.models.signature inferred")
    add("id-cuda-ver", "CUDA driver 550.54.15 cudnn 90100 NCCL 2.21.5+cuda12.4 torch 2.4.0a0+f70bd71a48.nv24.06")
    add("id-build", f"Build info: runtime go1.22.5, revision={g.hex(40)}, branch=HEAD, user=root@{g.hex(12)}")
    add("id-etcd-auth", "enabled authentication; auth-token=simple; auth store revision=14; bcrypt-cost=10")
    add("id-auth-ms", f"{g.ts()} auth-proxy: auth ok user=alice method=oidc latency=14ms groups=[ml-infra gpu-users]")
    add("id-pass-fail", "dcgmi diag -r 3: Memory: Pass  PCIe: Pass  Diagnostic: Pass  token bucket test: PASS=8 FAIL=0")
    add("id-pass-ncclt", "# Out of bounds values : 0 OK  pass: 100  secret sauce: none  busbw: 389.12")
    add("id-bypass", "compass=north passthrough=on iommu=pt pass=2 passes: 12 password-less sudo enabled")
    add("id-tokenpath", "HF_TOKEN_PATH=/home/ada/.cache/huggingface/token WANDB_API_KEY_FILE=/run/secrets/wandb")
    add("id-secret-dir", "stat /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory")
    add(
        "id-cert-paths",
        "--tls-private-key-file=/etc/kubernetes/pki/apiserver.key --service-account-key-file="
        "/etc/kubernetes/pki/sa.pub --enable-bootstrap-token-auth=true",
    )
    add(
        "id-apiserver",
        "--authorization-mode=Node,RBAC --requestheader-username-headers=X-Remote-User "
        "--service-account-issuer=https://kubernetes.default.svc",
    )
    add(
        "id-ssh-opt",
        "ssh -i ~/.ssh/id_ed25519 -o PasswordAuthentication=no -o PreferredAuthentications=publickey -p 22 gpu001",
    )
    add("id-mysql-port", "mysql -h db01 -u slurm -p -P 3306 slurm_acct_db")
    add("id-curl-p", "curl -fsS -o /dev/null -w '%{http_code}' -u : --negotiate https://yarn:8090/ws/v1/cluster")
    add("id-docker-p", "docker run -d -p 9000:9000 -p 9001:9001 -u 1000:1000 minio/minio server /data")
    add("id-s3-arn", "policy: arn:aws:s3:::ckpt/* Action: s3:GetObject, secretsmanager:GetSecretValue Effect: Deny")
    add("id-b64-tensor", f"base64 png chunk: data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{g.s(B64, 120)}")
    add(
        "id-protobuf",
        f"grpc-trace-bin: AAA{g.s(B64, 36)} grpc-status: 16 grpc-message: Request had invalid credentials",
    )
    add(
        "id-slurm-job",
        f"slurmctld: sched: Allocate JobId={g.num(7)} NodeList={g.node()} #CPUs=192 Partition=h100 TRES=gres/gpu:8",
    )
    add(
        "id-slurm-env",
        f"SLURM_JOB_ID={g.num(7)} SLURM_STEP_RESV_PORTS=12001 SLURM_TASKS_PER_NODE=8 SLURM_CONF_HASH=0x{g.hex(8)}",
    )
    add(
        "id-slurm-confhash",
        f"error: Node {g.node()} appears to have a different slurm.conf; hash 0x{g.hex(8)} != 0x{g.hex(8)}",
    )
    add("id-datadog", f"dd.trace_id={g.num(19)} dd.span_id={g.num(18)} dd.service=inference")
    add("id-sentry-event", f"sentry: event_id={g.hex(32)} release={g.hex(40)} environment=prod")
    add("id-webdataset", f"reading shard s3://data/laion/{{00000..01023}}.tar key=000{g.num(6)} __key__={g.num(9)}")
    add("id-lmdb", f"lmdb key b'{g.num(8)}' missing; shard sha1 {g.hex(40)}")
    add("id-parquet", f"part-00017-{g.uuid()}-c000.snappy.parquet: key_value_metadata mismatch")
    add(
        "id-lora",
        f"Loaded adapter 'support-bot' lora_int_id={g.i(1, 90)} from /adapters/{g.uuid()} api_key_required=True",
    )
    add("id-rate", "rate limiter: api_key_hash bucket=free tokens_left=12 refill=10/s")
    add("id-cred-count", "Rotated 14 credentials, 0 failed; next rotation in 86400s; secret version 7 -> 8")
    add("id-ext-secret", f"external-secrets: reconciled secret name=train/wandb version={g.num(7)} status=SecretSynced")
    add(
        "id-certmgr",
        f"cert-manager: issuing certificate; secret_name=webhook-tls next_private_key_secret_name=webhook-{g.low(5)}",
    )
    add("id-sealed", "sealed-secrets: Updating train/hf-token: no key could decrypt secret (token, username)")
    add("id-date-long", f"consumed_bytes={g.num(15)} ts_ns={g.num(19)} seq={g.num(12)} inode={g.num(9)} keycode=28")
    add("id-snap-fs", f"ZFS: pool tank guid={g.num(19)} encryption=off keyformat=none keylocation=none")
    add("id-luks-ok", f"systemd-cryptsetup: Key slot 0 unlocked; device /dev/mapper/luks-{g.uuid()} active")
    add("id-tpm", f"tpm_tis: TPM 2.0 event log PCR[7]=0x{g.hex(64).upper()}")
    add("id-cc", "nvidia-smi conf-compute: CC State: OFF; Key Rotation Threshold: disabled; attestation nonce: none")
    return out
