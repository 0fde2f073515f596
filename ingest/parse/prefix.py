"""Prefixes in front of a line: who wrote it. They nest, so they are peeled off again and again.

The headers that a program writes itself (absl, c10, NCCL, Python logging) stay in the body: rules may need them.
"""

from __future__ import annotations

import re

import msgspec

from epicenter.ingest.batch.clean import clean
from epicenter.ingest.parse.prefix_patterns import REPEATED, SHAPES

_DEEPEST_NESTING = 16
_BEFORE_KERNEL_TEXT = "[<"


class Peeled(msgspec.Struct, frozen=True):
    """The rest of a line, and the facts in its prefixes.

    `speaker` is the words that name the writer, outermost first, `""` when there are none: lines of one file that have
    the same speaker come from the same process and stream. `timed` is the rest of the line from the first time in its
    prefixes on.
    """

    body: str
    host: str = ""
    rank: int | None = None
    is_kernel: bool = False
    speaker: str = ""
    pod: str = ""
    container: str = ""
    timed: str = ""
    task: int | None = None

    def within(self, whole: Peeled) -> Peeled:
        """A piece of a line: where its prefixes lack a fact, those of the whole line count."""
        return msgspec.structs.replace(
            self,
            host=self.host or whole.host,
            rank=whole.rank if self.rank is None else self.rank,
            is_kernel=self.is_kernel or whole.is_kernel,
            speaker=self.speaker or whole.speaker,
            pod=self.pod or whole.pod,
            container=self.container or whole.container,
            timed=self.timed or whole.timed,
            task=whole.task if self.task is None else self.task,
        )


def peel(line: str) -> Peeled:
    """The line without prefixes, and as `clean` leaves it."""
    body, timed = clean(line), ""
    fields: dict[str, str] = {}
    speakers: list[str] = []
    for _ in range(_DEEPEST_NESTING):
        if not (found := _first(body, "printk" in fields)):
            break
        named = {name: words for name, words in found.groupdict().items() if words}
        speakers += [named[name] for name in ("speaker", "stream") if name in named and named[name] not in speakers]
        timed = timed or (body[found.start("time") :] if "time" in named else "")
        if named.get("program") == "kernel":
            named["printk"] = "kernel"
        fields = named | fields
        body = body[found.end() :]
    if "[repeated " in body:
        body = REPEATED.sub("", body)
    if not (fields or speakers or timed):
        return Peeled(body)
    return Peeled(
        body=body,
        host=fields.get("host", ""),
        rank=int(fields["rank"]) if "rank" in fields else None,
        is_kernel="printk" in fields,
        speaker=" ".join(speakers),
        pod=fields.get("pod", ""),
        container=fields.get("container", ""),
        timed=timed,
        task=int(fields["task"]) if "task" in fields else None,
    )


def _first(body: str, is_kernel: bool) -> re.Match[str] | None:
    if is_kernel and body[:1] not in _BEFORE_KERNEL_TEXT:
        return None
    shapes = SHAPES.get(body[:1])
    if shapes is None or not shapes.any_of.match(body):
        return None
    return next((found for shape in shapes.each if (found := shape.match(body))), None)
