"""One gateway's record of itself: its place in the hierarchy, its address, what it can do.

The record is replicated to every gateway. Its wire form is a msgpack map, so that a later
version can add keys: a reader ignores the ones it does not know.
"""

from __future__ import annotations

import math
from typing import Any

import msgpack

from light_dataclasses import dataclass
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.members.place import Place, check_address, check_name
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

MAX_RECORD_BYTES = 2_048
SIZE = MessageSize(MAX_RECORD_BYTES, 2 * LATER_ELEMENTS, LATER_ELEMENTS)
MAX_OFFERS_BYTES = 512
MAX_VERSION = (1 << 63) - 1
_LATER = frozenset({"offers", "link_port"})
"""Fields that records of earlier versions do not have."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A record in which a gateway describes itself to all others.

    Attributes:
        id: gateway id.
        epoch: its boot epoch, 1 or more.
        version: one higher at each change within an epoch.
        domain: name, or ``""`` at the root level.
        group: name, or ``""`` at the root and domain levels.
        address: where the others reach it, an IP address or a host name.
        mqtt_port: port of its broker; 0 if it accepts no links.
        coap_port: UDP port without security; 0 if it has none.
        coaps_port: UDP port with DTLS; 0 if it has none.
        capability: see tree election; 0 for a collector, which heads nothing.
        draining: it is about to leave and shall head nothing if another one can.
        offers: a digest of what its directory has (`resource_directory.digest`); empty if it tells
            none, as earlier versions do.
        link_port: TCP port at which it takes links of other gateways; 0 if it takes none or does
            not say, as earlier versions do not.

    Raises:
        ProtocolError: a field of a wrong type or out of range; the message names it.

    """

    id: str
    epoch: int
    version: int
    domain: str
    group: str
    address: str
    mqtt_port: int
    coap_port: int = 0
    coaps_port: int = 0
    capability: float = 0.0
    draining: bool = False
    offers: bytes = b""
    link_port: int = 0

    def __post_init__(self) -> None:
        check_name("member id", self.id)
        Place(self.domain, self.group)
        _check_number("member epoch", self.epoch, 1, MAX_BOOT_EPOCH)
        _check_number("member version", self.version, 0, MAX_VERSION)
        _check_number("member mqtt_port", self.mqtt_port, 0, 65_535)
        _check_number("member coap_port", self.coap_port, 0, 65_535)
        _check_number("member coaps_port", self.coaps_port, 0, 65_535)
        _check_number("member link_port", self.link_port, 0, 65_535)
        check_address("member address", self.address)
        if (
            not isinstance(self.capability, int | float)
            or isinstance(self.capability, bool)
            or not 0 <= self.capability < math.inf
        ):
            raise ProtocolError("member capability", self.capability)
        if not isinstance(self.draining, bool):
            raise ProtocolError("member draining", self.draining)
        if not isinstance(self.offers, bytes) or len(self.offers) > MAX_OFFERS_BYTES:
            raise ProtocolError("member offers", self.offers)

    @property
    def place(self) -> Place:
        """Domain and group in one."""
        return Place(self.domain, self.group)

    @property
    def prefix(self) -> str:
        """Start of the gateway's topics: ``campus/north/gw-north``, ``-/-/gw-root``."""
        return self.place.prefix(self.id)

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb({name: getattr(self, name) for name in self.__slots__})
        return packed

    @classmethod
    def decode(cls, data: bytes) -> MemberRecord:
        """Read the wire form; keys of later versions are ignored.

        Raises:
            ProtocolError: not msgpack, too long, a field missing, of a wrong type or out of
                range; the message names it.

        """
        fields = unpack("member record", data, SIZE)
        if not isinstance(fields, dict):
            raise ProtocolError("member record", fields)
        values: dict[str, Any] = {}
        for name in cls.__slots__:
            if name not in fields and name in _LATER:
                continue
            if name not in fields:
                raise ProtocolError(f"member record without {name}")
            values[name] = fields[name]
        return cls(**values)


def _check_number(what: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProtocolError(what, value)
