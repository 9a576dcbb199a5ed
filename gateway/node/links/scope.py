"""Scope of a gateway's own messages: `tree.replicate` and `tree.keep_local` say which leave it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from gateway.mqtt import FilterError, check_topic_filter, is_shared
from tree_handler.batch import Row
from tree_handler.routing.topic_filters import matches

MAX_TOPICS: Final = 20_000
"""Topics whose scope is remembered; beyond it all are looked up anew."""


def check_filter(topic_filter: str) -> None:
    """Check a filter of the configuration.

    Raises:
        ProtocolError: it is malformed, or shared.

    """
    if is_shared(check_topic_filter(topic_filter)):
        raise FilterError("topic filter is shared, which means nothing here", topic_filter)


class Scope:
    """Tells what leaves this gateway.

    Args:
        replicate: filters of topics that leave it.
        keep_local: filters of topics that stay even if one of ``replicate`` matches.

    """

    def __init__(self, replicate: Sequence[str] = ("#",), keep_local: Sequence[str] = ()) -> None:
        self._replicate = tuple(replicate)
        self._keep_local = tuple(keep_local)
        self._stays: dict[str, bool] = {}
        self.is_everything = "#" in self._replicate and not self._keep_local
        """True if every client's message leaves."""

    def leaves(self, topic: str) -> bool:
        """Return whether messages of this topic, retained ones too, are for other gateways."""
        return self.is_everything or not self._stays_here(topic)

    def runs(self, rows: Sequence[Row]) -> Iterator[tuple[bool, Sequence[Row]]]:
        """Cut messages where staying turns to leaving or back: (whether they stay, messages)."""
        if self.is_everything:
            yield False, rows
            return
        for stays, run in groupby(rows, lambda row: self._stays_here(row[0])):
            yield stays, list(run)

    def _stays_here(self, topic: str) -> bool:
        stays = self._stays.get(topic)
        if stays is None:
            if len(self._stays) >= MAX_TOPICS:
                self._stays.clear()
            stays = self._stays[topic] = _any(self._keep_local, topic) or not _any(
                self._replicate, topic
            )
        return stays


def _any(filters: Sequence[str], topic: str) -> bool:
    return any(matches(topic_filter, topic) for topic_filter in filters)
