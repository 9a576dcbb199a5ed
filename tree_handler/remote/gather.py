"""One request to many gateways: who is asked when, and what came of it (sans-I/O).

So many at most are asked at one time; the others wait for those before them. When the time is over
who has not answered has no answer. The order of the results is that of the targets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tree_handler.remote.limits import DEFAULT_LIMITS, QueryLimits
from tree_handler.remote.resource import ResourceResponse

TOO_LARGE: Final = ResourceResponse(0xA3, b"the answers of others fill the response")
"""The stand-in for an answer for which there is no room (5.03)."""


class AnswerGathering:
    """The answers to one request.

    Args:
        targets: ids of gateways, each once.
        limits: see there.

    """

    def __init__(self, targets: Sequence[str], limits: QueryLimits = DEFAULT_LIMITS) -> None:
        self._targets = tuple(targets)
        self._waiting = deque(targets)
        self._limits = limits
        self._asked: set[str] = set()
        self._answers: dict[str, ResourceResponse | None] = {}
        self._bytes = 0

    @property
    def is_over(self) -> bool:
        """Return whether nobody is waited for any more."""
        return not self._asked and not self._waiting

    @property
    def in_flight(self) -> int:
        """Return how many are asked now."""
        return len(self._asked)

    def next(self) -> str | None:
        """Return the next one to ask now; None if nobody is."""
        if not self._waiting or len(self._asked) >= self._limits.targets_at_once:
            return None
        target = self._waiting.popleft()
        self._asked.add(target)
        return target

    def answered(self, target: str, response: ResourceResponse | None) -> None:
        """Take what one answered (None: nothing in time); what comes twice is passed over."""
        if target not in self._asked:
            return
        self._asked.remove(target)
        if response is not None:
            self._bytes += len(response.payload)
            if self._bytes > self._limits.targets_bytes:
                self._bytes -= len(response.payload)
                response = TOO_LARGE
        self._answers[target] = response

    def give_up(self) -> None:
        """The time is over."""
        self._waiting.clear()
        self._asked.clear()

    def so_far(self) -> list[tuple[str, ResourceResponse | None]]:
        """Return what each target that was waited for to its end answered, as in `results`."""
        return [
            (target, self._answers[target]) for target in self._targets if target in self._answers
        ]

    def results(self) -> list[tuple[str, ResourceResponse | None]]:
        """Return what each target answered; None for nothing."""
        return [(target, self._answers.get(target)) for target in self._targets]
