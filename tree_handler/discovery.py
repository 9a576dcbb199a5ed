"""Discovery of gateways of one tree on a local network (row C1).

A gateway sends an announcement to a multicast group: who it is and where its broker listens.
A MAC under the tree's key keeps foreign and forged ones out. It does not prove freshness, nor
where the datagram comes from: one that is played again costs a dial to an address where
nobody of the tree may be. The hand-shake of the link decides who is let in.

Wire form::

    magic "HA" | version u8 | body, msgpack | mac, 32 bytes

The body is an array: tree, gateway id, boot epoch, address, MQTT port. The MAC is the
HMAC-SHA256 (RFC 2104) of all that stands before it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac

import msgpack

from light_dataclasses import dataclass
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_address, check_name
from tree_handler.rate_limit import RateLimit

MAGIC = b"HA"
VERSION = 1
MAC_BYTES = 32
MIN_KEY_BYTES = 16
MAX_ANNOUNCEMENT_BYTES = 512
"""One datagram, never a fragment: none that is made is longer, and no longer one is looked at."""
MAX_TREE_CHARACTERS = 64
UNSPECIFIED = ("0.0.0.0", "::")  # noqa: S104  # compared with, never bound to
"""A broker that listens at all addresses announces one of these."""
MAX_KNOWN = 10_000
"""Gateways whose newest epoch is remembered; the one that was heard first goes first."""


class AnnouncementError(ProtocolError):
    """A datagram is no announcement of this version, or its MAC is wrong."""


class ForeignTreeError(AnnouncementError):
    """The announcement is of another tree. Several may share a network."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """An announcement of a gateway on its local network.

    Attributes:
        tree: name of the tree it belongs to.
        gateway_id: its id.
        boot_epoch: its boot epoch, 1 or more.
        address: where its broker listens, an IP address or a host name.
        mqtt_port: port of its broker; 0 if it accepts no links and only dials.

    Raises:
        AnnouncementError: a field is out of range; the message names it.

    """

    tree: str
    gateway_id: str
    boot_epoch: int
    address: str
    mqtt_port: int

    def __post_init__(self) -> None:
        try:
            check_name("announcement gateway id", self.gateway_id)
            check_address("announcement address", self.address, may_have_zone=True)
        except ProtocolError as error:
            raise AnnouncementError(error.what, error.value) from None
        _check_tree(self.tree)
        _check_number("announcement boot epoch", self.boot_epoch, 1, MAX_BOOT_EPOCH)
        _check_number("announcement MQTT port", self.mqtt_port, 0, 65_535)

    def encode(self, key: bytes) -> bytes:
        """Return the datagram, with its MAC under the tree's key."""
        row = (self.tree, self.gateway_id, self.boot_epoch, self.address, self.mqtt_port)
        signed: bytes = MAGIC + bytes((VERSION,)) + msgpack.packb(row)
        return signed + hmac.digest(key, signed, hashlib.sha256)

    @classmethod
    def decode(cls, datagram: bytes, tree: str, key: bytes) -> Announcement:
        """Read a datagram and check its MAC in constant time.

        Raises:
            ForeignTreeError: it names another tree.
            AnnouncementError: torn, of another version, a field out of range, a wrong MAC.

        """
        if not len(MAGIC) + 1 + MAC_BYTES < len(datagram) <= MAX_ANNOUNCEMENT_BYTES:
            raise AnnouncementError("announcement length, bytes", len(datagram))
        if not datagram.startswith(MAGIC):
            raise AnnouncementError("announcement magic", datagram[:2])
        if datagram[2] != VERSION:
            raise AnnouncementError("announcement version", datagram[2])
        signed, mac = datagram[:-MAC_BYTES], datagram[-MAC_BYTES:]
        try:
            row = msgpack.unpackb(signed[3:])
        except (ValueError, msgpack.UnpackException) as error:
            raise AnnouncementError("announcement body", signed[3:]) from error
        if not isinstance(row, list) or len(row) != 5:
            raise AnnouncementError("announcement body", row)
        announcement = cls(*row)
        if announcement.tree != tree:
            raise ForeignTreeError("announcement of another tree", announcement.tree)
        if not hmac.compare_digest(mac, hmac.digest(key, signed, hashlib.sha256)):
            raise AnnouncementError("announcement MAC", announcement.gateway_id)
        return announcement


@dataclass(slots=True)
class DiscoveryCounters:
    """Counts of announcements, for status and metrics."""

    sent: int = 0
    own: int = 0
    found: int = 0
    foreign: int = 0
    refused: int = 0
    stale: int = 0
    limited: int = 0


@dataclass(frozen=True, slots=True)
class AnnouncementTimes:
    """The intervals between announcements, in seconds. Each is varied by a quarter either way.

    Attributes:
        interval_s: between announcements of a gateway that runs on.
        newcomer_s: by when a newcomer that was heard gets an answer.

    """

    interval_s: float = 5.0
    newcomer_s: float = 0.5


class Discovery:
    """Decides which announcements to believe and when to send one's own.

    It announces at once when it starts, and soon after it has heard a newcomer, so that each
    of two gateways knows the other without waiting for an interval.

    Args:
        own: what this gateway announces.
        key: the tree's key.
        now: the time; the first announcement is due then.
        times: see `AnnouncementTimes`.
        sources: limits datagrams for each source address before anything else is done.

    Raises:
        AnnouncementError: the key is shorter than `MIN_KEY_BYTES`.

    """

    def __init__(
        self,
        own: Announcement,
        key: bytes,
        now: float,
        times: AnnouncementTimes | None = None,
        sources: RateLimit | None = None,
    ) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise AnnouncementError("tree key too short, bytes", len(key))
        self.counters = DiscoveryCounters()
        self._own = own
        self._key = key
        self._datagram = own.encode(key)
        self._times = times if times is not None else AnnouncementTimes()
        self._sources = sources if sources is not None else RateLimit(per_second=10.0, burst=40)
        self._epochs: dict[str, int] = {}
        self._next = now

    def receive(
        self, datagram: bytes, source: str, now: float, jitter: float
    ) -> Announcement | None:
        """Take a datagram; return the announcement of another gateway of this tree.

        A gateway is returned as often as it announces itself: dial it if there is no link.
        Everything else is counted and passed over.

        Args:
            datagram: as it came.
            source: address it came from, without the port.
            now: the time in seconds.
            jitter: a random number, 0 to 1.

        """
        if not self._sources.allow(source, now):
            self.counters.limited += 1
            return None
        try:
            heard = Announcement.decode(datagram, self._own.tree, self._key)
        except ForeignTreeError:
            self.counters.foreign += 1
            return None
        except AnnouncementError:
            self.counters.refused += 1
            return None
        if heard.gateway_id == self._own.gateway_id:
            self.counters.own += 1
            return None
        if not self._remember(heard, now, jitter):
            self.counters.stale += 1
            return None
        self.counters.found += 1
        at_source = heard.address in UNSPECIFIED
        return dataclasses.replace(heard, address=source) if at_source else heard

    def next_timer(self) -> float:
        """Return when `handle_timer` is due."""
        return self._next

    def handle_timer(self, now: float, jitter: float) -> bytes | None:
        """Return the datagram to send to the group, if it is time.

        Args:
            now: the time in seconds.
            jitter: a random number, 0 to 1.

        """
        if now < self._next:
            return None
        self._next = now + self._times.interval_s * (0.75 + 0.5 * jitter)
        self.counters.sent += 1
        return self._datagram

    def _remember(self, heard: Announcement, now: float, jitter: float) -> bool:
        """Return whether the announcement is not of an earlier boot; a newcomer gets an answer.

        Where more gateways announce themselves than are remembered, the one that was silent for
        longest is forgotten, and nobody is answered: each would be a newcomer each time.
        """
        known = self._epochs.pop(heard.gateway_id, 0)
        is_full = len(self._epochs) >= MAX_KNOWN
        if is_full:
            del self._epochs[next(iter(self._epochs))]
        self._epochs[heard.gateway_id] = max(known, heard.boot_epoch)
        if heard.boot_epoch > known and not is_full:
            self._next = min(self._next, now + self._times.newcomer_s * jitter)
        return heard.boot_epoch >= known


def _check_tree(value: object) -> None:
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= MAX_TREE_CHARACTERS
        or not value.isascii()
        or not value.isprintable()
        or " " in value
    ):
        raise AnnouncementError("announcement tree", value)


def _check_number(what: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise AnnouncementError(what, value)
