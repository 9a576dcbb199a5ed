"""A message as a batch carries it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from light_dataclasses import dataclass
from tree_handler.holders import PLACE, Holders, holders_of, holders_size, with_holders

Row = tuple[Any, ...]
"""A message as it stands in a body: topic, QoS (with 4 added for RETAIN), payload, and properties
if there are any; behind them the proof of a retained one (`retained.proof`), and of one that may
expire what its origin's clock read (`origin_clocks`), and whose members of shared subscriptions get
it (`holders`). What stands behind that is for later releases: nobody looks at it."""


MAX_CLOCK_US: Final = 1 << 60
"""The most that an origin's clock reads: it would count to there for 36,000 years."""
PROPERTY_BYTES: Final = 32
"""The cost of a property besides its text: user properties without any cost as much to read."""


@dataclass(slots=True)  # not frozen: that costs a third of the time to make one
class Entry:
    """One message as its origin accepted it; nothing changes one.

    Attributes:
        topic: the topic name.
        payload: the payload, untouched.
        qos: 0, 1 or 2, as published.
        retain: the RETAIN flag, as published.
        properties: MQTT 5.0 properties that must survive the journey, by identifier.
        proof: of a retained one, that its origin wrote it; empty without one.
        accepted_us: what its origin's clock read when it was accepted (`origin_clocks`); 0 if it is
            not said.
        holders: whose members of shared subscriptions get it (`tree_handler.holders`).

    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: dict[int, Any] = field(default_factory=dict)
    proof: bytes = b""
    accepted_us: int = 0
    holders: Holders = ()

    @classmethod
    def of(cls, row: Row) -> Entry:
        """Return the message that stands in a body."""
        entry = cls(row[0], row[2], row[1] & 3, bool(row[1] & 4), *row[3:5])
        if len(row) > 5:
            entry.accepted_us = accepted_us(row)
            entry.holders = holders_of(row)
        return entry

    def row(self) -> Row:
        """Return the message as it stands in a body."""
        return with_holders(self._bare_row(), self.holders)

    def _bare_row(self) -> Row:
        row = (self.topic, self.qos | self.retain << 2, self.payload)
        if self.accepted_us:
            return (*row, self.properties, self.proof, self.accepted_us)
        if self.proof:
            return (*row, self.properties, self.proof)
        return (*row, self.properties) if self.properties else row


def accepted_us(row: Row) -> int:
    """Return what the clock of a message's origin read when it was accepted; 0 if unsaid."""
    said = row[5] if len(row) > 5 else 0
    return said if type(said) is int and 0 < said <= MAX_CLOCK_US else 0


def accepted_at(row: Row, clock_us: int) -> Row:
    """Return a message that may expire with what its origin's clock reads; 0 for no clock."""
    return (*row[:4], row[4] if len(row) > 4 else b"", clock_us, *row[6:]) if clock_us else row


def row_size(row: Row) -> int:
    """Return the estimated cost of a message in a body, in bytes and in work."""
    size = len(row[0]) + len(row[2])
    if len(row) > 3:
        size += properties_bytes(row[3])
        if len(row) > PLACE:
            size += holders_size(row)
    return size


def properties_bytes(properties: dict[int, Any]) -> int:
    """Return the estimated cost of a message's properties, in bytes and in work."""
    size = PROPERTY_BYTES * len(properties)
    for value in properties.values():
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, list | tuple):
            size += PROPERTY_BYTES * len(value)
            texts = [part for pair in value if isinstance(pair, list | tuple) for part in pair]
            size += sum(len(part) for part in texts if isinstance(part, str | bytes))
    return size
