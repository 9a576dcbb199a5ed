"""Addresses of gateways' own pages that may become links. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_address

SCHEMES: Final = ("http", "https")
CHARACTERS_MAX: Final = 200


def page_address(told: str | None) -> str | None:
    """Return the address that a gateway tells of its page, None if it may not be followed.

    Whoever speaks for a gateway makes it up, so nothing runs by it (``javascript:``), no user and
    password stand in it, and what looks like its host is its host.

    Args:
        told: of its status record; None or empty for none.

    """
    if not told or len(told) > CHARACTERS_MAX or not told.isascii() or not told.isprintable():
        return None
    if any(one in told for one in " \\\"'<>^`{|}@"):
        return None
    try:
        parts = urlsplit(told)
        host, port = parts.hostname, parts.port
        check_address("page", host)
    except (ValueError, ProtocolError):
        return None
    if parts.scheme not in SCHEMES or not host or port == 0:
        return None
    return told
