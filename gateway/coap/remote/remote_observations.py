"""Observers here of other gateways' resources: the shell around `tree_handler.remote.watches`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse
from gateway.base.due_timer import DueTimer
from gateway.coap.remote.exchange import Executor
from gateway.coap.remote.forms import coap_response, no_answer, relayed
from gateway.coap.remote.parts import RemoteParts
from gateway.coap.remote.paths import RemoteRequest
from gateway.coap.remote.reply import NO_REPLY, OnReply, RemoteReply
from gateway.coap.responders import AskForBody, RespondTo
from tree_handler.remote.options import HOP_LIMIT, NO_OPTIONS, hops_left
from tree_handler.remote.query import Lease, TooManyError
from tree_handler.remote.resource import ResourceResponse
from tree_handler.remote.watches import (
    LEASE_S,
    BeginWatch,
    EndWatch,
    Notify,
    RemoteWatches,
    WatchAction,
    WatchKey,
)

_GONE: Final = CoapResponse(codes.NOT_FOUND, (), b"the gateway is no longer in the fleet")
_OUT_OF_REACH: Final = CoapResponse(
    codes.SERVICE_UNAVAILABLE, (), b"the gateway is out of reach: observe again"
)

OnWatchedChange = Callable[[WatchKey, ResourceResponse], None]
"""Takes what a resource is now."""


class ContinuingAnswer(Protocol):
    """One that is told more than once, after a first answer.

    Attributes:
        goes_on: more will follow that answer.

    """

    goes_on: bool

    def bind(self, exchange: int, respond: RespondTo) -> None:
        """From now on tell an exchange."""

    def end(self) -> None:
        """It is told nothing any more."""


class RemoteObservations:
    """All who observe.

    Args:
        parts: what requests are served with.
        changed: is told what each observed resource is now.
        lease_s: for how long gateways are asked to tell of changes.

    """

    def __init__(
        self, parts: RemoteParts, changed: OnWatchedChange, lease_s: float = LEASE_S
    ) -> None:
        self.core = RemoteWatches(lease_s, parts.limits.subscriptions)
        self._parts = parts
        self._changed = changed
        self._lease_s = lease_s
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._watchers: dict[int, RemoteObserver] = {}
        self._followers: dict[int, OnReply] = {}
        self._by_request: dict[int, ContinuingAnswer] = {}
        self._by_exchange: dict[int, ContinuingAnswer] = {}
        self._ends: dict[int, Callable[[], None]] = {}
        loop, core = self._loop, self.core
        self._timer = DueTimer(loop, loop.time, core.next_timer, self._handle_timer)
        parts.reach.tell_of_moves(self._moved)

    def watcher(
        self, asked: RemoteRequest, request: CoapRequest, key: WatchKey | None
    ) -> RemoteObserver:
        """Begin to observe for one more; see `gateway.coap.responders.PendingResponse`.

        Args:
            asked: what.
            request: the observer's.
            key: of what it observes; None for a resource of this gateway.

        """
        watcher = RemoteObserver(self, next(self._numbers), asked, request, key)
        self.expect(request, watcher)
        return watcher

    def expect(self, request: CoapRequest, watcher: ContinuingAnswer) -> None:
        """A request is about to have its first answer, and a watcher has more for it."""
        self._by_request[id(request)] = watcher

    def expect_no_more(self, request: CoapRequest) -> None:
        """A request has had its first answer, or will have none."""
        self._by_request.pop(id(request), None)

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Bind the watcher that `expect` noted to an exchange; return whether it goes on."""
        watcher = self._by_request.pop(id(request), None)
        if watcher is None or not watcher.goes_on:
            return False
        watcher.bind(exchange, respond)
        self._by_exchange[exchange] = watcher
        return True

    def ended(self, exchange: int) -> None:
        """End the watcher of an exchange, if it has one."""
        watcher = self._by_exchange.pop(exchange, None)
        if watcher is not None:
            watcher.end()

    def begin(self, watcher: RemoteObserver, key: WatchKey) -> None:
        """A watcher of another gateway's resource begins."""
        self._watchers[watcher.number] = watcher
        epoch = self._parts.reach.epoch_of(key.target)
        now, hops = self._loop.time(), hops_left(watcher.asked.request.options)
        self._carry_out(self.core.add(key, watcher.number, epoch, now, hops))

    def follow(self, key: WatchKey, told: OnReply) -> Callable[[], None]:
        """Follow another gateway's resource for this gateway's own ends.

        Args:
            key: what, and on whose behalf.
            told: is told of it, in later turns.

        Returns:
            What ends it: nothing is told after that.

        """
        number = next(self._numbers)
        if not self.core.has_room(key):
            return self._loop.call_soon(told, NO_REPLY).cancel
        self._followers[number] = told
        epoch = self._parts.reach.epoch_of(key.target)
        self._carry_out(self.core.add(key, number, epoch, self._loop.time()))

        def end() -> None:
            if self._followers.pop(number, None) is not None:
                self._carry_out(self.core.remove(number))

        return end

    def _tell_follower(self, number: int, reply: RemoteReply) -> None:
        told = self._followers.get(number)
        if told is None:
            return
        if not reply.goes_on:
            del self._followers[number]
        told(reply)

    def begin_here(
        self, watcher: RemoteObserver, tell: Callable[[ResourceResponse, bool], None]
    ) -> None:
        """A watcher of this gateway's own resource begins."""
        executor: Executor = self._parts.executor
        request = watcher.asked.request
        self._ends[-watcher.number] = executor.begin(request, "", tell, observes=True)

    def forget(self, watcher: RemoteObserver) -> None:
        """A watcher is to be told nothing any more."""
        self.expect_no_more(watcher.request)
        end = self._ends.pop(-watcher.number, None)
        if end is not None:
            end()
        if self._watchers.pop(watcher.number, None) is not None:
            self._carry_out(self.core.remove(watcher.number))

    def stop(self) -> None:
        """Renew nothing any more."""
        self._timer.stop()

    def _carry_out(self, actions: list[WatchAction]) -> None:
        for action in actions:
            match action:
                case BeginWatch(number, key, hops):
                    self._subscribe(number, key, hops)
                case EndWatch(number):
                    end = self._ends.pop(number, None)
                    if end is not None:
                        end()
                case Notify():
                    self._notify(action)
        self._timer.set()

    def _subscribe(self, number: int, key: WatchKey, hops: int | None) -> None:
        def told(reply: RemoteReply) -> None:
            now = self._loop.time()
            response, goes_on = reply.response, reply.goes_on
            self._carry_out(self.core.told(number, response, now, goes_on=goes_on))

        target = self._parts.life_of(key.target)
        lease = Lease(number, self._lease_s)
        counted = NO_OPTIONS if hops is None else ((HOP_LIMIT, bytes([hops])),)
        request = replace(key.request, options=counted)
        try:
            end = self._parts.exchange.begin(
                target, request, self._parts.deadline_s, told, lease=lease
            )
        except TooManyError:
            self._loop.call_soon(told, NO_REPLY)
            return
        self._ends[number] = end

    def _notify(self, notify: Notify) -> None:
        if notify.response is not None:
            self._changed(notify.key, notify.response)
            response = coap_response(relayed(notify.response, self._parts.gateway_id))
        else:
            response = self._why_nothing(notify.key.target)
        for number in notify.observers:
            if number in self._followers:
                reply = RemoteReply(notify.response, not notify.is_last)
                self._loop.call_soon(self._tell_follower, number, reply)
                continue
            watcher = self._watchers.get(number)
            if watcher is None:
                continue
            if notify.is_last:
                del self._watchers[number]
            if watcher.is_bound:
                watcher.tell(response, is_last=notify.is_last)
            else:
                # It may still be beginning, and is told in a later turn.
                self._loop.call_soon(watcher.first, response, not notify.is_last)

    def _why_nothing(self, target: str) -> CoapResponse:
        if self._parts.members.get(target) is None:
            return _GONE
        if self._parts.reach.epoch_of(target) is None:
            return _OUT_OF_REACH
        return no_answer(target, self._parts.deadline_s)

    def _moved(self, now: float) -> None:
        if len(self.core):
            self._carry_out(self.core.moved(self._parts.reach.epoch_of, now))

    def _handle_timer(self, now: float) -> None:
        self._carry_out(self.core.handle_timer(now))


class RemoteObserver:
    """One who observes, from its request to its end.

    Attributes:
        number: its own.
        asked: what.
        request: as it came.
        goes_on: it may be told of changes.

    """

    def __init__(
        self,
        watching: RemoteObservations,
        number: int,
        asked: RemoteRequest,
        request: CoapRequest,
        key: WatchKey | None,
    ) -> None:
        self.number = number
        self.asked = asked
        self.request = request
        self.goes_on = False
        self._watching = watching
        self._key = key
        self._done: Callable[[CoapResponse], None] | None = None
        self._exchange = 0
        self._respond: RespondTo | None = None

    @property
    def is_bound(self) -> bool:
        """Return whether its first answer is given, and others follow."""
        return self._respond is not None

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Begin to observe, here or at the other gateway; `done` takes the first response."""
        self._done = done
        if self._key is None:
            self._watching.begin_here(self, self._told_here)
        else:
            self._watching.begin(self, self._key)
        return self.end

    def bind(self, exchange: int, respond: RespondTo) -> None:
        """From now on tell an exchange."""
        self._exchange, self._respond = exchange, respond

    def first(self, response: CoapResponse, goes_on: bool) -> None:
        """Give the first answer."""
        done, self._done = self._done, None
        if done is None:
            if self._respond is not None:  # what came meanwhile was given first
                self.tell(response, is_last=not goes_on)
            return
        self.goes_on = goes_on
        done(response)
        if self._respond is None:
            self.end()

    def tell(self, response: CoapResponse, *, is_last: bool) -> None:
        """Give a response to the exchange that observes, unless that has ended or is not bound
        yet."""
        if self._respond is not None:
            self._respond(self._exchange, response, is_last)

    def end(self) -> None:
        """It is told nothing any more."""
        self._done = self._respond = None
        self._watching.forget(self)

    def _told_here(self, response: ResourceResponse, goes_on: bool) -> None:
        told = coap_response(response)
        if self.is_bound:
            self.tell(told, is_last=not goes_on)
        else:
            asyncio.get_running_loop().call_soon(self.first, told, goes_on)
