"""A member of the fleet as an operator is told of it: by ``/members``, `hedgerow members --json`.

Who writes the list and all who read it share this form. A reader goes by nothing else that it says:
the gateway that is asked may be stolen, or of an earlier version that let more pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.members.place import NONE, Place, check_address, check_name


@dataclass(frozen=True, slots=True)
class ListedMember:
    """One gateway.

    Attributes:
        id: gateway id.
        domain: name, or `NONE`.
        group: name, or `NONE`.
        address: where it is reached, an IP address or a host name.
        is_present: it is in the tree now.
        is_draining: it is about to leave.

    Raises:
        ProtocolError: a field of a wrong type or form; the message names it.

    """

    id: str
    domain: str
    group: str
    address: str
    is_present: bool
    is_draining: bool = False

    def __post_init__(self) -> None:
        check_name("member id", self.id)
        Place(*("" if name == NONE else name for name in (self.domain, self.group)))
        check_address("member address", self.address)
        for name in ("is_present", "is_draining"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ProtocolError(f"member {name}", value)

    @classmethod
    def of(cls, told: object) -> ListedMember:
        """Read one of a list; what later versions add is ignored.

        Raises:
            ProtocolError: it is none; the message names what is wrong.

        """
        if not isinstance(told, Mapping):
            raise ProtocolError("member", told)
        values = {name: told[name] for name in cls.__slots__ if name in told}
        for name in ("id", "domain", "group", "address", "is_present"):
            if name not in values:
                raise ProtocolError(f"member without {name}")
        return cls(**values)

    def as_json(self) -> dict[str, Any]:
        """Return the member as a table for JSON."""
        return asdict(self)
