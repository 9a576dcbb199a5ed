"""Gateways that the fleet's records name and the tree lacks, and when all are told of it (A2).

Whoever is reached by no path answers nothing, and heads a group in vain. No gateway but the root
sees who is in its tree, so the root alone says that a gateway is absent, in a logged message that
reaches all: one message for each gateway that goes, none while a fleet is still. Everybody drops
the record then. A gateway that hears of its own absence was only cut off, and publishes its record
anew with a higher version; one that restarts has a higher epoch. So whatever comes in whatever
order, a record counts exactly if it is newer than the last absence that is known of it.

The two sides of a partition each have a root, which declares the other side absent; when it heals
all of them contradict.

Any gateway can say it of any other, a stolen one too. So a notice of records that nobody can have
told is not believed: a gateway could never tell a later one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import msgpack

from light_dataclasses import dataclass
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.members.member import MAX_VERSION, MemberRecord
from tree_handler.members.place import check_name
from tree_handler.unpacking import MessageSize, unpack

MAX_NOTICE_BYTES = 256
MAX_BELIEVED = 1 << 62
"""Up to this version a notice is believed of records that are not here: its gateway, if it is
there, tells a later one, and behind this is room for as many."""
SIZE = MessageSize(MAX_NOTICE_BYTES, 8, 8)


@dataclass(frozen=True, slots=True)
class AbsenceNotice:
    """The records of a gateway up to this epoch and version are void.

    Attributes:
        id: gateway id.
        epoch: boot epoch of the last record that is void.
        version: its version.

    Raises:
        ProtocolError: a field of a wrong type or out of range; the message names it.

    """

    id: str
    epoch: int
    version: int

    def __post_init__(self) -> None:
        check_name("absent gateway", self.id)
        for what, value, most in (
            ("epoch", self.epoch, MAX_BOOT_EPOCH),
            ("version", self.version, MAX_VERSION),
        ):
            if type(value) is not int or not 0 <= value <= most:
                raise ProtocolError(f"absent gateway's {what}", value)

    @property
    def mark(self) -> tuple[int, int]:
        """Compares with (epoch, version) of a record."""
        return self.epoch, self.version

    @classmethod
    def of(cls, record: MemberRecord) -> AbsenceNotice:
        """Return what makes this record void, and all before it."""
        return cls(record.id, record.epoch, record.version)

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb([self.id, self.epoch, self.version])
        return packed

    @classmethod
    def decode(cls, data: bytes) -> AbsenceNotice:
        """Read the wire form.

        Raises:
            ProtocolError: not a notice; the message names what is wrong.

        """
        row = unpack("absence notice", data, SIZE)
        if not isinstance(row, list) or len(row) != 3:
            raise ProtocolError("absence notice", row)
        return cls(*row)


class Absence:
    """Keeps, at the root, since when each member is out of reach.

    Args:
        member_timeout_s: a gateway that is so long out of reach is absent.

    """

    def __init__(self, member_timeout_s: float) -> None:
        self._timeout_s = member_timeout_s
        self._missing_since_s: dict[str, float] = {}

    def look(
        self, members: Iterable[MemberRecord], present: Collection[str] | None, now: float
    ) -> list[AbsenceNotice]:
        """Compare the records with the tree; returns whose time is over.

        Args:
            members: the records that count.
            present: the gateways in the tree; None at any but the root, which knows them.
            now: monotonic seconds.

        """
        if present is None:
            self._missing_since_s.clear()
            return []
        missing = {record.id: record for record in members if record.id not in present}
        since_s = self._missing_since_s
        for gateway_id in since_s.keys() - missing.keys():
            del since_s[gateway_id]
        for gateway_id in missing:
            since_s.setdefault(gateway_id, now)
        return [
            AbsenceNotice.of(record)
            for gateway_id, record in missing.items()
            if now - since_s[gateway_id] >= self._timeout_s
        ]

    def next_timer(self) -> float:
        """Return when `look` is due again; infinite while nobody is missing."""
        return min(self._missing_since_s.values(), default=math.inf) + self._timeout_s
