"""``POST /drain``: take this gateway out of its fleet; how far that is stands in ``/status``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiocoap import resource
from aiocoap.message import Message
from aiocoap.numbers.codes import Code

PATH = ("drain",)
"""The path of `DrainResource` on a site."""


class DrainResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Begins a drain; who has no right to is refused before (`access`).

    Args:
        begin: may be called again, which changes nothing.

    """

    rt = "hedgerow.drain"

    def __init__(self, begin: Callable[[], None]) -> None:
        super().__init__()
        self._begin = begin

    async def render_post(self, _request: Any) -> Any:
        """2.04: the drain has begun."""
        self._begin()
        return Message(code=Code.CHANGED)
