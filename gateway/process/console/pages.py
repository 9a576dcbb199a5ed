"""Pages of the console that answer a visitor's requests; without HTTP's own forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from http import HTTPStatus

from light_dataclasses import dataclass


class RequestError(ValueError):
    """A request that gets no page.

    Args:
        status: what it is answered with.

    """

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request.

    Attributes:
        method: one of those that are served.
        path: without the query, as it came.
        authorization: the field's value (RFC 9110, section 11.6.2); empty if there is none.
        host: the field's value, the machine that it is meant for; likewise.
        query: what stands behind the path's question mark, as it came; empty if there is none.
        fields: the values of other fields that are looked at (`exchange.FIELDS`), by lower-case
            name, as far as there are any.
        body: empty where there is none.

    """

    method: str
    path: str
    authorization: str = ""
    host: str = ""
    query: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer.

    Attributes:
        content_type: of the body.
        body: as it is sent.
        status: of the answer.
        headers: further fields, or others in place of the usual ones.
        asks_for_password: with status 401: a browser is to ask its user for a password.

    """

    content_type: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    asks_for_password: bool = True


def plain(status: HTTPStatus) -> Page:
    """Return a page that says no more than its status."""
    return Page("text/plain; charset=utf-8", f"{status.phrase}\n".encode(), status)
