"""What `epicenter run` tells a real webhook."""

from __future__ import annotations

from pathlib import Path

from stream.telling import Teller
from tests.support.incidents import opened_and_resolved
from tests.support.receiver import Receiver

OPENED, RESOLVED = opened_and_resolved()


async def test_each_piece_of_news_is_told_once_however_often_it_is_found(tmp_path: Path) -> None:
    with Receiver().listening() as receiver:
        for found in ([OPENED, OPENED], [OPENED], [OPENED, RESOLVED]):
            teller = Teller(receiver.url, tmp_path / "data/notified", print)
            teller.take(found)
            await teller.close()
    assert [kind for kind, _ in receiver.told] == ["opened", "resolved"]


async def test_what_could_not_be_delivered_is_said_and_told_by_the_next_run(tmp_path: Path) -> None:
    receiver, said = Receiver(), list[str]()
    with receiver.listening():
        pass
    teller = Teller(receiver.url, tmp_path / "notified", said.append)
    teller.take([OPENED])
    await teller.close(patience_s=0.2)
    assert "the webhook is away" in said[-1]
    with receiver.listening():
        teller = Teller(receiver.url, tmp_path / "notified", said.append)
        teller.take([OPENED])
        await teller.close()
    assert [kind for kind, _ in receiver.told] == ["opened"]


async def test_a_refusal_is_said_and_stops_nothing(tmp_path: Path) -> None:
    said = list[str]()
    with Receiver().listening() as receiver:
        receiver.status = 403
        teller = Teller(receiver.url, tmp_path / "notified", said.append)
        teller.take([OPENED, RESOLVED])
        await teller.close()
    assert [line for line in said if "refuses with 403" in line] == said
    assert len(receiver.requests) == 2
