"""Names that may stand in a fleet's certificates, and be those of files beside them."""

from __future__ import annotations

import ipaddress
import re

from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""Of others than gateways: X.509 has 64 characters for it, and it names a file."""
HOST = re.compile(r"(?!.*[.]{2})[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
TAKEN = ("ca", "revoked")
ALLOWED = "1 to 63 lower-case letters, digits and hyphens"


def is_gateway_id(text: str) -> bool:
    """Return whether a gateway may be called so, or a role."""
    try:
        check_name("name", text)
    except ProtocolError:
        return False
    return True


def is_file_name(text: str) -> bool:
    """Return whether a certificate's files can be called so."""
    return bool(NAME.fullmatch(text)) and text not in TAKEN and not text.endswith(".key")


def is_address(text: str) -> bool:
    """Return whether it is a numeric address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_reachable(text: str) -> bool:
    """Return whether it is an address or a host name."""
    return is_address(text) or bool(HOST.fullmatch(text))
