"""The CoAP server of a gateway: one engine and one site, over plain UDP and over DTLS."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from coap_engine.engine import Engine
from coap_engine.limits import DEFAULT_LIMITS as ENGINE_LIMITS
from coap_engine.limits import EngineLimits
from coap_engine.message import CoapPeer
from dtls.datagrams import PeerAddress, listen
from dtls.endpoint_limits import DEFAULT_LIMITS as DTLS_LIMITS
from dtls.endpoint_limits import EndpointCounters, EndpointLimits
from dtls.errors import SocketError
from dtls.identity import PeerIdentity
from dtls.keystore import Keystore
from dtls.transport import DtlsPort
from gateway.base.write_turns import WriteTurns
from gateway.coap.access import CoapAccess
from gateway.coap.answers import Answers, RequestAnswers, RouteRequest, serve_here
from gateway.coap.credentials import DtlsCredentials
from gateway.coap.handshake_log import HandshakeLog
from gateway.coap.peers import (
    OscoreAddress,
    SessionAddress,
    session_peer,
    shown_by,
)
from gateway.coap.requester import Requester, plain_requester
from gateway.coap.responders import ImmediateResponder
from gateway.coap.shell import EngineShell
from gateway.coap.udp import UdpPort
from gateway.trust.policy.policy import Policy
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.coap.oscore.answers import OscoreAnswers
    from gateway.coap.oscore.context import OscoreContext
    from gateway.trust.tls.context import Tls


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
    """The limits of peers, the keys and certificates of CoAP, and the route that requests take.

    Attributes:
        engine: how much all peers may take.
        dtls: how many sessions there may be.
        oscore: devices that protect their requests themselves, by kid and kid context.
        tls: what is presented over DTLS, and whose certificates are taken; None for keys alone.
        router: says what a request is that names who is to answer it.
        turns: of all who write to the resources; None where nobody else does.

    """

    engine: EngineLimits = ENGINE_LIMITS
    dtls: EndpointLimits = DTLS_LIMITS
    oscore: Mapping[tuple[bytes, bytes | None], OscoreContext] = field(default_factory=dict)
    tls: Tls | None = None
    router: RouteRequest = serve_here
    turns: WriteTurns | None = None


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
        credentials: of the peers that may connect.
        limits: how much they may take.
        shell: takes what they say.

    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        credentials: DtlsCredentials,
        limits: EndpointLimits,
        shell: EngineShell,
    ) -> None:
        self._shell = shell
        self._credentials = credentials
        self._log = HandshakeLog(asyncio.get_running_loop())
        self._peers: dict[int, CoapPeer] = {}
        self._requesters: dict[int, Requester] = {}
        self._is_encrypted = False
        """Datagrams of DTLS wait for `flush`."""
        self.port = DtlsPort(socks, credentials.context(), self, limits)

    def renew(self, credentials: DtlsCredentials) -> None:
        """Go by others: whose key or certificate is no longer accepted is disconnected."""
        before, self._credentials = self._credentials, credentials
        if not credentials.are(before):
            self.port.follow(credentials.context())
        for session_id, peer in list(self._peers.items()):
            identity = shown_by(peer)
            if not credentials.still_accept(identity, before):
                what = "certificate" if identity.der else "key"
                self.port.end(session_id, f"its {what} is no longer accepted")

    def send(self, datagram: bytes, to: SessionAddress) -> None:
        """Encrypt a datagram, to go out with `flush`."""
        self.port.send(to.session_id, datagram)
        self._is_encrypted = True

    def flush(self) -> None:
        """Send what is encrypted."""
        if self._is_encrypted:
            self._is_encrypted = False
            self.port.flush()

    def close(self) -> None:
        """End all sessions."""
        self.port.close()
        self._log.close()

    def requester(self, session_id: int) -> Requester:
        """Return a peer as resources see it.

        Raises:
            LookupError: its session is gone.

        """
        requester = self._requesters.get(session_id)
        if requester is None:  # made for who asks: many only shake hands
            peer = self._peers[session_id]
            assert isinstance(peer.address, SessionAddress)
            address = peer.address.address
            local = (self.port.local_host(address), self.port.port)
            key = (session_id, address)
            requester = Requester("coaps", peer.address.identity, address, local, key)
            self._requesters[session_id] = requester
        return requester

    def session_established(
        self, session_id: int, address: PeerAddress, identity: PeerIdentity
    ) -> None:
        """Note the peer of a new session, and write a line of it to the log."""
        self._peers[session_id] = session_peer(session_id, address, identity)
        self._log.established(address, identity)

    def handshake_failed(self, address: PeerAddress, reason: str, now: float) -> None:
        """Write to the log that a peer has not shown who it is."""
        self._log.failed(address, reason)

    def session_received(self, session_id: int, plaintext: bytes, now: float) -> None:
        """Hand a datagram to the engine, as its peer's."""
        self._shell.receive(plaintext, self._peers[session_id], now)

    def session_moved(self, session_id: int, address: PeerAddress) -> None:
        """Note the peer's new address; requests to it are sent there from now on."""
        self._requesters.pop(session_id, None)
        self._peers[session_id] = session_peer(
            session_id, address, shown_by(self._peers[session_id])
        )

    def session_closed(self, session_id: int, reason: str, now: float) -> None:
        """Forget a session: its requests, its observations, and its peer."""
        self._requesters.pop(session_id, None)
        peer = self._peers.pop(session_id)
        self._shell.forget(peer, now)
        if isinstance(peer.address, SessionAddress):
            self._log.ended(peer.address.address, peer.address.identity, reason)

    def turn_ended(self, now: float) -> None:
        """Have the engine send what the datagrams of this turn came to."""
        self._shell.turn_ended(now)


class CoapServer:
    """Serves an aiocoap site to those who may.

    Args:
        site: an `aiocoap.resource.Site`. ``request.remote.identity`` tells who asks.
        coap: where plain CoAP is; None for none.
        coaps: where CoAP over DTLS is; None for none.
        keystore: keys of the peers that may connect over DTLS.
        access: decides who may do what.
        rules: how much peers may take.
        at_hand: answer what they can before the site is asked.

    """

    def __init__(
        self,
        site: Any,
        *,
        coap: CoapListener | None,
        coaps: CoapListener | None,
        keystore: Keystore,
        access: CoapAccess,
        rules: CoapRules = DEFAULT_RULES,
        at_hand: Sequence[ImmediateResponder] = (),
    ) -> None:
        self._access = access
        self._answers = Answers(
            site, access, at_hand, self._remote_of, router=rules.router, turns=rules.turns
        )
        self._asked = (coap, coaps)
        self._keystore = keystore
        self._rules = rules
        self._oscore: OscoreAnswers | None = None
        self._engine: Engine | None = None
        self._shell: EngineShell | None = None
        self._udp: UdpPort | None = None
        self._sessions: _Sessions | None = None

    @property
    def plain(self) -> UdpPort | None:
        """The port of plain CoAP itself."""
        return self._udp

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
        """Return the counters of the DTLS endpoint; None if there is none."""
        return None if self._sessions is None else self._sessions.port.counters

    def counts(self) -> CoapCounts:
        """Return what was counted since the start, and what is held; nothing before `start`."""
        if self._shell is None:
            return CoapCounts({}, {}, {}, {})
        dtls = {} if self.counters is None else asdict(self.counters)
        refusals = self._shell.refusals() | self._answers.refused.counts
        return CoapCounts(self._shell.events(), refusals, self._shell.held(), dtls)

    def peers(self) -> dict[str, int]:
        """Return who is there: with something open, and with a session over DTLS.

        And what is open.
        """
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
        engine = self._engine = Engine(secrets.token_bytes, self._rules.engine)
        shell = EngineShell(engine, self._with_oscore(self._rules.oscore), self._flush)
        if plain:
            self._udp = UdpPort(plain, shell.receive, shell.turn_ended)
            shell.sends_by(PeerAddress, self._udp.send)
        if secure:
            credentials = DtlsCredentials(self._keystore, self._rules.tls)
            self._sessions = _Sessions(secure, credentials, self._rules.dtls, shell)
            shell.sends_by(SessionAddress, self._sessions.send)
        self._shell = shell

    def renew(
        self,
        keystore: Keystore,
        tls: Tls | None,
        policy: Policy,
        oscore: Mapping[tuple[bytes, bytes | None], OscoreContext] | None = None,
    ) -> None:
        """Go by other keys, certificates, contexts and another policy from now on.

        Who began with what is not accepted any more is disconnected; what is open and may be no
        more ends.
        """
        if self._sessions is not None:
            self._sessions.renew(DtlsCredentials(keystore, tls))
        if self._shell is not None:
            self._shell.answer_by(self._with_oscore(oscore or {}))
        self._access.follow(policy)
        self._answers.revise()

    async def stop(self) -> None:
        """End sessions and observations, close the ports, leave no task behind."""
        shell, self._shell = self._shell, None
        if shell is None:
            return
        shell.close()
        if self._udp is not None:  # first: nobody is there to whom a datagram could be given
            self._udp.close()
        await self._answers.stop()
        if self._sessions is not None:
            self._sessions.close()
        self._udp = self._sessions = self._engine = self._oscore = None

    def _with_oscore(
        self, contexts: Mapping[tuple[bytes, bytes | None], OscoreContext]
    ) -> RequestAnswers:
        if self._oscore is not None:
            self._oscore.follow(contexts)
        elif contexts and self._engine is not None:
            from gateway.coap.oscore.answers import OscoreAnswers  # noqa: PLC0415  # only where it is used

            loop = asyncio.get_running_loop()
            bodies, shares = self._rules.engine.bodies, self._engine.shares
            self._oscore = OscoreAnswers(contexts, self._answers, loop, shares, bodies)
        return self._oscore or self._answers

    def _flush(self) -> None:
        if self._sessions is not None:
            self._sessions.flush()

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
