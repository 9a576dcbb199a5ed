"""One POST over HTTP, within a time and with an answer of bounded size."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from alerts.record import RecordsRefusedError
from alerts.text import plain
from alerts.ways.deadline import EXCHANGE_S, within
from alerts.ways.trust import tls_context
from light_dataclasses import dataclass

AGENT: Final = "hedgerow"
NEVER_TAKEN: Final = frozenset((400, 413, 422))
"""The codes that blame the request itself: it will be as wrong the next time."""
_ANSWER_BYTES: Final = 4_096
_TOLD_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class HttpServer:
    """An HTTP server that alerts are POSTed to.

    Attributes:
        url: ``http`` or ``https``.
        tls: whom to trust; None for HTTP.
        exchange_s: how long it may take.

    """

    url: str
    tls: ssl.SSLContext | None
    exchange_s: float = EXCHANGE_S

    @classmethod
    def at(
        cls, url: str, authorities: Path | None = None, exchange_s: float = EXCHANGE_S
    ) -> HttpServer:
        """Return the server of a URL.

        Args:
            url: ``http`` or ``https``.
            authorities: of its certificate, in PEM; None for the system's.
            exchange_s: how long it may take.

        Raises:
            OSError: the authorities can't be read.

        """
        tls = tls_context(authorities) if urlsplit(url).scheme == "https" else None
        return cls(url, tls, exchange_s)

    def post(self, body: bytes, headers: Mapping[str, str], path: str = "") -> None:
        """Send a body, and see to it that it is taken; nobody is followed elsewhere.

        Args:
            body: it.
            headers: beside those that each request has.
            path: after the URL's own.

        Raises:
            OSError: the server can't be reached, or takes nothing now.
            RecordsRefusedError: it will never take this.

        """
        parts = urlsplit(self.url)
        host, timeout_s = parts.hostname or "", self.exchange_s
        connection: http.client.HTTPConnection = (
            http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
            if self.tls is None
            else http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=self.tls)
        )
        target = (parts.path.rstrip("/") + path if path else parts.path) or "/"
        if parts.query:
            target += f"?{parts.query}"
        sent = {"User-Agent": AGENT, "Connection": "close", **headers}
        opened: socket.socket | None = None
        with contextlib.closing(connection):
            with within(timeout_s, lambda: opened or connection.sock):
                try:
                    connection.connect()
                    # The last answer takes the socket away, and is read all the same.
                    opened = connection.sock
                    connection.request("POST", target, body, sent)
                    answer = connection.getresponse()
                except http.client.HTTPException as error:
                    raise OSError(f"no answer of HTTP: {type(error).__name__}") from error
            if 200 <= answer.status < 300:  # it is taken, whatever is said behind that
                return
            why = f"answers {answer.status}"
            # The status has said what counts: words that do not come change nothing.
            with contextlib.suppress(OSError, http.client.HTTPException):
                with within(timeout_s, lambda: opened):
                    said = answer.read(_ANSWER_BYTES)
                if text := plain(said.decode(errors="replace")).strip()[:_TOLD_CHARACTERS]:
                    why += f": {text}"
        raise (RecordsRefusedError if answer.status in NEVER_TAKEN else OSError)(why)
