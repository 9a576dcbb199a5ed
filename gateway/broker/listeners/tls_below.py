"""The parts between a socket and a `Connection` where the listener is secure."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.inbound.connection import Connection
from gateway.broker.inbound.peer import Peer
from gateway.trust.tls.certificates import identify
from gateway.trust.tls.layer import TlsLayer
from gateway.trust.tls.peer_certificate import CertificateError


def tls_below(
    connection: Connection,
    carried: asyncio.Protocol,
    context: ssl.SSLContext,
    refusals: CountedLines,
) -> TlsLayer:
    """Return TLS below a connection, or below its websocket.

    Args:
        connection: is told who the client is.
        carried: what is inside.
        context: of the handshake.
        refusals: counts handshakes that fail.

    """
    peer = connection.peer
    failed = partial(_failed, refusals, peer)

    def accepted(transport: asyncio.Transport) -> bool:
        connection.connection_made(transport)  # counted, and may be over a limit
        return not peer.channel.is_closing

    def secured(der: bytes | None) -> bool:
        try:
            peer.proved(None if der is None else identify(der))
        except CertificateError as error:
            failed(error)
            return False
        return True

    return TlsLayer(carried, context, accepted=accepted, secured=secured, failed=failed)


def _failed(refusals: CountedLines, peer: Peer, error: Exception) -> None:
    refusals.count("TLS handshake failed", f"{peer.channel.address}: {_why(error)}")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    reason = getattr(error, "reason", None)  # OpenSSL's, in capitals and underscores
    return reason.lower().replace("_", " ") if reason else str(error) or type(error).__name__
