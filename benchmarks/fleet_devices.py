"""Light devices for ``benchmarks.fleet``: a socket, a session if they have a key, no tasks."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence

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
_LINK_FORMAT = bytes((40,))


class RefusedError(NoAnswerError):
    """A gateway does not take a device's key."""


class Device:
    """One device at one gateway.

    Args:
        name: its endpoint name.
        port: of the gateway on loopback.
        context: identity and key; None for plain CoAP.

    Attributes:
        location: where its registration stands, once it has one.

    """

    def __init__(self, name: str, port: int, context: ClientContext | None = None) -> None:
        self.name = name
        self.location: tuple[bytes, ...] = ()
        self._session = None if context is None else DtlsSession(context)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
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
            self._turn(session, end_s)
        if session.state is SessionState.CLOSED:
            raise RefusedError(session.reason)
        self._flush(session)

    def register(self, paths: Sequence[str], *attributes: str) -> None:
        """Register, or again; all in one message (row A11).

        Raises:
            NoAnswerError: it was refused, or nothing came.

        """
        bundle = self.name.partition("-")[0]
        links = ",".join(
            f'<{one}>;rt="{KIND}";if="core.s";ct=110;bundle="{bundle}"' for one in paths
        )
        query = (f"ep={self.name}", f"lt={LIFETIME_S}", *attributes)
        answer = self._ask((b"rd",), query, links.encode())
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
        answer = self._ask(self.location, (f"lt={LIFETIME_S}", *attributes))
        if answer.code != codes.CHANGED:
            raise NoAnswerError(f"{self.name}: {answer!r}")

    def close(self) -> None:
        """Be gone."""
        if self._session is not None:
            self._session.close("enough")
            self._flush(self._session)
        self._socket.close()

    def _ask(
        self, path: Sequence[bytes], query: Sequence[str], payload: bytes = b""
    ) -> CoapMessage:
        self._number += 1
        token = self._number.to_bytes(2, "big")
        options: list[Option] = [(option_numbers.URI_PATH, one) for one in path]
        if payload:
            options.append((option_numbers.CONTENT_FORMAT, _LINK_FORMAT))
        options += [(option_numbers.URI_QUERY, one.encode()) for one in query]
        request = CoapMessage(CON, codes.POST, self._number, token, tuple(options), payload)
        self._send(request.encode())
        end_s = time.monotonic() + LIMIT_S
        while True:
            for datagram in self._receive(end_s):
                answer = decode(datagram)
                if answer.type == CON:
                    self._send(empty_message(ACK, answer.message_id))
                if answer.code and answer.token == token:
                    return answer

    def _send(self, datagram: bytes) -> None:
        if self._session is None:
            self._socket.send(datagram)
        else:
            self._session.send(datagram)
            self._flush(self._session)

    def _receive(self, end_s: float) -> Iterator[bytes]:
        session = self._session
        if session is not None:
            self._turn(session, end_s)
            yield from session.received()
            return
        self._socket.settimeout(max(end_s - time.monotonic(), 0.001))
        try:
            yield self._socket.recv(_RECEIVED_BYTES)
        except TimeoutError as error:
            raise NoAnswerError("no answer in time") from error

    def _turn(self, session: DtlsSession, end_s: float) -> None:
        self._flush(session)
        now = time.monotonic()
        if now > end_s:
            raise NoAnswerError("no answer in time")
        due = min(session.next_timer() or end_s, end_s)
        self._socket.settimeout(max(due - now, 0.001))
        try:
            session.receive_datagram(self._socket.recv(_RECEIVED_BYTES), time.monotonic())
        except TimeoutError:
            session.handle_timer(time.monotonic())
        self._flush(session)

    def _flush(self, session: DtlsSession) -> None:
        for datagram in session.datagrams_to_send():
            self._socket.send(datagram)


def sensors_of(name: str) -> list[str]:
    """The paths of a device's sensors."""
    return [f"/{name}/s{number}" for number in range(SENSORS)]
