"""Certificates of a gateway and its clients, and TLS of which a gateway's calls may fail."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from authority import Authority
from failing_calls import NETWORK, FailingCalls

from gateway.trust.tls.context import Tls, TlsFiles


def certificates(folder: Path) -> tuple[TlsFiles, ssl.SSLContext]:
    """Issue a gateway's certificate; return its files, and the rules of its clients."""
    authority = Authority(folder)
    own = authority.issue("gw", is_server=True)
    return TlsFiles(own.certificate, own.key), authority.client_context()


def failing(files: TlsFiles, calls: FailingCalls) -> Tls:
    """Return a gateway's TLS; each step of it is one of the calls that may fail."""

    class FailingObject(ssl.SSLObject):
        """One connection's."""

        def do_handshake(self) -> None:
            """Shake hands, or fail."""
            _reach(calls, "TLS handshake")
            super().do_handshake()

        def read(self, *size: Any) -> Any:
            """Decrypt, or fail."""
            _reach(calls, "TLS read")
            return super().read(*size)

        def write(self, data: Any) -> int:
            """Encrypt, or fail."""
            _reach(calls, "TLS write")
            return super().write(data)

    tls = Tls(files)
    tls.context.sslobject_class = FailingObject
    return tls


def _reach(calls: FailingCalls, what: str) -> None:
    fault = calls.reached(what, NETWORK)
    if fault is not None and fault.place == what:
        raise fault.error()
