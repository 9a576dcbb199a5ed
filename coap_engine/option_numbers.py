"""Numbers of options (RFC 7252, section 12.2, and the registry it made), and what is known of each.

What a number itself says (critical, unsafe, no cache key) is read from its bits (section 5.4.6).
"""

from __future__ import annotations

from typing import Final

IF_MATCH: Final = 1
URI_HOST: Final = 3
ETAG: Final = 4
IF_NONE_MATCH: Final = 5
OBSERVE: Final = 6
URI_PORT: Final = 7
LOCATION_PATH: Final = 8
OSCORE: Final = 9
URI_PATH: Final = 11
CONTENT_FORMAT: Final = 12
MAX_AGE: Final = 14
URI_QUERY: Final = 15
HOP_LIMIT: Final = 16
ACCEPT: Final = 17
LOCATION_QUERY: Final = 20
BLOCK2: Final = 23
BLOCK1: Final = 27
SIZE2: Final = 28
PROXY_URI: Final = 35
PROXY_SCHEME: Final = 39
SIZE1: Final = 60
ECHO: Final = 252
NO_RESPONSE: Final = 258
REQUEST_TAG: Final = 292
REQUEST_ID: Final = 65_001
"""Of our own: names a write that may be asked again (`docs/queries.md`)."""

LENGTHS: Final[dict[int, tuple[int, int]]] = {
    IF_MATCH: (0, 8),
    URI_HOST: (1, 255),
    ETAG: (1, 8),
    IF_NONE_MATCH: (0, 0),
    OBSERVE: (0, 3),
    URI_PORT: (0, 2),
    OSCORE: (0, 255),
    URI_PATH: (0, 255),
    CONTENT_FORMAT: (0, 2),
    URI_QUERY: (0, 255),
    HOP_LIMIT: (1, 1),
    ACCEPT: (0, 2),
    BLOCK2: (0, 3),
    BLOCK1: (0, 3),
    SIZE2: (0, 4),
    PROXY_URI: (1, 1034),
    PROXY_SCHEME: (1, 255),
    SIZE1: (0, 4),
    ECHO: (1, 40),
    NO_RESPONSE: (0, 1),
    REQUEST_TAG: (0, 8),
    REQUEST_ID: (2, 9),
}
"""Of the options that a request may have: how many bytes each has at least and at most."""

REPEATABLE: Final = frozenset((IF_MATCH, ETAG, URI_PATH, URI_QUERY, REQUEST_TAG))
"""Those of them that may stand several times."""


def is_critical(number: int) -> bool:
    """Return whether a message with such an option must not be served by who does not know it."""
    return number & 1 == 1
