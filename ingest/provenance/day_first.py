"""Whether a file writes 02/03/2026 for the second of March, as `%d/%m/%Y` does, or for the third of February."""

from __future__ import annotations

import re
from typing import Final

_SLASHED: Final = re.compile(r"(?m)^[^\n]{0,60}?(?<!\d)(\d\d)/(\d\d)/20\d\d \d\d:\d\d:\d\d", re.ASCII)
_ISO: Final = re.compile(r"(?<!\d)20\d\d-(\d\d)-(\d\d)[T ]\d\d:\d\d:\d\d", re.ASCII)
_ABSL: Final = re.compile(r"(?<!\w)[IWEF](?:20\d\d)?(\d\d)(\d\d) \d\d:\d\d:\d\d\.\d", re.ASCII)
"""absl, glog and PyTorch's C++ logger."""

_VLLM: Final = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) \d\d:\d\d:\d\d \[", re.ASCII)


def day_first(text: str) -> bool | None:
    """Whether the days of its lines come before the months; None if nothing shows it.

    Its own numbers show it where one of them is no month; otherwise the times that other programs wrote into it do.
    """
    dates = {(int(found[1]), int(found[2])) for found in _SLASHED.finditer(text)} if "/20" in text else set()
    if any(second > 12 for _, second in dates):
        return False
    if any(first > 12 for first, _ in dates):
        return True
    others = {(int(found[1]), int(found[2])) for shape in (_ISO, _ABSL, _VLLM) for found in shape.finditer(text)}
    is_first, is_second = not others.isdisjoint({(month, day) for day, month in dates}), not others.isdisjoint(dates)
    return is_first if is_first != is_second else None
