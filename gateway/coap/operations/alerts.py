"""``/alerts``: what is wrong with this gateway and its neighbours, and what people do about it.

``GET /alerts`` is a document of alerts, silences and ways out. ``POST /alerts`` takes an order as
JSON: ``{"do": "ack", "alert": ID}``, ``close``, ``silence``, ``unsilence`` or ``test``. Who may do
either the policy has decided before (`access`), as of any path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from aiocoap import error, resource
from aiocoap.message import Message
from aiocoap.numbers.codes import Code

from alerts.desk import AlertNotFoundError
from gateway.alerting.orders import AlertOrderError
from gateway.coap.access import CoapAccess
from gateway.coap.operations.status import JSON

PATH: Final = ("alerts",)
"""The path of `AlertsResource` on a site."""


class AlertBoard(Protocol):
    """The owner of the gateway's alerts."""

    def document(self) -> Mapping[str, Any]:
        """Return all of them, ready for JSON."""

    async def order(self, data: bytes, who: str) -> Mapping[str, Any]:
        """Do what somebody orders; see `gateway.alerting.orders.carry_out`."""


class AlertsResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Serves the alerts of one gateway.

    Args:
        board: has them.
        access: knows who asks.

    """

    ct = JSON
    rt = "hedgerow.alerts"

    def __init__(self, board: AlertBoard, access: CoapAccess) -> None:
        super().__init__()
        self._board = board
        self._access = access

    async def render_get(self, _request: Any) -> Any:
        """Return all of them."""
        return _json(self._board.document(), Code.CONTENT)

    async def render_post(self, request: Any) -> Any:
        """Carry out an order.

        Raises:
            aiocoap.error.RenderableError: it can't be (4.00), or what it names is not there (4.04).

        """
        who = str(self._access.principal_of(request.remote))
        try:
            done = await self._board.order(request.payload, who)
        except AlertNotFoundError as failure:
            raise error.NotFound(str(failure)) from failure
        except AlertOrderError as failure:
            raise error.BadRequest(str(failure)) from failure
        return _json(done, Code.CHANGED)


def _json(told: Mapping[str, Any], code: Any) -> Any:
    payload = json.dumps(told, separators=(",", ":"), allow_nan=False).encode()
    return Message(code=code, payload=payload, content_format=JSON)
