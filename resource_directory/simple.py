"""Simple registration (RFC 9176, section 5.1): the directory asks the registrant for its links.

Which links a registrant has is known only once they were fetched, and the answer to its request
waits for them. As long as what was fetched is fresh it is not fetched again, so that a registrant
that can't serve while it asks may simply ask again.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from light_dataclasses import dataclass
from resource_directory.errors import BusyError, InvalidParameterError
from resource_directory.exchange import Fetch

FETCH_S: Final = 30.0
"""The longest wait for a registrant's links; longer than CoAP's first retransmissions take."""
FETCHES_MAX: Final = 64
"""So many are waited for at once."""
FRESH_MAX: Final = 10_000
"""Of so many registrants it is remembered how long their links are fresh."""
FRESH_OF_ONE: Final = 1_000
"""So many of them are of one owner, or of one address without an owner, at most."""
FRESH_S_MAX: Final = 86_400.0
"""So long links count as fresh, whatever their registrant says: one may mean 136 years."""
DEFAULT_MAX_AGE_S: Final = 60
"""The freshness of a response without Max-Age (RFC 7252, section 5.10.5)."""


@dataclass(frozen=True, slots=True)
class SimpleRegistration:
    """A simple registration whose links are not known yet.

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


_Registrant = tuple[str | None, str]
"""An owner; or None, and the host that somebody without one asks from, from whatever ports."""


class SimpleRegistrations:
    """The fetches of registrants' links that are under way, and the ages of fetched links."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[SimpleRegistration, float]] = {}
        # By endpoint and sector: where from, and until when; by who registers, in that order.
        self._fresh: dict[_Registrant, dict[tuple[str, str], tuple[str, float]]] = {}
        self._fresh_in_all = 0
        self._last_key = 0

    @property
    def remembered(self) -> int:
        """Return of how many registrants the time is kept until which their links are fresh."""
        return self._fresh_in_all

    def fetch(self, asked: SimpleRegistration, now: float) -> Fetch:
        """Return what is to be fetched before a registrant can be answered.

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
        """Return what was asked for when a fetch began; it is over now.

        Raises:
            InvalidParameterError: nobody waits for it any more.

        """
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            raise InvalidParameterError("not waited for any more")
        return waiting[0]

    def is_fresh(self, asked: SimpleRegistration, now: float) -> bool:
        """Return whether the links that were fetched from this registrant last are still fresh."""
        of_one = self._fresh.get(_registrant(asked), {})
        base, until = of_one.get((asked.endpoint, asked.sector), ("", 0.0))
        return base == asked.base and now < until

    def fetched(self, asked: SimpleRegistration, max_age_s: int | None, now: float) -> None:
        """Note how long a registrant's links are fresh; what was noted longest ago makes room.

        Who registers most makes room for all others. What is forgotten is only fetched once more.
        """
        who, name = _registrant(asked), (asked.endpoint, asked.sector)
        of_one = self._fresh.setdefault(who, {})
        if of_one.pop(name, None) is not None:
            self._fresh_in_all -= 1
        fresh_s = DEFAULT_MAX_AGE_S if max_age_s is None else max_age_s
        of_one[name] = (asked.base, now + min(float(fresh_s), FRESH_S_MAX))
        self._fresh_in_all += 1
        if len(of_one) > FRESH_OF_ONE:
            self._forget_oldest(who)
        elif self._fresh_in_all > FRESH_MAX:
            self._forget_oldest(max(self._fresh, key=lambda one: len(self._fresh[one])))

    def _forget_oldest(self, who: _Registrant) -> None:
        of_one = self._fresh[who]
        del of_one[next(iter(of_one))]
        self._fresh_in_all -= 1
        if not of_one:
            del self._fresh[who]


def _registrant(asked: SimpleRegistration) -> _Registrant:
    if asked.owner is not None:
        return asked.owner, ""
    return None, urlsplit(asked.base).hostname or ""
