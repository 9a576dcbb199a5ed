"""``/status``: what this gateway is and does, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from aiocoap import error, resource
from aiocoap.message import Message

JSON = 50
"""Content-format application/json (RFC 7252, table 9)."""
PATH = ("status",)
"""Where to add `StatusResource` to a site."""


class StatusResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Serves what a callable returns.

    Args:
        status: the state at the time of the call; keys are text, values what JSON can say.

    """

    ct = JSON
    rt = "hedgerow.status"

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__()
        self._status = status

    async def render_get(self, request: Any) -> Any:
        """The status now; 4.06 if another format than JSON is asked for.

        Raises:
            aiocoap.error.NotAcceptable: rendered by aiocoap.

        """
        if request.opt.accept not in (None, JSON):
            raise error.NotAcceptable("only application/json (50)")
        # Infinity and NaN are no JSON: better an error than a document that readers refuse.
        payload = json.dumps(self._status(), separators=(",", ":"), allow_nan=False).encode()
        return Message(payload=payload, content_format=JSON)
