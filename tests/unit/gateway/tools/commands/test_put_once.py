"""`hedgerow put` asks again under one name what was not answered."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.coap_client import NoAnswerError, Response
from gateway.tools.commands import writing
from gateway.tools.commands.writing import Body, write_once

FAR, NEAR = "coap://gw/q/-/-/gw-b/valve", "coap://gw/valve"
BODY = Body(b"1", 0)


class Client:
    """Answers as a test says, and notes what it was asked."""

    def __init__(self, *codes: str) -> None:
        self._codes = list(codes)
        self.named: list[bytes] = []

    async def request(self, _method: str, uri: str, **asked: Any) -> Response:
        self.named.append(asked["request_id"])
        code = self._codes.pop(0)
        if not code:
            raise NoAnswerError(uri)
        return Response(code, b"", None)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PAUSE_S", 0.0)


async def test_what_was_not_answered_is_asked_again_under_the_same_name_as_asked_before() -> None:
    client: Any = Client("5.04", "", "2.04")
    assert (await write_once(client, FAR, BODY, 30.0)).code == "2.04"
    first, *again = client.named
    assert first[0] == 0
    assert len(first) == 9
    assert [(one[0], one[1:]) for one in again] == [(1, first[1:])] * 2


async def test_each_write_has_a_name_of_its_own() -> None:
    client: Any = Client("2.04", "2.04")
    for _ in range(2):
        await write_once(client, FAR, BODY, 30.0)
    assert client.named[0] != client.named[1]


async def test_where_no_time_is_left_what_came_of_it_is_told() -> None:
    client: Any = Client("5.04", "")
    assert (await write_once(client, FAR, BODY, 5.0)).code == "5.04"
    with pytest.raises(NoAnswerError):
        await write_once(client, FAR, BODY, 5.0)


async def test_the_time_that_is_told_is_that_of_all_askings_together() -> None:
    client: Any = Client("", "")
    with pytest.raises(NoAnswerError, match=r"valve: no answer within 6\.001 s"):
        await write_once(client, FAR, BODY, 6.001)


async def test_what_a_gateway_said_is_told_though_the_last_asking_was_not_answered() -> None:
    client: Any = Client("5.04", "")
    assert (await write_once(client, FAR, BODY, 6.001)).code == "5.04"
    assert len(client.named) == 2


async def test_a_refusal_is_told_at_once() -> None:
    client: Any = Client("4.03")
    assert (await write_once(client, FAR, BODY, 30.0)).code == "4.03"


async def test_who_does_not_know_names_is_asked_once_without() -> None:
    client: Any = Client("4.02", "5.04")
    assert (await write_once(client, FAR, BODY, 30.0)).code == "5.04"
    assert client.named[1] == b""


async def test_a_write_to_a_gateways_own_resource_has_a_name_too() -> None:
    client: Any = Client("", "2.04")
    assert (await write_once(client, NEAR, BODY, 30.0)).code == "2.04"
    first, again = client.named
    assert (first[0], again[0]) == (0, 1)
    assert first[1:] == again[1:]


async def test_a_busy_device_is_told_at_once_but_not_after_an_asking_that_got_no_answer() -> None:
    client: Any = Client("5.03")
    assert (await write_once(client, FAR, BODY, 30.0)).code == "5.03"
    client = Client("", "5.03", "2.04")
    assert (await write_once(client, FAR, BODY, 30.0)).code == "2.04"
    client = Client("5.04", "5.03")
    assert (await write_once(client, FAR, BODY, 6.001)).code == "5.04"
    client = Client("", "5.03")
    with pytest.raises(NoAnswerError, match="it may have been set"):
        await write_once(client, FAR, BODY, 6.001)
