"""What the broker asks of those around it: who may do what, where messages go, who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gateway.broker.message_log import Done
from tree_handler.batch import Entry

if TYPE_CHECKING:
    from gateway.broker.certificates import PeerCertificate
    from gateway.broker.message import Message
    from gateway.broker.sessions import Session, Subscription

Verdict = bool | Awaitable[bool]
"""A decision; the client's further packets wait for one that takes time."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who a connection is from; never with its password.

    Attributes:
        client_id: as the client chose it or the broker assigned it.
        username: the certificate's name, or what the client calls itself.
        address: without port.
        version: of the protocol.
        certificate: what the client proved in the TLS handshake.

    """

    client_id: str
    username: str | None
    address: str
    version: int
    certificate: PeerCertificate | None = None

    @property
    def owner(self) -> tuple[str | None, bool]:
        """Whose its session is: the user name, and whether a certificate proved it.

        They belong together, for where passwords are not asked for a name alone proves nothing.
        """
        return self.username, self.certificate is not None

    def __str__(self) -> str:
        # Quoted: a client chooses its identifier, and a log line is not for it to break.
        return f"{self.client_id[:64]!r} ({self.address})"


class Events(Protocol):
    """Is told what happens to clients (plugins, statistics)."""

    def connected(self, session: Session) -> None:
        """A client has been accepted."""

    def disconnected(self, session: Session) -> None:
        """A client has gone."""

    def subscribed(self, session: Session, topic_filter: str, qos: int) -> None:
        """A subscription was granted."""

    def unsubscribed(self, session: Session, topic_filter: str) -> None:
        """A subscription has ended at the client's wish."""


class Keeper(Protocol):
    """Keeps on disk what must outlive the process. Called after the change, in its order."""

    def session_opened(self, session: Session) -> None:
        """A session is new, or its expiry has changed."""

    def session_ended(self, session: Session) -> None:
        """A session is no more, nor are its subscriptions."""

    def subscribed(self, session: Session, topic_filter: str, subscription: Subscription) -> None:
        """A subscription is new or replaced."""

    def unsubscribed(self, session: Session, topic_filter: str) -> None:
        """A subscription is no more."""

    def retained_set(self, message: Message) -> None:
        """A topic has this retained message now."""

    def retained_deleted(self, topic: str) -> None:
        """A topic has no retained message any more."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that the broker calls.

    Attributes:
        authenticate: whether a client with this password may connect.
        commit: takes a loop turn's messages into the log and the tree and calls back, unless
            nobody waits for it.
        carries_unlogged: whether QoS 0 messages are wanted by ``commit`` now.
        links: takes over a neighbour's connection, whose first bytes are given.
        may_publish: to this topic; None for all topics.
        may_subscribe: to this filter; None for all filters.
        may_deliver: this topic, once it is subscribed; None for all. It answers at once.
        events: is told of clients.
        keeper: keeps sessions and retained messages.

    """

    authenticate: Callable[[Client, bytes | None], Verdict]
    commit: Callable[[list[Entry], Done | None], None]
    carries_unlogged: Callable[[], bool]
    links: Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]
    may_publish: Callable[[Client, str], Verdict] | None = None
    may_subscribe: Callable[[Client, str], Verdict] | None = None
    may_deliver: Callable[[Client, str], bool] | None = None
    events: Events | None = None
    keeper: Keeper | None = None
