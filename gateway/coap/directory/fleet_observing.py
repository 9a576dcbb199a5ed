"""Observers of look-ups in the directories of others: the shell around `ObservedLookUp`.

Those who observe the same, with the same name and roles, share its subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Final

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.access import CoapAccess
from gateway.coap.fleet_directory.observed import GATEWAYS_MAX, ObservedLookUp
from gateway.coap.fleet_directory.search import UriOfMember
from gateway.coap.fleet_directory.targets import LookedUp, is_too_long, links_of
from gateway.coap.remote.reply import OnReply, RemoteReply
from gateway.coap.responders import RespondTo
from gateway.trust.policy.principal import Principal
from light_dataclasses import dataclass
from resource_directory.link_format import WebLink
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.remote.resource import ResourceRequest

_log = logging.getLogger(__name__)

LOOK_UPS_MAX: Final = 8
"""Observed look-ups; their subscriptions are half of those that a gateway may have."""
OBSERVERS_MAX: Final = 256
PAUSE_S: Final = 1.0
"""Changes within this time are told together."""
RETRY_S: Final = 15.0
"""The time before a gateway that was silent is subscribed at again, if it is in reach."""

SubscribeToLookups = Callable[[MemberRecord, ResourceRequest, OnReply], Callable[[], None]]
"""Has a gateway, this one included, tell of changes, in later turns; what it returns ends it."""
Represent = Callable[[LookedUp, list[WebLink]], CoapResponse]
"""Makes the response of what was found."""


@dataclass(slots=True)
class _Observer:
    """One observer: its request, itself, and where its notifications go."""

    request: CoapRequest
    peer: CoapPeer
    respond: RespondTo


@dataclass(slots=True)
class _Shared:
    """An observed look-up, its subscriptions, and who observes it, by exchange."""

    core: ObservedLookUp
    told: CoapResponse | None
    observers: dict[int, _Observer] = field(default_factory=dict)
    ends: dict[str, Callable[[], None]] = field(default_factory=dict)


class FleetObservations:
    """All observed look-ups.

    Args:
        members: tells when others may have something.
        access: decides who is told of the fleet.
        subscribe: subscribes at a gateway.
        targets: the gateways of a look-up that may be asked for who looks it up.
        way_to: what paths of a gateway begin with here.
        in_reach: whether a gateway is in reach.
        respond_with: what is told of links.

    """

    def __init__(
        self,
        members: Membership,
        access: CoapAccess,
        subscribe: SubscribeToLookups,
        *,
        targets: Callable[[LookedUp], list[MemberRecord]],
        way_to: UriOfMember,
        in_reach: Callable[[str], bool],
        respond_with: Represent,
    ) -> None:
        self._access = access
        self._subscribe = subscribe
        self._targets = targets
        self._way_to = way_to
        self._in_reach = in_reach
        self._respond_with = respond_with
        self._shared: dict[LookedUp, _Shared] = {}
        self._of_exchange: dict[int, LookedUp] = {}
        self._offered: dict[int, tuple[LookedUp, CoapPeer, CoapResponse]] = {}
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._failures = Failures(CountedLines(_log, self._loop.time))
        members.listen(self._soon)
        access.tell_of_changes(self._anew)

    def offer(
        self,
        looked_up: LookedUp,
        asked: tuple[CoapRequest, CoapPeer],
        response: CoapResponse,
        done: Callable[[CoapResponse], None],
    ) -> None:
        """Answer a request, of which the engine may say in `observe` that it observes.

        Args:
            looked_up: what, for whom.
            asked: the request, and who asks.
            response: the answer.
            done: takes it.

        """
        request, peer = asked
        if request.observe and response.code == codes.CONTENT:
            self._offered[id(request)] = looked_up, peer, response
        done(response)
        self._offered.pop(id(request), None)

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Observe a look-up that was just answered; return whether there is room for it."""
        offered = self._offered.pop(id(request), None)
        if offered is None or len(self._of_exchange) >= OBSERVERS_MAX:
            return False
        looked_up, peer, response = offered
        if looked_up.query.count is not None:
            return False
        shared = self._shared.get(looked_up)
        if shared is None:
            found = self._targets(looked_up)
            if len(self._shared) >= LOOK_UPS_MAX or len(found) > GATEWAYS_MAX:
                return False
            shared = _Shared(ObservedLookUp(looked_up, self._way_to), response)
            self._shared[looked_up] = shared
            self._follow(shared)
        shared.observers[exchange] = _Observer(request, peer, respond)
        self._of_exchange[exchange] = looked_up
        return True

    def ended(self, exchange: int) -> None:
        """Observe no longer for an exchange."""
        looked_up = self._of_exchange.pop(exchange, None)
        if looked_up is None:
            return
        shared = self._shared[looked_up]
        shared.observers.pop(exchange, None)
        if not shared.observers:
            del self._shared[looked_up]
            self._end_all(shared)

    def stop(self) -> None:
        """Tell nobody anything any more."""
        for timer in (self._pause, self._retry):
            if timer is not None:
                timer.cancel()
        for shared in self._shared.values():
            self._end_all(shared)
        self._shared.clear()
        self._of_exchange.clear()

    def _end_all(self, shared: _Shared) -> None:
        ends, shared.ends = shared.ends, {}
        for end in ends.values():
            end()

    def _follow(self, shared: _Shared) -> None:
        new, gone = shared.core.follow(self._targets(shared.core.looked_up))
        for name in gone:
            end = shared.ends.pop(name, None)
            if end is not None:
                end()
        for record in new:
            self._begin(shared, record)

    def _begin(self, shared: _Shared, record: MemberRecord) -> None:
        looked_up = shared.core.looked_up
        assert isinstance(looked_up.asker, Principal)
        who, count = self._access.introduced(looked_up.asker), shared.core.count_of(record.id)
        request = looked_up.request(0, *who, count=count)

        def told(reply: RemoteReply) -> None:
            response = reply.response
            links = None if response is None else links_of(response)
            if not reply.goes_on:
                shared.ends.pop(record.id, None)
                is_long = response is not None and is_too_long(response)
                begin = partial(self._begin, shared, record)
                if (
                    is_long
                    and shared.core.too_long(record.id)
                    and self._failures.tried("subscription at a directory", begin, record.id)
                ):
                    return  # for fewer links
                refused = response is not None and response.code >> 5 == _CLIENT_ERROR
                links = [] if refused else None
                if not refused and self._retry is None:
                    self._retry = self._loop.call_later(RETRY_S, self._again)
            shared.core.told(record.id, links, self._loop.time())
            self._soon()

        shared.ends[record.id] = self._subscribe(record, request, told)

    def _again(self) -> None:
        """Subscribe where it was silent."""
        self._retry = None
        for shared in self._shared.values():
            for record in shared.core.silent:
                if record.id in shared.ends:
                    continue
                begin = partial(self._begin, shared, record)
                is_begun = self._in_reach(record.id) and self._failures.tried(
                    "subscription at a directory", begin, record.id
                )
                if not is_begun and self._retry is None:
                    self._retry = self._loop.call_later(RETRY_S, self._again)

    def _soon(self) -> None:
        if self._shared and self._pause is None:
            self._pause = self._loop.call_later(PAUSE_S, self._tell)

    def _tell(self) -> None:
        self._pause = None
        for shared in list(self._shared.values()):
            self._failures.tried("tell of a look-up", partial(self._tell_of, shared))

    def _tell_of(self, shared: _Shared) -> None:
        self._follow(shared)
        if not shared.core.is_whole:
            return  # the last one tells
        looked_up = shared.core.looked_up
        response = self._respond_with(looked_up, shared.core.links(self._loop.time()))
        if response == shared.told:
            return
        shared.told = response
        is_last = not codes.is_success(response.code)
        for exchange, observer in list(shared.observers.items()):
            step = partial(observer.respond, exchange, response, is_last)
            self._failures.tried("tell an observer of a look-up", step)
            if is_last:
                self.ended(exchange)

    def _anew(self) -> None:
        """Look again at all observers: the policy may let others read now."""
        for shared in list(self._shared.values()):
            for exchange, observer in list(shared.observers.items()):
                step = partial(self._revise, exchange, observer)
                self._failures.tried("end what is allowed no more", step, exchange)
            if shared.observers:
                self._failures.tried("subscribe anew", partial(self._begin_anew, shared))

    def _revise(self, exchange: int, observer: _Observer) -> None:
        if not self._access.tells_all(observer.request, observer.peer):
            self.ended(exchange)
            observer.respond(exchange, CoapResponse(codes.UNAUTHORIZED, (), b""), True)

    def _begin_anew(self, shared: _Shared) -> None:
        self._end_all(shared)
        shared.core = ObservedLookUp(shared.core.looked_up, self._way_to)
        self._follow(shared)


_CLIENT_ERROR: Final = 4
