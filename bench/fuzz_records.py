"""Records that no shipper should send: real shapes, broken at random. The same seed gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Final

from epicenter.ingest.simulate import KINDS, Scenario, simulate
from epicenter.rules.packs.load import load
from epicenter.stream.scan.validation import MAX_RECORD_BYTES
from tests.support.logs import fluent_bit, journald, kernel, python_json, vector

DEEP: Final = 100_000
SHARE_OF_LARGE: Final = 0.0005
PREFIXES: Final = (
    "[rank3]: ",
    " 7: ",
    "[default0]:",
    "(raylet) ",
    "(W[rank=8] pid=41, ip=10.1.0.9) ",
    "[1,3]<stderr>:",
    "[prterun-n1-42@1,3]<stdout>:",
    "node07: (W pid=4, ip=10.1.0.9) ",
    "10.1.0.7: ",
    "[pod/train-0/main] ",
    "worker-1  | ",
    "2026-03-02T09:00:01.5Z stderr F ",
    "2026-03-02T09:00:01.5Z stdout P ",
    "2026-03-02T09:00:01.5+00:00 n1 kernel: [   12.000001] ",
    "Mar  2 09:00:01 n1 kernel: [   12.000001] ",
    '<3>1 2026-03-02T09:00:01Z n1 kernel - - [x y="z"] ',
    "[Mon Mar  2 09:00:01 2026] ",
    "4,1842,5140900123,-;",
    "6.8,4,1,2,-;",
    "<4>[   12.000001] ",
    "kern  :err   : ",
    "E0302 09:00:01.000001 991 client.h:77] ",
    "[W302 09:00:01.000000001 x.cpp:1] ",
    " 45%|####5     | 9/20 [00:12<00:14, 1.31s/it]",
    "> > ",
)
PIECES: Final = (
    *(bytes([code]) for code in range(32)),
    b"\x7f",
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"#033[1m",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\xf0\x9f",
    b"\xed\xa0\x80",
    "\u202e\u2066\u2028\u0085".encode(),
    "\U000e0041\u200b\ufeff".encode(),
    "é火".encode(),
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\u0000",
    b"\\u001b[31m",
    b"\\",
    b'"',
    b'\\"',
    b"\r",
    b"\r\n",
    b"\n\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b'{"',
    b"[rank5]: ",
    b"[   12.000002] ",
    b"<script>alert(1)</script>",
    b"[bold]x[/]",
    b"[link=file:///etc]",
    b"%s%n{0}",
    b"Traceback (most recent call last):",
)
KEYS: Final = (
    *("message", "log", "msg", "MESSAGE", "body", "timestamp", "@timestamp", "time", "date", "ts", "host", "node"),
    *("hostname", "node_name", "_HOSTNAME", "kubernetes", "resource", "job", "job_id", "rank", "task", "source"),
    *("__REALTIME_TIMESTAMP", "source_type", "tag", "_TRANSPORT", "cluster", "stream", "priority", "sequence", "sec"),
    *("usec", "involvedObject", "regarding", "metadata", "eventTime", "lastTimestamp", "deprecatedSource", ""),
)
CONTENTS: Final = (
    *(b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"0", b"-1", b"1e400", b"-1e-400", b"1" * 4000, b"01"),
    *(b"1772442005", b"1772442005.123456789", b"1772442005000000", b"18446744073709551616", b"-9223372036854775809"),
    *(b"1e30", b"1e19", b"99999999999999999999", b'"10000000000000000000000000000000"', b'"-1"', b'"NaN"', b'"1e9"'),
    *(b'"0000-01-01T00:00:00Z"', b'"0000-00-00 00:00:00"', b'"9999-12-31T23:59:60.999999999+99:99"'),
    *(b'"2026-02-30T25:61:61Z"', b'"2026-03-02T09:00:01,5 -23:59"', b'"1970-01-01T00:00:00Z"', b'"30 Feb"'),
    *(b'""', b'" "', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\\u001b[2J"', b'"\xff"', b'"\\x41"'),
    *(b"[]", b"{}", b"[104,105]", b"[300]", b"[-1]", b"[1.5]", b"[true]", b'["a"]', b"[[104]]", b'{"a":1}'),
    *(b'{"pod_labels":[]}', b'{"pod_labels":{"job-name":7}}', b'{"labels":{"job-name":{"a":1}},"pod_name":[1]}'),
    *(b'{"kind":"Pod","name":null,"labels":7}', b'{"kind":7,"name":"n"}', b'{"host":{"name":"n"}}', b'{"host":[]}'),
    *(b'"' + b"n" * 300 + b'"', b'"' + "火".encode() * 90 + b'"', b'"../../etc"', b'"<b>&amp;"', b"1.8e308"),
)  # fmt: skip
DEEP_CONTENTS: Final = (
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b"[" * DEEP,
    b'[{"message":' * DEEP,
    b"9" * DEEP,
    b"-" * DEEP,
)
Change = Callable[[Random, bytes], bytes]


def record(draw: Random) -> bytes:
    """One record: real, or changed up to three times; rarely a large one."""
    value = draw.choice(_real())
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        value = draw.choice(CHANGES)(draw, value)
    return _large(draw, value) if draw.random() < SHARE_OF_LARGE else value


@cache
def _real() -> list[bytes]:
    """The packs' examples in every envelope and behind every prefix, and the lines of simulations."""
    clusters = [Scenario(nodes=4, minutes=1.0, faults=(kind,), fault_at_s=60.0, step_time_s=2.0) for kind in KINDS]
    simulated = [line.text.encode() for cluster in clusters for line in simulate(cluster)]
    examples = [rule.spec.examples for rule in load().rules if rule.spec.examples]
    lines = sorted({line for example in examples for line in (*example.matches, *example.near_misses)})
    return Random(1).sample(simulated, min(len(simulated), 8 * len(lines))) + [
        shape for number, line in enumerate(lines) for shape in _shapes(line, number)
    ]


def _shapes(line: str, number: int) -> list[bytes]:
    node, second = f"n{number % 16}", number % 600 + number / 1000
    prefixed = PREFIXES[number % len(PREFIXES)] + line
    event = {"involvedObject": {"kind": "Pod", "name": f"train-7-{number}"}, "reason": "Failed", "message": line}
    kmsg = {"priority": 3, "sequence": number, "sec": 12, "usec": 5, "msg": line}
    shapes = [line.encode(), prefixed.encode(), kernel(node, second, line), vector(node, second, prefixed, job="7")]
    shapes += [fluent_bit(node, second, line, job="9"), journald(node, second, line), python_json(node, second, line)]
    return [*shapes, json.dumps({**event, "timestamp": second}).encode(), json.dumps(kmsg).encode()]


def _flip(draw: Random, value: bytes) -> bytes:
    changed = bytearray(value or b"\0")
    for _ in range(draw.randint(1, 4)):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _cut(draw: Random, value: bytes) -> bytes:
    place = draw.randint(0, len(value))
    return value[:place] if draw.random() < 0.5 else value[place:]


def _splice(draw: Random, value: bytes) -> bytes:
    other = draw.choice(_real())
    return value[: draw.randint(0, len(value))] + other[draw.randint(0, len(other)) :]


def _insert(draw: Random, value: bytes) -> bytes:
    place = draw.randint(0, len(value))
    return value[:place] + draw.choice(PIECES) * draw.choice((1, 1, 1, 2, 40)) + value[place:]


def _prefixed(draw: Random, value: bytes) -> bytes:
    return draw.choice(PREFIXES).encode() * draw.choice((1, 1, 2, 30)) + value


def _with_field(draw: Random, value: bytes) -> bytes:
    """With an unusual field, maybe twice, before or after the others."""
    field = b'"%b":%b' % (draw.choice(KEYS).encode(), draw.choice(CONTENTS))
    whole = value if value.startswith(b'{"') else json.dumps({"message": value.decode("utf-8", "replace")}).encode()
    return b"{%b,%b" % (field, whole[1:]) if draw.random() < 0.5 else b"%b,%b}" % (whole[:-1], field)


def _without_field(draw: Random, value: bytes) -> bytes:
    """Another name for a field."""
    return value.replace(draw.choice(KEYS).encode(), b"nothing")


def _repeated(draw: Random, value: bytes) -> bytes:
    start = draw.randint(0, len(value))
    return value[:start] + value[start : start + draw.randint(1, 60)] * draw.randint(2, 40)


def _noise(draw: Random, _: bytes) -> bytes:
    return draw.randbytes(draw.randint(0, 300))


def _large(draw: Random, value: bytes) -> bytes:
    """Deep or long: any size to above the limit, small ones as often as large ones."""
    if draw.random() < 0.2:
        return b'{"%b":%b,%b' % (draw.choice(KEYS).encode(), draw.choice(DEEP_CONTENTS), value.lstrip(b"{"))
    size_bytes = int(2 ** draw.uniform(10, MAX_RECORD_BYTES.bit_length() + 0.1))
    place, piece = draw.randint(0, len(value)), draw.choice((*PIECES, b"x", b" ", b"0", b"a.b ", b"[1,3]", value))
    return value[:place] + piece * (size_bytes // (len(piece) or 1)) + value[place:]


CHANGES: Final[tuple[Change, ...]] = (
    *(_flip, _cut, _splice, _insert, _insert, _prefixed, _with_field, _with_field),
    *(_without_field, _repeated, _noise),
)
