"""Requests that an origin is to answer: the log is read for one of each gateway at a time.

A gateway that was cut off asks for every life of the origin at once. What is not read for yet
waits here and is read for as soon as the one before is answered: a request that was dropped would
come again only with the next claim, and claims become rare. What is asked for again while it is
being read is on its way, so that does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_handler.batch import Epoch
from tree_handler.routing.wire import Ask


@dataclass(slots=True)
class Serving:
    """What is read for, and what waits for that: at most one request for each stream."""

    _reading: dict[str, Epoch] = field(default_factory=dict)
    """By gateway, the stream that is read for it now."""
    _waiting: dict[str, dict[Epoch, Ask]] = field(default_factory=dict)
    """By gateway and stream, the requests that come next."""

    def begin(self, ask: Ask) -> bool:
        """Tell whether the log is to be read for a request now; if not, it waits."""
        reading = self._reading.get(ask.asker)
        if reading is None:
            self._reading[ask.asker] = ask.stream
            return True
        if reading != ask.stream:
            self._waiting.setdefault(ask.asker, {})[ask.stream] = ask
        return False

    @property
    def is_reading(self) -> bool:
        """Whether the log is being read for any gateway."""
        return bool(self._reading)

    def end(self, asker: str) -> list[Ask]:
        """Note that the log was read for a gateway; return what it has asked for besides."""
        self._reading.pop(asker, None)
        return list(self._waiting.pop(asker, {}).values())
