"""Numbers of options (RFC 7252, section 12.2, and the registry it made)."""

from __future__ import annotations

from typing import Final

ETAG: Final = 4
OBSERVE: Final = 6
CONTENT_FORMAT: Final = 12
MAX_AGE: Final = 14
HOP_LIMIT: Final = 16
ACCEPT: Final = 17
BLOCK2: Final = 23
BLOCK1: Final = 27
SIZE2: Final = 28
SIZE1: Final = 60
ECHO: Final = 252
NO_RESPONSE: Final = 258
REQUEST_TAG: Final = 292
