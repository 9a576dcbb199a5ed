"""Attackers that begin DTLS handshakes which come to nothing."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time

from attacking import Attacker

from dtls.context import ClientContext
from dtls.session import DtlsSession

KEY = b"0123456789abcdef"
HOSTS = itertools.count(1)


class Beginner:
    """A socket at a host that no other attacker has."""

    def __init__(self, port: int) -> None:
        number = next(HOSTS)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((f"127.7.{number >> 8}.{number & 255 or 1}", 0))
        self.socket.connect(("127.0.0.1", port))
        self.socket.settimeout(5.0)

    def return_cookie(self) -> bytes:
        """Begin a handshake that goes no further; the ClientHello with its cookie."""
        client = DtlsSession(ClientContext("meter-1", KEY))
        client.start(0.0)
        (hello,) = client.datagrams_to_send()
        for _ in range(10):  # the first may be lost in the flood
            self.socket.send(hello)
            with contextlib.suppress(TimeoutError):
                client.receive_datagram(self.socket.recv(1 << 16), 0.0)
                (with_cookie,) = client.datagrams_to_send()
                self.socket.send(with_cookie)
                return with_cookie
        raise AssertionError("no cookie")


def hello() -> bytes:
    client = DtlsSession(ClientContext("meter-1", KEY))
    client.start(0.0)
    return client.datagrams_to_send()[0]


class HalfOpener(Attacker):
    """Begins one handshake after the other, and goes on with none. Args: the gateway's port."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._held: list[Beginner] = []

    def step(self) -> bool:
        self._held.append(Beginner(self._port))
        self._held[-1].return_cookie()
        self.seen["half-open"] += 1
        if len(self._held) > 500:  # an attacker who forgets is forgotten there no sooner
            self._held.pop(0).socket.close()
        return True


class HelloSender(Attacker):
    """Floods with ClientHellos that have no cookie. Args: the gateway's port."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._attackers = [Beginner(port) for _ in range(16)]
        self._first = hello()

    def step(self) -> bool:
        for number in range(40):
            with contextlib.suppress(OSError):
                self._attackers[number % 16].socket.send(self._first)
        self.seen["sent"] += 40
        time.sleep(0.004)
        return True
