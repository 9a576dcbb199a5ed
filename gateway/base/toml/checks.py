"""Checks of a configuration's values: each gives a fault that names what is allowed."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.base.toml.toml_file import Fault
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name, is_host_name

RANGE = "range"
"""In a field's metadata: the least and the most that its number may be."""
CHOICES = "choices"
"""In a field's metadata: the words that it may be."""
MOST_PORT = 65_535


def ranged(default: float | None, least: float, most: float) -> Any:
    """Give a field of a section that is a number of a range, or none; `marked` sees to it."""
    return dataclasses.field(default=default, metadata={RANGE: (least, most)})


def chosen(default: str, *choices: str) -> Any:
    """Give a field of a section that is one of a few words; `marked` sees to it."""
    return dataclasses.field(default=default, metadata={CHOICES: choices})


def marked(section: Any) -> Iterator[Fault]:
    """Find what is outside the ranges and choices of a section's fields."""
    for spec in dataclasses.fields(section):
        value = getattr(section, spec.name)
        if value is not None and (bounds := spec.metadata.get(RANGE)):
            yield from within(spec.name, value, *bounds)
        if words := spec.metadata.get(CHOICES):
            yield from one_of(spec.name, value, words)


def name(where: str, value: str) -> Iterator[Fault]:
    """Check a gateway id, or the name of a tree, a domain or a group."""
    try:
        check_name(where, value)
    except ProtocolError:
        yield Fault(where, f"{value!r} is not 1 to 63 lower-case letters, digits and hyphens")


def address(where: str, value: str) -> Iterator[Fault]:
    """Check a numeric address, of either version."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield Fault(where, f"{value!r} is not an IP address")


def hosts(where: str, values: Sequence[str]) -> Iterator[Fault]:
    """Check where to listen: numeric addresses and host names (RFC 1123, section 2.1)."""
    if not values:
        yield Fault(where, "names no address")
    for value in values:
        try:
            ipaddress.ip_address(value)
        except ValueError:
            # Names of machines have underscores at times, against the RFC.
            if not is_host_name(value.replace("_", "x")):
                yield Fault(where, f"{value!r} is neither an IP address nor a host name")


def network(where: str, value: str) -> Iterator[Fault]:
    """Check an IP address, or a network of them as ``ADDRESS/LENGTH``."""
    try:
        ipaddress.ip_network(value)
    except ValueError:
        yield Fault(where, f"{value!r} is neither an IP address nor a network such as 10.0.0.0/24")


def is_wildcard(host: str) -> bool:
    """Return whether that means all addresses of a version."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches that."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def port(where: str, value: int | None) -> Iterator[Fault]:
    """Check a port to listen on: 0 for any, None for none."""
    if value is not None and not 0 <= value <= MOST_PORT:
        yield Fault(where, f"{value} is no port: 0 to {MOST_PORT}")


def host_and_port(where: str, value: str) -> Iterator[Fault]:
    """Check where something listens, as ``host:port``."""
    host, _, number = value.rpartition(":")
    is_port = number.isdecimal() and len(number) <= 5 and 0 < int(number) <= MOST_PORT
    if not host or not is_port:
        yield Fault(where, f"{value!r} is not HOST:PORT")


def within(where: str, value: float, least: float, most: float) -> Iterator[Fault]:
    """Check a number of a range, whose ends are in it."""
    if not least <= value <= most:
        yield Fault(where, f"{_plain(value)} is not {_plain(least)} to {_plain(most)}")


def _plain(number: float) -> str:
    """Return a number as people write it: 65535, and not 65535.0."""
    return str(int(number)) if number == number // 1 else str(number)


def one_of(where: str, value: str, allowed: Sequence[str]) -> Iterator[Fault]:
    """Check that it is one of a few words."""
    if value in allowed:
        return
    if len(allowed) == 2:
        yield Fault(where, f"{value!r} is neither {allowed[0]!r} nor {allowed[1]!r}")
    else:
        yield Fault(where, f"{value!r} is none of {', '.join(map(repr, allowed))}")
