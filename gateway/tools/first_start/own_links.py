"""Asks the kernel which addresses this machine has, and which routers (rtnetlink(7))."""

from __future__ import annotations

import socket
from typing import Final

from gateway.tools.first_start import near_links
from gateway.tools.first_start.near_links import HEAD, NearLinks

_REQUEST_DUMP: Final = 0x301
"""NLM_F_REQUEST, and all there are: NLM_F_ROOT, NLM_F_MATCH."""
_FAMILY_ANY: Final = bytes(16)
"""Begins with the family, and is as long as the longest of such requests."""
_READ_BYTES: Final = 1 << 16
_TIME_S: Final = 5.0


def ask() -> NearLinks:
    """Return what this machine is linked to now.

    Raises:
        OSError: the kernel does not say.

    """
    own = near_links.own_addresses(_answer(near_links.GET_ADDRESS))
    return NearLinks(own, near_links.routers(_answer(near_links.GET_ROUTE)))


def _answer(kind: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asked:
        asked.settimeout(_TIME_S)
        asked.bind((0, 0))
        head = HEAD.pack(HEAD.size + len(_FAMILY_ANY), kind, _REQUEST_DUMP, 1, 0)
        asked.send(head + _FAMILY_ANY)
        while True:
            for one, body in near_links.messages(asked.recv(_READ_BYTES)):
                if one == near_links.DONE:
                    return found
                if one == near_links.ERROR:
                    raise OSError("the kernel does not tell its addresses")
                found.append((one, body))
