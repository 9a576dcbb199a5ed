"""The CoAP server of a gateway: one engine and one site, over plain UDP and over DTLS."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from coap_engine.engine import Engine
from coap_engine.limits import DEFAULT_LIMITS as ENGINE_LIMITS
from coap_engine.limits import EngineLimits
from coap_engine.message import CoapPeer
from dtls.context import ServerContext
from dtls.datagrams import PeerAddress, listen
from dtls.endpoint import DEFAULT_LIMITS as DTLS_LIMITS
from dtls.endpoint import EndpointCounters, EndpointLimits
from dtls.errors import SocketError
from dtls.identity import PeerIdentity
from dtls.keystore import Keystore
from dtls.transport import DtlsPort
from gateway.coap.access import EVERYTHING, CoapAccess
from gateway.coap.answers import Answers, RequestAnswers
from gateway.coap.at_hand import AtHand
from gateway.coap.peers import (
    OscoreAddress,
    SessionAddress,
    UdpPeers,
    session_peer,
)
from gateway.coap.requester import Requester, plain_requester
from gateway.coap.shell import EngineShell
from gateway.coap.udp import UdpPort

if TYPE_CHECKING:
    from gateway.coap.oscore_context import OscoreContext

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CoapListener:
    """One port that is listened on.

    Attributes:
        hosts: numeric addresses; ``0.0.0.0`` and ``::`` for all.
        port: 0 for one that is free at all of them.

    """

    hosts: Sequence[str]
    port: int

    def open(self, scheme: str) -> list[socket.socket]:
        """Bind its sockets; see `dtls.datagrams.listen`."""
        return listen(self.hosts, self.port, scheme)


@dataclass(frozen=True, slots=True)
class CoapRules:
    """What strangers may read, and how much peers may take.

    Attributes:
        public: paths that strangers may read.
        engine: how much all peers may take.
        dtls: how many sessions there may be.
        oscore: devices that protect their requests themselves, by kid and kid context.

    """

    public: Sequence[str] = EVERYTHING
    engine: EngineLimits = ENGINE_LIMITS
    dtls: EndpointLimits = DTLS_LIMITS
    oscore: Mapping[tuple[bytes, bytes | None], OscoreContext] = field(default_factory=dict)


DEFAULT_RULES = CoapRules()


@dataclass(frozen=True, slots=True)
class CoapCounts:
    """Numbers by name.

    Attributes:
        events: of the engine.
        refusals: what peers were refused.
        held: what they have taken of what is limited.
        dtls: of the DTLS endpoint; empty if there is none.

    """

    events: Mapping[str, int]
    refusals: Mapping[str, int]
    held: Mapping[str, int]
    dtls: Mapping[str, int]


class _Sessions:
    """The peers over DTLS: tells the engine of them, and gives their sessions what it says.

    Args:
        socks: bound.
        keystore: keys of the peers that may connect.
        limits: how much they may take.
        shell: takes what they say.

    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        keystore: Keystore,
        limits: EndpointLimits,
        shell: EngineShell,
    ) -> None:
        self._shell = shell
        self._keystore = keystore
        self._peers: dict[int, CoapPeer] = {}
        self._requesters: dict[int, Requester] = {}
        self.port = DtlsPort(socks, ServerContext(self._key_of), self, limits)

    def renew(self, keystore: Keystore) -> None:
        """Go by other keys: who has no key any more, or another one, is disconnected."""
        lost = self._keystore.lost(keystore)
        self._keystore = keystore
        for session_id, requester in list(self._requesters.items()):
            if requester.identity.name in lost:
                self.port.end(session_id, "its key is no longer accepted")

    def _key_of(self, identity: bytes) -> bytes | None:
        return self._keystore.key_of(identity)

    def requester(self, session_id: int) -> Requester:
        """A peer as resources see it."""
        return self._requesters[session_id]

    def session_established(
        self, session_id: int, address: PeerAddress, identity: PeerIdentity
    ) -> None:
        """See `dtls.transport.SessionUser`."""
        local = (self.port.local_host(address), self.port.port)
        requester = Requester("coaps", identity, address, local, (session_id, address))
        self._requesters[session_id] = requester
        self._peers[session_id] = session_peer(session_id, address, identity)
        _log.info("session with %s at %s", identity, requester.hostinfo)

    def session_received(self, session_id: int, plaintext: bytes, now: float) -> None:
        """See `dtls.transport.SessionUser`."""
        self._shell.receive(plaintext, self._peers[session_id], now)

    def session_closed(self, session_id: int, reason: str, now: float) -> None:
        """See `dtls.transport.SessionUser`."""
        requester = self._requesters.pop(session_id)
        self._shell.forget(self._peers.pop(session_id), now)
        _log.info("session with %s ended: %s", requester.identity, reason)

    def turn_ended(self, now: float) -> None:
        """See `dtls.transport.SessionUser`."""
        self._shell.turn_ended(now)


class CoapServer:
    """Serves an aiocoap site; writes need an authenticated peer.

    Args:
        site: an `aiocoap.resource.Site`. ``request.remote.identity`` tells who asks.
        coap: where plain CoAP is; None for none.
        coaps: where CoAP over DTLS is; None for none.
        keystore: keys of the peers that may connect over DTLS.
        anonymous: let anybody write over plain CoAP too.
        rules: what strangers may read, and how much peers may take.
        at_hand: answer what they can before the site is asked.

    """

    def __init__(
        self,
        site: Any,
        *,
        coap: CoapListener | None,
        coaps: CoapListener | None,
        keystore: Keystore,
        anonymous: bool = False,
        rules: CoapRules = DEFAULT_RULES,
        at_hand: Sequence[AtHand] = (),
    ) -> None:
        access = CoapAccess(anonymous=anonymous, public=rules.public)
        self._answers = Answers(site, access, at_hand, self._remote_of)
        self._asked = (coap, coaps)
        self._keystore = keystore
        self._rules = rules
        self._peers = UdpPeers()
        self._shell: EngineShell | None = None
        self._udp: UdpPort | None = None
        self._sessions: _Sessions | None = None
        self._is_encrypted = False

    @property
    def coap_port(self) -> int | None:
        """The port of plain CoAP; None if there is none, or before `start`."""
        return None if self._udp is None else self._udp.port

    @property
    def coaps_port(self) -> int | None:
        """The port of CoAP over DTLS; None if there is none, or before `start`."""
        return None if self._sessions is None else self._sessions.port.port

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are open, by scheme."""
        ports = {"coap": self.coap_port, "coaps": self.coaps_port}
        return {scheme: port for scheme, port in ports.items() if port is not None}

    @property
    def counters(self) -> EndpointCounters | None:
        """What the DTLS endpoint counted; None if there is none."""
        return None if self._sessions is None else self._sessions.port.counters

    def counts(self) -> CoapCounts:
        """What was counted since the start, and what is held; nothing before `start`."""
        if self._shell is None:
            return CoapCounts({}, {}, {}, {})
        dtls = {} if self.counters is None else asdict(self.counters)
        return CoapCounts(self._shell.events(), self._shell.refusals(), self._shell.held(), dtls)

    def peers(self) -> dict[str, int]:
        """Who is there: with something open, and with a session over DTLS; and what is open."""
        sessions = None if self._sessions is None else self._sessions.port
        return {
            "asking": self._answers.peers,
            "open_requests": self._answers.open_requests,
            "dtls_sessions": 0 if sessions is None else sessions.sessions,
        }

    async def start(self) -> None:
        """Open both ports.

        Raises:
            dtls.errors.SocketError: an address can't be listened at; none is open then.

        """
        assert self._shell is None, "started already"
        coap, coaps = self._asked
        plain = [] if coap is None else coap.open("coap")
        try:
            secure = [] if coaps is None else coaps.open("coaps")
        except SocketError:
            for sock in plain:
                sock.close()
            raise
        shell = EngineShell(
            Engine(secrets.token_bytes, self._rules.engine),
            self._with_oscore(),
            self._transmit,
            self._flush,
        )
        if plain:
            self._udp = UdpPort(plain, self._on_datagram, shell.turn_ended)
        if secure:
            self._sessions = _Sessions(secure, self._keystore, self._rules.dtls, shell)
        self._shell = shell

    def renew(self, keystore: Keystore) -> None:
        """Go by other keys from now on; who began with one that is gone is disconnected."""
        if self._sessions is not None:
            self._sessions.renew(keystore)

    async def stop(self) -> None:
        """End sessions and observations, close the ports, leave no task behind."""
        shell, self._shell = self._shell, None
        if shell is None:
            return
        shell.close()
        await self._answers.stop()
        if self._udp is not None:
            self._udp.close()
        if self._sessions is not None:
            self._sessions.port.close()
        self._udp = self._sessions = None

    def _with_oscore(self) -> RequestAnswers:
        if not self._rules.oscore:
            return self._answers
        from gateway.coap.oscore import OscoreAnswers  # noqa: PLC0415  # only where it is used

        clock = asyncio.get_running_loop().time
        return OscoreAnswers(self._rules.oscore, self._answers, clock)

    def _on_datagram(self, datagram: bytes, address: PeerAddress, now: float) -> None:
        if self._shell is not None:
            self._shell.receive(datagram, self._peers.of(address), now)

    def _transmit(self, datagram: bytes, peer: CoapPeer) -> None:
        match peer.address:
            case SessionAddress(session_id):
                if self._sessions is not None:
                    self._sessions.port.send(session_id, datagram)
                    self._is_encrypted = True
            case PeerAddress() as address:
                if self._udp is not None:
                    self._udp.send(datagram, address)

    def _flush(self) -> None:
        if self._is_encrypted and self._sessions is not None:
            self._sessions.port.flush()
        self._is_encrypted = False

    def _remote_of(self, peer: CoapPeer) -> Requester:
        match peer.address:
            case SessionAddress(session_id) if self._sessions is not None:
                return self._sessions.requester(session_id)
            case PeerAddress() as address if self._udp is not None:
                return plain_requester(address, (self._udp.local_host(address), self._udp.port))
            case OscoreAddress(outer, identity):
                return self._remote_of(CoapPeer(outer, outer)).known_as(identity)
        raise LookupError(f"{peer} is at none of the ports")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
