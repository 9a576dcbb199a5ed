"""Simple registration (RFC 9176, section 5.1): the directory asks the registrant for its links.

Which links a registrant has is known only once they were fetched, and the answer to its request
waits for them. As long as what was fetched is fresh it is not fetched again, so that a registrant
that can't serve while it asks may simply ask again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from resource_directory.errors import BusyError, InvalidParameterError
from resource_directory.exchange import Fetch

FETCH_S: Final = 30.0
"""How long a registrant's links are waited for; longer than CoAP's first retransmissions take."""
FETCHES_MAX: Final = 64
"""So many are waited for at once."""
FRESH_MAX: Final = 10_000
"""Of so many registrants it is remembered how long their links are fresh."""
DEFAULT_MAX_AGE_S: Final = 60
"""What a response without Max-Age is fresh for (RFC 7252, section 5.10.5)."""


@dataclass(frozen=True, slots=True)
class SimpleRegistration:
    """What a registrant asked for; its links are not known yet.

    Attributes:
        endpoint: its name.
        sector: its sector, or ``""``.
        lifetime_s: how long it is to last; None for the default.
        attributes: its further attributes.
        owner: who asked.
        base: where it asked from.

    """

    endpoint: str
    sector: str
    lifetime_s: int | None
    attributes: tuple[tuple[str, str], ...]
    owner: str | None
    base: str


class SimpleRegistrations:
    """Which registrants are being asked for their links, and whose are fresh."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[SimpleRegistration, float]] = {}
        self._fresh: dict[tuple[str, str], tuple[str, float]] = {}
        self._last_key = 0

    def fetch(self, asked: SimpleRegistration, now: float) -> Fetch:
        """What is to be fetched before a registrant can be answered.

        Raises:
            BusyError: too many are being fetched.

        """
        if len(self._waiting) >= FETCHES_MAX:
            self._waiting = {
                key: waiting for key, waiting in self._waiting.items() if waiting[1] > now
            }
        if len(self._waiting) >= FETCHES_MAX:
            raise BusyError(f"{FETCHES_MAX} registrants are being asked")
        self._last_key += 1
        self._waiting[self._last_key] = (asked, now + FETCH_S)
        return Fetch(self._last_key, f"{asked.base.rstrip('/')}/.well-known/core", now + FETCH_S)

    def take(self, key: int) -> SimpleRegistration:
        """What was asked for when a fetch began; it is over now.

        Raises:
            InvalidParameterError: nobody waits for it any more.

        """
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            raise InvalidParameterError("not waited for any more")
        return waiting[0]

    def is_fresh(self, asked: SimpleRegistration, now: float) -> bool:
        """Whether the links that were fetched from this registrant last are still fresh."""
        base, until = self._fresh.get((asked.endpoint, asked.sector), ("", 0.0))
        return base == asked.base and now < until

    def fetched(self, asked: SimpleRegistration, max_age_s: int | None, now: float) -> None:
        """Note how long a registrant's links are fresh."""
        if len(self._fresh) >= FRESH_MAX:
            self._fresh = {name: kept for name, kept in self._fresh.items() if kept[1] > now}
        if len(self._fresh) < FRESH_MAX:
            fresh_s = DEFAULT_MAX_AGE_S if max_age_s is None else max_age_s
            self._fresh[asked.endpoint, asked.sector] = (asked.base, now + fresh_s)
