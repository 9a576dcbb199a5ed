"""Plan of a new fleet: its gateways, where they listen and whom they dial."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault
from light_dataclasses import dataclass

LOOPBACK = "127.0.0.1"
MOST_PORT = 65_535
USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""It names a file, too."""


class PlanError(ValueError):
    """There can be no such gateways; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports at which a gateway listens, over TCP and over UDP."""

    mqtt: int = 1883
    mqtts: int = 8883
    coap: int = 5683
    coaps: int = 5684


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """One gateway.

    Attributes:
        id: its name.
        place: ``DOMAIN``, ``DOMAIN/GROUP`` or nothing.
        address: where it listens and others reach it.
        ports: its listeners'.
        neighbours: whom it dials, as ``host:port``.
        has_neighbours_here: whether others of its fleet are on the same machine.
        has_page: whether it has a page for browsers, whose user administers it.

    """

    id: str
    place: str = ""
    address: str = LOOPBACK
    ports: Ports = Ports()
    neighbours: Sequence[str] = ()
    has_neighbours_here: bool = False
    has_page: bool = False

    @property
    def domain(self) -> str:
        """The domain, or nothing at the top."""
        return self.place.partition("/")[0]

    @property
    def group(self) -> str:
        """The group, or nothing."""
        return self.place.partition("/")[2]

    @property
    def is_local(self) -> bool:
        """Return whether only its own machine reaches it."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def has_tls(self) -> bool:
        """Return whether it needs certificates: for links, its page, or since others reach it."""
        return bool(self.neighbours) or self.has_page or not self.is_local

    def at(self, port: int) -> str:
        """Return where a port of it is reached, as ``host:port``."""
        return f"[{self.address}]:{port}" if ":" in self.address else f"{self.address}:{port}"


def check_name(name: str) -> None:
    """Refuse what no gateway can be called.

    Raises:
        PlanError: it is refused.

    """
    _raise(checks.name("name", name))


def check_user(user: str) -> None:
    """Refuse what no user can be called.

    Raises:
        PlanError: it is refused.

    """
    if not USER.fullmatch(user):
        raise PlanError(f"user: {user!r} is not 1 to 64 letters, digits, '.', '_', '-' and '@'")


def check_place(place: str) -> None:
    """Refuse what is no place.

    Raises:
        PlanError: it is refused.

    """
    if place:
        domain, *groups = place.split("/")
        if len(groups) > 1:
            raise PlanError(f"place: {place!r} is not DOMAIN or DOMAIN/GROUP")
        for level in (domain, *groups):
            _raise(checks.name("place", level))


def check_address(address: str) -> None:
    """Refuse what a gateway can't listen on, or what others can't reach.

    Raises:
        PlanError: it is refused.

    """
    _raise(checks.address("address", address))
    if ipaddress.ip_address(address).is_unspecified:
        raise PlanError(f"address: {address!r} is no address that others reach")


def fleet(
    addresses: Iterable[tuple[str, str]], place: str = "", first_port: int | None = None
) -> list[GatewayPlan]:
    """Plan gateways that dial each other; those of one address get ports of their own.

    Args:
        addresses: their names, each with its address.
        place: of all of them.
        first_port: of four in a row for each gateway; None for the usual ones.

    Raises:
        PlanError: a name, the place or an address is wrong or stands twice, or ports run out.

    """
    check_place(place)
    pairs = list(addresses)
    for name, address in pairs:
        check_name(name)
        check_address(address)
    names = Counter(name for name, _ in pairs)
    if twice := [name for name, times in names.items() if times > 1]:
        raise PlanError(f"name: {twice[0]!r} stands twice")
    here, placed = Counter[str](), list[GatewayPlan]()
    total = Counter(address for _, address in pairs)
    for name, address in pairs:
        own = ports(here[address], first_port)
        here[address] += 1
        placed.append(GatewayPlan(name, place, address, own, (), total[address] > 1))
    return [_linked(one, placed) for one in placed]


def _linked(plan: GatewayPlan, everyone: Sequence[GatewayPlan]) -> GatewayPlan:
    others = tuple(one.at(one.ports.mqtts) for one in everyone if one.id != plan.id)
    return GatewayPlan(
        plan.id, plan.place, plan.address, plan.ports, others, plan.has_neighbours_here
    )


def ports(number: int, first: int | None) -> Ports:
    """Return the ports of one gateway of several on a machine.

    Args:
        number: how many come before it.
        first: of four in a row for each; None for the usual ones.

    Raises:
        PlanError: ports run out.

    """
    if first is None:
        usual = Ports()
        return Ports(
            usual.mqtt + number,
            usual.mqtts + number,
            usual.coap + 2 * number,
            usual.coaps + 2 * number,
        )
    first += 4 * number
    if first + 3 > MOST_PORT:
        raise PlanError(f"port: {first + 3} is no port: 1 to {MOST_PORT}")
    return Ports(first, first + 1, first + 2, first + 3)


def _raise(faults: Iterable[Fault]) -> None:
    for fault in faults:
        raise PlanError(f"{fault.where}: {fault.why}")
