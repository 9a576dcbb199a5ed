"""``/clients``: who is connected to the broker; a POST ends a connection.

``GET /clients?after=ID`` is a page of the list, ``GET /clients?id=ID`` one client in detail,
``GET /clients?by=traffic&count=N`` the busiest. ``POST /clients?id=ID`` closes its connection, and
with ``&forget=1`` ends its session. An option of a request holds at most 255 bytes (RFC 7252,
section 5.10) and an identifier may have more: several ``id=`` are put together, and so are several
``after=``.

The list names users and addresses: to read it and to disconnect are rights of their own in the
policy, which has decided before (`access`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec
from aiocoap import error, resource
from aiocoap.message import Message
from aiocoap.numbers.codes import Code

from gateway.broker.client_roll import PAGE, ClientRoll
from gateway.coap.operations.encoded_rows import encoded_rows, in_ascii
from gateway.coap.operations.status import JSON

PATH = ("clients",)
"""The path of `ClientsResource` on a site."""
BY_TRAFFIC: Final = "traffic"
BUSIEST: Final = 20
"""So many are told unless ``count`` says otherwise."""


class ClientsResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Serves the clients of the broker.

    Args:
        clients: the broker's.

    """

    ct = JSON
    rt = "hedgerow.clients"

    def __init__(self, clients: ClientRoll) -> None:
        super().__init__()
        self._clients = clients

    async def render_get(self, request: Any) -> Any:
        """Return a page of the list, the busiest, or one client.

        Raises:
            aiocoap.error.RenderableError: no such client (4.04), or no such order (4.00).

        """
        asked = _query(request.opt.uri_query)
        if "by" in asked:
            return await _listed(await self._clients.busiest(_count(asked)))
        if "id" not in asked:
            return await _listed(await self._clients.page(asked.get("after", "")))
        told = self._clients.one(asked["id"])
        if told is None:
            raise error.NotFound("no such client")
        return _json(told, Code.CONTENT)

    async def render_post(self, request: Any) -> Any:
        """Close a client's connection.

        Raises:
            aiocoap.error.RenderableError: no client is named (4.00), or there is none (4.04).

        """
        asked = _query(request.opt.uri_query)
        if not asked.get("id"):
            raise error.BadRequest("id: missing")
        kicked = self._clients.kick(asked["id"], forget=asked.get("forget") == "1")
        if kicked is None:
            raise error.NotFound("no such client")
        return _json(asdict(kicked), Code.CHANGED)


def _query(options: Sequence[str]) -> dict[str, str]:
    """Return the values by name; those of one name are put together."""
    found: dict[str, str] = {}
    for option in options:
        name, _, value = option.partition("=")
        found[name] = found.get(name, "") + value
    return found


def _count(asked: Mapping[str, str]) -> int:
    """Return how many of the busiest are asked for.

    Raises:
        aiocoap.error.RenderableError: of something else, or not a number (4.00).

    """
    if asked["by"] != BY_TRAFFIC:
        raise error.BadRequest(f"by: {asked['by']!r:.80} is not {BY_TRAFFIC}")
    count = asked.get("count", str(BUSIEST))
    if not (count.isascii() and count.isdigit() and len(count) <= 4 and int(count)):
        raise error.BadRequest(f"count: {count!r:.80} is no number from 1 to {PAGE}")
    return int(count)


async def _listed(told: Mapping[str, Any]) -> Any:
    rows = await encoded_rows(told["clients"], in_ascii)
    payload = msgspec.json.encode({**told, "clients": rows})
    return Message(code=Code.CONTENT, payload=payload, content_format=JSON)


def _json(told: Mapping[str, Any], code: Any) -> Any:
    return Message(code=code, payload=in_ascii(told), content_format=JSON)
