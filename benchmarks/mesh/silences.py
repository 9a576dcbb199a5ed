"""The silence of a publisher at a subscriber: what a failure costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.mesh.count import Count, Stream


@dataclass(frozen=True, slots=True)
class Silence:
    """The longest time without an arrival, at one subscriber of one publisher.

    Attributes:
        subscriber: its host.
        publisher: its host.
        seconds: its length.
        began_s: its beginning, in seconds after the event; negative if before.

    """

    subscriber: int
    publisher: int
    seconds: float
    began_s: float


class Listening:
    """One publisher and one subscriber at each host; every subscriber hears every publisher.

    Args:
        count: of arrivals, with their times.

    """

    def __init__(self, count: Count) -> None:
        self.count = count
        self.streams: dict[int, Stream] = {}
        """By the publisher's host."""
        self.names: dict[int, str] = {}
        """Of subscribers, by host."""

    def heard_all(self) -> bool:
        """Return whether every subscriber has got something of every publisher."""
        received = self.count.received
        return all(
            stream.number in received[name]
            for name in self.names.values()
            for stream in self.streams.values()
        )

    def forget_arrivals(self) -> None:
        """Keep no times of what has come so far, but the last of each stream."""
        for streams in self.count.received.values():
            for received in streams.values():
                del received.arrivals[:-1]

    def silences(
        self, event_s: float, until_s: float, *, without: Iterable[int] = ()
    ) -> list[Silence]:
        """Return the longest silence of each pair of publisher and subscriber after an event.

        It is measured between two arrivals, or to ``until_s`` where none came after.

        Args:
            event_s: the moment of the event, on the monotonic clock.
            until_s: the moment up to which arrivals are looked at.
            without: hosts that were down, which don't count.

        """
        skipped = set(without)
        return [
            self._longest(subscriber, publisher, event_s, until_s)
            for subscriber in self.names
            for publisher in self.streams
            if subscriber not in skipped and publisher not in skipped
        ]

    def _longest(self, subscriber: int, publisher: int, event_s: float, until_s: float) -> Silence:
        received = self.count.received[self.names[subscriber]].get(self.streams[publisher].number)
        times = [a for a, _, _ in received.arrivals if a <= until_s] if received else []
        longest = Silence(subscriber, publisher, 0.0, 0.0)
        for before, after in _gaps(times, event_s, until_s):
            if after - before > longest.seconds:
                longest = Silence(subscriber, publisher, after - before, before - event_s)
        return longest


def _gaps(times: list[float], event_s: float, until_s: float) -> Iterator[tuple[float, float]]:
    """Neighbouring arrivals of which the later is after the event."""
    before = event_s
    for at in times:
        if at > event_s:
            yield before, at
        before = at
    yield before, until_s


def worst(silences: list[Silence]) -> Silence:
    """Return the longest of all pairs."""
    return max(silences, key=lambda one: one.seconds)
