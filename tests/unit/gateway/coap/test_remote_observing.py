"""Goal: a change of another gateway's resource reaches all who observe it, and comes over once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiocoap
import pytest
from aiocoap import resource
from aiocoap.numbers.codes import Code
from loop_turns import turns
from remote_fleet import NORTH, TRUSTING, Fleet, RawObserver, asking, shown

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from gateway.coap.access import CoapAccess
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.paths import RemoteRequest
from gateway.coap.remote.remote_observations import RemoteObserver
from gateway.coap.remote.reply import NO_REPLY, RemoteReply
from gateway.coap.responders import RespondTo
from gateway.trust.policy.action import ActionPlace
from gateway.trust.policy.policy import Policy, PolicyRules
from tests.held_objects import held_instances
from tree_handler.members.absence import AbsenceNotice
from tree_handler.remote.resource import ResourceRequest
from tree_handler.remote.watches import WatchKey


class Gauge(resource.ObservableResource):  # type: ignore[misc]  # aiocoap is untyped
    """A value that tells of its changes."""

    def __init__(self) -> None:
        super().__init__()
        self.value = b"1"
        self.count = 0

    async def render_get(self, _request: Any) -> Any:
        return aiocoap.Message(payload=self.value, content_format=0, max_age=5)

    def set(self, value: bytes) -> None:
        self.value = value
        self.updated_state()

    def update_observation_count(self, newcount: int) -> None:
        self.count = newcount


class Observer:
    """One who observes, and all that it was told."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self.told: list[tuple[str, bytes]] = []
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        self.told.append(shown(await self._request.response))
        with contextlib.suppress(aiocoap.error.NotObservable, aiocoap.error.ObservationCancelled):
            async for response in self._request.observation:
                self.told.append(shown(response))

    def cancel(self) -> None:
        if not self._request.observation.cancelled:
            self._request.observation.cancel()
        self._task.cancel()


async def told(observers: list[Observer], value: tuple[str, bytes]) -> None:
    async with asyncio.timeout(30):
        while any(value not in one.told for one in observers):
            await asyncio.sleep(0)


@pytest.fixture
async def gauge() -> AsyncIterator[tuple[Fleet, Gauge, Callable[[int], list[Observer]]]]:
    """A value of gw-north, and how to have so many observe it at gw-root."""
    fleet, gauge = Fleet(), Gauge()
    fleet.north.site.add_resource(["gauge"], gauge)
    fleet.root.site.add_resource(["gauge"], gauge)
    observers: list[Observer] = []
    async with asking(fleet):

        def observe(count: int, path: str = f"{NORTH}/gauge") -> list[Observer]:
            uri = f"coap://127.0.0.1:{fleet.served.coap_port}/{path}"
            more = [
                Observer(fleet.client.request(aiocoap.Message(code=Code.GET, uri=uri, observe=0)))
                for _ in range(count)
            ]
            observers.extend(more)
            return more

        yield fleet, gauge, observe
        for one in observers:
            one.cancel()


async def test_a_change_goes_over_the_tree_once_however_many_observe(gauge: Any) -> None:
    fleet, value, observe = gauge
    observers = observe(5)
    await told(observers, ("2.05", b"1"))
    assert fleet.published == ["$hedgerow/query/gw-north", "$hedgerow/reply/gw-root"]
    value.set(b"2")
    await told(observers, ("2.05", b"2"))
    assert fleet.published[2:] == ["$hedgerow/reply/gw-root"]
    late = observe(1)
    await told(late, ("2.05", b"2"))
    assert len(fleet.published) == 3


async def test_when_the_last_observer_goes_the_target_is_told(gauge: Any) -> None:
    fleet, value, _ = gauge
    path = f"{NORTH}/gauge"
    with RawObserver(fleet, path) as one, RawObserver(fleet, path) as other:
        async with asyncio.timeout(30):
            for observer in (one, other):
                await observer.ask()
                assert (await observer.hear()).payload == b"1"
            value.set(b"2")
            await one.reset(await one.hear())
            value.set(b"3")
            while (notification := await other.hear()).payload != b"3":
                pass
            assert value.count == 1
            await other.reset(notification)
            while value.count:
                await asyncio.sleep(0)
    assert fleet.published[-1] == "$hedgerow/cancel/gw-north"
    assert len(fleet.root.remote.watching.core) == 0
    assert not held_instances(fleet.root.remote, RemoteObserver)
    assert fleet.root.exchange.waiting == 0


async def test_an_observation_goes_on_after_the_target_was_in_another_life(gauge: Any) -> None:
    fleet, value, observe = gauge
    observers = observe(1)
    await told(observers, ("2.05", b"1"))
    value.value = b"3"  # as after a restart, when nobody is told
    fleet.epochs["gw-north"] = 2
    for moved in fleet.tell_moved:
        moved(asyncio.get_running_loop().time())
    await told(observers, ("2.05", b"3"))
    value.set(b"4")
    await told(observers, ("2.05", b"4"))
    assert fleet.published.count("$hedgerow/query/gw-north") == 2


async def test_what_is_no_longer_allowed_at_the_target_ends_with_the_reason(gauge: Any) -> None:
    fleet, _, observe = gauge
    observers = observe(1)
    await told(observers, ("2.05", b"1"))
    nobody = PolicyRules(vouched={"*": frozenset()})
    fleet.north.access.follow(Policy(nobody, ActionPlace("gw-north", "campus", "north")))
    why = b"psk:operator (no role by [vouch] through gw-root) may not GET this"
    await told(observers, ("4.03", why))


async def test_what_is_no_longer_there_ends_with_the_reason(gauge: Any) -> None:
    fleet, value, observe = gauge
    observers = observe(1)
    await told(observers, ("2.05", b"1"))
    value.updated_state(aiocoap.Message(code=Code.NOT_FOUND, payload=b"removed"))
    await told(observers, ("4.04", b"removed"))
    assert len(fleet.root.remote.watching.core) == 0


async def test_a_resource_of_this_gateway_is_observed_by_its_long_name_too(gauge: Any) -> None:
    fleet, value, observe = gauge
    observers = observe(1, "q/-/-/gw-root/gauge")
    await told(observers, ("2.05", b"1"))
    value.set(b"2")
    await told(observers, ("2.05", b"2"))
    assert fleet.published == []


async def test_who_leaves_a_resource_of_this_gateway_is_forgotten_at_once(gauge: Any) -> None:
    fleet, value, _ = gauge
    watching, told = fleet.root.remote.watching, list[bytes]()
    path = ("-", "-", "gw-root")
    own = ResourceRequest("GET", ("gauge",), identity="psk:a", roles=("operator",))
    asked = RemoteRequest([], path, own, is_many=False)
    request = CoapRequest(codes.GET, (), observe=True)
    observer = watching.watcher(asked, request, None)

    def done(response: CoapResponse) -> None:
        told.append(response.payload)
        assert watching.observe(
            7, request, lambda _, response, _last: told.append(response.payload)
        )

    observer.begin(done, lambda *_: None)
    async with asyncio.timeout(30):
        while not told:
            await asyncio.sleep(0)
        value.set(b"2")
        while len(told) < 2:
            await asyncio.sleep(0)
    assert value.count == 1
    watching.ended(7)
    await turns(5)
    assert value.count == 0
    assert told == [b"1", b"2"]


class Meter:
    """A value at hand, for those who ask here and for other gateways: who observes it."""

    segments = frozenset((b"meter",))

    def __init__(self) -> None:
        self.exchanges: list[int] = []

    def answer(self, _request: CoapRequest, _peer: CoapPeer, _now: float) -> CoapResponse:
        return CoapResponse(codes.CONTENT, (), b"1")

    def observe(self, exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        self.exchanges.append(exchange)
        return True

    def ended(self, exchange: int) -> None:
        """It tells nothing."""


async def test_who_observes_here_is_never_taken_for_one_who_observes_from_elsewhere() -> None:
    fleet, meter = Fleet(), Meter()
    access = CoapAccess(Policy(TRUSTING, ActionPlace("gw-root")))
    elsewhere = LocalExecution(fleet.root.site, "gw-root", access, [meter])
    wanted = ResourceRequest("GET", ("meter",), identity="psk:a", roles=("operator",))
    async with asking(fleet, further=[meter]):
        uri = f"coap://127.0.0.1:{fleet.served.coap_port}/meter"
        for _ in range(3):
            elsewhere.begin(wanted, "gw-north", lambda *_: None, observes=True)
            get = aiocoap.Message(code=Code.GET, uri=uri, observe=0)
            assert (await fleet.client.request(get).response).payload == b"1"
    assert len(set(meter.exchanges)) == 6


async def test_what_cannot_be_observed_is_answered_once() -> None:
    fleet = Fleet()
    async with asking(fleet) as ask:
        response = await ask("GET", f"{NORTH}/probe", observe=0)
    assert (shown(response), response.opt.observe) == (("2.05", b"21.5"), None)
    assert len(fleet.root.remote.watching.core) == 0


@pytest.mark.parametrize("leaves_by", ["a Reset", "deregistration"])
async def test_an_observer_that_leaves_is_forgotten_at_the_target_too(
    gauge: Any, leaves_by: str
) -> None:
    fleet, value, _ = gauge
    with RawObserver(fleet, f"{NORTH}/gauge") as asker:
        await asker.ask()
        assert (await asker.hear()).payload == b"1"
        value.set(b"2")
        while (notification := await asker.hear()).payload == b"1":
            pass  # an answer may come again
        assert value.count == 1
        if leaves_by == "a Reset":
            await asker.reset(notification)
        else:
            await asker.ask(observe=b"\x01")
            assert (await asker.hear()).payload == b"2"
        async with asyncio.timeout(30):
            while value.count:
                await asyncio.sleep(0)
    assert "$hedgerow/cancel/gw-north" in fleet.published


async def test_what_a_gateway_follows_for_its_own_ends_ends_when_it_says_so(gauge: Any) -> None:
    fleet, value, _ = gauge
    watching, heard = fleet.root.remote.watching, list[RemoteReply]()
    request = ResourceRequest("GET", ("gauge",), identity="psk:a", roles=("operator",))
    end = watching.follow(WatchKey("gw-north", request), heard.append)
    async with asyncio.timeout(30):
        while not heard:
            await asyncio.sleep(0)
        value.set(b"2")
        while len(heard) < 2:
            await asyncio.sleep(0)
        assert [one.response.payload for one in heard if one.response] == [b"1", b"2"]
        assert all(one.goes_on for one in heard)
        end()
        end()
        while value.count:
            await asyncio.sleep(0)
    assert len(watching.core) == 0
    assert fleet.published[-1] == "$hedgerow/cancel/gw-north"


async def test_who_can_not_follow_is_told_so_in_a_later_turn_and_once(
    gauge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _, _ = gauge
    watching, heard = fleet.root.remote.watching, list[RemoteReply]()
    request = ResourceRequest("GET", ("gauge",), identity="psk:a", roles=("operator",))
    key = WatchKey("gw-north", request)
    monkeypatch.setattr(type(watching.core), "has_room", lambda *_: False)
    watching.follow(key, heard.append)
    watching.follow(key, heard.append)()
    assert heard == []
    await asyncio.sleep(0)
    assert heard == [NO_REPLY]
    assert len(watching.core) == 0


class NotedObserver:
    """One who observes through this gateway, without a socket."""

    def __init__(
        self, fleet: Fleet, target: str = "gw-north", *, respond: RespondTo | None = None
    ) -> None:
        asked = RemoteRequest(
            [record for record in [fleet.root.members.get(target)] if record],
            ("campus", "north", target),
            ResourceRequest("GET", ("gauge",), identity="psk:a", roles=("operator",)),
            is_many=False,
        )
        self.request = CoapRequest(codes.GET, (), observe=True)
        watching = fleet.root.remote.watching
        key = WatchKey(target, asked.request)
        self.watcher = watching.watcher(asked, self.request, key)
        self.first: list[CoapResponse] = []
        self.told: list[tuple[bytes, bool]] = []

        def done(response: CoapResponse) -> None:
            self.first.append(response)
            if respond is not None:
                exchange = self.watcher.number
                assert watching.observe(exchange, self.request, respond)
                assert not watching.observe(exchange, self.request, respond)

        self.end = self.watcher.begin(done, lambda *_: None)

    def bind(self) -> None:
        self.watcher.bind(7, lambda _, told, is_last: self.told.append((told.payload, is_last)))


async def test_what_comes_after_the_first_answer_is_told_to_who_is_bound_alone(gauge: Any) -> None:
    fleet, _, _ = gauge
    observer = NotedObserver(fleet)
    async with asyncio.timeout(30):
        while not observer.first:
            await asyncio.sleep(0)
    observer.watcher.first(CoapResponse(codes.CONTENT, (), b"2"), True)
    assert observer.told == []
    observer.bind()
    observer.watcher.first(CoapResponse(codes.CONTENT, (), b"3"), True)
    observer.watcher.first(CoapResponse(codes.CONTENT, (), b"4"), False)
    assert observer.told == [(b"3", False), (b"4", True)]
    assert [one.payload for one in observer.first] == [b"1"]
    observer.end()
    observer.watcher.first(CoapResponse(codes.CONTENT, (), b"5"), True)
    assert len(observer.told) == 2


async def test_where_there_is_no_room_to_ask_an_observer_is_told_that_nobody_answered() -> None:
    fleet = Fleet(max_outstanding=1)
    held = fleet.root.exchange.begin(
        ("gw-dead", 1), ResourceRequest("GET", ("gauge",)), 30.0, lambda _: None
    )
    observer = NotedObserver(fleet)
    assert observer.first == []
    async with asyncio.timeout(30):
        while not observer.first:
            await asyncio.sleep(0)
    assert [one.code for one in observer.first] == [codes.GATEWAY_TIMEOUT]
    held()
    observer.end()
    fleet.root.remote.stop()


@pytest.mark.parametrize(
    ("where", "code", "why"),
    [
        ("unreachable", codes.SERVICE_UNAVAILABLE, b"the gateway is out of reach: observe again"),
        ("gone", codes.NOT_FOUND, b"the gateway is no longer in the fleet"),
    ],
)
async def test_who_observes_at_a_gateway_that_is_lost_is_told_why_it_ends(
    gauge: Any, monkeypatch: pytest.MonkeyPatch, where: str, code: int, why: bytes
) -> None:
    monkeypatch.setattr("tree_handler.remote.watches.GRACE_S", 0.0)
    fleet, value, _ = gauge
    heard, watching = list[tuple[int, bytes, bool]](), fleet.root.remote.watching

    def respond(_: int, told: CoapResponse, is_last: bool) -> None:
        heard.append((told.code, told.payload, is_last))

    observers = [NotedObserver(fleet, respond=respond) for _ in range(2)]
    async with asyncio.timeout(30):
        while not all(one.first for one in observers):
            await asyncio.sleep(0)
        assert len(watching.core) == 1
        if where == "gone":
            assert fleet.root.members.is_absent(AbsenceNotice("gw-north", 1, 1))
        fleet.epochs["gw-north"] = None
        fleet.tell_all_moved()
        while len(heard) < 2:
            await asyncio.sleep(0)
        assert heard == [(code, why, True)] * 2
        assert len(watching.core) == 0
        while value.count:
            await asyncio.sleep(0)
    for one in observers:
        one.end()
    assert fleet.published.count("$hedgerow/cancel/gw-north") == 1


async def test_an_observer_that_is_ended_while_others_are_told_keeps_none_of_them_from_it(
    gauge: Any,
) -> None:
    fleet, value, _ = gauge
    told, watching = list[int](), fleet.root.remote.watching

    def respond(exchange: int, _: CoapResponse, _is_last: bool) -> None:
        told.append(exchange)
        watching.ended(second.watcher.number)

    heard = list[bytes]()

    def followed(reply: RemoteReply) -> None:
        assert reply.response is not None
        heard.append(reply.response.payload)

    request = ResourceRequest("GET", ("gauge",), identity="psk:a", roles=("operator",))
    for _ in range(2):
        watching.follow(WatchKey("gw-north", request), followed)
    first, second, third = [NotedObserver(fleet, respond=respond) for _ in range(3)]
    assert len(watching.core) == 1
    await turns(50)
    assert all(one.first for one in (first, second, third))
    value.set(b"2")
    await turns(50)
    assert heard == [b"1", b"1", b"2", b"2"]
    assert told == [first.watcher.number, third.watcher.number]


async def test_a_request_is_observed_as_its_first_answer_says_and_once(gauge: Any) -> None:
    fleet, _, _ = gauge
    watching, told = fleet.root.remote.watching, list[bytes]()

    def respond(_: int, response: CoapResponse, _is_last: bool) -> None:
        told.append(response.payload)

    assert not watching.observe(1, CoapRequest(codes.GET, (), observe=True), respond)
    early = NotedObserver(fleet)
    assert not watching.observe(1, early.request, respond), "it has no first answer yet"
    late, observer = NotedObserver(fleet), NotedObserver(fleet, respond=respond)
    async with asyncio.timeout(30):
        while not (late.first and observer.first):
            await asyncio.sleep(0)
    assert not watching.observe(1, late.request, respond), "it was not taken in its turn"
    assert len(held_instances(watching, RemoteObserver)) == 1
    observer.watcher.tell(CoapResponse(codes.CONTENT, (), b"2"), is_last=False)
    for _ in range(2):
        watching.ended(observer.watcher.number)
    observer.watcher.tell(CoapResponse(codes.CONTENT, (), b"3"), is_last=False)
    assert told == [b"2"]
    assert not held_instances(watching, RemoteObserver)
    assert len(watching.core) == 0
