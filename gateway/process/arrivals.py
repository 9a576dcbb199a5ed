"""What other gateways say, and what their clients published, comes to who is to have it here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gateway.broker.data_plane import DataPlane
from gateway.policy.origins import OriginRules, Voice
from gateway.process.readings import Readings
from tree_handler.batch import Entry, Header, Row
from tree_handler.errors import ProtocolError

SAYS_NOTHING: Final = "message between gateways that says nothing"
"""What is counted of one that can't be read, or is not its origin's to say."""
TOPIC_CHARACTERS: Final = 80
"""Of a topic that are told."""


def hand_out(
    rows: list[Row], header: Header, core: DataPlane, readings: Readings, origins: OriginRules
) -> None:
    """Give the messages of a batch to all who are to have them.

    Args:
        rows: messages that follow each other in the log of their origin, the batch's last ones.
        header: the batch's.
        core: has the clients.
        readings: has sensors that listen, and actuators that must not act on what has expired.
        origins: decides what that gateway may tell them.

    """
    stream = header.stream
    new = core.arriving.publish_batch(rows, stream, header.last if header.logged else 0)
    if readings.is_listening:  # nothing is carried out again because the log had lost it
        voice = Voice(header.origin, origins)
        readings.hear(core.arriving.in_time(new, stream), voice)


@contextmanager
def heard(entry: Entry, header: Header, refused: Callable[[str, str], None]) -> Iterator[None]:
    """Have a message between gateways counted that says nothing; its neighbour's link stays.

    Whoever made it may be of an earlier version, and whoever handed it over has only passed it on.

    Args:
        entry: the message.
        header: of its batch.
        refused: takes the kind of what is refused, and which it is.

    """
    try:
        yield
    except ProtocolError as error:
        refused(SAYS_NOTHING, f"{header.origin}: {entry.topic[:TOPIC_CHARACTERS]!r}: {error}")
