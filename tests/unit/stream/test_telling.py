"""What `epicenter run` tells a real webhook."""

from __future__ import annotations

from pathlib import Path
from time import time_ns

import msgspec

from rules.model import NS_PER_S, Delivery
from rules.silenced import Silence
from stream.telling import Teller
from tests.support.incidents import opened_and_resolved
from tests.support.receiver import Receiver

OPENED, RESOLVED = opened_and_resolved()


async def test_each_piece_of_news_is_told_once_however_often_it_is_found(tmp_path: Path) -> None:
    noted = list[Delivery]()
    with Receiver().listening() as receiver:
        for found in ([OPENED, OPENED], [OPENED], [OPENED, RESOLVED]):
            teller = Teller(receiver.url, tmp_path / "data/notified", print, noted.append)
            teller.take(found)
            await teller.close()
    assert [kind for kind, _ in receiver.told] == ["opened", "resolved"]
    assert [(one.kind, one.outcome, one.reason, one.incident_id) for one in noted] == [
        ("opened", "sent", "", OPENED.incident_id),
        ("resolved", "sent", "", OPENED.incident_id),
    ]


async def test_what_could_not_be_delivered_is_said_and_told_by_the_next_run(tmp_path: Path) -> None:
    receiver, said, noted = Receiver(), list[str](), list[Delivery]()
    with receiver.listening():
        pass
    teller = Teller(receiver.url, tmp_path / "notified", said.append, noted.append)
    teller.take([OPENED])
    await teller.close(patience_s=0.2)
    assert [(one.outcome, receiver.url in one.target) for one in noted] == [("waits", False)]
    assert "the webhook is away" in said[-1]
    with receiver.listening():
        teller = Teller(receiver.url, tmp_path / "notified", said.append, noted.append)
        teller.take([OPENED])
        await teller.close()
    assert [kind for kind, _ in receiver.told] == ["opened"]


async def test_a_refusal_is_said_and_stops_nothing(tmp_path: Path) -> None:
    said, noted = list[str](), list[Delivery]()
    with Receiver().listening() as receiver:
        receiver.status = 403
        teller = Teller(receiver.url, tmp_path / "notified", said.append, noted.append)
        teller.take([OPENED, RESOLVED])
        await teller.close()
    assert [line for line in said if "refuses with 403" in line] == said
    assert len(receiver.requests) == 2
    assert [(one.kind, one.outcome, "403" in one.reason) for one in noted] == [
        ("opened", "refused", True),
        ("resolved", "refused", True),
    ]


async def test_what_is_silenced_is_told_by_the_first_revision_after_that(tmp_path: Path) -> None:
    silence = Silence("s1", {"class": OPENED.failure_class, "node": "n1"}, 0, time_ns() + NS_PER_S * 3600, "ada", "why")
    over = msgspec.structs.replace(silence, ends_ns=1)
    other = msgspec.structs.replace(silence, matchers={"node": "n2"})
    noted = list[Delivery]()
    with Receiver().listening() as receiver:
        for silences in ([silence, other], [over, other]):
            teller = Teller(receiver.url, tmp_path / "notified", print, noted.append)
            teller.take([OPENED, OPENED], silences)
            await teller.close()
    assert [kind for kind, _ in receiver.told] == ["opened"]
    assert [(one.outcome, one.reason) for one in noted] == [("silenced", "by ada: why"), ("sent", "")]
