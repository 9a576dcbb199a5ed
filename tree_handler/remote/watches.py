"""Resources of other gateways that are observed here: one subscription for all who see the same.

Sans-I/O. Who observes the same resource of the same gateway in the same format, with the same name
and roles, shares a subscription: each change comes over the links once. A subscription has a lease
and is renewed at half of it, and at once when its gateway is in reach again or in another life; the
answer to that tells of what was missed. Where observers say over how many gateways they may be
passed on (Hop-Limit), the subscription is asked for with the most of any of them, and those for
whom that was too few are told so; what is known already needs no way. When the gateway is out of
reach for longer than `GRACE_S`, or nothing has come of renewals while the lease lasted, the
observers are told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from light_dataclasses import dataclass
from tree_handler.deadlines import Deadlines
from tree_handler.remote.limits import DEFAULT_LIMITS
from tree_handler.remote.options import (
    HOP_LIMIT_REACHED,
    MAX_HOPS,
    max_age_s,
    with_max_age,
)
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

LEASE_S: Final = 60.0
GRACE_S: Final = 15.0
"""So long a gateway may be out of reach, as it is while the tree changes or it restarts."""
RETRY_S: Final = 1.0
RETRY_MOST_S: Final = 8.0
DEFAULT_MAX_AGE_S: Final = 60
"""Of an answer that does not say (RFC 7252, section 5.10.5)."""
_SERVER_ERROR: Final = 5
_UNCOUNTED: Final = MAX_HOPS + 1


@dataclass(frozen=True, slots=True)
class WatchKey:
    """The key of an observation: a resource, and on whose behalf it is observed.

    Attributes:
        target: id of the gateway.
        request: without ETags; name and roles are part of it.

    """

    target: str
    request: ResourceRequest


@dataclass(frozen=True, slots=True)
class BeginWatch:
    """Ask a gateway to tell of changes, with `Lease` number ``watch``.

    Attributes:
        watch: the number.
        key: what.
        hops: over how many gateways that may be passed on; None if nobody says.

    """

    watch: int
    key: WatchKey
    hops: int | None = None


@dataclass(frozen=True, slots=True)
class EndWatch:
    """End what was asked last for a watch."""

    watch: int


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell observers.

    Attributes:
        key: of what they observe.
        observers: their numbers.
        response: what; None if the gateway does not answer, or is gone.
        is_last: nothing will follow.

    """

    key: WatchKey
    observers: tuple[int, ...]
    response: ResourceResponse | None
    is_last: bool


WatchAction = BeginWatch | EndWatch | Notify


class _Watch:
    """One subscription."""

    __slots__ = (
        "asked_hops",
        "epoch",
        "is_asking",
        "key",
        "lease_until",
        "lost_at",
        "number",
        "observers",
        "response",
        "retry_s",
        "told_at",
    )

    def __init__(self, number: int, key: WatchKey) -> None:
        self.number = number
        self.key = key
        self.observers: dict[int, int] = {}
        """The number of gateways over which each may be passed on."""
        self.asked_hops = _UNCOUNTED
        """The number of gateways over which it was asked for last."""
        self.response: ResourceResponse | None = None
        self.told_at = 0.0
        self.lease_until = -math.inf
        self.lost_at = math.inf
        """The time when its observers are told that its gateway is gone."""
        self.is_asking = False
        self.retry_s = RETRY_S
        self.epoch: int | None = None
        """The life in which its gateway was last seen in reach; None if it is not."""

    def ask(self) -> BeginWatch:
        """Ask for it, once more or the first time."""
        most = max(self.observers.values(), default=_UNCOUNTED)
        # A refusal may be of either where two are under way.
        self.asked_hops = min(most, self.asked_hops) if self.is_asking else most
        self.is_asking = True
        return BeginWatch(self.number, self.key, None if most == _UNCOUNTED else most)

    def aged(self, now: float) -> ResourceResponse | None:
        """Return what was told last, with what is left of its Max-Age."""
        if self.response is None:
            return None
        age_s = max_age_s(self.response.options)
        if age_s is None:
            return self.response
        left_s = max(0, age_s - math.floor(now - self.told_at))
        return replace(self.response, options=with_max_age(self.response.options, left_s))

    def says_news(self, response: ResourceResponse, now: float) -> bool:
        """Return whether observers are to be told of what a renewal was answered with."""
        last = self.response
        if last is None:
            return True
        age_s = max_age_s(last.options)
        is_fresh = now < self.told_at + (DEFAULT_MAX_AGE_S if age_s is None else age_s)
        said = (last.code, last.payload, last.content_format)
        return not is_fresh or said != (response.code, response.payload, response.content_format)


class RemoteWatches:
    """All that is observed of other gateways.

    Args:
        lease_s: for how long gateways are asked to tell.
        max_watches: subscriptions at most.

    """

    def __init__(
        self, lease_s: float = LEASE_S, max_watches: int = DEFAULT_LIMITS.subscriptions
    ) -> None:
        self._lease_s = lease_s
        self._max_watches = max_watches
        self._by_key: dict[WatchKey, _Watch] = {}
        self._by_number: dict[int, _Watch] = {}
        self._of_observer: dict[int, _Watch] = {}
        self._due: Deadlines[int] = Deadlines()
        self._count = 0

    def __len__(self) -> int:
        """Return how many subscriptions there are."""
        return len(self._by_key)

    @property
    def observers(self) -> int:
        """Return how many observe."""
        return len(self._of_observer)

    def has_room(self, key: WatchKey) -> bool:
        """Return whether one more may observe this."""
        return key in self._by_key or len(self._by_key) < self._max_watches

    def add(
        self,
        key: WatchKey,
        observer: int,
        epoch: int | None,
        now: float,
        hops: int | None = None,
    ) -> list[WatchAction]:
        """Somebody observes; `has_room` said yes.

        Args:
            key: what.
            observer: a number that nobody has.
            epoch: the life in which the gateway is in reach; None if it is not.
            now: in seconds.
            hops: over how many gateways it may be passed on, 1 at least; None if it does not say.

        """
        most = _UNCOUNTED if hops is None else hops
        watch = self._by_key.get(key)
        if watch is None:
            self._count += 1
            watch = _Watch(self._count, key)
            watch.epoch = epoch
            self._by_key[key] = self._by_number[watch.number] = watch
            watch.observers[observer] = most
            self._of_observer[observer] = watch
            return [watch.ask()]
        watch.observers[observer] = most
        self._of_observer[observer] = watch
        aged = watch.aged(now)
        return [] if aged is None else [Notify(key, (observer,), aged, False)]

    def remove(self, observer: int) -> list[WatchAction]:
        """Somebody observes no longer."""
        watch = self._of_observer.pop(observer, None)
        if watch is None:
            return []
        del watch.observers[observer]
        if watch.observers:
            return []
        self._drop(watch)
        return [EndWatch(watch.number)]

    def told(
        self, number: int, response: ResourceResponse | None, now: float, *, goes_on: bool
    ) -> list[WatchAction]:
        """Take what came of a subscription.

        Args:
            number: of it.
            response: None if none came in time, or the lease is over.
            now: in seconds.
            goes_on: more may follow.

        """
        watch = self._by_number.get(number)
        if watch is None:
            return []
        was_asking, watch.is_asking = watch.is_asking, False
        if response is None or (response.code >> 5 == _SERVER_ERROR):
            return self._failed(watch, response, now)
        if not goes_on:
            return self._end(watch, response)
        watch.retry_s = RETRY_S
        if was_asking:
            watch.lease_until = now + self._lease_s
            self._due.set(number, min(now + self._lease_s / 2, watch.lost_at))
            if not watch.says_news(response, now):
                return []
        watch.response, watch.told_at = response, now
        return [Notify(watch.key, tuple(watch.observers), response, False)]

    def moved(self, epoch_of: Callable[[str], int | None], now: float) -> list[WatchAction]:
        """Some gateways may be in reach again, out of it or in another life.

        Args:
            epoch_of: the life in which a gateway is in reach; None if it is not.
            now: in seconds.

        """
        actions: list[WatchAction] = []
        epochs: dict[str, int | None] = {}
        for watch in self._by_key.values():
            target = watch.key.target
            if target not in epochs:
                epochs[target] = epoch_of(target)
            epoch = epochs[target]
            if epoch == watch.epoch:
                continue
            watch.epoch = epoch
            if epoch is None:
                watch.lost_at = now + GRACE_S
                self._due.set(watch.number, watch.lost_at)
            else:
                watch.lost_at = math.inf
                actions += self._renew(watch)
        return actions

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing is to be done."""
        return self._due.next()

    def handle_timer(self, now: float) -> list[WatchAction]:
        """Renew what is due, and tell of gateways that are gone."""
        actions: list[WatchAction] = []
        for number in self._due.take_due(now):
            watch = self._by_number[number]
            if now >= watch.lost_at:
                actions += self._end(watch, None)
                actions.append(EndWatch(number))
            else:
                actions += self._renew(watch)
        return actions

    def _renew(self, watch: _Watch) -> list[WatchAction]:
        self._due.drop(watch.number)
        if watch.lost_at < math.inf:
            self._due.set(watch.number, watch.lost_at)
        return [watch.ask()]

    def _failed(
        self, watch: _Watch, response: ResourceResponse | None, now: float
    ) -> list[WatchAction]:
        if response is not None and response.code == HOP_LIMIT_REACHED:
            return self._too_far(watch, response)
        if watch.response is None or now >= watch.lease_until:
            return self._end(watch, response)
        self._due.set(watch.number, now + watch.retry_s)
        watch.retry_s = min(2 * watch.retry_s, RETRY_MOST_S)
        return []

    def _too_far(self, watch: _Watch, response: ResourceResponse) -> list[WatchAction]:
        """Ask for those who may be passed on further: it is further away than was asked for."""
        spent = tuple(one for one, most in watch.observers.items() if most <= watch.asked_hops)
        if len(spent) == len(watch.observers):
            return self._end(watch, response)
        for one in spent:
            del watch.observers[one], self._of_observer[one]
        return [Notify(watch.key, spent, response, True), *self._renew(watch)]

    def _end(self, watch: _Watch, response: ResourceResponse | None) -> list[WatchAction]:
        observers = tuple(watch.observers)
        for observer in observers:
            del self._of_observer[observer]
        self._drop(watch)
        return [Notify(watch.key, observers, response, True)]

    def _drop(self, watch: _Watch) -> None:
        del self._by_key[watch.key], self._by_number[watch.number]
        self._due.drop(watch.number)
