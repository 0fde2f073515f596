"""The first pass over a batch, before any record is parsed."""

from __future__ import annotations

import orjson
import pytest

from epicenter.ingest.batch.records import Records
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.stream.scan.prefilter import Prefilter, scanner_of
from tests.support.logs import iso, journald, kernel, the_rules, vector

TEXT = "usb 1-1: new high-speed USB device number 2"


def rsyslog_json(source: str) -> bytes:
    """rsyslog's JSON of a template with `%inputname%`."""
    return orjson.dumps({"timestamp": iso(5), "host": "n1", "source": source, "message": TEXT})


@pytest.mark.parametrize(
    ("value", "is_marked"),
    [
        pytest.param(rsyslog_json("imkmsg"), True, id="rsyslog-s-kmsg-input"),
        pytest.param(rsyslog_json("imklog"), True, id="rsyslog-s-klog-input"),
        pytest.param(rsyslog_json("imklog").replace(b'":"', b'": "'), True, id="with-spaces"),
        pytest.param(rsyslog_json("imfile"), False, id="rsyslog-s-file-input"),
        pytest.param(kernel("n1", 5, TEXT), True, id="rsyslog-file"),
        pytest.param(journald("n1", 5, TEXT), True, id="journald"),
        pytest.param(vector("n1", 5, f"{TEXT} imklog", "A"), False, id="a-pod-that-prints-the-word"),
    ],
)
def test_a_line_of_the_host_is_marked_by_its_source(value: bytes, is_marked: bool) -> None:
    prefiltered = Prefilter(HyperscanScanner(["Xid"])).prefiltered(Records([vector("n2", 5, "x"), value]))
    assert list(prefiltered.of_kernel) == ([1] if is_marked else [])


@pytest.mark.parametrize("in_triage", [False, True])
def test_only_a_triage_searches_for_rules_of_a_triage(in_triage: bool) -> None:
    hits = scanner_of(the_rules(), in_triage).scan([b"the lamp of shaft 7 died"])
    found = {the_rules().rule_of_pattern[number].spec.id for _, number in hits}
    assert ("unnamed.words" in found) == in_triage
