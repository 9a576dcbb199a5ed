"""Reads of one sensor over CoAP, some at a time."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from coap_engine import codes, option_numbers
from coap_engine.codec import CON, CoapMessage, decode
from coap_engine.errors import MessageFormatError
from gateway.tools.bench.errors import BenchError

WINDOW: Final = 8
ANSWER_S: Final = 5.0


class _Reader(asyncio.DatagramProtocol):
    """Asks again as soon as it is answered.

    Args:
        path: of the sensor.

    Attributes:
        answered: how often it was.

    """

    def __init__(self, path: tuple[str, ...]) -> None:
        self.answered = 0
        self._options = tuple((option_numbers.URI_PATH, one.encode()) for one in path)
        self._transport: asyncio.DatagramTransport | None = None
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the socket."""
        # The one of the standard library is none by its class.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, _addr: object) -> None:
        """Count an answer, and ask again."""
        try:
            answer = decode(data)
        except MessageFormatError:
            return
        if answer.code == codes.CONTENT:
            self.answered += 1
            self.ask()

    def ask(self) -> None:
        """Ask once more."""
        assert self._transport is not None
        self._number = self._number % 0xFFFF + 1
        message = CoapMessage(CON, codes.GET, self._number, b"", self._options)
        self._transport.sendto(message.encode())

    def close(self) -> None:
        """Ask no more."""
        if self._transport is not None:
            self._transport.abort()


async def reads_per_s(
    port: int, path: tuple[str, ...], seconds: float, answer_s: float = ANSWER_S
) -> float:
    """Read a sensor again and again; return how often it was answered in a second.

    Args:
        port: of a CoAP server on this machine.
        path: of the sensor.
        seconds: for how long.
        answer_s: what takes longer counts as not answered.

    Raises:
        BenchError: nothing is answered.

    """
    loop = asyncio.get_running_loop()
    _, reader = await loop.create_datagram_endpoint(
        lambda: _Reader(path), remote_addr=("127.0.0.1", port)
    )
    try:
        began_s, before = loop.time(), 0
        while (now_s := loop.time()) < began_s + seconds or not reader.answered:
            if now_s > began_s + seconds + answer_s:
                raise BenchError("the sensor that is read is not answered")
            if reader.answered == before:  # at first; or what was on the way is lost
                for _ in range(WINDOW):
                    reader.ask()
            before = reader.answered
            await asyncio.sleep(min(1.0, seconds))
        return reader.answered / (loop.time() - began_s)
    finally:
        reader.close()
