"""Sensors that are added, changed and removed over CoAP: what is refused, and with which words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from aiocoap import Code, Message, error
from aiocoap.message import Direction
from aiocoap.resource import Site

from gateway.base.toml.toml_file import ConfigError
from gateway.coap.sensors.resources import SensorResources
from gateway.coap.sensors.roll import MAX_TABLE_BYTES, posted, removed
from gateway.sensors.device_calls import CheckAgain, nothing_against
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.sensors.stock import SensorConflictError, StockError
from gateway.sensors.switch import Switch
from tree_handler.members.place import Place

JSON = 50


class NotedRoll:
    """Notes what it is asked for, and refuses it if the test says so."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.done: list[tuple[object, ...]] = []

    @property
    def sensors(self) -> Sequence[Sensor]:
        return ()

    def follow(self, follower: Callable[[Sequence[str], Sequence[Sensor]], None]) -> None:
        """Nobody comes or goes by itself."""

    def listed(self) -> Iterator[Mapping[str, Any]]:
        return iter(())

    def is_added(self, name: str) -> bool:
        return bool(name)

    async def add(
        self, table: Mapping[str, Any], check: CheckAgain = nothing_against
    ) -> Sequence[str]:
        return self._do(check, "add", table)

    async def change_table(
        self, name: str, changes: Mapping[str, Any], check: CheckAgain = nothing_against
    ) -> Sequence[str]:
        return self._do(check, "change", name, changes)

    async def remove(self, name: str, check: CheckAgain = nothing_against) -> Sequence[str]:
        return self._do(check, "remove", name)

    def _do(self, check: CheckAgain, *what: object) -> Sequence[str]:
        check()
        if self.refusal is not None:
            raise self.refusal
        self.done.append(what)
        return ["hall/roof", "hall/wall"]


def asking(payload: bytes = b"{}", **options: Any) -> Message:
    return Message(code=Code.POST, payload=payload, **options)


async def test_who_adds_changes_and_removes_is_told_the_names() -> None:
    roll = NotedRoll()
    names = {"names": ["hall/roof", "hall/wall"]}
    made = await posted(roll, asking(b'{"kind":"x"}', content_format=JSON))
    assert (made.code, made.opt.location_path) == (Code.CREATED, ("sensors", "hall", "roof"))
    changed = await posted(roll, asking(uri_query=("change=hall/roof",)))
    assert (changed.code, changed.opt.location_path) == (Code.CHANGED, ())
    gone = await removed(roll, "hall/roof", asking())
    assert gone.code == Code.DELETED
    assert [json.loads(one.payload) for one in (made, changed, gone)] == [names] * 3
    assert {one.opt.content_format for one in (made, changed, gone)} == {JSON}
    assert roll.done == [
        ("add", {"kind": "x"}),
        ("change", "hall/roof", {}),
        ("remove", "hall/roof"),
    ]


@pytest.mark.parametrize(
    ("refusal", "kind", "why"),
    [
        (KeyError("roof"), error.NotFound, "no sensor 'roof'"),
        (SensorConflictError("it is configured"), error.Conflict, "it is configured"),
        (SensorConfigError("sensors[1].speed", "too fast"), error.BadRequest, "speed: too fast"),
        (SensorConfigError("sensors[1]", "no kind"), error.BadRequest, "sensor: no kind"),
        (StockError("added.toml: full"), error.InternalServerError, "added.toml: full"),
        (ConfigError("table", "no text"), error.BadRequest, "table: no text"),
        (ValueError("odd"), error.BadRequest, "odd"),
    ],
)
async def test_each_refusal_has_its_code_and_its_words(
    refusal: Exception, kind: type[error.RenderableError], why: str
) -> None:
    with pytest.raises(kind) as told:
        await posted(NotedRoll(refusal), asking(uri_query=("change=roof",)))
    assert str(told.value.to_message().payload, "utf-8") == why


@pytest.mark.parametrize(
    ("refusal", "kind", "why"),
    [
        (KeyError("roof"), error.NotFound, "no sensor 'roof'"),
        (SensorConflictError("it is configured"), error.Conflict, "it is configured"),
        (StockError("added.toml: full"), error.InternalServerError, "added.toml: full"),
    ],
)
async def test_each_refusal_to_remove_has_its_code_and_its_words(
    refusal: Exception, kind: type[error.RenderableError], why: str
) -> None:
    with pytest.raises(kind) as told:
        await removed(NotedRoll(refusal), "roof", asking())
    assert str(told.value.to_message().payload, "utf-8") == why


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (asking(content_format=60), error.UnsupportedContentFormat),
        (asking(b" " * (MAX_TABLE_BYTES - 1) + b"{}"), error.RequestEntityTooLarge),
        (asking(b"{"), error.BadRequest),
        (asking(b"[]"), error.BadRequest),
        (asking(b"[" * MAX_TABLE_BYTES), error.BadRequest),
        (asking(uri_query=("chance=roof",)), error.BadOption),
        (asking(uri_query=("change=a", "change=b")), error.BadOption),
    ],
)
async def test_what_is_no_table_of_one_sensor_is_refused(
    request_: Message, kind: type[error.RenderableError]
) -> None:
    roll = NotedRoll()
    with pytest.raises(kind):
        await posted(roll, request_)
    assert roll.done == []


async def test_the_longest_table_is_taken() -> None:
    roll = NotedRoll()
    await posted(roll, asking(b" " * (MAX_TABLE_BYTES - 2) + b"{}"))
    assert roll.done == [("add", {})]


@pytest.mark.parametrize("is_still_in", [None, False, True])
async def test_it_is_asked_again_whether_it_may_when_its_turn_has_come(
    is_still_in: bool | None,
) -> None:
    roll, request, asked = NotedRoll(), asking(), list[tuple[object, ...]]()
    request.remote = type("Asker", (), {})()
    if is_still_in is not None:
        request.remote.is_still_in = lambda: is_still_in

    def may_not(remote: Any, method: str, path: Sequence[str]) -> bool:
        asked.append((remote, method, *path))
        return False

    for step, what in (
        (posted(roll, request, may_not), ("POST", "sensors")),
        (removed(roll, "hall/roof", request, may_not), ("DELETE", "sensors", "hall", "roof")),
    ):
        with pytest.raises(error.Forbidden):
            await step
        assert asked == ([] if is_still_in is False else [(request.remote, *what)])
        asked.clear()
    assert roll.done == []


async def test_without_a_roll_nothing_is_added_or_removed() -> None:
    site, sampler = Site(), Sampler(lambda _sensor, _record: None)
    sensors = SensorResources(site, sampler, "gw", Place("campus", "north"))
    pump = Switch("pump")
    sampler.add(pump)
    sensors.add(pump)
    for path, code in (((), Code.POST), (("pump",), Code.DELETE)):
        request = Message(code=code, uri_path=("sensors", *path))
        request.direction = Direction.INCOMING
        request.remote = type(
            "Nobody", (), {"scheme": "coap", "hostinfo": "h", "hostinfo_local": "h"}
        )()
        with pytest.raises(error.UnallowedMethod):
            await site.render(request)
