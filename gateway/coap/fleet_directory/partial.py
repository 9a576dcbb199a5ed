"""The link that says that an answer about many gateways is not whole, as it is told and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from light_dataclasses import dataclass
from resource_directory.link_format import WebLink
from resource_directory.scoped import GATEWAY

PARTIAL: Final = "hedgerow.partial"
"""The ``rt`` of the last link of an answer that is not whole."""
NAMED_MAX: Final = 16
"""So many of the gateways that are missing are named."""
_MISSING: Final = "missing"


def partial_link(path: Sequence[str], missing: Sequence[str]) -> list[WebLink]:
    """Return what says that an answer is not whole, if it is not.

    Args:
        path: of the look-up.
        missing: ids of the gateways of which it tells nothing.

    """
    if not missing:
        return []
    named = " ".join(sorted(missing)[:NAMED_MAX])
    attributes = (("rt", PARTIAL), (_MISSING, str(len(missing))), (GATEWAY, named))
    return [WebLink("/" + "/".join(path), attributes)]


@dataclass(frozen=True, slots=True)
class MissingGateways:
    """The gateways of which an answer tells nothing.

    Attributes:
        count: how many.
        named: ids of some of them, sorted.

    """

    count: int = 0
    named: tuple[str, ...] = ()

    @classmethod
    def taken_out(cls, path: Sequence[str], links: list[WebLink]) -> Self:
        """Take the last link out of an answer if it says that this is not whole.

        Args:
            path: of the look-up; a resource of that type elsewhere is a resource.
            links: of the answer.

        """
        if not links or links[-1].href != "/" + "/".join(path) or links[-1].get("rt") != PARTIAL:
            return cls()
        last = links.pop()
        named = tuple(sorted((last.get(GATEWAY) or "").split()))
        count = last.get(_MISSING) or ""
        is_number = count.isascii() and count.isdigit() and len(count) < 10
        return cls(max(int(count) if is_number else 1, len(named)), named)

    def joined(self, other: MissingGateways) -> MissingGateways:
        """Return what two parts of one answer lack; whom both count may be the same."""
        named = tuple(sorted({*self.named, *other.named}))
        return MissingGateways(max(self.count, other.count, len(named)), named)
