"""What other gateways' clients published comes to this one's clients, and to its own sensors."""

from __future__ import annotations

from gateway.broker.data_plane import DataPlane
from gateway.process.readings import Readings
from tree_handler.batch import Header, Row


def hand_out(rows: list[Row], header: Header, core: DataPlane, readings: Readings) -> None:
    """Give the messages of a batch to all who are to have them.

    Args:
        rows: messages that follow each other in the log of their origin, the batch's last ones.
        header: the batch's.
        core: has the clients.
        readings: has sensors that listen, and actuators that must not act on what has expired.

    """
    stream = header.stream
    new = core.arriving.publish_batch(rows, stream, header.last if header.logged else 0)
    if readings.is_listening:  # nothing is carried out again because the log had lost it
        readings.hear(core.arriving.in_time(new, stream))
