"""HTTP/1.1 requests of one connection and their answers (RFC 9112), over h11. Sans-I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import h11

from gateway.process.console.pages import HttpRequest, Page, RequestError
from light_dataclasses import dataclass

HEAD_BYTES_MAX: Final = 8 * 1024
LINES_MAX: Final = 100
"""Of a head: each is a field, and costs some microseconds however short it is."""
REALM: Final = "hedgerow"
FIELDS: Final = (
    *("accept-encoding", "content-type", "cookie", "if-none-match", "origin"),
    *("sec-fetch-site", "x-hedgerow-csrf"),
)
"""Fields that are looked at, beside those that each request has; none of them may stand twice."""
_PROOF, _HOST = "authorization", "host"

_FOLDED = re.compile(rb"\n[ \t]")
_END_OF_HEAD = re.compile(rb"\n\r?\n")


@dataclass(frozen=True, slots=True)
class ExchangeRules:
    """The rules of a connection: which requests it may make.

    Attributes:
        methods: that are served.
        body_bytes: of a request's body; with 0 no body is read.
        goes_on: whether a connection may ask again behind an answer.

    """

    methods: tuple[str, ...] = ("GET", "HEAD")
    body_bytes: int = 0
    goes_on: bool = False


ONE_LOOK: Final = ExchangeRules()
"""One request without a body, as a program's that collects metrics."""


class HttpExchange:
    """Reads requests and writes their answers, one after the other.

    Args:
        rules: what may be asked.
        takes_post: whether a path takes POST as well.

    """

    def __init__(
        self,
        rules: ExchangeRules = ONE_LOOK,
        takes_post: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self._rules = rules
        self._takes_post = takes_post
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head: bytearray | None = bytearray()
        """The part of a head that has come; None behind its end."""
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._has_body = True

    @property
    def is_begun(self) -> bool:
        """Return whether a part of a request is there."""
        return self._request is not None or bool(self._head)

    def feed(self, data: bytes) -> HttpRequest | None:
        """Take what was read.

        Args:
            data: not empty.

        Returns:
            the request; None if it is not all there yet.

        Raises:
            RequestError: malformed, too long, or with a method that is not served.

        """
        self._look_at_head(data)
        self._http.receive_data(data)
        return self._next()

    def again(self) -> HttpRequest | None:
        """Go on to the next request, behind an answer; what has come of it meanwhile counts.

        Returns:
            As `feed`.

        Raises:
            RequestError: as of `feed`.

        """
        early = bytes(self._http.trailing_data[0])
        self._http.start_next_cycle()
        self._request, self._body, self._has_body = None, bytearray(), True
        self._head = bytearray()
        if not early:
            return None
        self._look_at_head(early)
        return self._next()

    @property
    def goes_on(self) -> bool:
        """Return whether the connection may ask again, behind the answer that was made last."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def _look_at_head(self, data: bytes) -> None:
        """Refuse a head that costs too much to read, or that h11 would unfold (section 5.2)."""
        if self._head is None:
            return
        self._head += data
        end = _END_OF_HEAD.search(self._head)
        head = self._head if end is None else self._head[: end.end()]
        if _FOLDED.search(head):
            raise RequestError(HTTPStatus.BAD_REQUEST)
        if head.count(b"\n") > LINES_MAX or len(head) > HEAD_BYTES_MAX:
            raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if end is not None:
            self._head = None

    def _next(self) -> HttpRequest | None:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                error.__traceback__ = None  # a frame of it holds the error, and by it all above
                raise RequestError(HTTPStatus(error.error_status_hint)) from error
            if isinstance(event, h11.Request):
                self._request = event
                self._check(event)
                if not self._rules.body_bytes:
                    return self._made(event)
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > self._rules.body_bytes:
                    raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                return self._made(self._request)
            else:
                return None

    def _check(self, event: h11.Request) -> None:
        method = event.method.decode()
        self._has_body = method != "HEAD"
        path = event.target.partition(b"?")[0].decode("latin-1")
        if method not in self._rules.methods and not (method == "POST" and self._takes_post(path)):
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED)
        if event.http_version not in {b"1.0", b"1.1"} or not event.target.startswith(b"/"):
            raise RequestError(HTTPStatus.BAD_REQUEST)
        length = _only(event, "content-length")
        if length and _only(event, "transfer-encoding"):  # two lengths (RFC 9112, section 6.1)
            raise RequestError(HTTPStatus.BAD_REQUEST)
        if self._rules.body_bytes and length.isdecimal() and int(length) > self._rules.body_bytes:
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _made(self, event: h11.Request) -> HttpRequest:
        path, _, query = event.target.partition(b"?")
        return HttpRequest(
            event.method.decode(),
            path.decode("latin-1"),
            _only(event, _PROOF),
            _only(event, _HOST),
            query.decode("latin-1"),
            {name: value for name in FIELDS if (value := _only(event, name))},
            bytes(self._body),
        )

    def answer(self, page: Page, *, is_last: bool = True) -> bytes:
        """Return the answer to write: the page, or for HEAD what comes before it.

        Args:
            page: the answer.
            is_last: the connection closes behind it; so it does where the rules say so, or where
                the request is not read to its end.

        """
        headers = {
            "Content-Type": page.content_type,
            "Content-Length": str(len(page.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **page.headers,
        }
        if is_last or not self._rules.goes_on or self._http.their_state is not h11.DONE:
            headers["Connection"] = "close"
        if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(self._rules.methods)
        if page.status is HTTPStatus.UNAUTHORIZED and page.asks_for_password:
            headers["WWW-Authenticate"] = f'Basic realm="{REALM}", charset="UTF-8"'
        if page.status is HTTPStatus.NOT_MODIFIED:
            del headers["Content-Length"]
        status = page.status
        response = h11.Response(
            status_code=status, headers=list(headers.items()), reason=status.phrase.encode()
        )
        body = h11.Data(page.body) if self._has_body and page.body else None
        events = (response, body, h11.EndOfMessage())
        return b"".join(self._http.send(event) or b"" for event in events if event is not None)


def _only(event: h11.Request, field: str) -> str:
    """Return the value of a field that may stand once; empty if it is not there."""
    wanted = field.encode()
    values = [value.decode("latin-1") for name, value in event.headers if name == wanted]
    if len(values) > 1:
        raise RequestError(HTTPStatus.BAD_REQUEST)
    return values[0] if values else ""
