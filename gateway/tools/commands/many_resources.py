"""One resource of many gateways, for `hedgerow get`: each is asked by itself and shown as it comes.

A gateway answers for many in one body, when the last of them has answered (`docs/queries.md`). Who
sits before a terminal wants to see the first one meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from gateway.coap.concurrent_requests import ASKED_AT_ONCE
from gateway.coap_client import ClientError, CoapClient, Response
from gateway.tools.commands.resource_names import QUERY, SENSORS
from tree_handler.members.place import NONE

_ANY_NAME, _ANY = "+", "*"
_PLACE_PARTS = 3


def pattern_of(target: str) -> str | None:
    """Return the path of many gateways' resources that a name or a path stands for; None if it does
    not.

    Args:
        target: ``*/SENSOR`` for all gateways', ``DOMAIN/GROUP/GATEWAY/SENSOR`` with ``*`` or ``+``
            in place of names, or a path below ``/q``.

    """
    if target.startswith("/"):
        path = target
    elif target.startswith(f"{_ANY}/") and target.count("/") < _PLACE_PARTS:
        path = f"{QUERY}{_ANY}/{_ANY}/{_ANY}{SENSORS}{target.removeprefix(f'{_ANY}/')}"
    else:
        place, sensor = target.split("/")[:_PLACE_PARTS], target.split("/")[_PLACE_PARTS:]
        path = f"{QUERY}{'/'.join(place)}{SENSORS}{'/'.join(sensor)}" if sensor else target
    is_many = path.startswith(QUERY) and {_ANY_NAME, _ANY} & set(_place(path))
    return path if is_many else None


def targets(path: str, places: Mapping[str, str]) -> dict[str, str]:
    """Return the path of each gateway's resource, by its id, for a path of many.

    Args:
        path: as `pattern_of` gives it.
        places: domain and group of each gateway, as ``campus/north``, by its id.

    """
    wanted, rest = _place(path), path.removeprefix(QUERY).split("/", _PLACE_PARTS)[_PLACE_PARTS:]
    found = {}
    for gateway_id, place in sorted(places.items()):
        stands = (*place.split("/"), gateway_id)
        if all(map(_fits, wanted, stands)):
            found[gateway_id] = "/".join([f"{QUERY}{place}", gateway_id, *rest])
    return found


async def answers(
    asker: CoapClient, uris: Mapping[str, str], timeout_s: float
) -> AsyncGenerator[tuple[str, Response | ClientError], None]:
    """Return what gateways answer, as it comes.

    Args:
        asker: asks.
        uris: of the resources, by the gateways' ids.
        timeout_s: for each.

    """
    room = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask(gateway_id: str, uri: str) -> tuple[str, Response | ClientError]:
        async with room:
            try:
                return gateway_id, await asker.request("GET", uri, timeout_s=timeout_s)
            except ClientError as error:
                return gateway_id, error

    tasks = [asyncio.create_task(ask(*one)) for one in uris.items()]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        for one in tasks:
            one.cancel()


def _place(path: str) -> list[str]:
    return path.removeprefix(QUERY).split("/")[:_PLACE_PARTS]


def _fits(wanted: str, name: str) -> bool:
    return wanted in (_ANY, name) or (wanted == _ANY_NAME and name != NONE)
