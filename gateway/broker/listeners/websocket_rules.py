"""Rules for requests of a websocket that a broker grants; known also where there are none."""

from __future__ import annotations

from typing import Final

from light_dataclasses import dataclass

ANY_ORIGIN: Final = "*"


@dataclass(frozen=True, slots=True)
class WebSocketRules:
    """The rules by which requests for a websocket are granted.

    Attributes:
        path: of the request's target; empty for any.
        origins: pages in browsers that may connect, ``https://host:port``; `ANY_ORIGIN` for all.

    """

    path: str = ""
    origins: tuple[str, ...] = ()
