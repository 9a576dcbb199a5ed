"""Election of the root: the order of candidates (row B4: capability; 802.1D 9.2.5: identifiers).

Every gateway stands for election with the values it read at its start. They never change while
it runs, so that all gateways order the same candidates the same way.
"""

from __future__ import annotations

import functools
import ipaddress
import math
from dataclasses import field

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name

MAX_CAPABILITY = 1e15
MAX_EPOCH = 2**63 - 1

Precedence = tuple[float, int, int, str]
"""Sorts before another one's: the better root."""


@functools.lru_cache(maxsize=4096)
def address_order(address: str) -> tuple[int, int]:
    """Return the order of IP addresses: version, then the number.

    Raises:
        ValueError: if ``address`` is no IPv4 or IPv6 address, or has a scope: that would mean
            something on one host only.

    """
    if "%" in address:
        raise ValueError(f"scoped address: {address}")
    parsed = ipaddress.ip_address(address)
    return parsed.version, int(parsed)


def check_candidate(gateway_id: str, boot_epoch: int, capability: float, address: str) -> None:
    """Check what a gateway says of itself or of a root.

    Raises:
        ProtocolError: naming the first field that is out of bounds.

    """
    check_name("gateway_id", gateway_id)
    if not 0 <= boot_epoch <= MAX_EPOCH:
        raise ProtocolError("boot_epoch", boot_epoch)
    if not (math.isfinite(capability) and 0 <= capability <= MAX_CAPABILITY):
        raise ProtocolError("capability", capability)
    try:
        address_order(address)
    except ValueError as error:
        raise ProtocolError("address", address) from error


@dataclass(frozen=True, slots=True)
class Root:
    """One life of a gateway as root, as BPDUs name it: the name of a tree.

    Two trees are the same only if all four are. A root that restarts has a higher epoch, so its
    new tree is another one.

    Attributes:
        gateway_id: the root's id.
        boot_epoch: its start, one higher each time.
        capability: its C of row B4.
        address: its IP address, which decides between equal capabilities.
        seal: its own signature under the four (`tree_handler.seal`); empty where nobody signs.

    """

    gateway_id: str
    boot_epoch: int
    capability: float
    address: str
    seal: bytes = field(default=b"", repr=False)
    _precedence: list[Precedence] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def precedence(self) -> Precedence:
        """Higher capability first, then the lower address, then the lower id."""
        if not self._precedence:  # worked out once: each BPDU asks for it
            order = address_order(self.address)
            self._precedence.append((-self.capability, *order, self.gateway_id))
        return self._precedence[0]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Root)
            and self.gateway_id == other.gateway_id
            and self.boot_epoch == other.boot_epoch
            and self.capability == other.capability
            and self.address == other.address
        )

    def __hash__(self) -> int:
        return hash((self.gateway_id, self.boot_epoch))

    def __str__(self) -> str:
        return f"{self.gateway_id}/{self.boot_epoch}"


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a gateway in the tree, read once at its start.

    Attributes:
        gateway_id: see `members.place`.
        boot_epoch: from disk, one higher at each start, never reused.
        capability: C = alpha * CPU + beta * RAM (row B4), at least 0.
        address: its IP address.
        transit: False for a leaf such as a collector: never root of others, never between two.
        seal: see `Root`.

    Raises:
        ProtocolError: if a value is out of bounds.

    """

    gateway_id: str
    boot_epoch: int
    capability: float
    address: str
    transit: bool = True
    seal: bytes = b""

    def __post_init__(self) -> None:
        check_candidate(self.gateway_id, self.boot_epoch, self.capability, self.address)

    @property
    def root(self) -> Root:
        """This gateway as the root of a tree."""
        return Root(self.gateway_id, self.boot_epoch, self.capability, self.address, self.seal)
