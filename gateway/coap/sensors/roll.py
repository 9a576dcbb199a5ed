"""Sensors are listed, added and removed over CoAP: ``/sensors`` as JSON, and ``/sensors/NAME``.

``GET /sensors`` with Accept 50 lists them, ``POST /sensors`` adds one, whose table is the JSON
body, ``POST /sensors?change=NAME`` gives one that was added the keys of the body, and ``DELETE
/sensors/NAME`` removes one that was added. Who may, the policy has decided before (`access`): the
built-in role operator may. What is sent here names no file and no code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from aiocoap import error
from aiocoap.message import Message
from aiocoap.numbers.codes import Code

from gateway.base.toml.toml_file import ConfigError
from gateway.coap.operations.encoded_rows import encoded_rows
from gateway.coap.operations.status import JSON
from gateway.coap.sensors.answers import PATH
from gateway.sensors.device_calls import CheckAgain
from gateway.sensors.options import SensorConfigError
from gateway.sensors.sensor import Sensor
from gateway.sensors.stock import SensorConflictError, StockError

MayWrite = Callable[[Any, str, Sequence[str]], bool]
"""Returns whether who stands behind ``request.remote`` may do something by the policy of now."""
MAX_TABLE_BYTES = 8192
_CHANGE = "change="


class SensorRoll(Protocol):
    """The sensors of a gateway, which come and go (`gateway.process.running.readings.Readings`)."""

    @property
    def sensors(self) -> Sequence[Sensor]:
        """All that there are."""

    def follow(self, follower: Callable[[Sequence[str], Sequence[Sensor]], None]) -> None:
        """Tell somebody of those that go and come."""

    def listed(self) -> Iterator[Mapping[str, Any]]:
        """Yield what there is to say of each, which may come and go meanwhile."""

    def is_added(self, name: str) -> bool:
        """Return whether there is a sensor of that name that was added."""

    async def add(self, table: Mapping[str, Any], check: CheckAgain = ...) -> Sequence[str]:
        """Have one more; ``check`` is called when it has its turn, and before it is kept."""

    async def change_table(
        self, name: str, changes: Mapping[str, Any], check: CheckAgain = ...
    ) -> Sequence[str]:
        """Have one by another table; ``check`` as of `add`."""

    async def remove(self, name: str, check: CheckAgain = ...) -> Sequence[str]:
        """Have one less; ``check`` as of `add`."""


async def listed(roll: SensorRoll, may_read: Callable[[str], bool]) -> Message:
    """Return the sensors that somebody may read; others have turns meanwhile.

    Args:
        roll: all.
        may_read: whether he may read the one of a name.

    """
    rows = (one for one in roll.listed() if may_read(one["name"]))
    return _json({"sensors": await encoded_rows(rows)}, Code.CONTENT)


def anybody(_remote: Any, _method: str, _path: Sequence[str]) -> bool:
    """Let everybody write: who serves resources without a policy."""
    return True


def checked_again(remote: Any, may_write: MayWrite, method: str, path: Sequence[str]) -> CheckAgain:
    """Return what asks again whether a write may be made: a driver may take seconds before it."""
    is_still_in: Callable[[], bool] | None = getattr(remote, "is_still_in", None)

    def check() -> None:
        if is_still_in is not None and not is_still_in():
            raise error.Forbidden("who asked for this is logged out, or has other roles")
        if not may_write(remote, method, path):
            raise error.Forbidden("the policy does not allow this any more")

    return check


async def posted(roll: SensorRoll, request: Message, may_write: MayWrite = anybody) -> Message:
    """Add the sensor of a request's body: 2.01 with the names that it made.

    Location-Path leads to the first of them (RFC 7252, section 5.8.2). With the query ``change``
    the sensor of that name, which was added, is given the keys of the body: 2.04.

    Raises:
        aiocoap.error.RenderableError: the body is no table of a sensor (4.00, 4.15), there is one
            of its name or it is configured (4.09), or none to change (4.04).

    """
    table, name = _table(request), _to_change(request)
    check = checked_again(request.remote, may_write, "POST", (PATH,))
    try:
        if name is None:
            names = await roll.add(table, check)
        else:
            names = await roll.change_table(name, table, check)
    except KeyError as missing:
        raise error.NotFound(f"no sensor {name!r}") from missing
    except SensorConflictError as conflict:
        raise error.Conflict(str(conflict)) from conflict
    except SensorConfigError as wrong:
        raise error.BadRequest(f"{wrong.key.partition('.')[2] or 'sensor'}: {wrong.why}") from wrong
    except StockError as failed:
        raise error.InternalServerError(str(failed)) from failed
    except (ConfigError, ValueError) as wrong:
        raise error.BadRequest(str(wrong)) from wrong
    if name is not None:
        return _json({"names": list(names)}, Code.CHANGED)
    created = _json({"names": list(names)}, Code.CREATED)
    created.opt.location_path = (PATH, *names[0].split("/"))
    return created


def _table(request: Message) -> Mapping[str, Any]:
    if request.opt.content_format not in (None, JSON):
        raise error.UnsupportedContentFormat("json (50)")
    if len(request.payload) > MAX_TABLE_BYTES:
        raise error.RequestEntityTooLarge(f"over {MAX_TABLE_BYTES} bytes")
    try:
        table = json.loads(request.payload)
    except (ValueError, RecursionError) as wrong:
        raise error.BadRequest(f"not JSON: {wrong}") from wrong
    if not isinstance(table, dict):
        raise error.BadRequest("not a JSON object")
    return table


def _to_change(request: Message) -> str | None:
    match request.opt.uri_query:
        case ():
            return None
        case (one,) if one.startswith(_CHANGE):
            return str(one.removeprefix(_CHANGE))
        case _:
            raise error.BadOption(f"only {_CHANGE}NAME, once")


async def removed(
    roll: SensorRoll, name: str, request: Message, may_write: MayWrite = anybody
) -> Message:
    """Remove a sensor: 2.02 with the names of all that went with it.

    Raises:
        aiocoap.error.RenderableError: there is none (4.04), or it is configured (4.09).

    """
    try:
        path = (PATH, *name.split("/"))
        names = await roll.remove(name, checked_again(request.remote, may_write, "DELETE", path))
    except KeyError as missing:
        raise error.NotFound(f"no sensor {name!r}") from missing
    except StockError as failed:
        raise error.InternalServerError(str(failed)) from failed
    except SensorConflictError as conflict:
        raise error.Conflict(str(conflict)) from conflict
    return _json({"names": list(names)}, Code.DELETED)


def _json(told: Mapping[str, Any], code: Any) -> Message:
    return Message(code=code, payload=msgspec.json.encode(told), content_format=JSON)
