"""One HTTP/1.1 request and its answer (RFC 9112), over h11. Sans-I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

import h11

from gateway.console.pages import HttpRequest, Page, RequestError

HEAD_BYTES_MAX = 8 * 1024
LINES_MAX = 100
"""Of a head: each is a field, and costs some microseconds however short it is."""
METHODS = ("GET", "HEAD")
REALM = "hedgerow"
_PROOF, _HOST = b"authorization", b"host"

_FOLDED = re.compile(rb"\n[ \t]")


class HttpExchange:
    """Reads one request and writes its answer; the connection closes behind it.

    Args:
        takes_post: whether a path takes POST as well; nobody reads a body.

    """

    def __init__(self, takes_post: Callable[[str], bool] = lambda path: False) -> None:
        self._takes_post = takes_post
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._fed_bytes = self._lines = 0
        self._last = b""
        self._has_body = True

    def feed(self, data: bytes) -> HttpRequest | None:
        """Take what was read.

        Args:
            data: not empty.

        Returns:
            the request; None if its head is not all there yet.

        Raises:
            RequestError: malformed, too long, or with a method that is not served.

        """
        if _FOLDED.search(self._last + data):  # h11 unfolds; a server may refuse (section 5.2)
            raise RequestError(HTTPStatus.BAD_REQUEST)
        self._last = data[-1:]
        self._fed_bytes += len(data)
        self._lines += data.count(b"\n")
        if self._lines > LINES_MAX:
            raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self._http.receive_data(data)
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise RequestError(HTTPStatus(error.error_status_hint)) from error
        if self._fed_bytes - len(self._http.trailing_data[0]) > HEAD_BYTES_MAX:
            raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return self._checked(event) if isinstance(event, h11.Request) else None

    def _checked(self, event: h11.Request) -> HttpRequest:
        method = event.method.decode()
        self._has_body = method != "HEAD"
        path = event.target.partition(b"?")[0].decode("latin-1")
        if method not in METHODS and not (method == "POST" and self._takes_post(path)):
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED)
        if event.http_version not in {b"1.0", b"1.1"} or not event.target.startswith(b"/"):
            raise RequestError(HTTPStatus.BAD_REQUEST)
        proof, host = _only(event, _PROOF), _only(event, _HOST)
        return HttpRequest(method, path, proof, host)

    def answer(self, page: Page) -> bytes:
        """Return the answer to write: the page, or for HEAD what comes before it."""
        headers = [
            ("Content-Type", page.content_type),
            ("Content-Length", str(len(page.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
            *page.headers.items(),
        ]
        if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", ", ".join(METHODS)))
        if page.status is HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", f'Basic realm="{REALM}", charset="UTF-8"'))
        status = page.status
        response = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        body = h11.Data(page.body) if self._has_body else None
        events = (response, body, h11.EndOfMessage())
        return b"".join(self._http.send(event) or b"" for event in events if event is not None)


def _only(event: h11.Request, field: bytes) -> str:
    """The value of a field that may stand once; empty if it is not there."""
    values = [value.decode("latin-1") for name, value in event.headers if name == field]
    if len(values) > 1:
        raise RequestError(HTTPStatus.BAD_REQUEST)
    return values[0] if values else ""
