"""Reply to a request to another gateway, as whoever asked it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from light_dataclasses import dataclass
from tree_handler.remote.resource import ResourceResponse


@dataclass(frozen=True, slots=True)
class RemoteReply:
    """One answer.

    Attributes:
        response: what the gateway says; None if it said nothing in time, or can't be asked.
        goes_on: others may follow, since changes are to be told.

    """

    response: ResourceResponse | None
    goes_on: bool = False


NO_REPLY: Final = RemoteReply(None)

OnReply = Callable[[RemoteReply], None]
"""Takes an answer, in a later turn than that of the request."""
