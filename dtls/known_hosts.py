"""Hosts that have completed a handshake: theirs give way last where there are too many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

KNOWN_MAX: Final = 4_096
"""Hosts remembered; that of the longest ago is forgotten."""


class _Begun(Protocol):
    started_at: float


B = TypeVar("B", bound=_Begun)


class KnownHosts:
    """Hosts from which somebody has shown who it is."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._hosts)

    def add(self, host: Hashable) -> None:
        """A handshake from there is complete."""
        self._hosts[host] = None
        self._hosts.move_to_end(host)
        if len(self._hosts) > KNOWN_MAX:
            self._hosts.popitem(last=False)

    def surplus(self, by_host: Mapping[Hashable, Sequence[B]], many: int) -> B:
        """Return which of all handshakes is given up for another one.

        Args:
            by_host: those under way, oldest first.
            many: a host with more of them than that is the first to give way.

        """
        strangers = [each for host, each in by_host.items() if host not in self._hosts]
        chosen = strangers or list(by_host.values())
        most = max(chosen, key=len)
        if len(most) > many:
            return most[0]
        return min((each[0] for each in chosen), key=lambda begun: begun.started_at)
