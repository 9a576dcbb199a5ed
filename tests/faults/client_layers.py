"""TLS and websockets at a client's end of a connection, by libraries of others that do no I/O."""

from __future__ import annotations

import ssl
from typing import Protocol

from websockets.client import ClientProtocol
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

READ_BYTES = 1 << 16


class End(Protocol):
    """A client's end of a connection.

    Attributes:
        data: what has come and is not handled.
        is_cut: nothing more comes.

    """

    data: bytearray
    is_cut: bool

    def data_received(self, data: bytes) -> None:
        """Send to the gateway."""

    def pull(self) -> bool:
        """Take what has come; return whether that is anything."""

    def connection_lost(self, _: object) -> None:
        """Close."""


class TlsEnd:
    """TLS over a connection.

    Args:
        below: the connection.
        context: certificates and rules.

    """

    def __init__(self, below: End, context: ssl.SSLContext) -> None:
        self.data = bytearray()
        self.is_cut = False
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._unsent = bytearray()
        self._is_secure = False
        self._go_on()

    def data_received(self, data: bytes) -> None:
        """Send to the gateway, when the handshake is done."""
        self._unsent += data
        self._go_on()

    def pull(self) -> bool:
        """Take what has come; return whether that is anything."""
        has_come = self._below.pull()
        self._incoming.write(bytes(self._below.data))
        self._below.data.clear()
        self._go_on()
        self.is_cut |= self._below.is_cut
        return has_come

    def connection_lost(self, _: object) -> None:
        """Close."""
        self._below.connection_lost(None)

    def _go_on(self) -> None:
        if self.is_cut:
            return
        try:
            if not self._is_secure:
                self._tls.do_handshake()
                self._is_secure = True
            if self._unsent:
                self._tls.write(bytes(self._unsent))
                self._unsent.clear()
            while found := self._tls.read(READ_BYTES):
                self.data += found
            self.is_cut = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.is_cut = True
        if self._outgoing.pending:
            self._below.data_received(self._outgoing.read())


class WebSocketEnd:
    """A websocket over a connection.

    Args:
        below: the connection.

    """

    def __init__(self, below: End) -> None:
        self.data = bytearray()
        self.is_cut = False
        self._below = below
        self._frames = ClientProtocol(
            parse_uri("ws://localhost/"), subprotocols=[Subprotocol("mqtt")]
        )
        self._unsent = bytearray()
        self._frames.send_request(self._frames.connect())
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Send to the gateway, when the websocket is open."""
        self._unsent += data
        self._flush()

    def pull(self) -> bool:
        """Take what has come; return whether that is anything."""
        has_come = self._below.pull()
        self._frames.receive_data(bytes(self._below.data)) if self._below.data else None
        self._below.data.clear()
        for event in self._frames.events_received():
            self.data += getattr(event, "data", b"")
        self._flush()
        self.is_cut |= self._below.is_cut or self._frames.state in (State.CLOSING, State.CLOSED)
        return has_come

    def connection_lost(self, _: object) -> None:
        """Close."""
        self._below.connection_lost(None)

    def _flush(self) -> None:
        if self._unsent and self._frames.state is State.OPEN:
            self._frames.send_binary(bytes(self._unsent))
            self._unsent.clear()
        self._below.data_received(b"".join(self._frames.data_to_send()))


def layered(end: End, scheme: str, context: ssl.SSLContext | None) -> End:
    """Return a connection with what its scheme puts over it, of those in `PORTS_FROM`."""
    if scheme in ("mqtts", "wss"):
        assert context is not None
        end = TlsEnd(end, context)
    return WebSocketEnd(end) if scheme in ("ws", "wss") else end
