"""Queues of a checkpoint whose messages the log has lost since.

A queue names most of its messages by their numbers in the log (`sessions.backlog`). Those that the
log has lost, and not let go, may come back from a neighbour: they are taken out of the queue and
are lacking for its session until then, and for no other, since a checkpoint knows who had them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.broker.durability.delivery_gaps import DeliveryGaps
from gateway.broker.durability.history import History
from gateway.broker.durability.saved import SavedDelivery, SavedPlaces, SavedSession
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals


def take_out(
    sessions: Sequence[SavedSession], history: History, lacking: DeliveryGaps
) -> list[SavedSession]:
    """Return the sessions with what the log can give them."""
    lost: dict[Epoch, dict[int, Intervals]] = {}
    left = [_left(session, history, lost) for session in sessions]
    for stream, of_sessions in lost.items():
        together = Intervals()
        for numbers in of_sessions.values():
            together.update(numbers)
        for first, last in together:
            lacking.lost(stream, first, last)
        for session in sessions:
            had = together.without(of_sessions.get(session.number, Intervals()))
            if len(had):
                lacking.has_had(session.number, stream, had)
    return left


def _left(
    session: SavedSession, history: History, lost: dict[Epoch, dict[int, Intervals]]
) -> SavedSession:
    queue: list[SavedDelivery | SavedPlaces] = []
    for one in session.queue:
        if not isinstance(one, SavedPlaces):
            queue.append(one)
            continue
        numbers = Intervals(zip(one.ranges[::2], one.ranges[1::2], strict=True))
        gone = Intervals(gap for part in numbers for gap in history.lacks(one.key, *part))
        if len(gone):
            lost.setdefault(one.key, {}).setdefault(session.number, Intervals()).update(gone)
            numbers = numbers.without(gone)
        if len(numbers):
            queue.append(replace(one, ranges=tuple(n for part in numbers for n in part)))
    return replace(session, queue=queue)
