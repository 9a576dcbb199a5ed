"""A client that writes over CoAP, plain or over DTLS, until each of its writes is acknowledged."""

from __future__ import annotations

import random
import socket
from collections import Counter

from failing_datagrams import DatagramNames

from coap_engine import codes, option_numbers
from coap_engine.engine import Engine
from coap_engine.message import CoapPeer, CoapRequest, RequestFailed, ResponseReceived
from dtls.context import ClientContext
from dtls.session import DtlsSession, SessionState

SERVER = CoapPeer("server", "server", is_address_proven=True)
HANDSHAKE_S = 5.0
"""OpenSSL repeats a flight by the machine's own clock, so a handshake is begun anew here."""


class CoapWriter:
    """One client.

    Args:
        name: of the resource that it writes to, and of its key.
        names: of all ports.
        port: the server's.
        key: its key; None for plain CoAP.

    Attributes:
        wanted: what it writes, in this order.
        acknowledged: what the server said to have done.
        tries: how often it has asked anew, by what it wrote.

    """

    def __init__(self, name: str, names: DatagramNames, port: int, key: bytes | None) -> None:
        self.name = name
        self.wanted: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.tries: Counter[bytes] = Counter()
        self._names = names
        self._port = port
        self._context = None if key is None else ClientContext(name, key)
        self._random = random.Random(0)
        self._socket: socket.socket | None = None
        self._session: DtlsSession | None = None
        self._engine = Engine(self._random.randbytes)
        self._asked: int | None = None
        self._begun_s = 0.0

    @property
    def is_idle(self) -> bool:
        """Return whether all its writes are done."""
        return not self.wanted

    def go_on(self, now: float) -> None:
        """Take what has come, and do what is due."""
        if self.is_idle and self._asked is None:
            return
        if self._socket is None:
            self._begin(now)
        self._pull(now)
        due = self._engine.next_timer()
        if due is not None and due <= now:
            self._engine.handle_timer(now)
        if not self._take() or self._is_over(now):
            self.close()
            return
        if self._asked is None and self.wanted and self._is_open:
            path = (option_numbers.URI_PATH, self.name.encode())
            self.tries[self.wanted[0]] += 1
            request = CoapRequest(codes.PUT, (path,), self.wanted[0])
            self._asked = self._engine.request(SERVER, request, now)
        self._push()

    def close(self) -> None:
        """Leave the port; what was asked is asked anew from another one."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._session, self._asked = None, None, None

    @property
    def _is_open(self) -> bool:
        return self._session is None or self._session.state is SessionState.ESTABLISHED

    def _is_over(self, now: float) -> bool:
        if self._session is None:
            return False
        if self._session.state is SessionState.CLOSED:
            return True
        return not self._is_open and now - self._begun_s > HANDSHAKE_S

    def _begin(self, now: float) -> None:
        self._socket, self._begun_s = self._names.peer(), now
        self._engine = Engine(self._random.randbytes)
        if self._context is not None:
            self._session = DtlsSession(self._context)
            self._session.start(now)
            self._push()

    def _pull(self, now: float) -> None:
        assert self._socket is not None
        while True:
            try:
                datagram = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            if self._session is None:
                self._engine.receive_datagram(datagram, SERVER, now)
                continue
            self._session.receive_datagram(datagram, now)
            for plaintext in self._session.received():
                self._engine.receive_datagram(plaintext, SERVER, now)

    def _take(self) -> bool:
        """Take what came of the request; return whether the server is there."""
        for event in self._engine.events():
            if isinstance(event, ResponseReceived) and event.exchange == self._asked:
                self._asked = None
                if event.response.code == codes.CHANGED:
                    self.acknowledged.append(self.wanted.pop(0))
            elif isinstance(event, RequestFailed) and event.exchange == self._asked:
                return False  # the server may have forgotten its session
        return True

    def _push(self) -> None:
        if self._socket is None:
            return
        datagrams = [datagram for datagram, _ in self._engine.datagrams_to_send()]
        if self._session is not None:
            for plaintext in datagrams:
                self._session.send(plaintext)
            datagrams = self._session.datagrams_to_send()
        for datagram in datagrams:
            try:
                self._socket.sendto(datagram, self._names.name_of(self._port))
            except OSError:  # nobody is there: it is lost
                continue
