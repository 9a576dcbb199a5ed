"""News that one collector of a group tells another: the numbers of its spool (decision 49).

Msgpack, and signed where gateways sign (`tree_handler.seal.Seals.say`): who could make one could
have a collector drop what no spool has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.members.place import check_name
from tree_handler.proof import MAX_SIGNATURE_BYTES

MAX_TOLD_ROWS: Final = 1_000
MAX_TOLD_RANGES: Final = 10_000
"""In one; the next has the rest. Of a stream with more, the latest are told."""
_MAX_NUMBER: Final = (1 << 64) - 1
_NAME_CHARACTERS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class SpoolStatement:
    """A statement from one collector to another: which numbers of changed streams its spool has.

    Attributes:
        sender: id of the collector.
        life: its boot epoch.
        receiver: for whom.
        number: counts what the sender says in this life, to anyone.
        acknowledges: which life of the receiver the sender knows, and up to which version it knows
            what that spool has.
        since: the version of the sender's spool that the receiver is taken to know.
        upto: the version that it knows with this, if it knew that.
        completes: whether this is all up to now.
        rows: by stream, all numbers that the spool has.

    """

    sender: str
    life: int
    receiver: str
    number: int
    acknowledges: tuple[int, int]
    since: int
    upto: int
    completes: bool
    rows: dict[Epoch, Intervals] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return what is signed and sent."""
        numbers = (self.number, *self.acknowledges, self.since, self.upto)
        rows = [[*stream, list(ranges)] for stream, ranges in self.rows.items()]
        row = ("spooled", self.sender, self.life, self.receiver, *numbers, self.completes, rows)
        packed: bytes = msgpack.packb(row)
        return packed

    @classmethod
    def decode(cls, data: bytes) -> SpoolStatement:
        """Read what `encode` made.

        Raises:
            ProtocolError: it did not, or it is over a limit.

        """
        match _unpack(data):
            case [
                "spooled",
                str(sender),
                int(life),
                str(receiver),
                *numbers,
                bool(completes),
                list(rows),
            ] if len(numbers) == 5 and len(rows) <= MAX_TOLD_ROWS and _all(life, *numbers):
                number, known_life, known, since, upto = numbers
                return cls(
                    check_name("sender", sender),
                    life,
                    check_name("receiver", receiver),
                    number,
                    (known_life, known),
                    since,
                    upto,
                    completes,
                    dict(_row(row) for row in rows),
                )
        raise ProtocolError("what a spool has", data[:100])


def signed(body: bytes, signature: bytes) -> bytes:
    """Return a statement as it is sent."""
    packed: bytes = msgpack.packb([body, signature])
    return packed


def unsigned(data: bytes) -> tuple[bytes, bytes]:
    """Return what `signed` was given.

    Raises:
        ProtocolError: it did not make this.

    """
    match _unpack(data):
        case [bytes(body), bytes(signature)] if len(signature) <= MAX_SIGNATURE_BYTES:
            return body, signature
    raise ProtocolError("what a spool has, signed", data[:100])


def _unpack(data: bytes) -> Any:
    try:
        return msgpack.unpackb(data)
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError("what a spool has", data[:100]) from error


def _all(*numbers: object) -> bool:
    return all(type(number) is int and 0 <= number <= _MAX_NUMBER for number in numbers)


def _row(row: object) -> tuple[Epoch, Intervals]:
    match row:
        case [str(origin), int(epoch), list(ranges)] if (
            0 < len(origin) <= _NAME_CHARACTERS_MAX
            and _all(epoch)
            and len(ranges) <= MAX_TOLD_RANGES
        ):
            found = Intervals()
            for each in ranges:
                match each:
                    case [first, last] if _all(first, last) and 0 < first <= last:
                        found.add(first, last)
                    case _:
                        raise ProtocolError("range of what a spool has", each)
            return (origin, epoch), found
    raise ProtocolError("row of what a spool has", row)
