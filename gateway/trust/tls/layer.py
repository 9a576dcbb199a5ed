"""TLS between a socket and what it carries, by an `ssl.SSLObject`, which does no I/O.

The event loops bring TLS of their own, which tells of a client only after its handshake. Here the
handshake is a part of the connection's life: what is above knows of it from the first byte on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final, cast

from gateway.trust.tls.layer_transport import LayerTransport

_READ_BYTES = 1 << 18
_ERRORS: Final = (OSError, MemoryError)
"""The errors of OpenSSL: an `ssl.SSLError` is an OSError. Each ends this connection alone."""


class TlsLayer(asyncio.Protocol):
    """The server's side of one TLS connection.

    Args:
        carried: what gets the bytes; an attribute too.
        context: certificates and rules.
        accepted: called first, with the raw transport; returns whether to go on.
        secured: called when the handshake is done, with the client's certificate, if it showed
            one; likewise.
        failed: told of an error in the handshake.

    """

    def __init__(
        self,
        carried: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        accepted: Callable[[asyncio.Transport], bool],
        secured: Callable[[bytes | None], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        self.carried = carried
        self._accepted = accepted
        self._secured = secured
        self._failed = failed
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_begun = self._is_secure = False
        self._transport: asyncio.Transport | None = None

    # -- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        transport = cast(asyncio.Transport, transport)
        if self._accepted(transport):
            self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        self.carried.connection_lost(exc)

    def eof_received(self) -> None:
        """Called by the event loop."""
        if self._has_begun and not self._is_secure:
            self._failed(ConnectionError("closed by the client in the handshake"))

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self.carried.pause_writing()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self.carried.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        transport = self._transport
        if transport is None:
            return
        self._has_begun = True
        self._incoming.write(data)
        if self._is_secure or self._shake_hands(transport):
            self._read()

    def _shake_hands(self, transport: asyncio.Transport) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except _ERRORS as error:
            self._failed(error)
            self.close()
            return False
        self._is_secure = True
        self._flush()
        if not self._secured(self._tls.getpeercert(binary_form=True)):
            self.close()
            return False
        self.carried.connection_made(LayerTransport(transport, self))
        return True

    def _read(self) -> None:
        """Hand up what is there, then close if the client has, or broke the protocol."""
        found: list[bytes] = []
        is_over = False
        try:
            while data := self._tls.read(_READ_BYTES):
                found.append(data)
            is_over = True  # the client has closed
        except ssl.SSLWantReadError:
            pass
        except _ERRORS:
            is_over = True
        if found:
            self.carried.data_received(found[0] if len(found) == 1 else b"".join(found))
        self._flush()  # answers of TLS itself
        if is_over:
            self.close()

    def send(self, data: bytes) -> None:
        """Send bytes of what is carried."""
        if self._transport is None:
            return
        try:
            self._tls.write(data)
        except _ERRORS:  # it has failed at something that the client sent
            self._transport.abort()
        else:
            self._flush()

    def close(self) -> None:
        """Say that no more comes, and close."""
        if self._transport is None:
            return
        with contextlib.suppress(OSError, MemoryError):  # it would wait for the client's answer
            self._tls.unwrap()
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._transport is not None and self._outgoing.pending:
            self._transport.write(self._outgoing.read())
