"""Texts of a device's link (RFC 6690, section 2), checked before others are told them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

ATTRIBUTES_MAX: Final = 16
ATTRIBUTE_CHARACTERS_MAX: Final = 200
RESERVED_ATTRIBUTES: Final = frozenset(
    {"ct", "domain", "group", "if", "obs", "rt", "unit"}
    | {"anchor", "base", "count", "d", "ep", "href", "lt", "page", "rel", "sz", "self"}
)
"""The attributes that the gateway sets, and those that look-ups read otherwise (RFC 9176, 9.3)."""

_ATTRIBUTE = re.compile(r"[a-z][a-z0-9-]{0,31}")


class DescriptionError(ValueError):
    """A developer's class says of itself what the gateway can't serve.

    Args:
        name: of what it says, as ``resource_type``.
        why: what is wrong with it.

    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def checked_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Copy link attributes after checking that a link can carry them (RFC 6690, section 2).

    Raises:
        DescriptionError: too many, a name that is no attribute or reserved, or a value that is no
            printable text or too long; the attribute is named.

    """
    if not isinstance(attributes, Mapping):
        raise DescriptionError("attributes", f"{attributes!r} is no mapping of names to texts")
    if len(attributes) > ATTRIBUTES_MAX:
        raise DescriptionError("attributes", f"more than {ATTRIBUTES_MAX}")
    for name, value in attributes.items():
        if not _ATTRIBUTE.fullmatch(name):
            raise DescriptionError(f"attributes.{name[:40]}", "not of the form [a-z][a-z0-9-]*")
        if name in RESERVED_ATTRIBUTES:
            raise DescriptionError(f"attributes.{name}", "set by the gateway")
        check_text(f"attributes.{name}", value)
    return dict(attributes)


def check_text(name: str, value: Any) -> None:
    """Check that a link can carry a value (RFC 6690, section 2).

    Args:
        name: what it is called in the error.
        value: a text, as it should be.

    Raises:
        DescriptionError: it is no printable text, or too long.

    """
    if not isinstance(value, str) or not value.isprintable() or "\\" in value:
        raise DescriptionError(name, f"{value!r} is not printable text without '\\'")
    if len(value) > ATTRIBUTE_CHARACTERS_MAX:
        raise DescriptionError(name, f"longer than {ATTRIBUTE_CHARACTERS_MAX}")
