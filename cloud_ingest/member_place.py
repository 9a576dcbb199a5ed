"""Place of a gateway in the tree, by its member record.

Domain and group are columns of tables, and a domain is a part of the path of what compaction
writes. So a record that the tree would refuse says nothing here either.
"""

from __future__ import annotations

from tree_handler.errors import ProtocolError
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import NONE, check_name

MEMBER_TOPIC = "$hedgerow/member/"
NO_PLACE = NONE
"""Domain and group of a gateway at root level, as in its topics."""
UNKNOWN_PLACE = "?"
"""Domain and group of a gateway whose member record has not come, or can't be read."""


class MemberError(ValueError):
    """A member record can't be read; the message names the field."""


def read_place(payload: bytes, gateway: str) -> tuple[str, str]:
    """Domain and group from a gateway's member record.

    Raises:
        MemberError: it is none, or that of another gateway.

    """
    try:
        record = MemberRecord.decode(payload)
    except ProtocolError as error:
        raise MemberError(str(error)) from error
    if record.id != gateway:
        raise MemberError(f"member record of another gateway: {record.id!r}")
    return record.domain or NO_PLACE, record.group or NO_PLACE


def is_column(name: str) -> bool:
    """Return whether a domain or group may stand in a table; earlier versions let any text pass."""
    if name in (NO_PLACE, UNKNOWN_PLACE):
        return True
    try:
        check_name("place", name)
    except ProtocolError:
        return False
    return True
