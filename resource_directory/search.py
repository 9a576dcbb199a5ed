"""One look-up under way, which goes on for a while and later again.

Registrations may come and go meanwhile. What was there all the time is found, in its place; what
came or went may be found or not, and what was registered again is told once. What stands before the
part that is wanted is counted and not remembered: how much there is of it costs no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final

from resource_directory.errors import InvalidParameterError
from resource_directory.query import LookupQuery

MAX_CHARACTERS: Final = 1 << 20
"""Of an answer."""


LinkMatch = tuple[str, str, bool]
"""A match as link format writes it; the location of its registration; and whether that was
registered since the search began, and may have been found before as another."""


class ChecksDone:
    """A count of the checks that one search has made, shared by all that work on it.

    Attributes:
        done: so many terms, or quarters of a candidate: some hundred nanoseconds each.

    """

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = 0


class LinkSearch:
    """Goes through candidates and gathers the part of the matches that is wanted.

    Args:
        matches: each candidate that matches; None for one that does not.
        checks: where what is looked at for them is counted.
        query: which part of the matches is wanted.
        is_of_endpoints: of one location one match is told, whatever it says.

    Attributes:
        texts: what is found so far.

    """

    def __init__(
        self,
        matches: Iterator[LinkMatch | None],
        checks: ChecksDone,
        query: LookupQuery,
        *,
        is_of_endpoints: bool = False,
    ) -> None:
        self.texts: list[str] = []
        self._locations: list[str] = []
        """The location of each of the texts."""
        self._told: set[tuple[str, str]] | None = None
        """Locations and texts, once something comes that may be among them."""
        self._is_of_endpoints = is_of_endpoints
        self._matches = matches
        self._checks = checks
        self._skip = 0 if query.count is None else query.page * query.count
        self._count = query.count
        self._characters = 0

    @property
    def checks(self) -> int:
        """Return how much was looked at; see `ChecksDone`."""
        return self._checks.done

    def go_on(self, checks: int) -> bool:
        """Look at some more candidates.

        Args:
            checks: how much to look at; one candidate at least.

        Returns:
            Whether all is found.

        Raises:
            InvalidParameterError: it is too much for one answer.

        """
        until = self._checks.done + max(1, checks)
        while self._checks.done < until and self._count != len(self.texts):
            try:
                match = next(self._matches)
            except StopIteration:
                return True
            if match is None:
                continue
            if self._skip:
                self._skip -= 1
                continue
            text, location, is_new = match
            if is_new and self._is_told(location, text):  # as it was before
                continue
            self.texts.append(text)
            self._locations.append(location)
            self._characters += len(text) + 1
            if self._characters > MAX_CHARACTERS:
                why = "too many links for one answer: ask with count and page"
                raise InvalidParameterError(why)
        return self._count == len(self.texts)

    def _is_told(self, location: str, text: str) -> bool:
        """Return whether something that is registered again is told already; note it if not."""
        if self._is_of_endpoints:
            text = ""
        if self._told is None:
            texts: Iterable[str] = repeat("") if self._is_of_endpoints else self.texts
            self._told = set(zip(self._locations, texts, strict=False))
        is_told = (location, text) in self._told
        self._told.add((location, text))
        return is_told
