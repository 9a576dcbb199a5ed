"""The head of an HTTP/1.1 request (RFC 9112), as far as a server of two pages needs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus

HEAD_BYTES_MAX = 8 * 1024
METHODS = ("GET", "HEAD")

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+) HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")


class RequestError(ValueError):
    """A request that gets no page; ``status`` is the answer."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    method: str
    path: str


def parse(data: bytes) -> Request | None:
    """Read a request's head; None if it is not all there yet.

    Raises:
        RequestError: malformed, too long, or with a method that is not served.

    """
    head, end, _ = data.partition(b"\r\n\r\n")
    if len(head) > HEAD_BYTES_MAX:
        raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    if not end:
        return None
    first, *rest = head.split(b"\r\n")
    line = _LINE.fullmatch(first)
    fields = [_FIELD.fullmatch(one) for one in rest]
    if line is None or not all(fields):
        raise RequestError(HTTPStatus.BAD_REQUEST)
    names = [one[1].lower() for one in fields if one is not None]
    if names.count(b"host") > 1 or (line[3] == b"1" and b"host" not in names):  # section 3.2
        raise RequestError(HTTPStatus.BAD_REQUEST)
    method, target = line[1].decode(), line[2]
    if method not in METHODS:
        raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED)
    if not target.startswith(b"/"):
        raise RequestError(HTTPStatus.BAD_REQUEST)
    return Request(method, target.partition(b"?")[0].decode("latin-1"))
