"""Light devices for ``benchmarks.fleet``: a socket, a session if they have a key, no tasks.

`Device` does what a device does; `Asker`, below it, asks anything, also what no device would.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

from benchmarks.query_client import LIMIT_S, NoAnswerError
from coap_engine import codes, option_numbers
from coap_engine.codec import ACK, CON, CoapMessage, decode, empty_message
from coap_engine.message import Option
from dtls.context import ClientContext
from dtls.session import DtlsSession, SessionState

SENSORS = 10
"""Of a device."""
DEVICES = 2
"""Of a bundle."""
KIND = "bed.sensor"
LIFETIME_S = 3_600
_RECEIVED_BYTES = 2_048
_AGAIN_S = 2.0
_LEAST_S = 0.000_1
_LINK_FORMAT = bytes((40,))


class RefusedError(NoAnswerError):
    """A gateway does not take a device's key."""


class Asker:
    """A client that asks one gateway, one request at a time or many.

    Args:
        port: of the gateway on loopback.
        context: identity and key; None for plain CoAP.
        host: the own address.

    """

    def __init__(
        self, port: int, context: ClientContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._session = None if context is None else DtlsSession(context)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.connect(("127.0.0.1", port))
        self._number = 0

    def shake_hands(self) -> None:
        """Open the session, if it has a key.

        Raises:
            RefusedError: the gateway does not take it.
            NoAnswerError: it did not answer in time.

        """
        session = self._session
        if session is None:
            return
        session.start(time.monotonic())
        end_s = time.monotonic() + LIMIT_S
        while session.state is SessionState.HANDSHAKING:
            if time.monotonic() > end_s:
                raise NoAnswerError("no answer in time")
            self._turn(session, end_s)
        if session.state is SessionState.CLOSED:
            raise RefusedError(session.reason)
        self._flush(session)

    def send(self, code: int, options: Sequence[Option], payload: bytes = b"") -> bytes:
        """Send a confirmable request, and wait for nothing; returns its token."""
        token, datagram = self._request(code, options, payload)
        self._send(datagram)
        return token

    def ask(self, code: int, options: Sequence[Option], payload: bytes = b"") -> CoapMessage:
        """Return the answer to one request, which is sent again where none comes.

        Raises:
            NoAnswerError: there is none.

        """
        token, datagram = self._request(code, options, payload)
        end_s = time.monotonic() + LIMIT_S
        while time.monotonic() < end_s:
            self._send(datagram)
            again_s = time.monotonic() + _AGAIN_S
            while time.monotonic() < again_s:
                for answer in self.come(again_s - time.monotonic()):
                    if answer.code and answer.token == token:
                        return answer
        raise NoAnswerError("no answer in time")

    def come(self, wait_s: float, *, acknowledges: bool = True) -> list[CoapMessage]:
        """Return the messages of the next datagram, if one comes within so many seconds."""
        found = [decode(datagram) for datagram in self._receive(time.monotonic() + wait_s)]
        for message in found:
            if acknowledges and message.type == CON:
                self._send(empty_message(ACK, message.message_id))
        return found

    def close(self) -> None:
        """Be gone."""
        if self._session is not None:
            self._session.close("enough")
            self._flush(self._session)
        self._socket.close()

    def _request(self, code: int, options: Sequence[Option], payload: bytes) -> tuple[bytes, bytes]:
        self._number += 1
        token = self._number.to_bytes(4, "big")
        number = self._number & 0xFFFF
        message = CoapMessage(CON, code, number, token, tuple(options), payload)
        return token, message.encode()

    def _send(self, datagram: bytes) -> None:
        if self._session is None:
            self._socket.send(datagram)
        else:
            self._session.send(datagram)
            self._flush(self._session)

    def _receive(self, end_s: float) -> list[bytes]:
        session = self._session
        if session is not None:
            self._turn(session, end_s)
            return session.received()
        self._socket.settimeout(max(end_s - time.monotonic(), _LEAST_S))
        try:
            return [self._socket.recv(_RECEIVED_BYTES)]
        except TimeoutError:
            return []

    def _turn(self, session: DtlsSession, end_s: float) -> None:
        self._flush(session)
        due = min(session.next_timer() or end_s, end_s)
        self._socket.settimeout(max(due - time.monotonic(), _LEAST_S))
        try:
            session.receive_datagram(self._socket.recv(_RECEIVED_BYTES), time.monotonic())
        except TimeoutError:
            session.handle_timer(time.monotonic())
        self._flush(session)

    def _flush(self, session: DtlsSession) -> None:
        for datagram in session.datagrams_to_send():
            self._socket.send(datagram)


class Device(Asker):
    """One device at one gateway.

    Args:
        name: its endpoint name.
        port: of the gateway on loopback.
        context: identity and key; None for plain CoAP.

    Attributes:
        location: the path of its registration, once it has one.

    """

    def __init__(self, name: str, port: int, context: ClientContext | None = None) -> None:
        super().__init__(port, context)
        self.name = name
        self.location: tuple[bytes, ...] = ()

    def register(self, paths: Sequence[str], *attributes: str) -> None:
        """Register, or again; all in one message (row A11).

        Raises:
            NoAnswerError: it was refused, or nothing came.

        """
        bundle = self.name.partition("-")[0]
        links = ",".join(
            f'<{one}>;rt="{KIND}";if="core.s";ct=110;bundle="{bundle}"' for one in paths
        )
        options = registration(f"ep={self.name}", f"lt={LIFETIME_S}", *attributes)
        answer = self.ask(codes.POST, options, links.encode())
        if answer.code != codes.CREATED:
            raise NoAnswerError(f"{self.name}: {answer!r}")
        self.location = tuple(
            value for number, value in answer.options if number == option_numbers.LOCATION_PATH
        )

    def update(self, *attributes: str) -> None:
        """Change a registration's attributes, and make it live longer.

        Raises:
            NoAnswerError: it was refused, or nothing came.

        """
        options = [(option_numbers.URI_PATH, one) for one in self.location]
        options += queries(f"lt={LIFETIME_S}", *attributes)
        answer = self.ask(codes.POST, options)
        if answer.code != codes.CHANGED:
            raise NoAnswerError(f"{self.name}: {answer!r}")


def registration(*parameters: str) -> list[Option]:
    """Return the options of a registration with links in its body."""
    return [
        (option_numbers.URI_PATH, b"rd"),
        (option_numbers.CONTENT_FORMAT, _LINK_FORMAT),
        *queries(*parameters),
    ]


def queries(*parameters: str) -> list[Option]:
    """Parameters as options."""
    return [(option_numbers.URI_QUERY, one.encode()) for one in parameters]


def sensors_of(name: str) -> list[str]:
    """Return the paths of a device's sensors."""
    return [f"/{name}/s{number}" for number in range(SENSORS)]
