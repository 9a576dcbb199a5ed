"""Codes of methods and responses (RFC 7252, section 12.1, and the registries it made)."""

from __future__ import annotations

from typing import Final

EMPTY: Final = 0x00
"""Of a message that is none of either; a response with it is one that is not sent."""
GET: Final = 0x01
POST: Final = 0x02
PUT: Final = 0x03
DELETE: Final = 0x04
FETCH: Final = 0x05
PATCH: Final = 0x06
IPATCH: Final = 0x07

CREATED: Final = 0x41
DELETED: Final = 0x42
VALID: Final = 0x43
CHANGED: Final = 0x44
CONTENT: Final = 0x45
CONTINUE: Final = 0x5F
BAD_REQUEST: Final = 0x80
UNAUTHORIZED: Final = 0x81
BAD_OPTION: Final = 0x82
FORBIDDEN: Final = 0x83
NOT_FOUND: Final = 0x84
METHOD_NOT_ALLOWED: Final = 0x85
NOT_ACCEPTABLE: Final = 0x86
REQUEST_ENTITY_INCOMPLETE: Final = 0x88
PRECONDITION_FAILED: Final = 0x8C
REQUEST_ENTITY_TOO_LARGE: Final = 0x8D
TOO_MANY_REQUESTS: Final = 0x9D
INTERNAL_SERVER_ERROR: Final = 0xA0
SERVICE_UNAVAILABLE: Final = 0xA3
GATEWAY_TIMEOUT: Final = 0xA4
PROXYING_NOT_SUPPORTED: Final = 0xA5
HOP_LIMIT_REACHED: Final = 0xA8


def is_request(code: int) -> bool:
    """Return whether a code is of the class of methods, known or not."""
    return 0 < code < 0x20


def is_response(code: int) -> bool:
    """Return whether a code is of a class of responses: 2, 4 or 5."""
    return code >> 5 in (2, 4, 5)


def is_success(code: int) -> bool:
    """Return whether a response's code is of class 2."""
    return code >> 5 == 2
