"""The stories, end to end: each gives the expected incidents, in whatever order and form its lines arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicenter.stream.scenarios.reading import Scenario, read_scenarios
from epicenter.stream.scenarios.variations import check_all
from tests.support.logs import the_rules

STORIES = read_scenarios([Path(__file__).parent / "stories"])
NOT_YET: tuple[str, ...] = ()
"""Stories that fail so far; remove a story when it passes."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_story(story: Scenario) -> None:
    failures = check_all([story], the_rules()).failures
    if story.name in NOT_YET:
        assert failures, f"{story.name} passes now: remove it from NOT_YET"
    else:
        assert failures == []


def test_every_story_that_fails_so_far_exists() -> None:
    assert set(NOT_YET) <= {story.name for story in STORIES}
