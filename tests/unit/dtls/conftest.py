"""Client and server cores, joined without a network."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from dtls.context import ClientContext, ServerContext
from dtls.endpoint import Endpoint
from dtls.endpoint_limits import DEFAULT_LIMITS, EndpointLimits
from dtls.events import DtlsEvent
from dtls.keystore import Keystore
from dtls.session import DtlsSession

IDENTITY = "meter-1"
KEY = b"0123456789abcdef"


@dataclass
class Net:
    """One endpoint and any number of clients, each at an address of its own.

    ``lose`` is asked for every datagram (bytes, address, whether it goes to the server) and loses
    it where it says so.
    """

    endpoint: Endpoint
    now: float = 1000.0
    lose: Callable[[bytes, object, bool], bool] = lambda _data, _address, _to_server: False
    clients: dict[object, DtlsSession] = field(default_factory=dict)
    events: list[DtlsEvent] = field(default_factory=list)
    _ports: itertools.count[int] = field(default_factory=lambda: itertools.count(40_000))

    def client(
        self, identity: str = IDENTITY, key: bytes = KEY, address: object = None
    ) -> tuple[object, DtlsSession]:
        """A client that has begun; at a given address it takes the place of the one there."""
        address = address or ("192.0.2.1", next(self._ports))
        session = DtlsSession(ClientContext(identity, key))
        session.start(self.now)
        self.clients[address] = session
        return address, session

    def step(self) -> bool:
        """Carry what is to be sent, once; whether there was anything."""
        moved = False
        for address, session in list(self.clients.items()):
            for datagram in session.datagrams_to_send():
                moved = True
                if not self.lose(datagram, address, True):
                    self.endpoint.receive_datagram(datagram, address, self.now)
        for datagram, address in self.endpoint.datagrams_to_send():
            moved = True
            if address in self.clients and not self.lose(datagram, address, False):
                self.clients[address].receive_datagram(datagram, self.now)
        self.events += self.endpoint.events()
        return moved

    def roundtrip(self) -> None:
        """Carry until all is quiet."""
        while self.step():
            pass

    def taken(self) -> list[DtlsEvent]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events


@pytest.fixture
def net() -> Callable[..., Net]:
    def make(limits: EndpointLimits = DEFAULT_LIMITS) -> Net:
        keystore = Keystore({IDENTITY: KEY, "meter-2": KEY[::-1]})
        source = random.Random(1)
        context = ServerContext(keystore.key_of)
        return Net(Endpoint(context, source.randbytes, limits, lambda address: address[0]))

    return make
