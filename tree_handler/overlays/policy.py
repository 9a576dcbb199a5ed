"""Choice of the root of an overlay (C6).

The spanning tree elects the highest capability. Under `RootPolicy.CAPACITY` that is the
gateway's own C. Under `RootPolicy.BALANCE` a gateway stands for election with what remains of
a large number when its load is taken off, the load being

    gamma * overlays rooted + delta * clients

Either is read when an overlay begins and stays for its life there: identities never change while
a tree runs. Of gateways with the same load the one with the lower id is root.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from light_dataclasses import dataclass
from tree_handler.overlays.audience import AudienceMembers
from tree_handler.routing.interest import Interest

_UNLOADED = 1e9
"""Standing of a gateway without any load; no load counts for more."""
_LOAD_STEP = 0.01
"""Loads that differ by less are the same, so that the order of ids can be told in between."""


class RootPolicy(enum.Enum):
    """A rule by which the root of an overlay is chosen."""

    CAPACITY = "capacity"
    """The highest C."""
    BALANCE = "balance"
    """The lowest load."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of overlays and clients in a gateway's load.

    Attributes:
        gamma: of each overlay rooted.
        delta: of each client.

    """

    gamma: float = 1.0
    delta: float = 0.1

    def load(self, rooted: int, clients: int) -> float:
        """Return the load of a gateway."""
        return self.gamma * rooted + self.delta * clients


def standing(load: float, gateway_id: str, members: AudienceMembers) -> float:
    """Return what a gateway with this load stands for election with, higher for the better root."""
    steps = round(min(max(load, 0.0), _UNLOADED / 2) / _LOAD_STEP)
    rank = sum(other < gateway_id for other in members)
    return _UNLOADED - _LOAD_STEP * (steps + rank / (len(members) + 1))


def standings(
    new: Mapping[bytes, AudienceMembers],
    records: Mapping[str, Interest],
    own_id: str,
    weights: Weights,
) -> dict[bytes, float]:
    """Return what a gateway stands for election with in overlays that begin together.

    Each is counted to the one that will be its root before the next is looked at; else all
    would choose the same. Gateways with the same records count alike.

    Args:
        new: members by overlay.
        records: of all gateways, by id.
        own_id: the gateway.
        weights: what counts as load.

    """
    rooted = {i: record.rooted for i, record in records.items()}
    own = {}
    for name, members in sorted(new.items()):
        here = {
            i: standing(weights.load(rooted[i], records[i].clients), i, members) for i in members
        }
        own[name] = here[own_id]
        rooted[_best(here, records)] += 1
    return own


def _best(here: Mapping[str, float], records: Mapping[str, Interest]) -> str:
    candidates: Iterable[str] = [i for i in here if records[i].transit]
    return max(candidates, key=lambda i: here[i])
