"""Observed look-ups over the fleet: what is shared, how many there may be, and who may go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.coap.access import CoapAccess
from gateway.coap.directory.fleet_observing import LOOK_UPS_MAX, OBSERVERS_MAX, FleetObservations
from gateway.coap.fleet_directory.observed import GATEWAYS_MAX
from gateway.coap.fleet_directory.targets import LookedUp
from gateway.coap.peers import udp_peer
from gateway.coap.remote.reply import OnReply, RemoteReply
from gateway.trust.policy.principal import PSK, Principal
from resource_directory.link_format import WebLink, serialise
from resource_directory.scoped import ScopedQuery
from tests.held_timers import HeldTimers
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

PEER = udp_peer(PeerAddress(("192.0.2.1", 40_000)))
PRINCIPAL = Principal(PSK, "operator")
HAS = ResourceResponse(codes.CONTENT, b"</valve>", 40)


class Access:
    """Lets everybody read, until it does not."""

    def __init__(self) -> None:
        self.lets = True
        self.changed: list[Callable[[], None]] = []

    def tell_of_changes(self, changed: Callable[[], None]) -> None:
        self.changed.append(changed)

    def introduced(self, _: Principal) -> tuple[None, tuple[str, ...]]:
        return None, ()

    def tells_all(self, *_: object) -> bool:
        return self.lets


class Fleet:
    """Subscriptions of one gateway, and what its observers are told."""

    def __init__(self, count: int) -> None:
        self.records = [
            MemberRecord(f"gw-{number:03}", 1, 1, "", "", "10.0.0.1", 1883)
            for number in range(count)
        ]
        self.subscribed: dict[str, OnReply] = {}
        self.begun = 0
        self.asked: list[tuple[str, ...]] = []
        self.subscriptions_that_fail = 0
        self.told: list[tuple[int, CoapResponse, bool]] = []
        self.access = Access()
        self.members = Membership()
        self.observing = FleetObservations(
            self.members,
            cast(CoapAccess, self.access),
            self._subscribe,
            targets=lambda _: self.records,
            way_to=lambda record: f"/q/-/-/{record.id}",
            in_reach=lambda _: True,
            respond_with=self._response,
        )

    def _subscribe(
        self, record: MemberRecord, request: ResourceRequest, told: OnReply
    ) -> Callable[[], None]:
        assert request.path == ("rd-lookup", "res")
        if self.subscriptions_that_fail:
            self.subscriptions_that_fail -= 1
            raise ValueError("no room")
        self.begun += 1
        self.asked.append(request.query)
        self.subscribed[record.id] = told
        return lambda: self.subscribed.pop(record.id, None) and None

    @staticmethod
    def _response(_: LookedUp, links: list[WebLink]) -> CoapResponse:
        return CoapResponse(codes.CONTENT, (), serialise(links).encode())

    def observe(self, exchange: int, *parameters: str) -> bool:
        looked_up = self.looked_up(*parameters)
        request = CoapRequest(codes.GET, (), observe=True)
        taken: list[bool] = []

        def done(_: CoapResponse) -> None:
            respond = lambda *told: self.told.append(told)  # noqa: E731
            taken.append(self.observing.observe(exchange, request, respond))

        first = CoapResponse(codes.CONTENT, (), b"")
        self.observing.offer(looked_up, (request, PEER), first, done)
        return taken[0]

    @staticmethod
    def looked_up(*parameters: str) -> LookedUp:
        query = ScopedQuery.parse(["scope=all", *parameters])
        assert query is not None
        return LookedUp(("rd-lookup", "res"), query, PRINCIPAL)

    def all_have(self, response: ResourceResponse | None, *, is_last: bool = False) -> None:
        for told in list(self.subscribed.values()):
            told(RemoteReply(response, not is_last))

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.PAUSE_S", 0.01)
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.RETRY_S", 0.02)


async def test_those_who_observe_the_same_share_its_subscriptions_until_the_last_has_gone() -> None:
    fleet = Fleet(3)
    assert fleet.observe(1)
    assert fleet.observe(2)
    assert fleet.begun == 3
    fleet.all_have(HAS)
    await fleet.until(lambda: len(fleet.told) == 2)
    assert {exchange for exchange, _, _ in fleet.told} == {1, 2}
    assert fleet.told[0][1].payload.count(b"valve") == 3
    fleet.observing.ended(1)
    assert fleet.subscribed
    fleet.observing.ended(2)
    assert not fleet.subscribed
    assert fleet.observe(3)
    assert (fleet.begun, len(fleet.subscribed)) == (6, 3)
    fleet.observing.stop()


async def test_a_look_up_that_nobody_observes_any_more_leaves_room_for_another() -> None:
    fleet = Fleet(1)
    assert all(fleet.observe(number, f"x={number}") for number in range(LOOK_UPS_MAX))
    assert not fleet.observe(99, "x=99")
    fleet.observing.ended(3)
    assert fleet.observe(99, "x=99")
    assert not fleet.observe(100, "x=100")
    fleet.observing.stop()


async def test_what_has_not_changed_is_not_told_again() -> None:
    fleet = Fleet(1)
    assert fleet.observe(1)
    fleet.all_have(HAS)
    await fleet.until(lambda: fleet.told)
    fleet.all_have(HAS)
    fleet.all_have(ResourceResponse(codes.CONTENT, b"</other>", 40))
    await fleet.until(lambda: b"other" in fleet.told[-1][1].payload)
    assert len(fleet.told) == 2
    fleet.observing.stop()


async def test_too_many_gateways_too_many_look_ups_and_parts_are_only_answered() -> None:
    assert not Fleet(GATEWAYS_MAX + 1).observe(1)
    assert Fleet(GATEWAYS_MAX).observe(1)
    fleet = Fleet(1)
    assert not fleet.observe(1, "count=5")
    assert all(fleet.observe(number, f"x={number}") for number in range(LOOK_UPS_MAX))
    assert not fleet.observe(99, "x=one-more")
    assert fleet.observe(100, "x=0"), "it shares what is there"
    fleet.observing.stop()
    assert not fleet.subscribed


async def test_a_gateway_that_fell_silent_is_marked_and_subscribed_again() -> None:
    fleet = Fleet(1)
    assert fleet.observe(1)
    fleet.all_have(HAS)
    await fleet.until(lambda: fleet.told)
    fleet.all_have(None, is_last=True)
    await fleet.until(lambda: b"stale" in fleet.told[-1][1].payload)
    await fleet.until(lambda: fleet.begun == 2)
    fleet.all_have(HAS)
    await fleet.until(lambda: b"stale" not in fleet.told[-1][1].payload)
    fleet.observing.stop()


async def test_who_may_not_read_any_more_is_told_so_and_nothing_goes_on_for_them() -> None:
    fleet = Fleet(2)
    assert fleet.observe(1)
    fleet.access.lets = False
    for changed in fleet.access.changed:
        changed()
    assert [(one, told.code, last) for one, told, last in fleet.told] == [
        (1, codes.UNAUTHORIZED, True)
    ]
    assert not fleet.subscribed


async def test_a_new_policy_has_others_asked_anew() -> None:
    fleet = Fleet(2)
    assert fleet.observe(1)
    for changed in fleet.access.changed:
        changed()
    assert (fleet.begun, len(fleet.subscribed)) == (4, 2)
    fleet.observing.stop()


async def test_a_gateway_at_which_a_subscription_failed_is_subscribed_at_again() -> None:
    fleet = Fleet(2)
    assert fleet.observe(1)
    fleet.subscriptions_that_fail = 1
    fleet.all_have(None, is_last=True)  # neither is heard any more
    fleet.subscribed.clear()
    await fleet.until(lambda: len(fleet.subscribed) == 2)
    assert fleet.subscriptions_that_fail == 0
    fleet.observing.stop()


async def test_a_directory_whose_links_do_not_fit_into_an_answer_is_subscribed_for_fewer() -> None:
    fleet = Fleet(1)
    assert fleet.observe(1, "rt=valve")
    for _ in range(2):
        fleet.all_have(ResourceResponse(codes.INTERNAL_SERVER_ERROR, b"too long"), is_last=True)
    assert fleet.asked == [("rt=valve", f"count={count}", "page=0") for count in (200, 40, 8)]
    fleet.all_have(ResourceResponse(codes.CONTENT, b",".join([b"</a>"] * 8), 40))
    await fleet.until(lambda: fleet.told)
    assert b"missing=1" in fleet.told[-1][1].payload, "there may be more"
    fleet.all_have(HAS)
    await fleet.until(lambda: b"</q/-/-/gw-000/valve>" in fleet.told[-1][1].payload)
    assert b"missing" not in fleet.told[-1][1].payload
    fleet.observing.stop()


class NotedRecords(list[MemberRecord]):
    """Counts how often it was looked who is to be followed."""

    looks = 0

    def __iter__(self) -> Iterator[MemberRecord]:
        self.looks += 1
        return super().__iter__()


async def test_nothing_is_told_before_all_have_said_something_and_nothing_twice() -> None:
    fleet = Fleet(2)
    fleet.records = noted = NotedRecords(fleet.records)
    assert fleet.observe(1)

    async def looked() -> None:
        before = noted.looks
        await fleet.until(lambda: noted.looks > before)

    first, second = fleet.subscribed.values()
    first(RemoteReply(HAS, True))
    await looked()
    assert fleet.told == []
    second(RemoteReply(HAS, True))
    await looked()
    assert len(fleet.told) == 1
    second(RemoteReply(HAS, True))
    await looked()
    assert len(fleet.told) == 1, "it says the same"
    fleet.observing.stop()


async def test_the_subscription_at_a_gateway_that_has_gone_is_ended() -> None:
    fleet = Fleet(2)
    assert fleet.observe(1)
    del fleet.records[0]
    fleet.all_have(HAS)
    await fleet.until(lambda: fleet.told)
    assert list(fleet.subscribed) == ["gw-001"]
    assert fleet.told[0][1].payload == b'</q/-/-/gw-001/valve>;gw="gw-001"'
    fleet.observing.stop()


async def test_a_gateway_that_comes_is_subscribed_at_a_pause_after_its_record_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.PAUSE_S", 3_600.0)
    fleet, pauses = Fleet(2), HeldTimers(monkeypatch, 3_600.0)
    come = fleet.records.pop()
    fleet.members.update(come)
    assert pauses.count == 0, "nobody observes"
    assert fleet.observe(1)
    fleet.records.append(come)
    for version in (2, 3):
        fleet.members.update(replace(come, version=version))
        assert pauses.count == 1
    assert list(fleet.subscribed) == ["gw-000"]
    pauses.run_out()
    assert list(fleet.subscribed) == ["gw-000", "gw-001"]
    assert pauses.count == 0


@pytest.mark.parametrize(
    ("code", "is_silent"),
    [
        (codes.BAD_REQUEST, False),
        (codes.FORBIDDEN, False),
        (0x9F, False),
        (codes.SERVICE_UNAVAILABLE, True),
        (codes.GATEWAY_TIMEOUT, True),
        (None, True),
    ],
)
async def test_who_refuses_has_nothing_and_who_is_silent_is_missing_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, code: int | None, is_silent: bool
) -> None:
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.PAUSE_S", 3_600.0)
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.RETRY_S", 7_200.0)
    pauses, retries = (HeldTimers(monkeypatch, seconds) for seconds in (3_600.0, 7_200.0))
    fleet = Fleet(2)
    assert fleet.observe(1)
    first, second = fleet.subscribed.values()
    first(RemoteReply(HAS, True))
    second(RemoteReply(None if code is None else ResourceResponse(code, b"no"), False))
    pauses.run_out()
    ((_, told, is_last),) = fleet.told
    assert (told.code, is_last) == (codes.CONTENT, False)
    assert b"</q/-/-/gw-000/valve>" in told.payload
    assert (b"missing=1" in told.payload) is is_silent
    assert retries.count == is_silent
    retries.run_out()
    assert fleet.begun == 2 + is_silent
    if is_silent:
        fleet.subscribed["gw-001"](RemoteReply(HAS, True))
        pauses.run_out()
        assert b"missing" not in fleet.told[-1][1].payload
    fleet.observing.stop()


async def test_who_stops_is_woken_by_no_timer_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.PAUSE_S", 3_600.0)
    monkeypatch.setattr("gateway.coap.directory.fleet_observing.RETRY_S", 3_600.0)
    fleet, timers = Fleet(2), HeldTimers(monkeypatch, 3_600.0)
    assert fleet.observe(1)
    fleet.all_have(None, is_last=True)
    assert timers.count == 2, "one to tell, and one to subscribe again"
    fleet.observing.stop()
    assert timers.count == 0
    fleet.members.update(fleet.records[0])
    fleet.observing.ended(1)
    assert timers.count == 0


@pytest.mark.parametrize(
    ("observe", "code"), [(False, codes.CONTENT), (True, codes.NOT_FOUND), (False, codes.NOT_FOUND)]
)
async def test_what_was_not_found_or_not_to_be_observed_is_not(observe: bool, code: int) -> None:
    fleet, taken = Fleet(1), list[bool]()
    request = CoapRequest(codes.GET, (), observe=observe)

    def done(_: CoapResponse) -> None:
        taken.append(fleet.observing.observe(1, request, lambda *_: None))

    fleet.observing.offer(fleet.looked_up(), (request, PEER), CoapResponse(code), done)
    assert taken == [False]
    assert fleet.begun == 0


async def test_a_look_up_is_observed_as_it_is_answered_and_not_later() -> None:
    fleet = Fleet(1)
    request = CoapRequest(codes.GET, (), observe=True)
    answers = list[CoapResponse]()
    found = CoapResponse(codes.CONTENT)
    fleet.observing.offer(fleet.looked_up(), (request, PEER), found, answers.append)
    assert answers == [found]
    assert not fleet.observing.observe(1, request, lambda *_: None)
    assert fleet.begun == 0


async def test_an_answer_that_can_not_be_given_ends_the_observation() -> None:
    fleet = FailingFleet(1)
    assert fleet.observe(1)
    assert fleet.observe(2)
    fleet.all_have(HAS)
    await fleet.until(lambda: len(fleet.told) == 2)
    assert [(exchange, told.code, last) for exchange, told, last in fleet.told] == [
        (1, codes.BAD_REQUEST, True),
        (2, codes.BAD_REQUEST, True),
    ]
    assert not fleet.subscribed


class FailingFleet(Fleet):
    """One whose links are too many for an answer."""

    @staticmethod
    def _response(_: LookedUp, links: list[WebLink]) -> CoapResponse:
        return CoapResponse(codes.BAD_REQUEST, (), b"too many")


async def test_who_was_not_answered_just_now_does_not_observe() -> None:
    fleet = Fleet(1)
    request = CoapRequest(codes.GET, (), observe=True)
    assert not fleet.observing.observe(1, request, lambda *_: None)
    fleet.observing.ended(1)
    assert all(fleet.observe(number) for number in range(OBSERVERS_MAX))
    assert not fleet.observe(OBSERVERS_MAX)
    fleet.observing.ended(0)
    fleet.observing.ended(0)
    assert fleet.observe(OBSERVERS_MAX)
    fleet.observing.stop()
    assert not fleet.subscribed
