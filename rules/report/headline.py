"""The title of one failure: what its line says, and where it happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from epicenter.rules.cause.collectives import NAMING_FIELDS, ranks_in
from epicenter.rules.model.job_names import is_named_job
from epicenter.rules.model.ranges import rank_list
from epicenter.rules.model.signals import Signal
from epicenter.rules.packs.headline import filled, names_in
from epicenter.rules.packs.spec import RuleSpec
from epicenter.rules.packs.vocabulary import vocabulary
from epicenter.rules.report.traceback import error_of, frame_of

MAX_HEADLINE_LENGTH: Final = 200
MAX_VALUE_LENGTH: Final = 120

_SECONDS: Final = {"ns": 1e-9, "ms": 1e-3, "s": 1.0}
_GIB: Final = {"bytes": 2.0**-30, "kb": 2.0**-20, "gb": 1.0}


def headline(signal: Signal, spec: RuleSpec | None, with_place: bool = True) -> str:
    """The rule's headline filled in, else its title, else the class; with rank, node and GPU where it lacks them."""
    template = spec.headline if spec else ""
    text = filled(template, _values(signal, spec)) if spec and template else ""
    named = names_in(template) if text else set()
    title = text or (spec.title if spec else signal.failure_class)
    place = _place(signal, spec, named) if with_place else ""
    return f"{cut(title, MAX_HEADLINE_LENGTH - len(place))}{place}"


def gpu_of(address: str, spec: RuleSpec | None) -> str:
    """The PCI address if it is that of a GPU; empty for a network card, a switch or a drive."""
    if spec is None or spec.entity == "gpu":
        return address
    is_of_gpu = spec.entity != "fabric" and vocabulary().is_of_gpu(spec.failure_class)
    return address if is_of_gpu else ""


def duration(seconds: float) -> str:
    """`450 ms`, `6 s`, `30 min`, `2.5 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def cut(text: str, length: int) -> str:
    """The text on one line, with `…` in place of what is beyond the length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def _values(signal: Signal, spec: RuleSpec) -> Mapping[str, str]:
    of_traceback = {"error": error_of(signal), "frame": frame_of(signal)}
    of_place = {
        "title": spec.title,
        "node": signal.node,
        "rank": "" if signal.rank is None else str(signal.rank),
        "gpu": gpu_of(signal.gpu, spec),
        "job": signal.job if is_named_job(signal.job) else "",
    }
    values = of_traceback | signal.fields | {name: text for name, text in of_place.items() if text}
    return {name: cut(_measured(name, text), MAX_VALUE_LENGTH) for name, text in values.items()}


def _measured(name: str, text: str) -> str:
    """Ranks in ranges, and a number in words, by the unit at the end of its name: `waited_s`, `anon_rss_kb`."""
    if name in NAMING_FIELDS and (ranks := ranks_in(text)):
        return rank_list(ranks)
    unit = name.rpartition("_")[2]
    if not (text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 20):
        return text
    if unit in _SECONDS:
        return duration(float(text) * _SECONDS[unit])
    return _size(float(text) * _GIB[unit]) if unit in _GIB else text


def _size(gib: float) -> str:
    return f"{gib:.3g} GiB" if gib >= 1 else f"{gib * 1024:.3g} MiB" if gib >= 2**-10 else f"{gib * 2**20:.3g} KiB"


def _place(signal: Signal, spec: RuleSpec | None, named: set[str]) -> str:
    address, index = gpu_of(signal.gpu, spec), signal.fields.get("gpu_index", "")
    gpu = f"{index} ({address})" if index and address else address
    places = [
        f", rank {signal.rank}" if signal.rank is not None and "rank" not in named else "",
        f" on {signal.node}" if signal.node and named.isdisjoint(("node", "nodes")) else "",
        f", job {signal.job}" if is_named_job(signal.job) and not signal.node and "job" not in named else "",
        f", GPU {gpu}" if gpu and "gpu" not in named else "",
    ]
    return "".join(places)
