"""Lists of hundreds are answered in turns: no message and no client waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from loop_turns import LoopTurns, each_row_alone

from gateway.process.page.api_request import ApiRequest
from gateway.process.page.reading_history import ReadingHistory
from gateway.process.page.site_api import PAGE_LINKS, SiteApi
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from resource_directory.link_format import WebLink, parse, serialise

COUNT = 500
ASKED = ApiRequest(Principal("user", "anna"), "", {}, {}, {})


class Roll:
    """Sensors that one can list, of which some may go meanwhile."""

    def __init__(self) -> None:
        self.names = [f"s{number}" for number in range(COUNT)]

    @property
    def sensors(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in self.names]

    def listen(self, _listener: Any) -> None:
        pass

    def listed(self) -> Iterator[dict[str, Any]]:
        for name in tuple(self.names):
            yield {"name": name, "state": "ok"}


def site_api(roll: Roll, folder: Path, denied: frozenset[str] = frozenset()) -> SiteApi:
    def may(_visitor: Principal, _method: str, *path: str) -> bool:
        return path[-1] not in denied

    asker: Any = SimpleNamespace(may=may)
    sampler: Any = roll
    return SiteApi(asker, roll, sampler, ReadingHistory(), folder, lambda _: None)


def names(answer: Any) -> list[str]:
    told = msgspec.json.decode(msgspec.json.encode(answer))
    return [one["name"] for one in told["sensors"]]


async def test_others_have_turns_while_hundreds_of_sensors_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    answer = await site_api(Roll(), tmp_path).sensors(ASKED)
    beside.cancel()
    assert names(answer) == [f"s{number}" for number in range(COUNT)]
    assert turns >= COUNT - 1


async def test_sensors_that_come_and_go_while_they_are_listed_tear_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    roll = Roll()
    listing = asyncio.create_task(site_api(roll, tmp_path).sensors(ASKED))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del roll.names[:100]
    roll.names.append("new")
    found = names(await listing)
    assert len(found) == len(set(found))
    assert set(found) >= {f"s{number}" for number in range(100, COUNT)}


async def test_who_may_read_one_sensor_alone_sees_no_other(tmp_path: Path) -> None:
    roll = Roll()
    denied = frozenset(roll.names[1:])
    assert names(await site_api(roll, tmp_path, denied).sensors(ASKED)) == ["s0"]
    with pytest.raises(ApiError, match="sensors: the policy lets you read none"):
        await site_api(roll, tmp_path, frozenset({"sensors"})).sensors(ASKED)


def looked_up(payload: bytes, folder: Path) -> SiteApi:
    """The page of a gateway whose directory gives that payload for each look-up."""

    async def good(_visitor: Principal, _question: object) -> bytes:
        return payload

    asker: Any = SimpleNamespace(good=good)
    roll: Any = Roll()
    return SiteApi(asker, roll, roll, ReadingHistory(), folder, lambda _: None)


async def test_links_of_the_directory_are_told_as_they_stand_there_and_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    attributes = (("rt", 'a "quoted", <one>'), ("obs", None), ("title*", "UTF-8''%c3%a4"))
    links = [WebLink(f"coap://[2001:db8::{n:x}]/ä", attributes) for n in range(1, PAGE_LINKS + 1)]
    payload = serialise(links).encode()
    assert parse(payload) == links
    counted = LoopTurns()
    answer = await looked_up(payload, tmp_path).resources(ASKED)
    counted.note()
    (last_turn,) = counted.stop()
    assert last_turn >= PAGE_LINKS - 1
    told = msgspec.json.decode(msgspec.json.encode(answer))
    assert told["has_more"]
    assert told["links"] == [
        {"href": link.href, "attributes": {n: v or "" for n, v in link.attributes}}
        for link in links
    ]


async def test_a_directory_that_gives_no_links_is_said_to(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="position 5"):
        await looked_up(b"</a>;;", tmp_path).endpoints(ASKED)
