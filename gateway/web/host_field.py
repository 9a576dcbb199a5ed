"""The machine that a request names (RFC 9110, section 7.2).

A page of another site whose name was made to point here (DNS rebinding) names its own site.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

_OWN = "localhost"


def names_this_machine(host_field: str, names: Collection[str] = ()) -> bool:
    """Return whether the Host of a request is no other site's.

    Args:
        host_field: its value; empty for none, which no browser sends.
        names: that this machine is known by, beside its addresses and ``localhost``.

    """
    name, _, port = host_field.rpartition(":")
    if not name or not port.isdecimal():
        name = host_field
    name = _folded(name.strip("[]"))
    if name in ("", _OWN) or name in map(_folded, names):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True  # nobody makes an address point elsewhere


def _folded(name: str) -> str:
    """Return a name as it is compared with others: case and the root's dot say nothing."""
    return name.removesuffix(".").lower()
