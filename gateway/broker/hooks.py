"""What the broker asks of those around it: who may do what, where messages go, who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gateway.log import commits
from gateway.mqtt import Connect
from gateway.tls.certificates import PeerCertificate
from tree_handler.batch import Row

if TYPE_CHECKING:
    from gateway.broker.sessions.session import Session

Verdict = bool | Awaitable[bool]
"""A decision; the client's further packets wait for one that takes time."""

Committed = commits.Committed

Commit = Callable[[Sequence[Row], Sequence[Row], Committed | None], None]
"""Takes a loop turn's messages into the log and the tree: those to be logged, then the QoS 0
ones, which go to the tree alone. May call back before it returns; None if nobody waits.
"""


Links = Callable[[asyncio.Transport, bytes], Awaitable[None]]
"""Takes over a neighbour's connection: its transport, whose reading is paused and whose protocol it
replaces, and the bytes that were read of it.
"""

WhyNoLink = Callable[[Connect, PeerCertificate | None, str], str]
"""Why a gateway with this CONNECT, verified certificate and address may not open a link; nothing
if it may.
"""


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
    def roles(self) -> tuple[str, ...] | None:
        """What its certificate says it is besides; None without a certificate."""
        return None if self.certificate is None else tuple(sorted(self.certificate.roles))

    @classmethod
    def away(
        cls, client_id: str, username: str | None, roles: Iterable[str] | None, version: int
    ) -> Client:
        """A client that was there before a restart, of which only its session is left."""
        certificate = None if roles is None else PeerCertificate(username or "", frozenset(roles))
        return cls(client_id, username, "", version, certificate)

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


class Interest(Protocol):
    """Is told what all sessions together want."""

    def subscribed(self, topic_filter: str) -> None:
        """A session has one more subscription; the filter may be shared."""

    def unsubscribed(self, topic_filter: str) -> None:
        """A session has one less."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that the broker calls.

    Attributes:
        authenticate: whether a client with this password may connect.
        commit: takes a loop turn's messages; see `Commit`.
        carries_unlogged: whether QoS 0 messages are wanted by ``commit`` now.
        links: takes over a neighbour's connection; see `Links`.
        why_no_link: which gateways may open a link; None where every one may try.
        may_publish: to this topic; None for all topics.
        may_subscribe: to this filter; None for all filters.
        may_deliver: this topic, once it is subscribed; None for all. It answers at once.
        is_concealed: whether a client isn't told why it may not subscribe to this filter; None
            where it always is.
        events: is told of clients.

    """

    authenticate: Callable[[Client, bytes | None], Verdict]
    commit: Commit
    carries_unlogged: Callable[[], bool]
    links: Links
    why_no_link: WhyNoLink | None = None
    may_publish: Callable[[Client, str], Verdict] | None = None
    may_subscribe: Callable[[Client, str], Verdict] | None = None
    may_deliver: Callable[[Client, str], bool] | None = None
    is_concealed: Callable[[Client, str], bool] | None = None
    events: Events | None = None
