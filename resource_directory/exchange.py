"""A request to the directory and its answer, without a message layer.

Codes are one byte as CoAP has them, class and detail (RFC 7252, section 3): ``0x45`` is 2.05.
"""

from __future__ import annotations

from typing import Final

from light_dataclasses import dataclass
from resource_directory.search import LinkSearch

GET: Final = 0x01
POST: Final = 0x02
PUT: Final = 0x03
DELETE: Final = 0x04
"""Methods (RFC 7252, section 12.1.1)."""

CREATED: Final = 0x41
DELETED: Final = 0x42
VALID: Final = 0x43
CHANGED: Final = 0x44
CONTENT: Final = 0x45
BAD_REQUEST: Final = 0x80
FORBIDDEN: Final = 0x83
NOT_FOUND: Final = 0x84
METHOD_NOT_ALLOWED: Final = 0x85
NOT_ACCEPTABLE: Final = 0x86
TOO_LARGE: Final = 0x8D
UNSUPPORTED_FORMAT: Final = 0x8F
BAD_GATEWAY: Final = 0xA2
UNAVAILABLE: Final = 0xA3
GATEWAY_TIMEOUT: Final = 0xA4
"""Responses (RFC 7252, section 12.1.2)."""

LINK_FORMAT: Final = 40
"""Content-Format application/link-format (RFC 6690, section 7.4)."""


@dataclass(slots=True)  # not frozen: compiled, that costs several times as much to make
class DirectoryRequest:
    """A request to the directory; whether it may write was decided before.

    Nothing changes one.

    Attributes:
        method: its code.
        path: the Uri-Path options, decoded.
        query: the Uri-Query options, ``name=value`` each, decoded.
        payload: the whole payload, put together if it came in blocks.
        content_format: of the payload; None if the request names none.
        accept: the Accept option.
        etags: the ETag options: answers that the asker has already.
        owner: who asks, by what its session has proved; None if nobody knows.
        base: scheme, address and port that it asks from, as a URI; None if they make none.

    """

    method: int
    path: tuple[str, ...]
    query: tuple[str, ...] = ()
    payload: bytes = b""
    content_format: int | None = None
    accept: int | None = None
    etags: tuple[bytes, ...] = ()
    owner: str | None = None
    base: str | None = None


@dataclass(slots=True)  # not frozen, as above
class DirectoryAnswer:
    """An answer of the directory; nothing changes one.

    Attributes:
        code: of the response.
        payload: links, or a diagnostic in UTF-8 where the code is no success.
        content_format: of the payload; None where it is a diagnostic or empty.
        location_path: the Location-Path options; empty for none.
        max_age: the Max-Age option, seconds; None for none.
        etag: the ETag option; None for none.

    """

    code: int
    payload: bytes = b""
    content_format: int | None = None
    location_path: tuple[str, ...] = ()
    max_age: int | None = None
    etag: bytes | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """A GET that the directory sends to a registrant before it answers (RFC 9176, section 5.1).

    Attributes:
        key: under which the result is given to the service.
        uri: what to GET with Accept 40, from the peer that asked and over the same session.
        deadline: when it is no longer waited for, on the directory's clock.

    """

    key: int
    uri: str
    deadline: float


@dataclass(frozen=True, slots=True, eq=False)
class SlowLookUp:
    """A look-up that goes through so much that it is gone on with later, again and again.

    Attributes:
        request: what is asked.
        search: how far it is.

    """

    request: DirectoryRequest
    search: LinkSearch
