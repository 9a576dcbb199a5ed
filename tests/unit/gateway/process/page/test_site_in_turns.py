"""A list of hundreds of sensors is answered in turns: no message and no client waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from gateway.process.page.api_request import ApiRequest
from gateway.process.page.reading_history import ReadingHistory
from gateway.process.page.site_api import SENSORS_PER_TURN, SiteApi
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError

COUNT = 500
ASKED = ApiRequest(Principal("user", "anna"), "", {}, {}, {}, b"")


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


async def test_others_have_turns_while_hundreds_of_sensors_are_listed(tmp_path: Path) -> None:
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
    assert turns >= COUNT // SENSORS_PER_TURN


async def test_sensors_that_come_and_go_while_they_are_listed_tear_no_answer(
    tmp_path: Path,
) -> None:
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
