"""Room for connections: those that have shown nothing make room for others, host by host.

Anybody can open connections and say nothing. So as long as a connection has not been accepted it
may be closed to make room: of a host that has too many such the one that waits longest, and, where
there is no room at all, that of the host that has the most. Those that have been accepted stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Connection = TypeVar("Connection")


class ConnectionRoom(Generic[Connection]):
    """The connections of all hosts.

    Args:
        most: there may be in all.
        of_host_unaccepted: there may be of one host that are not accepted.
        is_accepted: whether a connection is; it stays so.

    """

    def __init__(
        self, most: int, of_host_unaccepted: int, is_accepted: Callable[[Connection], bool]
    ) -> None:
        self._most = most
        self._of_host_unaccepted = of_host_unaccepted
        self._is_accepted = is_accepted
        self._connections: dict[Connection, str] = {}
        # In the order in which they came; with some that have been accepted meanwhile.
        self._unaccepted: dict[str, dict[Connection, None]] = {}
        # The same hosts by how many of these they have, so that none has to be looked for.
        self._hosts_with: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._connections)

    def opened(self, connection: Connection, host: str) -> list[Connection]:
        """A connection has come.

        Args:
            connection: which.
            host: whose.

        Returns:
            Those that have to go, one after the other; perhaps this one.

        """
        self._connections[connection] = host
        waiting = self._unaccepted.setdefault(host, {})
        waiting[connection] = None
        self._counted(host, len(waiting) - 1)
        going: list[Connection] = []
        if len(waiting) > self._of_host_unaccepted:
            self._prune(host)
            if len(waiting) > self._of_host_unaccepted:
                going.append(self._oldest(host))
        if len(self._connections) - len(going) > self._most:
            going.append(self._of_greediest(connection))
        for one in going:
            self.closed(one)
        return going

    def closed(self, connection: Connection) -> None:
        """A connection has gone."""
        host = self._connections.pop(connection, None)
        waiting = None if host is None else self._unaccepted.get(host)
        if host is not None and waiting is not None and connection in waiting:
            del waiting[connection]
            self._counted(host, len(waiting) + 1)

    def _counted(self, host: str, before: int) -> None:
        """A host has another number of connections that are not accepted."""
        waiting = self._unaccepted[host]
        if before:
            of_before = self._hosts_with[before]
            del of_before[host]
            if not of_before:
                del self._hosts_with[before]
        if waiting:
            self._hosts_with.setdefault(len(waiting), {})[host] = None
        else:
            del self._unaccepted[host]

    def _prune(self, host: str) -> bool:
        """Leave out those that have been accepted; whether there was any."""
        waiting = self._unaccepted[host]
        before = len(waiting)
        for connection in [one for one in waiting if self._is_accepted(one)]:
            del waiting[connection]
        if len(waiting) == before:
            return False
        self._counted(host, before)
        return True

    def _oldest(self, host: str) -> Connection:
        return next(iter(self._unaccepted[host]))

    def _of_greediest(self, newest: Connection) -> Connection:
        while self._hosts_with:
            host = next(iter(self._hosts_with[max(self._hosts_with)]))
            if not self._prune(host):
                return self._oldest(host)
        return newest
