"""Ages in listings of Kubernetes' Events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epicenter.ingest.parse.ages import age_s
from epicenter.rules.match.hyperscan import HyperscanScanner
from epicenter.stream.rule_tools.evaluate import Case, judged
from tests.support.logs import a_scanner, batch, the_rules


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("  Warning  BackOff  26m (x55 over 33m)  kubelet  Back-off restarting failed container", 33 * 60),
        ("  Normal   Pulled   26m (x5 over 33m)   kubelet  Container image is present", 26 * 60),
        ("Warning  FailedScheduling  2m11s  default-scheduler  0/8 nodes are available", 131),
        ("26m         Warning   BackOff   pod/train-0   Back-off restarting failed container", 26 * 60),
        ("ml   4h30m (x3 over 2d1h)   Warning   FailedMount   pod/train-0   MountVolume.SetUp failed", 49 * 3600),
        ("  Warning  FailedScheduling  <unknown>  default-scheduler  0/8 nodes are available", None),
        ("26 Warning signs of a slow disk", None),
        ("WARNING 26m left", None),
    ],
)
def test_an_age_is_that_of_the_first_warning_and_of_the_last_normal_event(line: str, seconds: int | None) -> None:
    assert age_s(line) == seconds


def test_events_of_a_listing_order_by_their_ages() -> None:
    lines = [
        "LAST SEEN   TYPE      REASON    OBJECT       MESSAGE",
        "3m    Warning   FailedScheduling   pod/train-0   0/8 nodes are available: 8 Insufficient nvidia.com/gpu.",
        "9m    Normal    NodeNotReady       node/gpu-a    Node gpu-a status is now: NodeNotReady",
    ]
    listing = replace(batch([line.encode() for line in lines]), is_recording=True)
    matches = sorted(a_scanner().scan(listing).matches, key=lambda match: match.event.event_time_ns)
    assert [match.event.position.offset for match in matches] == [3, 2]


def test_success_above_an_older_failure_answers_it() -> None:
    lines = [
        "2m   Normal    Started   pod/train-0   Started container trainer",
        "5m   Warning   FailedScheduling   pod/train-0   0/8 nodes are available: 8 Insufficient nvidia.com/gpu.",
    ]
    scanner = HyperscanScanner(the_rules().expressions)
    assert judged(Case("ages", lines, []), the_rules(), scanner) == (set(), None)
