"""Stateless cookies: a client must show that it receives at the address it sends from.

RFC 6347, section 4.2.1: Cookie = HMAC(Secret, Client-IP, Client-Parameters), for which keyed
BLAKE2b (RFC 7693) stands here: a stranger has one computed for every datagram, and it takes less
than half of the time. The secret changes from time to time; the one before it still counts, so that
no handshake breaks at the change.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final

COOKIE_BYTES: Final = 16
_SECRET_BYTES: Final = 32


class Cookies:
    """Makes and checks cookies.

    Args:
        random_bytes: source of secrets, `secrets.token_bytes` or its like.
        rotate_s: age in seconds at which a secret is replaced.

    """

    def __init__(self, random_bytes: Callable[[int], bytes], *, rotate_s: float = 60.0) -> None:
        self._random_bytes = random_bytes
        self._rotate_s = rotate_s
        self._secret = self._previous = random_bytes(_SECRET_BYTES)
        self._made_at: float | None = None

    def make(self, address: bytes, parameters: bytes, now: float) -> bytes:
        """Return the cookie for a client at ``address`` that sent ``parameters``."""
        self._rotate(now)
        return _cookie(self._secret, address, parameters)

    def check(self, cookie: bytes, address: bytes, parameters: bytes, now: float) -> bool:
        """Return whether a cookie is ours for this client, by the current secret or the last."""
        self._rotate(now)
        # Both are computed and compared, so that time does not tell which secret matched.
        current = hmac.compare_digest(cookie, _cookie(self._secret, address, parameters))
        previous = hmac.compare_digest(cookie, _cookie(self._previous, address, parameters))
        return current or previous

    def _rotate(self, now: float) -> None:
        if self._made_at is None:
            self._made_at = now
        age_s = now - self._made_at
        if age_s < self._rotate_s:
            return
        fresh = self._random_bytes(_SECRET_BYTES)
        self._previous = self._secret if age_s < 2 * self._rotate_s else fresh
        self._secret = fresh
        self._made_at = now


def _cookie(secret: bytes, address: bytes, parameters: bytes) -> bytes:
    # The address comes first with its length, so that no two pairs read the same.
    text = len(address).to_bytes(2, "big") + address + parameters
    return hashlib.blake2b(text, digest_size=COOKIE_BYTES, key=secret).digest()
