"""A message as a batch carries it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
"""A message as it stands in a body: topic, QoS (with 4 added for RETAIN), payload, and properties
if there are any; behind them the proof of a retained one (`retained.proof`). What stands behind
that is for later releases: nobody looks at it."""


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

    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: dict[int, Any] = field(default_factory=dict)
    proof: bytes = b""

    @classmethod
    def of(cls, row: Row) -> Entry:
        """The message that stands in a body."""
        return cls(row[0], row[2], row[1] & 3, bool(row[1] & 4), *row[3:5])

    def row(self) -> Row:
        """The message as it stands in a body."""
        row = (self.topic, self.qos | self.retain << 2, self.payload)
        if self.proof:
            return (*row, self.properties, self.proof)
        return (*row, self.properties) if self.properties else row
