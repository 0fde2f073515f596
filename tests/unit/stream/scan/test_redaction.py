"""Rules match the original line; the results of a scan contain no secret."""

from __future__ import annotations

import msgspec
import pytest

from epicenter.rules.errors import DeadLetterKind
from epicenter.rules.model.ledger import MAX_KEPT_DEAD_BYTES
from epicenter.rules.redact.load import load_redactor
from epicenter.stream.kafka.fault_log import FaultLog
from epicenter.stream.kafka.raw_batches import Corrupt
from epicenter.stream.metrics import Metrics
from epicenter.stream.scan.block_buffer import BlockBuffer
from epicenter.stream.scan.redaction import lines_without_secrets
from epicenter.stream.scan.scan import BatchScanner, ScanResult
from tests.support.logs import batch, the_rules, vector

REDACTOR = load_redactor()
SECRET = "hunter2-horse"
KEY_LINES = ["MIIEowIBAAKCAQEA" + dead_letter * 48 for dead_letter in "ab"]
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 12, in main',
    f'    engine = connect(user="mlflow", password="{SECRET}")',
    "    key = '''-----BEGIN RSA PRIVATE KEY-----",
    *KEY_LINES,
    "    -----END RSA PRIVATE KEY-----'''",
    f"sqlalchemy.exc.OperationalError: can't reach postgresql://mlflow:{SECRET}@db:5432/runs",
]
LINES = [
    f"RuntimeError: CUDA error: an illegal memory access was encountered, DB_PASSWORD={SECRET}",
    *TRACEBACK,
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
]


def scanned(lines: list[str], with_redactor: bool = True, keep_all: bool = True) -> ScanResult:
    """Lines of one pod, a second apart."""
    values = [vector("n1", second, line, "llama") for second, line in enumerate(lines)]
    redactor = REDACTOR if with_redactor else None
    return BatchScanner(the_rules(), "c", keep_all=keep_all, redactor=redactor).scan(batch(values))


def everything(found: ScanResult) -> str:
    """The results of a scan, as one text."""
    records = (found.matches, found.observed, found.heartbeats, found.rank_placements)
    dead_letters = [
        (dead_letter.reason, dead_letter.value.decode("latin-1"), str(dead_letter.key))
        for dead_letter in found.dead_letters
    ]
    return str(msgspec.to_builtins([*records, dead_letters]))


def test_redaction_does_not_change_matches() -> None:
    plain, redacted = scanned(LINES, with_redactor=False), scanned(LINES)
    assert len(plain.matches) > 2
    assert [(match.rule, match.event.position) for match in redacted.matches] == [
        (match.rule, match.event.position) for match in plain.matches
    ]
    assert (redacted.heartbeats, redacted.rank_placements, redacted.matched) == (
        plain.heartbeats,
        plain.rank_placements,
        plain.matched,
    )


def test_no_result_of_a_scan_contains_a_secret() -> None:
    assert SECRET in everything(scanned(LINES, with_redactor=False))
    left = everything(scanned(LINES))
    assert not [secret for secret in (SECRET, *KEY_LINES) if secret in left]
    assert "postgresql://mlflow:[redacted:url-password]@db:5432/runs" in left
    assert 'password=\\"[redacted:password]' in left or 'password="[redacted:password]' in left


def test_lines_without_a_secret_keep_their_ids() -> None:
    plain, redacted = scanned(LINES, with_redactor=False), scanned(LINES)
    for before, after in zip(plain.matches, redacted.matches, strict=True):
        assert (before.match_id == after.match_id) == (SECRET not in before.event.text)


def test_match_ids_do_not_depend_on_the_secret() -> None:
    other = [line.replace(SECRET, "another-1") for line in LINES]
    assert [match.match_id for match in scanned(other).matches] == [match.match_id for match in scanned(LINES).matches]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_redacted_matches_do_not_depend_on_cuts_of_batches(size: int) -> None:
    values = [vector("n1", second, line, "llama") for second, line in enumerate(LINES)]
    whole = BatchScanner(the_rules(), "c", redactor=REDACTOR).scan(batch(values)).matches
    scanner = BlockBuffer(BatchScanner(the_rules(), "c", redactor=REDACTOR))
    pieces = [batch(values[first : first + size], first=first + 1) for first in range(0, len(values), size)]
    assert [match for found in scanner.scan_all(pieces) for match in found.matches] == whole


def test_redacting_twice_changes_nothing() -> None:
    once = scanned(LINES)
    again = scanned([match.event.text for match in once.matches if not match.block])
    assert again.redactions == []
    assert "[redacted:password]" in everything(again)


def test_fields_within_a_secret_are_redacted() -> None:
    found = scanned([f"torch.distributed.DistStoreError: connect to redis://u:{SECRET}@10.0.0.1:6379 failed"])
    assert SECRET not in everything(found)


def test_a_long_line_of_a_block_is_cut_after_it_was_redacted() -> None:
    lines = [*TRACEBACK]
    lines[2] = f"{'x' * 980} WANDB_API_KEY={'0123456789abcdef' * 2}01234567"
    (block,) = {match.block for match in scanned(lines).matches if match.block}
    assert max(map(len, block)) <= 1000
    assert "0123" not in str(block)


def test_dead_letters_are_redacted() -> None:
    broken = b'{"message": "PGPASSWORD=' + SECRET.encode() + b" " + b"x" * (1 << 20)
    key = f"n1?token={SECRET}".encode()
    found = BatchScanner(the_rules(), "c", redactor=REDACTOR).scan(batch([broken], key=key))
    (dead_letter,) = found.dead_letters
    assert found.redactions == ["password"]
    assert dead_letter.size_bytes == len(broken)
    assert dead_letter.value.startswith(b'{"message": "PGPASSWORD=[redacted:password] xxx')
    assert len(dead_letter.value) == MAX_KEPT_DEAD_BYTES
    assert dead_letter.key == b"n1?token=[redacted:url-secret]"
    other = broken.replace(SECRET.encode(), b"another-1")
    (same,) = BatchScanner(the_rules(), "c", redactor=REDACTOR).scan(batch([other], key=key)).dead_letters
    assert same.dead_letter_id == dead_letter.dead_letter_id


def test_a_corrupt_batch_is_redacted() -> None:
    content = f"\x00\x01password={SECRET}\x00".encode()
    dead_letter = FaultLog(Metrics(), REDACTOR).record_corrupt("logs.raw/0", Corrupt(7, 9, "bad checksum", content))
    assert dead_letter.kind is DeadLetterKind.CORRUPT_BATCH
    assert SECRET.encode() not in dead_letter.value


def test_redactions_are_counted_by_kind() -> None:
    metrics = Metrics()
    metrics.record_scan("here", scanned(LINES))
    lines = metrics.text().decode().splitlines()
    counts = {
        line.split('kind="')[1].split('"')[0]: float(line.split()[-1]) for line in lines if "redactions_total{" in line
    }
    assert counts == {"password": 2, "private-key": 1, "url-password": 1}
    assert SECRET not in metrics.text().decode()


def test_the_same_line_of_two_ranks_counts_twice() -> None:
    assert scanned([LINES[0], LINES[0]]).redactions == ["password", "password"]


def test_without_a_redactor_nothing_is_redacted() -> None:
    assert scanned(LINES, with_redactor=False).redactions == []


def test_a_key_over_several_lines_is_redacted_and_their_number_stays() -> None:
    key = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "", "-----END PRIVATE KEY-----"]
    lines = ["step 7", "password=hunter2", *key, "password: none"]
    mark = "[redacted:private-key]"
    expected = ["step 7", "password=[redacted:password]", key[0], mark, "", key[3], "password: none"]
    assert lines_without_secrets(load_redactor(), lines) == expected
    assert lines_without_secrets(None, lines) == lines
