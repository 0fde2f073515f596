"""The meaning of the register words of NVLink and recovery Xids, for both layouts and for unknown words."""

from __future__ import annotations

import csv

import pytest

from epicenter.rules.packs.decode import DECODERS, nvlink4, nvlink5, recovery, xid
from epicenter.rules.packs.load import CATALOG

TABLE = CATALOG / "tables" / "nvl5.tsv"
ROWS = list(csv.DictReader(TABLE.read_text("utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
DECODED = ("unit", "layout", "immediate", "investigate", "link_severity", "origin")


def word(row: dict[str, str], layout: str, link: int = 9) -> int:
    """The first register word of a line that matches the row."""
    reason = int(row["reason"] or 0) << 20
    if layout == "v1":
        return reason | link << 13 | int(row["v1"]) << 5 | int(row["code"]) - 143
    return reason | link << 10 | int(row["v2"])


def fields(row: dict[str, str], layout: str) -> dict[str, str]:
    """The fields of such a line, with the layout's name of its subunit."""
    old, _, new = row["subunit"].partition("/")
    words = f"0x{word(row, layout):08x} {row['status'] or '0x00000000'} 0x00000000"
    return {"code": row["code"], "subunit": new if new and layout == "v2" else old, "words": words}


@pytest.mark.parametrize("layout", ["v1", "v2"])
@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: "-".join((row["code"], row["subunit"], row["reason"], row["status"]))
)
def test_each_row_is_found_by_the_register_words_of_its_layout(row: dict[str, str], layout: str) -> None:
    decoded = nvlink5(fields(row, layout))

    assert decoded["layout"] == layout
    assert {name: decoded[name] for name in ("immediate", "investigate", "link_severity", "origin", "verdict")} == {
        name: row[name] for name in ("immediate", "investigate", "link_severity", "origin", "verdict")
    }


@pytest.mark.parametrize(
    ("code", "subunit", "words", "expected"),
    [
        pytest.param(
            "149",
            "NETIR_LINK_EVT",
            "0x0210e5c6 0x00000000 0x00000000",
            ("NETIR_LINK_EVT", "v1", "RESET_GPU", "INVESTIGATE_PEER_DEVICE", "link-fatal", "peer"),
            id="the-other-end-went-down",
        ),
        pytest.param(
            "149",
            "NETIR_LINK_DOWN",
            "0x00a01c11 0x00000000",
            ("NETIR_LINK_DOWN", "v2", "RESET_GPU", "INVESTIGATE_LINK_SI", "link-fatal", "here"),
            id="bad-signal-here",
        ),
        pytest.param(
            "145",
            "RLW_SRC_TRACK",
            "0x000120e2 0x00000004",
            ("RLW_SRC_TRACK", "v1", "XID_154_EVAL", "IGNORE", "non-fatal", "elsewhere"),
            id="packets-lost-elsewhere",
        ),
        pytest.param(
            "146",
            "TLW_RX_PIPE1",
            "0x0000140b 0x00000004",
            ("TLW_RX_PIPE1", "v2", "RESET_GPU", "CONTACT_SUPPORT", "fatal", "here"),
            id="second-pipe",
        ),
        pytest.param(
            "150",
            "MSE Degraded",
            "0x00000000 0xffffffff",
            ("MSE_Degraded", "v2", "RESET_GPU", "CONTACT_SUPPORT", "fatal", "here"),
            id="name-with-a-blank",
        ),
    ],
)
def test_nvlink5_register_words_are_decoded(code: str, subunit: str, words: str, expected: tuple[str, ...]) -> None:
    decoded = nvlink5({"code": code, "subunit": subunit, "words": words})

    assert tuple(decoded[name] for name in DECODED) == expected


@pytest.mark.parametrize(
    ("info", "immediate"), [(0x00000C06, "IGNORE"), (0x00000C86, "RESET_GPU")], ids=["plain", "promoted"]
)
def test_a_promoted_error_requires_more_action(info: int, immediate: str) -> None:
    decoded = nvlink5({"code": "145", "subunit": "RLW_RXPIPE", "words": f"0x{info:08x} 0x00000002"})

    assert (decoded["layout"], decoded["immediate"]) == ("v2", immediate)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param({"code": "145", "words": "0x0000005f 0x00000001"}, id="unknown-subcode"),
        pytest.param({"code": "145", "words": "0x00000007"}, id="one-word"),
        pytest.param({"code": "145"}, id="no-words"),
        pytest.param({"code": "79", "words": "0x00000007 0x00000004"}, id="another-code"),
        pytest.param({}, id="nothing"),
    ],
)
def test_words_without_an_explanation_stay_undecoded(line: dict[str, str]) -> None:
    assert nvlink5(line) == line


def test_an_unknown_status_still_names_the_unit() -> None:
    decoded = nvlink5({"code": "146", "subunit": "TLW_CTRL", "words": "0x00000009 0x00004000"})

    assert (decoded["unit"], decoded["error_status"]) == ("TLW_CTRL", "0x00004000")
    assert "immediate" not in decoded


@pytest.mark.parametrize(
    ("words", "origin"),
    [
        pytest.param("0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "none", id="nothing-to-do"),
        pytest.param("0x2, 0x0, 0x0, 0x10000, 0x0, 0x0, 0x0", "elsewhere", id="follows-another"),
        pytest.param("0x100002, 0x0, 0x0, 0x0, 0x100000, 0x0, 0x0", "elsewhere", id="graver-than-nothing"),
        pytest.param("0x10002, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "here", id="the-gravest-bit-counts"),
        pytest.param("0x0, 0x80, 0x0, 0x0, 0x0, 0x0, 0x0", "unknown", id="not-documented"),
    ],
)
def test_registers_of_xid_74_are_decoded(words: str, origin: str) -> None:
    assert nvlink4({"code": "74", "words": words})["origin"] == origin


@pytest.mark.parametrize(
    "line",
    [{"code": "74", "words": "0x0, 0x0, 0x0"}, {"code": "74"}, {"code": "94", "words": "0x1, 0x2, 0x3, 0x4"}],
    ids=["no-bit", "no-words", "another-code"],
)
def test_registers_without_meaning_are_left_out(line: dict[str, str]) -> None:
    assert nvlink4(line) == line


def test_recovery_actions_are_described() -> None:
    assert recovery({"new_action": "Drain P2P"})["verdict"] == "stop peer-to-peer jobs on the GPU, then reset it"
    assert recovery({"new_action": "Swap It"})["verdict"] == "do what the driver requests: Swap It"
    assert recovery({"code": "79"}) == {"code": "79"}


def test_every_xid_has_a_decoder() -> None:
    assert xid({"code": "74", "words": "0x10000, 0x0, 0x0, 0x0"})["origin"] == "here"
    assert xid({"code": "154", "new_action": "GPU Reset Required"})["verdict"] == "drain the GPU and reset it"
    assert xid({"code": "149", "words": "0x021000c6 0x0"}) == {"code": "149", "words": "0x021000c6 0x0"}
    assert set(DECODERS) == {"nvlink4", "nvlink5", "recovery", "template", "xid"}


def test_the_template_replaces_the_line() -> None:
    fields = {"line": "ERROR shaft 7 is out", "pci": "0000:3b:00.0"}
    assert DECODERS["template"](fields) == {"template": "ERROR shaft <number> is out", "pci": "0000:3b:00.0"}
