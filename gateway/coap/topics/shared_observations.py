"""Observations shared by all who see the same, each of whom is told once; pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from coap_engine.codes import is_success
from coap_engine.message import CoapResponse
from light_dataclasses import dataclass

AGAIN_S: Final = 30.0
"""So long after an observation has ended for a while (5.xx) it begins anew."""
_SERVER_ERROR: Final = 5

W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ObservationKey:
    """The key of an observation: a topic, and the rights of its observers.

    Attributes:
        topic: of the subscription.
        who: whoever is equal sees the same.

    """

    topic: str
    who: Hashable


class _Shared(Generic[W]):
    """One observation; no dataclass: mypyc knows none that is generic.

    Attributes:
        number: of its present life; another one when it begins anew.
        watchers: who is told, in the order in which they came.
        last: what it was told last.
        again_at_s: when it begins anew; None while it goes on, and where it does not.
        is_over: nothing more comes in this life.

    """

    __slots__ = ("again_at_s", "is_over", "last", "number", "watchers")

    def __init__(self) -> None:
        self.number = 0
        self.watchers: dict[W, None] = {}
        self.last: CoapResponse | None = None
        self.again_at_s: float | None = None
        self.is_over = True


class SharedObservations(Generic[W]):
    """All of them."""

    def __init__(self) -> None:
        self._by_key: dict[ObservationKey, _Shared[W]] = {}
        self._keys: dict[int, ObservationKey] = {}
        self._number = 0

    def __len__(self) -> int:
        """Return how many there are, those that are to begin anew among them."""
        return len(self._by_key)

    def add(self, key: ObservationKey, watcher: W) -> int | None:
        """Add one who watches; return the number of the observation that has to begin, if any."""
        shared = self._by_key.get(key)
        if shared is None:
            shared = self._by_key[key] = _Shared()
        shared.watchers[watcher] = None
        if shared.is_over and shared.again_at_s is None:
            return self._begin(key, shared)
        return None

    def last(self, key: ObservationKey) -> CoapResponse | None:
        """Return what was told last.

        None before the first answer, and for one that has begun anew.
        """
        shared = self._by_key.get(key)
        return None if shared is None else shared.last

    def remove(self, key: ObservationKey, watcher: W) -> int | None:
        """Remove one who watches; return the number of the observation that ends with it, if
        any."""
        shared = self._by_key.get(key)
        if shared is None or watcher not in shared.watchers:
            return None
        del shared.watchers[watcher]
        if shared.watchers:
            return None
        del self._by_key[key]
        self._keys.pop(shared.number, None)
        return shared.number

    def told(
        self, number: int, response: CoapResponse, now_s: float, *, is_last: bool
    ) -> tuple[str, list[W]]:
        """Return the topic of an observation that told something, and who is to know."""
        key = self._keys.get(number)
        if key is None:  # it has ended meanwhile
            return "", []
        shared = self._by_key[key]
        shared.last = response if is_success(response.code) else None
        if is_last:
            del self._keys[number]
            shared.is_over = True
            if response.code >> 5 == _SERVER_ERROR:
                shared.again_at_s = now_s + AGAIN_S
        return key.topic, list(shared.watchers)

    def next_timer(self) -> float:
        """Return when `handle_timer` has something to do; infinity for never."""
        due = [one.again_at_s for one in self._by_key.values() if one.again_at_s is not None]
        return min(due, default=float("inf"))

    def handle_timer(self, now_s: float) -> list[tuple[int, ObservationKey, W]]:
        """Return what begins anew now: number, key, and one of those who watch."""
        begun: list[tuple[int, ObservationKey, W]] = []
        for key, shared in self._by_key.items():
            if shared.again_at_s is not None and shared.again_at_s <= now_s:
                begun.append((self._begin(key, shared), key, next(iter(shared.watchers))))
        return begun

    def _begin(self, key: ObservationKey, shared: _Shared[W]) -> int:
        self._number += 1
        shared.number, shared.again_at_s, shared.is_over = self._number, None, False
        shared.last = None
        self._keys[self._number] = key
        return self._number
