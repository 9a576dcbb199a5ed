"""A journal frame as it is read again; what it says, `journal` states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from gateway.broker.durability.journal import Event, Operation
from gateway.lasting_clock import Mark

Inherited = tuple[Any, ...]
"""A session's number, and the fields of an `Operation.INHERITS` from the origin on."""


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

    def inherited(self) -> dict[int, list[Inherited]]:
        """What sessions inherit: by the event before which, the session and the further fields."""
        found: dict[int, list[Inherited]] = {}
        for number, operations in self.operations:
            for kind, at, *fields in operations:
                if kind == Operation.INHERITS:
                    found.setdefault(at, []).append((number, *fields))
        return found

    def marks(self) -> list[Mark]:
        """What it says of the time."""
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
