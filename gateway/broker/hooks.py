"""Hooks of the broker: who may do what, where messages go, who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import field
from typing import Final, Protocol

from gateway.log.commit_callback import Committed
from gateway.mqtt import Connect
from gateway.mqtt.kinds import V5
from gateway.trust.policy.origins import OriginRules
from gateway.trust.tls.peer_certificate import PeerCertificate
from light_dataclasses import dataclass
from tree_handler.batch import Row
from tree_handler.sharing.rule import EachGateway, SharedGroups

DeliveryVerdict = bool | Awaitable[bool]
"""A decision; the client's further packets wait for one that takes time."""


MADE_UP: Final = "auto-"
"""The beginning of identifiers that the broker assigns."""

Owner = tuple[str | None, bool]
"""The owner of sessions: a user name, and whether a certificate proved it."""


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a connection; never with its password.

    Attributes:
        client_id: as the client chose it or the broker assigned it.
        username: the certificate's name, or what the client calls itself.
        address: without port.
        version: of the protocol.
        certificate: what the client proved in the TLS handshake.
        is_bridge: it is another broker's bridge, which must not get back what it sends.

    """

    client_id: str
    username: str | None
    address: str
    version: int
    certificate: PeerCertificate | None = None
    is_bridge: bool = False

    @property
    def roles(self) -> tuple[str, ...] | None:
        """Return the roles that its certificate names; None without a certificate."""
        return None if self.certificate is None else tuple(sorted(self.certificate.roles))

    @classmethod
    def away(
        cls, client_id: str, username: str | None, roles: Iterable[str] | None, version: int
    ) -> Client:
        """Return a client of before a restart, of which only its session is left."""
        certificate = None if roles is None else PeerCertificate(username or "", frozenset(roles))
        return cls(client_id, username, "", version, certificate)

    @property
    def owner(self) -> Owner:
        """Return the owner of its session.

        Name and proof belong together: where passwords are not asked for, a name proves nothing.
        """
        return self.username, self.certificate is not None

    def introduced(self) -> str:
        """Return all of it for a log line, in which names are quoted, as in `str`."""
        name = self.username
        user = "no user" if name is None else f"user {name[:64]!r}"
        proof = "" if self.certificate is None else " by certificate"
        return f"{self}, {user}{proof}, MQTT {'5.0' if self.version == V5 else '3.1.1'}"

    def __str__(self) -> str:
        # Quoted: a client chooses its identifier, and a log line is not for it to break.
        return f"{self.client_id[:64]!r} ({self.address})"


class Authenticator(Protocol):
    """Decides who comes in."""

    def decide(self, client: Client, password: bytes | None) -> DeliveryVerdict:
        """Return whether a client with this password may come in."""


class TopicPermissions(Protocol):
    """Decides which topics a client may use."""

    def may_publish(self, client: Client, topic: str) -> DeliveryVerdict:
        """Return whether it may publish to a topic."""

    def may_subscribe(self, client: Client, topic_filter: str) -> DeliveryVerdict:
        """Return whether it may subscribe to a filter, given without its share."""

    def may_deliver(self, client: Client, topic: str) -> DeliveryVerdict:
        """Return whether it may receive a topic that it has subscribed to.

        While a decision takes time nothing is delivered, so the answer has to be remembered: when
        it is there, it is asked for again.
        """

    def is_concealed(self, client: Client, topic_filter: str) -> bool:
        """Return whether it isn't told why it may not subscribe to a filter (section 3.9.3)."""


class BrokerPermissions(TopicPermissions, Protocol):
    """Permissions for topics, private ones among them."""

    def may_ask(self, client: Client, topic: str, *, publishes: bool) -> DeliveryVerdict:
        """Return whether it may publish or subscribe to a private topic.

        Who serves it decides, too.
        """


class Ranks(Protocol):
    """Knows for whom room is kept free."""

    def is_operator(self, client: Client) -> bool:
        """Return whether a client that has proved who it is has an operator's rights."""


class Tree(Protocol):
    """Takes what clients publish into the log and to other gateways."""

    @property
    def carries_unlogged(self) -> bool:
        """Return whether QoS 0 messages are wanted."""

    def publish_all(
        self, logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None
    ) -> None:
        """Take messages of one turn of the event loop.

        Args:
            logged: those that are acknowledged or retained, and so go into the log; not more than a
                batch may hold (`tree_handler.batch.cut`), for what must precede it does just that.
            unlogged: those of QoS 0, which go to the tree alone.
            done: called once, perhaps before this returns; None if nobody waits.

        """


class Links(Protocol):
    """Serves neighbours, which come to the port of the clients."""

    def why_no_link(
        self, connect: Connect, certificate: PeerCertificate | None, address: str
    ) -> str:
        """Return why a gateway may not open a link; empty if it may try.

        Args:
            connect: what it sent.
            certificate: what the TLS handshake has verified of it.
            address: where it comes from, without port.

        """

    def accept(self, transport: asyncio.Transport, first: bytes) -> Awaitable[None]:
        """Serve a neighbour until its link ends.

        Args:
            transport: its connection, whose reading is paused and whose protocol is to be replaced.
            first: what was read of it.

        """


class Events(Protocol):
    """Is told what happens to clients (plugins)."""

    def connected(self, client: Client) -> None:
        """Take note that a client has been accepted."""

    def disconnected(self, client: Client, why: str) -> None:
        """A client has gone; why may hold what it chose itself, as it came."""

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        """Take note that a subscription was granted."""

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        """Take note that a client has ended a subscription."""


class Demand(Protocol):
    """Is told what all sessions together want."""

    def subscribed(self, topic_filter: str) -> None:
        """Take note of one more subscription of a session; the filter may be shared."""

    def unsubscribed(self, topic_filter: str) -> None:
        """Take note that a session has one subscription less."""


class PrivateTopics(Events, Protocol):
    """Serves topics that begin with ``$``: nothing on them is logged, retained or for the tree."""

    def serves(self, topic: str) -> bool:
        """Return whether a topic or filter that begins with ``$`` is one of these."""

    def subscribe(self, client: Client, topic_filter: str, qos: int, identifier: int) -> int:
        """Take a subscription, whose messages come in a later turn; the reason code."""

    def unsubscribe(self, client: Client, topic_filter: str) -> bool:
        """End a subscription, and return whether there was one."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Those around the broker.

    Attributes:
        authenticator: decides who comes in.
        tree: takes what clients publish.
        links: serves neighbours.
        permissions: decides which topics a client may use; None for all.
        events: are told of clients, one after the other.
        interest: is told what all sessions together want; None where nobody asks.
        ranks: knows who the operators are; None where nobody is one, and no room kept free.
        private: serves topics that begin with ``$``; None where nobody does.
        origins: decides what is retained of what gateways publish; None for all.
        groups: decides which gateway's members of a shared subscription get a message; each gives
            to its own if it is not given.

    """

    authenticator: Authenticator
    tree: Tree
    links: Links
    permissions: BrokerPermissions | None = None
    events: Sequence[Events] = ()
    interest: Demand | None = None
    ranks: Ranks | None = None
    private: PrivateTopics | None = None
    origins: OriginRules | None = None
    groups: SharedGroups = field(default_factory=EachGateway)
