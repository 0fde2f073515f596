"""Work grows with the size of the input, whatever its shape: no cliffs. Calls are counted, so no clock is needed."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest

from bench.work_count import Calls
from tests.support.growth import SHAPES

MAX_RATIO: Final = 2.5
"""How much more the second doubling of the input may add than the first one.

It is 2 where each thing costs the same, and 4 where each looks at all others.
"""


@pytest.mark.parametrize("name", SHAPES)
def test_twice_the_input_is_twice_the_work(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]

    def calls_of(size: int) -> int:
        folder = Path(mkdtemp(dir=tmp_path))
        return Calls(shape.work(size, folder)).ours

    calls_of(shape.size // 2)  # fills caches, which would otherwise make the first size the dearest
    few, more, most = map(calls_of, (shape.size, 2 * shape.size, 4 * shape.size))
    assert most - more <= MAX_RATIO * (more - few)
