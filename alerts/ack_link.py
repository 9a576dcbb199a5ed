"""Links by which whoever gets an alert takes it on: signed, for one alert, for some days. Pure.

A link holds no secret but itself: who has it may take that alert on, and nothing else. It says
which alert it is by a digest, until when it holds, and a code that only the gateway can make
(HMAC-SHA256, RFC 2104, cut to 128 bits as section 5 allows). Once its alert is taken on, or over,
it does nothing any more.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

LIFE_S: Final = 7 * 86_400
KEY_BYTES: Final = 32
PATH: Final = "/alerts/ack/"
"""The beginning of a link's path; its token follows."""
_ALERT_BYTES, _TIME_BYTES, _CODE_BYTES = 12, 6, 16
_TOKEN_CHARACTERS: Final = 46
_CONTEXT: Final = b"hedgerow takes an alert on\0"


class AckLinkError(ValueError):
    """A link that the gateway has not made, or that is too old; the message says which."""


class AckLinks:
    """Makes and reads links.

    Args:
        key: of the gateway, known to nobody else.
        url: what links begin with, without a path.

    """

    def __init__(self, key: bytes, url: str) -> None:
        self._key = key
        self._url = url.rstrip("/")

    def link(self, alert: str, at_us: int) -> str:
        """Return the link of an alert: the same for the same record.

        Args:
            alert: its name.
            at_us: when its record was made, microseconds since 1970.

        """
        ends_s = max(0, at_us // 1_000_000 + LIFE_S)
        said = _mark(alert) + ends_s.to_bytes(_TIME_BYTES, "big")
        token = base64.urlsafe_b64encode(said + self._code(said)).decode().rstrip("=")
        return f"{self._url}{PATH}{token}"

    def mark(self, token: str, now_us: int) -> bytes:
        """Return which alert a token is of; see `is_of`.

        Args:
            token: the end of a link.
            now_us: microseconds since 1970.

        Raises:
            AckLinkError: it is none of this gateway's, or its time is over.

        """
        try:
            data = base64.b64decode(f"{token}==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        said, code = data[:-_CODE_BYTES], data[-_CODE_BYTES:]
        is_whole = len(token) == _TOKEN_CHARACTERS
        if not is_whole or not hmac.compare_digest(code, self._code(said)):
            raise AckLinkError("this link is none that the gateway has made")
        if now_us // 1_000_000 >= int.from_bytes(said[_ALERT_BYTES:], "big"):
            raise AckLinkError("this link is too old")
        return said[:_ALERT_BYTES]

    @staticmethod
    def is_of(mark: bytes, alert: str) -> bool:
        """Return whether a mark is that of an alert."""
        return mark == _mark(alert)

    def _code(self, said: bytes) -> bytes:
        return hmac.digest(self._key, _CONTEXT + said, "sha256")[:_CODE_BYTES]


def _mark(alert: str) -> bytes:
    return hashlib.sha256(alert.encode()).digest()[:_ALERT_BYTES]
