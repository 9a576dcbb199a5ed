"""A journal frame as it is read again; what it says, `journal` states."""

from __future__ import annotations

from typing import Any, Final

import msgpack

from gateway.base.lasting_clock import Mark
from gateway.broker.durability.journal import Event, Operation
from light_dataclasses import dataclass

_MOVES: Final = frozenset((Operation.INHERITS, Operation.LEAVES, Operation.TAKEN))


@dataclass(frozen=True, slots=True)
class Move:
    """An operation that counts as an event.

    Attributes:
        before: how many events come before it.
        step: and how many of these.
        number: the session's.
        kind: `Operation.INHERITS`, `LEAVES` or `TAKEN`.
        fields: those behind the first two.

    """

    before: int
    step: int
    number: int
    kind: Operation
    fields: list[Any]


class JournalError(ValueError):
    """A journal frame is none; the message says what was found."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A journal frame as it was written."""

    events: list[tuple[Any, ...]]
    operations: list[tuple[int, list[tuple[Any, ...]]]]
    publishers: list[tuple[int, int, int]]
    """Session, index in the batch that follows, QoS 2 packet id (0 for QoS 0 and 1). For a will:
    less its number, index, 0."""

    def moves(self) -> list[Move]:
        """Return what is left and inherited, in the order in which it was."""
        found = [
            Move(before, more[0], number, Operation(kind), more[1:])
            for number, operations in self.operations
            for kind, before, *more in operations
            if kind in _MOVES
        ]
        return sorted(found, key=lambda move: (move.before, move.step))

    def take_operations(self, number: int) -> list[tuple[Any, ...]]:
        """Take out what happened to the messages of a session."""
        found: list[tuple[Any, ...]] = []
        for one, operations in self.operations:
            if one == number:
                found += operations
                operations.clear()
        return found

    def marks(self) -> list[Mark]:
        """Return what it says of the time."""
        return [Mark(*fields) for kind, *fields in self.events if kind is Event.CLOCK]

    @classmethod
    def decode(cls, data: bytes) -> Frame:
        """Read a frame.

        Raises:
            JournalError: the bytes are none.

        """
        try:
            events, operations, publishers = msgpack.unpackb(
                data, use_list=False, strict_map_key=False
            )
            return cls(
                [(Event(kind), *fields) for kind, *fields in events],
                [(number, list(ops)) for number, ops in operations],
                list(publishers),
            )
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise JournalError(f"journal frame: {error}") from error
