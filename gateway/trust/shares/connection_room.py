"""Room for connections: those that have shown nothing make room for others, host by host.

Anybody can open connections and say nothing. So as long as a connection has not been accepted it
may be closed to make room: of a host that has too many such the one that waits longest, and, where
there is no room at all, that of the host that has the most. Those that have not said who they are
go first; of those whose word is being looked at, one goes only of a host that has several. Those
that have been accepted stay.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Generic, TypeVar

Connection = TypeVar("Connection")


class ConnectionStage(IntEnum):
    """The progress of a connection; it goes no step back."""

    SILENT = 0
    ASKING = 1
    ACCEPTED = 2


class ConnectionRoom(Generic[Connection]):
    """The connections of all hosts.

    Args:
        most: there may be in all.
        of_host_unaccepted: there may be of one host that are not accepted.
        standing: how far a connection has come.

    """

    def __init__(
        self, most: int, of_host_unaccepted: int, standing: Callable[[Connection], ConnectionStage]
    ) -> None:
        self._most = most
        self._of_host_unaccepted = of_host_unaccepted
        self._standing = standing
        self._connections: dict[Connection, str] = {}
        # Some have come further meanwhile.
        self._silent: _Waiting[Connection] = _Waiting()
        self._asking: _Waiting[Connection] = _Waiting()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._connections)

    def opened(self, connection: Connection, host: str) -> list[Connection]:
        """Count a connection that has come; return those to close.

        Args:
            connection: which.
            host: whose.

        Returns:
            Those that have to go, one after the other; perhaps this one.

        """
        going: list[Connection] = []
        if self._has_too_many(host):
            self._look_at(host)
            if self._has_too_many(host):
                waiting = self._silent if self._silent.count(host) else self._asking
                going.append(waiting.oldest(host))
        if len(self._connections) - len(going) >= self._most:
            one = self._of_greediest(self._silent, 1)
            one = self._of_greediest(self._asking, 2) if one is None else one
            going.append(connection if one is None else one)
        if connection not in going:
            self._connections[connection] = host
            self._silent.add(connection, host)
        for one in going:
            self.closed(one)
        return going

    def closed(self, connection: Connection) -> None:
        """A connection has gone."""
        host = self._connections.pop(connection, None)
        if host is not None:
            self._silent.discard(connection, host)
            self._asking.discard(connection, host)

    def _has_too_many(self, host: str) -> bool:
        waiting = self._silent.count(host) + self._asking.count(host)
        return waiting >= self._of_host_unaccepted

    def _look_at(self, host: str) -> None:
        """Note how far those of a host have come."""
        for one in self._silent.of(host):
            if standing := self._standing(one):
                self._silent.discard(one, host)
                if standing is ConnectionStage.ASKING:
                    self._asking.add(one, host)
        for one in self._asking.of(host):
            if self._standing(one) is ConnectionStage.ACCEPTED:
                self._asking.discard(one, host)

    def _of_greediest(self, waiting: _Waiting[Connection], least: int) -> Connection | None:
        """Return the oldest of the host that has the most, if those are at least so many."""
        while (host := waiting.greediest()) is not None:
            before = waiting.count(host)
            if before < least:
                break
            self._look_at(host)
            if waiting.count(host) == before:
                return waiting.oldest(host)
        return None


class _Waiting(Generic[Connection]):
    """Connections by host in the order in which they came, and hosts by how many they have."""

    def __init__(self) -> None:
        self._of: dict[str, dict[Connection, None]] = {}
        # So that no host has to be looked for.
        self._hosts_with: dict[int, dict[str, None]] = {}

    def of(self, host: str) -> list[Connection]:
        return list(self._of.get(host, ()))

    def count(self, host: str) -> int:
        return len(self._of.get(host, ()))

    def oldest(self, host: str) -> Connection:
        return next(iter(self._of[host]))

    def greediest(self) -> str | None:
        if not self._hosts_with:
            return None
        return next(iter(self._hosts_with[max(self._hosts_with)]))

    def add(self, connection: Connection, host: str) -> None:
        of_host = self._of.setdefault(host, {})
        of_host[connection] = None
        self._counted(host, len(of_host) - 1)

    def discard(self, connection: Connection, host: str) -> None:
        of_host = self._of.get(host)
        if of_host is not None and connection in of_host:
            del of_host[connection]
            self._counted(host, len(of_host) + 1)

    def _counted(self, host: str, before: int) -> None:
        if before:
            of_before = self._hosts_with[before]
            del of_before[host]
            if not of_before:
                del self._hosts_with[before]
        if count := len(self._of[host]):
            self._hosts_with.setdefault(count, {})[host] = None
        else:
            del self._of[host]
