"""Decoders: fields that a regular expression can't extract, computed from those that it can."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Final

from epicenter.rules.model.signals import TEMPLATE_FIELD
from epicenter.rules.unnamed.template import template_of

Fields = dict[str, str]
Rows = list[Mapping[str, str]]

_TABLES = Path(__file__).parents[1] / "catalog" / "tables"
_WORD = re.compile(r"0x([0-9a-fA-F]{1,16})")
_FIELDS_OF_A_ROW = ("immediate", "investigate", "link_severity", "origin", "verdict")
_GRAVEST_FIRST = ("here", "unknown", "elsewhere", "none")
_PROMOTED_BIT = {"v1": 10, "v2": 7}


def nvlink5(fields: Fields) -> Fields:
    """What an Xid of NVLink 5 (144 to 150) means, from its register words.

    Needs `code`, `words` (two or more of `0x…`) and, where the line prints it, `subunit`. Adds `layout` (v1 before
    driver 575, v2 since), `unit`, `error_status`, `reason` (why a link went down) and, when the table knows the case,
    NVIDIA's `immediate` and `investigate`, `link_severity`, `origin` (`here`, `peer`, `elsewhere`, `software`, `host`)
    and `verdict`, in words. If no layout fits the words, it adds nothing.
    """
    words = [int(word, 16) for word in _WORD.findall(fields.get("words", ""))]
    rows = _nvlink5_rows().get(fields.get("code", ""), [])
    if len(words) < 2 or not rows:
        return fields
    info, status = words[0], words[1]
    layout, rows = _layout(info, rows, fields.get("subunit", "").replace(" ", "_"))
    if not layout:
        return fields
    reason = info >> 20 & 0x3F
    meaning = {"layout": layout, "unit": _unit(rows[0]["subunit"], layout), "error_status": f"0x{status:08x}"}
    if any(row["reason"] for row in rows):
        meaning["reason"] = str(reason)
    for row in rows:
        if row["reason"] in ("", str(reason)) and row["status"] in ("", meaning["error_status"]):
            meaning |= {name: row[name] for name in _FIELDS_OF_A_ROW if row[name]}
            if row["promoted"] and info >> _PROMOTED_BIT[layout] & 1:
                meaning["immediate"] = row["promoted"]
            break
    return fields | meaning


def nvlink4(fields: Fields) -> Fields:
    """What the registers of an Xid 74 (NVLink up to 4) mean: `origin` and `verdict` of the gravest bit.

    Needs `words`, the seven registers. For a bit that the table lacks, the verdict is to open a case with the vendor.
    """
    words = [int(word, 16) for word in _WORD.findall(fields.get("words", ""))]
    if fields.get("code") != "74" or not words:
        return fields
    row_by_bit = {(row["register"], row["bit"]): row for row in _rows("xid74.tsv")}
    unnamed = {"origin": "unknown", "verdict": "a bit that is not documented; open a case"}
    bits = [
        row_by_bit.get((str(number), str(bit)), unnamed)
        for number, word in enumerate(words, start=1)
        for bit in range(word.bit_length())
        if word >> bit & 1
    ]
    if not bits:
        return fields
    worst = min(bits, key=lambda row: _GRAVEST_FIRST.index(row["origin"]))
    return fields | {"origin": worst["origin"], "verdict": worst["verdict"]}


def recovery(fields: Fields) -> Fields:
    """The meaning of the recovery action of an Xid 154: `verdict`. Newer drivers may have more actions."""
    wanted = fields.get("new_action", "")
    verdicts = {row["new_action"]: row["verdict"] for row in _rows("xid154.tsv")}
    return fields | {"verdict": verdicts.get(wanted, f"do what the driver requests: {wanted}")} if wanted else fields


def xid(fields: Fields) -> Fields:
    """The fields of any Xid, decoded as far as its tables allow."""
    return recovery(nvlink4(nvlink5(fields)))


def template(fields: Fields) -> Fields:
    """`line` replaced by its `template`: the text with numbers, addresses, paths and ids masked."""
    return {name: text for name, text in fields.items() if name != "line"} | {
        TEMPLATE_FIELD: template_of(fields.get("line", ""))
    }


def _layout(info: int, rows: Rows, subunit: str) -> tuple[str, Rows]:
    """The layout whose subcode is in the first word, and the rows of that subcode (and of the subunit, if printed)."""
    base = int(rows[0]["code"]) - 143
    found = {
        "v1": [row for row in rows if info & 0x1F == base and info >> 5 & 0x1F == int(row["v1"])],
        "v2": [row for row in rows if info & 0x7F == int(row["v2"])],
    }
    for layout, of_layout in found.items():
        if of_layout:
            named = [row for row in of_layout if subunit and subunit in row["subunit"].split("/")]
            return layout, named or of_layout
    return "", []


def _unit(names: str, layout: str) -> str:
    """The name of a subunit; `old/new` where the layouts differ."""
    old, _, new = names.partition("/")
    return new if new and layout == "v2" else old


@cache
def _rows(file: str) -> tuple[Mapping[str, str], ...]:
    text = (_TABLES / file).read_text("utf-8").splitlines()
    return tuple(map(MappingProxyType, csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)))


@cache
def _nvlink5_rows() -> Mapping[str, Rows]:
    rows = sorted(_rows("nvl5.tsv"), key=itemgetter("code"))
    return {code: list(of_code) for code, of_code in groupby(rows, itemgetter("code"))}


DECODERS: Final[Mapping[str, Callable[[Fields], Fields]]] = MappingProxyType(
    {"nvlink4": nvlink4, "nvlink5": nvlink5, "recovery": recovery, "template": template, "xid": xid}
)
"""By the name that a rule gives in `decode`."""

ADDED: Final = ("layout", "unit", "error_status", "reason", *_FIELDS_OF_A_ROW, TEMPLATE_FIELD)
"""Fields that decoders may add."""
