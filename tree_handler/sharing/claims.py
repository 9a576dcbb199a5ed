"""A gateway's claims to all others: the shared subscriptions that it has members of.

The record travels as the one of its interests does: a logged message between gateways, the newest
wins, and it is told anew when the log of its gateway drops it. It is a msgpack map, so that a later
version can add keys: a reader ignores the ones it does not know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.holders import SharedGroup
from tree_handler.intervals import Intervals
from tree_handler.members.own_record import OwnRecord
from tree_handler.members.place import check_name
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

TOPIC: Final = "$hedgerow/shared/"
"""A record travels on this and its gateway's id."""
ONLINE: Final = 1
"""Some member is connected."""
DURABLE: Final = 2
"""Some member's session waits for its client, and takes QoS 1 or 2."""

GROUPS_MAX: Final = 256
"""Shared subscriptions with members on one gateway: a client gets 0x97 for one more."""
TEXT_MAX: Final = 32_768
"""Characters of all their names and filters; likewise."""
_READ_MAX: Final = 4 * GROUPS_MAX
"""Groups in a record that is read; a start may find more sessions than limits would let in."""
_TEXT_READ_MAX: Final = 4 * TEXT_MAX
MAX_RECORD_BYTES: Final = 1 << 20
SIZE: Final = MessageSize(MAX_RECORD_BYTES, 5 * _READ_MAX + 2 * LATER_ELEMENTS, 2 * _READ_MAX)
_FIELDS: Final = ("gateway_id", "epoch", "version", "decides", "groups")


@dataclass(frozen=True, slots=True)
class Claims:
    """One gateway's record.

    Attributes:
        gateway_id: whose it is.
        epoch: its boot epoch.
        version: one higher at each change within an epoch.
        decides: whether it says of the messages that it accepts whose members get them. One that
            does not is an earlier release, or set so: each gateway then gives to its own members.
        groups: the shared subscriptions with members there, with `ONLINE` and `DURABLE`.

    """

    gateway_id: str
    epoch: int
    version: int
    decides: bool = True
    groups: Mapping[SharedGroup, int] = field(default_factory=dict)

    @property
    def age(self) -> tuple[int, int]:
        """Return the age of the record: of two records of a gateway the greater one is newer."""
        return self.epoch, self.version

    def encode(self) -> bytes:
        """Return the wire form."""
        groups = [[*group, self.groups[group]] for group in sorted(self.groups)]
        of = (self.gateway_id, self.epoch, self.version, self.decides, groups)
        packed: bytes = msgpack.packb(dict(zip(_FIELDS, of, strict=True)))
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Claims:
        """Read the wire form; keys of later versions are ignored.

        Raises:
            ProtocolError: not msgpack, too long, a field missing, of a wrong type or out of
                range; the message names it.

        """
        values = unpack("shared subscriptions", data, SIZE)
        if not isinstance(values, dict):
            raise ProtocolError("shared subscriptions", values)
        if missing := [name for name in _FIELDS if name not in values]:
            raise ProtocolError(f"shared subscriptions without {missing[0]}")
        gateway_id, epoch, version, decides, groups = [values[name] for name in _FIELDS]
        if not isinstance(decides, bool):
            raise ProtocolError("shared subscriptions decides", decides)
        return cls(
            check_name("shared subscriptions gateway_id", gateway_id),
            _number("epoch", epoch, 1, MAX_BOOT_EPOCH),
            _number("version", version, 0, (1 << 63) - 1),
            decides,
            _groups(groups),
        )


def _number(name: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ProtocolError(f"shared subscriptions {name}", value)
    return value


def _groups(rows: object) -> dict[SharedGroup, int]:
    if not isinstance(rows, list) or len(rows) > _READ_MAX:
        raise ProtocolError("shared subscriptions groups", rows)
    found: dict[SharedGroup, int] = {}
    text = 0
    for row in rows:
        match row:
            case [str(share), str(topic_filter), int(presence)] if (
                _is_share(share) and topic_filter and topic_filter[0] != "$"
            ):
                text += len(share) + len(topic_filter)
                if presence & (ONLINE | DURABLE):
                    found[share, topic_filter] = presence & (ONLINE | DURABLE)
            case _:
                raise ProtocolError("shared subscriptions group", row)
    if text > _TEXT_READ_MAX:
        raise ProtocolError("shared subscriptions, characters", text)
    return found


def _is_share(name: str) -> bool:
    return bool(name) and not any(one in name for one in "/+#")


class OwnClaims:
    """This gateway's own record: what changes it, and when it is told.

    The first change is told at once, those that follow soon after it together; the larger the
    record, the less often, so that ``bytes_per_s`` bounds what restless members cost the others.

    Args:
        gateway_id: of this gateway.
        epoch: its boot epoch.
        decides: see `Claims`.
        interval_s: least time between two records.
        bytes_per_s: the greatest rate of records.

    """

    def __init__(
        self,
        gateway_id: str,
        epoch: int,
        *,
        decides: bool = True,
        interval_s: float = 0.2,
        bytes_per_s: float = 32_768,
    ) -> None:
        self._told = Claims(gateway_id, epoch, 0, decides)
        self._groups: dict[SharedGroup, int] = {}
        self._text = 0
        self._interval_s = interval_s
        self._bytes_per_s = bytes_per_s
        self._is_due = self._is_forgotten = True
        self._not_before = -math.inf
        self._in_log = OwnRecord(gateway_id, epoch)

    def has_room_for(self, group: SharedGroup) -> bool:
        """Return whether members of a shared subscription can be told of within the bounds."""
        if group in self._groups:
            return True
        text = self._text + len(group[0]) + len(group[1])
        return len(self._groups) < GROUPS_MAX and text <= TEXT_MAX

    def changed(self, group: SharedGroup, presence: int) -> bool:
        """Take who is there of a shared subscription; 0 for nobody. Return whether it is news."""
        before = self._groups.get(group, 0)
        if presence == before:
            return False
        size = len(group[0]) + len(group[1])
        if presence:
            self._groups[group] = presence
            self._text += 0 if before else size
        else:
            del self._groups[group]
            self._text -= size
        self._is_due = True
        return True

    def refused(self) -> None:
        """The record that was taken last could not be told, or was forgotten: tell it anew."""
        self._is_due = self._is_forgotten = True

    def logged(self, record: Claims, number: int) -> None:
        """A record is in the log, not before this number of its gateway's control stream."""
        if record.age == self._told.age:
            self._in_log.logged(number)

    def trimmed(self, kept_from: Mapping[Epoch, int]) -> None:
        """The log dropped its oldest: the lowest number that it still holds, by stream."""
        if self._in_log.is_to_be_told_anew(kept_from):
            self.refused()

    def lost(self, lost: Mapping[Epoch, Intervals]) -> None:
        """The log can't read these numbers any more, by stream."""
        if self._in_log.may_be_lost(lost):
            self.refused()

    def next_timer(self) -> float:
        """Return when `take` may have a record; infinity if nothing has changed."""
        return self._not_before if self._is_due else math.inf

    def take(self, now: float) -> Claims | None:
        """Return the record that is to be told now, if one is due."""
        if not self._is_due or now < self._not_before:
            return None
        self._is_due = False
        if self._groups == self._told.groups and not self._is_forgotten:
            return None
        self._is_forgotten = False
        self._in_log.told()
        self._told = replace(self._told, version=self._told.version + 1, groups=dict(self._groups))
        self._not_before = now + max(self._interval_s, self._text / self._bytes_per_s)
        return self._told
