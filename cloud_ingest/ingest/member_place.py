"""Where a gateway stands in the tree's places, by its member record."""

from __future__ import annotations

import msgpack

MEMBER_TOPIC = "$hedgerow/member/"
NO_PLACE = "-"
"""Domain and group of a gateway at root level, as in its topics."""
UNKNOWN_PLACE = "?"
"""Domain and group of a gateway whose member record has not come, or can't be read."""


class MemberError(ValueError):
    """A member record can't be read; the message names the field."""


def read_place(payload: bytes, gateway: str) -> tuple[str, str]:
    """Domain and group from a gateway's member record, a msgpack map.

    Raises:
        MemberError: not a map, a field missing or of a wrong type, or of another gateway.

    """
    try:
        fields = msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException) as error:
        raise MemberError(f"member record is not msgpack: {error}") from error
    if not isinstance(fields, dict):
        raise MemberError(f"member record is no map: {type(fields).__name__}")
    if fields.get("id") != gateway:
        raise MemberError(f"member record, id: {fields.get('id')!r}")
    domain, group = (_segment(fields, name) for name in ("domain", "group"))
    return domain, group


def _segment(fields: dict[object, object], name: str) -> str:
    value = fields.get(name, 0)
    if value is None or value == "":
        return NO_PLACE
    if not isinstance(value, str):
        raise MemberError(f"member record, {name}: {value if name in fields else 'missing'!r}")
    return value
