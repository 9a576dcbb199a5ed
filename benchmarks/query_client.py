"""A CoAP client that does nothing but ask and wait: what it measures is the gateways' time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from coap_engine import codes, option_numbers
from coap_engine.blocks import Block
from coap_engine.codec import ACK, CON, CoapMessage, decode, empty_message
from coap_engine.message import Option, value_of

LIMIT_S = 20.0
_HOST = "127.0.0.1"
_RECEIVED_BYTES = 65_535
_OBSERVED_BYTES = 8 << 20


class NoAnswerError(RuntimeError):
    """A gateway did not answer, or not as it should."""


class QueryClient:
    """One socket, with one request in flight, or with many observations."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _OBSERVED_BYTES)
        self._socket.settimeout(LIMIT_S)
        self._number = 0

    def close(self) -> None:
        """End it, and its observations with it."""
        self._socket.close()

    def get(
        self, port: int, path: str, accept: int | None = None, query: Sequence[str] = ()
    ) -> bytes:
        """Return a whole body, in as many blocks as it has.

        Raises:
            NoAnswerError: there is none.

        """
        body, number = b"", 0
        parameters = [(option_numbers.URI_QUERY, one.encode()) for one in query]
        while True:
            block = (option_numbers.BLOCK2, Block(number, False, 6).encode())
            answer = self.ask(port, request_options(path, accept, *parameters, block))
            body += answer.payload
            more = value_of(answer.options, option_numbers.BLOCK2)
            if more is None or not Block.decode(more).more:
                return body
            number += 1

    def put(self, port: int, path: str, payload: bytes) -> None:
        """Write a text.

        Raises:
            NoAnswerError: it was refused.

        """
        options = (*request_options(path, None), (option_numbers.CONTENT_FORMAT, b""))
        self.ask(port, options, codes.PUT, payload)

    def ask(
        self,
        port: int,
        options: tuple[Option, ...],
        code: int = codes.GET,
        payload: bytes = b"",
    ) -> CoapMessage:
        """Return the answer to one request.

        Raises:
            NoAnswerError: there is none, or it is an error.

        """
        self._number += 1
        token = self._number.to_bytes(4, "big")
        request = CoapMessage(CON, code, self._number & 0xFFFF, token, options, payload)
        self._socket.sendto(request.encode(), (_HOST, port))
        return self._answer(token)

    def times_us(self, port: int, path: str, count: int, accept: int | None = None) -> list[float]:
        """Ask so many times, one after the other; return the time of each.

        Raises:
            NoAnswerError: one was not answered.

        """
        options, found = request_options(path, accept), []
        for _ in range(count):
            begun = time.perf_counter()
            self.ask(port, options)
            found.append((time.perf_counter() - begun) * 1e6)
        return found

    def observe(self, port: int, path: str, count: int) -> None:
        """Observe so many times, and wait for all first answers.

        Raises:
            NoAnswerError: one was not answered.

        """
        options = request_options(path, 0, (option_numbers.OBSERVE, b""))
        for _ in range(count):
            self.ask(port, options)

    def told(self, count: int, has_all: Callable[[bytes], bool]) -> None:
        """Wait until so many notifications with a payload have come.

        Raises:
            NoAnswerError: they have not.

        """
        while count:
            message, sender = self._receive()
            if message.type == CON:
                self._socket.sendto(empty_message(ACK, message.message_id), sender)
            count -= has_all(message.payload)

    def _answer(self, token: bytes) -> CoapMessage:
        while True:
            message, sender = self._receive()
            if message.type == CON:
                self._socket.sendto(empty_message(ACK, message.message_id), sender)
            if message.token == token and message.code:
                if not codes.is_success(message.code):
                    said = message.payload.decode(errors="replace")
                    raise NoAnswerError(f"{message.code >> 5}.{message.code & 31:02d} {said}")
                return message

    def _receive(self) -> tuple[CoapMessage, tuple[str, int]]:
        try:
            datagram, sender = self._socket.recvfrom(_RECEIVED_BYTES)
        except TimeoutError as error:
            raise NoAnswerError("no answer in time") from error
        return decode(datagram), sender


def request_options(path: str, accept: int | None, *more: Option) -> tuple[Option, ...]:
    """Return the options of a request for a path, in their order."""
    options = [(option_numbers.URI_PATH, one.encode()) for one in path[1:].split("/")]
    if accept is not None:
        options.append((option_numbers.ACCEPT, bytes([accept]) if accept else b""))
    return tuple(sorted((*options, *more), key=_number))


def _number(option: Option) -> int:
    return option[0]
