"""Sessions of browsers: a random token for each, held here as its hash. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from light_dataclasses import dataclass

SESSIONS_MAX: Final = 512
PER_USER_MAX: Final = 8
IDLE_S: Final = 8 * 3600.0
AGE_S: Final = 24 * 3600.0
TOKEN_CHARACTERS_MAX: Final = 128


@dataclass(slots=True)
class _Sitting:
    user: str
    since_s: float
    used_s: float


class WebSessions:
    """The sessions of all users; there are only so many, of each user and together.

    Args:
        token: makes one that nobody can guess.

    """

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token
        self._open: dict[bytes, _Sitting] = {}

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._open)

    def begin(self, user: str, now_s: float) -> str:
        """Log a user in; the one that was longest unused ends where there are too many.

        Args:
            user: who has proved a password.
            now_s: of a clock that only goes forward.

        Returns:
            the token that the browser keeps.

        """
        self._expire(now_s)
        own = [key for key, sitting in self._open.items() if sitting.user == user]
        if len(own) >= PER_USER_MAX:
            del self._open[min(own, key=lambda key: self._open[key].used_s)]
        elif len(self._open) >= SESSIONS_MAX:
            del self._open[min(self._open, key=lambda key: self._open[key].used_s)]
        made = self._token()
        self._open[_hash(made)] = _Sitting(user, now_s, now_s)
        return made

    def user(self, token: str, now_s: float) -> str | None:
        """Return whose token that is; None if nobody's, or no longer."""
        if not 0 < len(token) <= TOKEN_CHARACTERS_MAX:
            return None
        key = _hash(token)
        sitting = self._open.get(key)
        if sitting is None:
            return None
        if _is_over(sitting, now_s):
            del self._open[key]
            return None
        sitting.used_s = now_s
        return sitting.user

    def end(self, token: str) -> None:
        """Log out."""
        self._open.pop(_hash(token), None)

    def end_of(self, is_out: Callable[[str], bool]) -> None:
        """Log out whoever is to be out, by name."""
        for key in [key for key, sitting in self._open.items() if is_out(sitting.user)]:
            del self._open[key]

    def _expire(self, now_s: float) -> None:
        for key in [key for key, sitting in self._open.items() if _is_over(sitting, now_s)]:
            del self._open[key]


def _is_over(sitting: _Sitting, now_s: float) -> bool:
    return now_s - sitting.used_s > IDLE_S or now_s - sitting.since_s > AGE_S


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
