"""MQTT over websockets (section 6): frames of a TCP or TLS connection <-> bytes of a `Connection`.

The frames are the websockets package's, which does no I/O. Here they are carried: what binary
frames hold goes to the connection as one stream of bytes, whatever frame it came in
[MQTT-6.0.0-2], and each of its writes is a binary frame. To the connection this is a transport
like any other. A frame costs the same however little is in it: those of one read take turns.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final, cast

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import Limits
from gateway.broker.listeners.websocket_rules import ANY_ORIGIN, WebSocketRules
from gateway.trust.shares.paced_reading import PacedReading, PacedTransport

HANDSHAKE_BYTES_MAX: Final = 16 * 1024
"""An HTTP request of more is no request for a websocket."""
EARLY_FRAMES_MAX: Final = 128
"""Before a client is accepted, who sends its CONNECT in one, or in some."""
_MQTT = Subprotocol("mqtt")


class WebSocket(asyncio.Protocol):
    """Carries one MQTT connection in a websocket.

    Args:
        connection: what serves the client.
        rules: which requests are granted.
        limits: of packets.
        refusals: is told what was refused.

    """

    def __init__(
        self, connection: Connection, rules: WebSocketRules, limits: Limits, refusals: CountedLines
    ) -> None:
        self.carried: asyncio.Protocol = connection
        self._connection = connection
        self._rules = rules
        self._limits = limits
        self._refusals = refusals
        origins = None if ANY_ORIGIN in rules.origins else [*map(Origin, rules.origins), None]
        self._frames = ServerProtocol(
            origins=origins, subprotocols=[_MQTT], max_size=self._limits.connect_bytes
        )
        self._transport: asyncio.Transport | None = None
        self._handshake_bytes = self._early_frames = 0
        self._is_answered = False
        self._is_paused = False
        self.reading = PacedReading(self._receive, self._turn_ends)
        self._payloads: list[bytes] = []
        """The payloads of this turn's frames."""

    # -- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)
        self.reading.begin(self._transport)
        self._connection.connection_made(PacedTransport(self._transport, self, self.reading))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        self.reading.end()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._is_paused = True
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._is_paused = False
        self._connection.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.reading.feed(data)

    def _turn_ends(self) -> None:
        payloads, self._payloads = self._payloads, []
        if payloads:
            self._connection.data_received(b"".join(payloads))
        if self._is_paused and self._frames.state is State.OPEN:
            self._frames.data_to_send()  # answers to pings: not kept for one who does not read
        self.flush()

    def _receive(self, data: bytes) -> bool:
        """Take some bytes, and return whether anything more is taken from the client."""
        frames = self._frames
        if frames.state is State.CONNECTING:
            self._handshake_bytes += len(data)
            if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
                self._refused("websocket request too large")
                self._end()
                return False
        elif self._connection.peer.publisher is not None:
            frames.max_size = self._limits.packet_bytes
        was_failed = frames.parser_exc is not None
        frames.receive_data(data)
        for event in frames.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame) and not self._take(event):
                break
        if frames.parser_exc is not None and not was_failed:
            self._refused(f"websocket error ({type(frames.parser_exc).__name__})")
        elif frames.state is State.CONNECTING and frames.eof_sent and not self._is_answered:
            self._refused("websocket request that is none")
        return not frames.eof_sent

    # -- frames --------------------------------------------------------------------------------

    def _answer(self, request: Request) -> None:
        if self._frames.eof_sent:  # a frame that came with the request has failed already
            return
        self._is_answered = True
        path, _, _ = request.path.partition("?")
        if self._rules.path and path != self._rules.path:
            response = self._frames.reject(HTTPStatus.NOT_FOUND, "No websocket here.\n")
        else:
            response = self._frames.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._refused(f"websocket request refused ({response.status_code})")
            if (why := self._frames.handshake_exc) is not None:
                why.__traceback__ = None  # its frames hold this connection and, by the request, it
        self._frames.send_response(response)

    def _take(self, frame: Frame) -> bool:
        """Take a frame's payload; False if the connection ends with it."""
        if self._frames.state is State.CONNECTING:  # it came with a request that was refused
            return False
        self._early_frames += self._connection.peer.publisher is None
        if self._early_frames > EARLY_FRAMES_MAX:
            self._refused("websocket frames without a client")
            self._frames.fail(CloseCode.POLICY_VIOLATION)
            return False
        if frame.opcode is Opcode.TEXT:  # [MQTT-6.0.0-1]
            self._refused("websocket frame that is not binary")
            self._frames.fail(CloseCode.UNSUPPORTED_DATA, "MQTT is sent in binary frames")
            return False
        if frame.opcode is Opcode.BINARY or frame.opcode is Opcode.CONT:
            self._payloads.append(bytes(frame.data))
        return True

    def send(self, payload: bytes) -> None:
        """Send a binary frame [MQTT-6.0.0-1], if the websocket is open."""
        if self._frames.state is State.OPEN:
            self._frames.send_binary(payload)
            self.flush()

    def close(self) -> None:
        """Begin to close; the connection ends when the client has answered."""
        if self._transport is None:
            return
        if self._frames.state is State.OPEN:
            self._frames.send_close(CloseCode.NORMAL_CLOSURE)
            self.flush()
            self.reading.hold_up(is_held_up=False)  # the answer has to be read
        elif self._frames.state is not State.CLOSING:
            self._end()

    def flush(self) -> None:
        """Write what the frames' protocol wants to send, and close where it says so."""
        if self._transport is None or self._transport.is_closing():
            return
        data = b"".join(self._frames.data_to_send())
        if data:
            self._transport.write(data)
        if self._frames.eof_sent:
            self._end()

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _refused(self, kind: str) -> None:
        self._refusals.count(kind, str(self._connection.peer))
