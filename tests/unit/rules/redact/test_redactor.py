"""Secrets are removed, the text around them stays; mistakes in a file of patterns are reported with file and line."""

from __future__ import annotations

import re
from pathlib import Path
from time import process_time

import pytest

from epicenter.rules.errors import ConfigError
from epicenter.rules.redact.load import load_redactor, shipped_faults
from epicenter.rules.redact.redactor import Redactor, Secret

DOCUMENT = Path(__file__).parents[4] / "docs/secrets.md"
REDACTOR = load_redactor()


def redacted(text: str, redactor: Redactor = REDACTOR) -> str:
    return redactor.redact(text.encode()).text.decode()


def test_every_shipped_example_is_redacted_as_declared() -> None:
    assert shipped_faults() == []


@pytest.mark.parametrize(
    "text",
    [
        "9fceb02d0ae598e95dc970b74767f19372d61af8 is the commit",
        "run id 550e8400-e29b-41d4-a716-446655440000",
        "NVRM: Xid (PCI:0000:9a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "nccl unique id 0x7f3a2c9d00000001 commHash 0x9a1b2c3d4e5f6071",
        "nvcr.io/nvidia/pytorch@sha256:9fceb02d0ae598e95dc970b74767f19372d61af89fceb02d0ae598e95dc970b7",
        "ip-10-0-3-17.eu-west-1.compute.internal: rank 3 joined tcp://10.0.0.1:29500",
        "tensor([[0.1, -0.2]], device='cuda:0', dtype=torch.bfloat16)",
        "md5 d41d8cd98f00b204e9800998ecf8427e, crc32c: yZRlqg==",
        "core dump: f0VMRgIBAQAAAAAAAAAAAAMAPgABAAAAUBAAAAAAAABAAAAAAAAAAGg2AAAAAAAA",
        "token=128 tokens per second 18234.5 max_tokens: 4096",
        "num_key_value_heads: 8, key=value, tokenizer.json, tokenizer_class=LlamaTokenizerFast",
        'FATAL:  password authentication failed for user "x"',
        "{'eos_token': '<|end_of_text|>', 'pad_token_id': 128001, 'unk_token': None}",
        "Missing key(s) in state_dict: model.layers.0.self_attn.k_proj.weight",
        "KeyError: 'secret_key'",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7example user@host",
        "slurm_load_jobs error: Unable to contact slurm controller; munge credential expired",
        "secret \"hf-token\" not found; imagePullSecrets: [{'name': 'regcred'}]",
    ],
)
def test_text_that_only_looks_like_a_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_overlapping_secrets_are_redacted_under_the_first_kind() -> None:
    both = Redactor([Secret("first", ("abc",), ("abcd",)), Secret("second", ("abc",), ("bcdef",))])
    assert redacted("xabcdefx", both) == "x[redacted:first]x"


def test_a_character_cut_by_a_pattern_is_removed_whole() -> None:
    cut = Redactor([Secret("cut", ("key",), (r"key=(?P<secret>.{3})",))])
    assert redacted("key=aéé!", cut) == "key=[redacted:cut]é!"
    assert redacted("key=ééé!", cut) == "key=[redacted:cut]é!"


def test_a_text_that_changes_with_every_pass_is_removed_entirely() -> None:
    chain = Redactor([Secret("chain", ("a",), (r"(?<=\])a|^a",))])
    assert redacted("a" * 100, chain) == "[redacted:text]"


def test_kinds_and_secrets_are_listed_in_order() -> None:
    found = REDACTOR.redact(b"redis://:hunter2@h/0 PGPASSWORD=hunter3")
    assert (found.kinds, found.secrets) == (("url-password", "password"), (b"hunter2", b"hunter3"))


def own_file(tmp_path: Path, content: str) -> Path:
    file = tmp_path / "ours.yaml"
    file.write_text(content)
    return file


OURS = """\
secrets:
  - name: acme-key
    sought: [acme_]
    patterns: ['acme_[0-9a-f]{8}']
    finds: ['key «acme_01234567» refused']
    leaves: [acme_gpu_01]
"""


def test_custom_patterns_run_before_the_shipped_ones(tmp_path: Path) -> None:
    redactor = load_redactor([own_file(tmp_path, OURS)])
    assert redacted("password=acme_01234567 PGPASSWORD=x1", redactor) == (
        "password=[redacted:acme-key] PGPASSWORD=[redacted:password]"
    )


def test_the_file_in_the_document_loads(tmp_path: Path) -> None:
    shown = re.search(r"^```yaml\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert shown
    assert "acme-key" in load_redactor([own_file(tmp_path, shown[1])]).kinds


def test_a_shipped_kind_can_be_left_out(tmp_path: Path) -> None:
    redactor = load_redactor([own_file(tmp_path, "off: [cookie]\n")])
    assert "cookie" not in redactor.kinds
    assert redacted("Cookie: session=abcdef", redactor) == "Cookie: session=abcdef"


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        pytest.param(OURS.replace("{8}'", "{8}('"), 4, "correct the expression", id="expression"),
        pytest.param(OURS.replace("[0-9a-f]{8}", "{0,1}|x*"), 4, "matches empty text", id="empty"),
        pytest.param(OURS.replace("acme_01234567", "acme_0123"), 5, ", got ", id="finds"),
        pytest.param(OURS.replace("acme_gpu_01", "acme_89abcdef"), 6, ", got ", id="leaves"),
        pytest.param(OURS.replace("«", "").replace("»", ""), 5, "put the secret between « and »", id="no-marks"),
        pytest.param(OURS.replace("acme-key", "jwt"), 2, "jwt is taken", id="taken"),
        pytest.param(OURS.replace("acme-key", "Acme Key"), 2, "write what matches", id="name"),
        pytest.param(OURS.replace("sought:", "look_for:"), 2, "missing: add it", id="no-words"),
        pytest.param("off: [cokie]\n", 1, "no such kind; write one of", id="off"),
        pytest.param("no_secrets: ['(a|aa)+b']\n", 1, "a group that repeats", id="no-secrets-hang"),
        pytest.param(OURS.replace("[0-9a-f]{8}", "(?:[0-9a-f]+-?)+x"), 4, "a group that repeats", id="hangs"),
        pytest.param("no_secrets: ['(']\n", 1, "correct the expression", id="no-secrets"),
        pytest.param("secrets: [\n", 2, "not YAML", id="yaml"),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_its_line(tmp_path: Path, content: str, line: int, expected: str) -> None:
    file = own_file(tmp_path, content)
    with pytest.raises(ConfigError) as refused:
        load_redactor([file])
    assert any(problem.startswith(f"{file}:{line}: ") and expected in problem for problem in refused.value.problems), (
        refused.value
    )


@pytest.mark.parametrize(
    "pump",
    [b"--token'\\", b"\\", b"?pwd=", b"password: '\\", b"-----BEGIN PRIVATE KEY-----", b"name: key, ", b"cookie: a="],
)
def test_a_long_line_of_one_part_of_a_secret_is_read_in_time(pump: bytes) -> None:
    texts = [pump + pump[-1:] * 16_000, pump * (16_000 // len(pump))]
    begun_s = process_time()
    for text in texts:
        REDACTOR.redact(b"token password pwd= cookie " + text)
    assert process_time() - begun_s < 20, "what was refused took minutes to hours"
