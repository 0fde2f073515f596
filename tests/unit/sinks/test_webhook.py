"""The webhook against a real receiver."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from rules.errors import RejectedError, TransientError
from rules.model import Notification
from rules.notify import due
from sinks.notify.webhook import WebhookSink
from stream.dev_process import free_ports
from tests.support.incidents import opened_and_resolved
from tests.support.receiver import Receiver


def news(title: str = "GPU lost") -> Notification:
    opened, _ = opened_and_resolved()
    found = due(msgspec.structs.replace(opened, title=title), ())
    assert found
    return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().listening() as receiver:
        yield receiver


async def send(receiver: Receiver, notification: Notification, retry_for_s: float = 0.01) -> None:
    sink = WebhookSink(receiver.url, retry_for_s)
    try:
        await sink.send(notification)
    finally:
        await sink.close()


async def test_the_receiver_gets_the_incident_with_its_proof_and_an_id(receiver: Receiver) -> None:
    notification = news()
    await send(receiver, notification)
    ((headers, body),) = receiver.requests
    assert body["kind"] == "opened"
    assert body["incident"]["evidence"][0]["text"] == notification.incident.evidence[0].text
    assert body["incident"]["root_cause"]["node"] == "n1"
    assert headers["Idempotency-Key"] == headers["webhook-id"] == body["notification_id"]
    assert headers["Content-Type"] == "application/json"


async def test_text_from_logs_comes_as_it_is_and_only_as_text(receiver: Receiver) -> None:
    evil = 'x", "kind": "resolved"}\r\nX-Evil: 1\r\n\u202e</script>\x1b[31m\x00'
    await send(receiver, news(evil))
    ((headers, body),) = receiver.requests
    assert (body["kind"], body["incident"]["title"]) == ("opened", evil)
    assert "X-Evil" not in headers


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
async def test_a_refusal_is_final_and_says_why(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(RejectedError, match=rf"refuses with {status}: as told\\x1b\[31m"):
        await send(receiver, news())
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
async def test_a_busy_receiver_is_asked_again(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(TransientError, match=f"answers {status}"):
        await send(receiver, news(), retry_for_s=0.5)
    assert len(receiver.requests) > 1
    assert len(set(receiver.ids)) == 1


async def test_nobody_listens() -> None:
    with pytest.raises(TransientError, match="the webhook is away: ClientConnectorError"):
        await send(Receiver(free_ports(1)[0]), news())


async def test_redirects_are_not_followed(receiver: Receiver) -> None:
    with Receiver().listening() as elsewhere:
        receiver.status, receiver.headers = 307, {"Location": elsewhere.url}
        with pytest.raises(RejectedError, match=r"redirects \(307\)"):
            await send(receiver, news())
        assert elsewhere.requests == []
