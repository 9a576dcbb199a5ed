"""A retained message, or its tombstone, as one gateway tells it another; the wire form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.entry import properties_bytes
from tree_handler.errors import ProtocolError
from tree_handler.retained.hybrid_clock import LOGICAL_MAX, RetainedVersion

VERSION = -1
"""Among the properties of a retained message in a batch: its stamp, as (physical, logical). An MQTT
property has a whole number as its identifier, so no packet can carry it."""
EXPIRY = 2
"""Message Expiry Interval (MQTT 5.0, 3.3.2.3.3)."""
PHYSICAL_MAX = 1 << 62
"""Beyond it no stamp is believed: it could hardly be surpassed."""
ORIGIN_BYTES_MAX = 255
AGE_MS_MAX = 1 << 62
"""An age, or a time to live, of so many is refused: it grows, and is told to others as 64 bits."""


@dataclass(frozen=True, slots=True)
class Retained:
    """A retained message of a topic, or the note of its deletion.

    Attributes:
        topic: the topic name.
        version: of the message or of its deletion.
        number: that message's number in its origin's stream; 0 if no log has it.
        qos: as published; None if the message has expired.
        payload: empty if there is no message any more.
        properties: as in `tree_handler.entry.Entry`.
        left_s: until a message expires; None for never.
        dead_s: for how long there has been no message; None if there is one.
        proof: that its origin wrote it (`retained.proof`); empty without one.

    """

    topic: str
    version: RetainedVersion
    number: int
    qos: int | None
    payload: bytes
    properties: dict[int, Any]
    left_s: float | None = None
    dead_s: float | None = None
    proof: bytes = b""

    @property
    def stream(self) -> Epoch:
        """The stream that the message is numbered in."""
        return self.version.origin, self.version.epoch

    @property
    def size_bytes(self) -> int:
        """Return its estimated size on a link."""
        content = len(self.topic) + len(self.payload) + len(self.proof)
        return content + 100 + properties_bytes(self.properties)

    def later(self, waited_s: float) -> Retained:
        """Return what it is so much later."""
        if waited_s <= 0:
            return self
        left_s = None if self.left_s is None else max(0.0, self.left_s - waited_s)
        dead_s = None if self.dead_s is None else self.dead_s + waited_s
        return replace(self, left_s=left_s, dead_s=dead_s)

    def row(self) -> tuple[Any, ...]:
        """Return the wire form, to be packed, without the proof: as earlier releases read it."""
        left_ms = None if self.left_s is None else max(0, int(self.left_s * 1000))
        dead_ms = None if self.dead_s is None else max(0, int(self.dead_s * 1000))
        return (
            *(self.topic, *self.version, self.number),
            *(self.qos, self.payload, self.properties, left_ms, dead_ms),
        )

    def proven_row(self) -> tuple[Any, ...]:
        """Return the wire form with the proof, for who says that it reads proofs."""
        return (*self.row(), self.proof)

    @classmethod
    def of(cls, row: object) -> Retained:
        """Read the wire form, with a proof or without.

        Raises:
            ProtocolError: it is none.

        """
        if not isinstance(row, tuple) or len(row) not in (11, 12):
            raise ProtocolError("retained message", row)
        topic, us, logical, origin, epoch, number, qos, payload, properties, left, dead = row[:11]
        proof = row[11] if len(row) > 11 else b""
        version = version_of(us, logical, origin, epoch)
        if not (
            isinstance(topic, str)
            and topic
            and _whole(number, 1 << 62)
            and (qos is None or _whole(qos, 3))
            and isinstance(payload, bytes)
            and isinstance(properties, dict)
            and (left is None or _whole(left, AGE_MS_MAX))
            and (dead is None or _whole(dead, AGE_MS_MAX))
            and (dead is None) == bool(payload)
            and (qos is not None or not payload)
            and isinstance(proof, bytes)
        ):
            raise ProtocolError("retained message", row)
        left_s = None if left is None else left / 1000
        dead_s = None if dead is None else dead / 1000
        where = topic, version, number, qos
        return cls(*where, payload, dict(properties), left_s, dead_s, proof)


def stamped_version(stamp: object, stream: Epoch) -> RetainedVersion:
    """Return the version of a message of this stream with this `VERSION`.

    Raises:
        ProtocolError: it is no stamp.

    """
    if not isinstance(stamp, tuple | list) or len(stamp) != 2:
        raise ProtocolError("version", stamp)
    return version_of(stamp[0], stamp[1], *stream)


def version_of(us: object, logical: object, origin: object, epoch: object) -> RetainedVersion:
    """Return a version of values from outside.

    Raises:
        ProtocolError: they are none.

    """
    if (
        isinstance(us, int)
        and isinstance(logical, int)
        and isinstance(origin, str)
        and _whole(us, PHYSICAL_MAX)
        and _whole(logical, LOGICAL_MAX + 1)
        and 0 < len(origin.encode()) <= ORIGIN_BYTES_MAX
        and isinstance(epoch, int)
        and _whole(epoch, 1 << 62)
    ):
        return RetainedVersion(us, logical, origin, epoch)
    raise ProtocolError("version", (us, logical, origin, epoch))


def _whole(value: object, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below
