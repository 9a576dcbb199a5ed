"""The Resource Directory as a peer of the engine meets it (RFC 9176, RFC 7641)."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

import pytest

from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.base.in_turns import SHORT_PAUSE_S
from gateway.coap.directory.answers import LONG_PAYLOAD_BYTES, DirectoryAnswers
from gateway.coap.directory.lookup_turns import OF_STRANGERS, PER_ASKER, LookUpTurns
from gateway.coap.peers import SessionAddress
from gateway.coap.responders import PendingResponse
from gateway.coap.told_in_turns import TOLD_AT_ONCE
from resource_directory.link_format import WebLink, parse
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from resource_directory.watches import WATCHES_MAX, Watches

GET, POST, DELETE = 1, 2, 4
ETAG, URI_PATH, URI_QUERY, LOCATION_PATH = 4, 11, 15, 8
ADDRESS = PeerAddress(("192.0.2.7", 5684), socket.AF_INET)
LINKS = parse(b"</a>;rt=a,</b>;rt=b")
PUMP = CoapPeer(SessionAddress(1, ADDRESS), "pump", "psk:pump", is_address_proven=True)


class World:
    """A directory, what it answers, and what observers are told."""

    def __init__(self) -> None:
        self.watches = watches = Watches()
        self.registry = Registry("/rd/1-", listeners=(watches,))
        self.soon: deque[Callable[[], None]] = deque()
        self.answers = DirectoryAnswers(
            DirectoryService(self.registry, watches),
            lambda: self.now,
            LookUpTurns(lambda _, turn: self.soon.append(turn)),
        )
        self.now = 100.0
        self.told: list[tuple[int, str]] = []
        self.last: list[int] = []

    def fill(self, count: int) -> None:
        for number in range(count):
            self.registry.register(f"n{number}", LINKS, self.now, base=f"coap://h{number}")

    def turn(self) -> None:
        """One turn of the event loop."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def turns(self) -> int:
        """Turns until there is nothing to do; how many."""
        count = 0
        while self.soon:
            self.turn()
            count += 1
        return count

    def ask_slowly(
        self, path: str, *queries: str, peer: CoapPeer = PUMP
    ) -> CoapResponse | PendingResponse | None:
        return self.answers.answer(request(GET, path, *queries), peer, 0.0)

    def ask(
        self, method: int, path: str, *queries: str, payload: bytes = b"", peer: CoapPeer = PUMP
    ) -> CoapResponse | None:
        answer = self.answers.answer(request(method, path, *queries, payload=payload), peer, 0.0)
        told: list[CoapResponse | None] = []
        if answer is None or isinstance(answer, CoapResponse):
            told.append(answer)
        else:
            assert len(payload) > LONG_PAYLOAD_BYTES, "a look-up that takes long"
            answer.begin(told.append, nobody)
        self.turns()
        return told[0]

    def observe(self, exchange: int, path: str, *queries: str) -> bool:
        return self.answers.observe(exchange, request(GET, path, *queries), self.tell)

    def tell(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        self.told.append((exchange, response.payload.decode()))
        if is_last:
            self.last.append(exchange)
            self.answers.ended(exchange)

    def observe_slowly(self, exchange: int, *queries: str) -> Callable[[], None]:
        """Observe as `gateway.coap.answers` does; return the call that ends it."""
        asked = request(GET, "rd-lookup/res", *queries, observe=True)
        later = self.answers.answer(asked, PUMP, 0.0)
        assert later is not None
        assert not isinstance(later, CoapResponse)

        def done(response: CoapResponse) -> None:
            is_observed = self.answers.observe(exchange, asked, self.tell)
            self.tell(exchange, response, not is_observed)

        return later.begin(done, nobody)


def request(
    method: int, path: str, *queries: str, payload: bytes = b"", observe: bool = False
) -> CoapRequest:
    options = [(URI_PATH, segment.encode()) for segment in path.split("/")]
    options += [(URI_QUERY, query.encode()) for query in queries]
    return CoapRequest(method, tuple(options), payload, observe)


def test_a_registration_is_based_where_its_session_comes_from_and_is_found() -> None:
    world = World()
    created = world.ask(POST, "rd", "ep=pump", payload=b"</flow>;rt=flow")
    assert created is not None
    assert created.code == 0x41
    assert next(value for number, value in created.options if number == LOCATION_PATH) == b"rd"
    found = world.ask(GET, "rd-lookup/res", "rt=flow")
    assert found is not None
    assert found.payload.startswith(b"<coaps://192.0.2.7/flow>")


def test_who_observes_a_look_up_is_told_of_what_changes_it_and_of_nothing_else() -> None:
    world = World()
    assert world.observe(7, "rd-lookup/res", "rt=flow")
    world.ask(POST, "rd", "ep=lamp", payload=b"</light>;rt=light")
    assert world.told == []
    created = world.ask(POST, "rd", "ep=pump", payload=b"</flow>;rt=flow")
    assert created is not None
    assert [exchange for exchange, _ in world.told] == [7]
    assert "</flow>" in world.told[0][1] or "/flow>" in world.told[0][1]
    location = "/".join(v.decode() for number, v in created.options if number == LOCATION_PATH)
    world.ask(DELETE, location)
    assert world.told[1:] == [(7, "")]


def test_who_observes_is_told_when_what_was_found_expires() -> None:
    world = World()
    world.ask(POST, "rd", "ep=pump", "lt=60", payload=b"</flow>;rt=flow")
    assert world.observe(7, "rd-lookup/ep", "ep=pump")
    world.now += 61.0
    assert world.registry.expire(world.now)
    world.answers.changed()
    world.turns()
    assert world.told == [(7, "")]


def test_an_observation_that_has_ended_is_told_nothing() -> None:
    world = World()
    assert world.observe(7, "rd-lookup/res")
    world.answers.ended(7)
    world.ask(POST, "rd", "ep=pump", payload=b"</flow>;rt=flow")
    assert world.told == []


@pytest.mark.parametrize("path", ["sensors/x", ".well-known/core"])
def test_what_is_not_the_directorys_is_left_to_others(path: str) -> None:
    world = World()
    assert world.ask(GET, path) is None
    assert not world.observe(7, path)


def nobody(*_: object) -> None:
    raise AssertionError("a look-up asks nobody")


SLOW = ("rt=*", "rt=a*", "href=coap*", "page=2000", "count=1")


def test_a_look_up_that_goes_through_very_many_is_answered_some_turns_later() -> None:
    world = World()
    world.fill(4_000)
    later = world.ask_slowly("rd-lookup/res", *SLOW)
    assert later is not None
    assert not isinstance(later, CoapResponse)
    answers: list[CoapResponse] = []
    later.begin(answers.append, nobody)
    assert world.turns() > 3
    (answer,) = answers
    assert answer.payload == b'<coap://h2000/a>;rt="a"'


def test_who_asks_much_waits_for_himself_and_others_have_their_turn() -> None:
    world = World()
    world.fill(4_000)
    order: list[str] = []
    for number in range(PER_ASKER):
        later = world.ask_slowly("rd-lookup/res", *SLOW)
        assert later is not None
        assert not isinstance(later, CoapResponse)
        later.begin(lambda _, number=number: order.append(f"pump {number}"), nobody)  # type: ignore[misc]  # mypy takes a default for an argument
    refused = world.ask_slowly("rd-lookup/res", *SLOW)
    assert isinstance(refused, CoapResponse)
    assert refused.code == 0xA3
    lamp = CoapPeer(SessionAddress(2, ADDRESS), "lamp", "psk:lamp", is_address_proven=True)
    other = world.ask_slowly("rd-lookup/res", *SLOW, peer=lamp)
    assert other is not None
    assert not isinstance(other, CoapResponse)
    other.begin(lambda _: order.append("lamp"), nobody)
    world.turns()
    assert order.index("lamp") <= 1
    assert len(order) == PER_ASKER + 1
    assert isinstance(world.ask(GET, "rd-lookup/ep", "ep=n7"), CoapResponse)


def test_strangers_of_however_many_addresses_leave_who_is_known_a_part() -> None:
    world = World()
    world.fill(4_000)
    taken, refused = 0, 0
    for number in range(40):
        stranger = CoapPeer(("192.0.2.1", number), f"2001:db8:{number}::/64")
        for _ in range(PER_ASKER):
            later = world.ask_slowly("rd-lookup/res", *SLOW, peer=stranger)
            assert later is not None
            if isinstance(later, CoapResponse):
                assert later.code == 0xA3
                refused += 1
            else:
                later.begin(lambda _: None, nobody)
                taken += 1
    assert (taken, refused) == (OF_STRANGERS, 40 * PER_ASKER - OF_STRANGERS)
    assert not isinstance(world.ask_slowly("rd-lookup/res", *SLOW), CoapResponse)


def test_who_registers_much_waits_for_a_turn_and_has_one_as_others_do() -> None:
    world = World()
    links = b",".join(b"</%d>" % number for number in range(1_500))
    order: list[str] = []
    ends = list[Callable[[], None]]()
    for host in ("a", "b"):
        peer = CoapPeer(SessionAddress(3, ADDRESS), host, host, is_address_proven=True)
        for number in range(PER_ASKER):
            asked = request(POST, "rd", f"ep={host}{number}", payload=links)
            later = world.answers.answer(asked, peer, 0.0)
            assert later is not None
            assert not isinstance(later, CoapResponse)
            done = lambda answer, host=host: order.append(f"{host} {answer.code:#x}")  # noqa: E731
            ends.append(later.begin(done, nobody))
        refused = world.answers.answer(asked, peer, 0.0)
        assert isinstance(refused, CoapResponse)
        assert refused.code == 0xA3
    assert len(world.registry) == 0
    ends[-1]()
    for turn in range(1, 2 * PER_ASKER):
        world.turn()
        assert len(world.registry) == turn
    assert order[:4] == ["a 0x41", "b 0x41"] * 2
    assert world.turns() <= 1
    assert len(order) == 2 * PER_ASKER - 1


def test_a_look_up_that_nobody_waits_for_any_more_is_not_gone_on_with() -> None:
    world = World()
    world.fill(4_000)
    later = world.ask_slowly("rd-lookup/res", *SLOW)
    assert later is not None
    assert not isinstance(later, CoapResponse)
    answers: list[CoapResponse] = []
    end = later.begin(answers.append, nobody)
    end()
    assert world.turns() == 1
    assert answers == []


def test_what_many_observe_alike_is_looked_up_once_and_each_look_up_has_a_turn_of_its_own() -> None:
    world = World()
    world.fill(100)
    for number in range(64):
        assert world.observe(number, "rd-lookup/res", "rt=a")
    for number in range(64, 128):
        assert world.observe(number, "rd-lookup/res", "rt=a*", f"count={number}")
    world.answers.answer(request(POST, "rd", "ep=x", payload=b"</x>;rt=a"), PUMP, 0.0)
    assert world.told == []
    assert world.turns() == 65
    assert sorted(exchange for exchange, _ in world.told) == list(range(128))


def test_very_many_observers_are_told_in_turns_and_of_what_changes_meanwhile_too() -> None:
    world = World()
    many = 10 * TOLD_AT_ONCE
    for number in range(many):
        assert world.observe(number, "rd-lookup/res", "rt=a")
    world.answers.answer(request(POST, "rd", "ep=x", payload=b"</x>;rt=a"), PUMP, 0.0)
    before = 0
    while len(world.told) < many:
        if len(world.told) == 2 * TOLD_AT_ONCE:
            world.answers.answer(request(POST, "rd", "ep=y", payload=b"</y>;rt=a"), PUMP, 0.0)
            for gone in (1, many - 1):
                world.answers.ended(gone)
            many -= 1
        world.turn()
        assert len(world.told) - before <= TOLD_AT_ONCE
        before = len(world.told)
    world.turns()
    told = dict(world.told)
    assert len(told) == 10 * TOLD_AT_ONCE - 1
    assert {one for one, last in told.items() if "/y>" not in last} == {1}


def test_who_observes_much_that_takes_long_delays_nobody_else() -> None:
    world = World()
    world.fill(4_000)
    for number in range(20):
        assert world.observe(
            number, "rd-lookup/res", "rt=a*", "href=coap*", f"count={8_000 + number}"
        )
    assert world.observe(20, "rd-lookup/res", "ep=x")
    payload = b"</x>;rt=a"
    for name in (b"first", b"second"):
        asked = request(POST, "rd", "ep=x", payload=payload + b";title=" + name)
        world.answers.answer(asked, PUMP, 0.0)
        world.turns()
        order = [exchange for exchange, _ in world.told]
        assert order.index(20) <= 1
        assert sorted(order) == list(range(21))
        world.told.clear()


def test_what_changes_while_it_is_looked_up_again_is_told_in_the_end() -> None:
    world = World()
    world.fill(4_000)
    assert world.observe(7, "rd-lookup/res", "rt=a*", "href=coap*")
    world.answers.answer(request(POST, "rd", "ep=x", payload=b"</x>;rt=ax"), PUMP, 0.0)
    world.turn()
    world.turn()
    assert world.told == []
    world.answers.answer(request(POST, "rd", "ep=y", payload=b"</y>;rt=ay"), PUMP, 0.0)
    world.turns()
    assert "/x>" in world.told[0][1]
    assert "/x>" in world.told[-1][1]
    assert "/y>" in world.told[-1][1]


def test_what_changes_before_a_long_look_up_is_observed_is_told_after_its_answer() -> None:
    world = World()
    world.fill(4_000)
    world.observe_slowly(7, "href=coap*")
    world.turn()
    assert world.told == []
    # What stands first by the values that are gone through is not found any more.
    world.answers.answer(
        request(POST, "rd", "ep=x", "base=coap://a", payload=b"</x>;rt=ax"), PUMP, 0.0
    )
    world.turns()
    assert "/x>" in world.told[-1][1]
    assert world.last == []


def test_a_long_look_up_that_was_to_be_observed_and_is_given_up_leaves_no_watch() -> None:
    world = World()
    world.fill(4_000)
    end = world.observe_slowly(7, *SLOW)
    assert len(world.watches) == 1
    end()
    assert len(world.watches) == 0
    world.turns()
    assert world.told == []


def test_who_observes_what_has_become_too_much_for_one_answer_is_told_so_as_the_last() -> None:
    world = World()
    assert world.observe(7, "rd-lookup/res")
    for number in range(10):
        links = b",".join(b"</%d>;title=%s" % (n, b"x" * 1000) for n in range(120))
        world.ask(POST, "rd", f"ep=large{number}", payload=links)
    assert world.last == [7]
    assert "count and page" in world.told[-1][1]
    world.ask(POST, "rd", "ep=more", payload=b"</a>")
    assert len(world.watches) == 0


def test_between_slices_others_have_as_much_time_as_the_last_one_took() -> None:
    """And enough for a thread, however little that was."""
    now = [0.0]
    took_s = [0.003, 0.0001, 0.004, 0.003]
    calls: list[tuple[float, Callable[[], None]]] = []
    turns = LookUpTurns(lambda pause_s, turn: calls.append((pause_s, turn)), lambda: now[0])

    def step() -> bool:
        now[0] += took_s.pop()
        return not took_s

    turns.begin("asker", step)
    for expected in (0.0, 0.003, 0.004, SHORT_PAUSE_S):
        ((pause_s, turn),) = calls
        assert pause_s == pytest.approx(expected)
        calls.clear()
        turn()
    assert calls == []


def test_a_request_that_can_not_be_read_is_left_to_a_resource() -> None:
    world = World()
    good = request(GET, "rd-lookup/ep")
    for option in ((URI_QUERY, b"ep=\xff"), (URI_PATH, b"\xff"), (65_005, b"")):
        asked = CoapRequest(GET, (*good.options, option))
        assert world.answers.answer(asked, PUMP, 0.0) is None
        assert not world.answers.observe(1, asked, world.tell)
    elective = CoapRequest(GET, (*good.options, (65_006, b"")))
    assert isinstance(world.answers.answer(elective, PUMP, 0.0), CoapResponse)


def test_who_can_not_be_watched_any_more_is_answered_once() -> None:
    world = World()
    world.fill(4_000)
    every = LookupQuery.parse([])
    for _ in range(WATCHES_MAX):
        last = world.watches.add(every, of_endpoints=True)
    end = world.observe_slowly(7, *SLOW)
    world.turns()
    assert world.last == [7]
    assert not world.observe(8, "rd-lookup/res")
    world.watches.discard(last)
    assert world.observe(8, "rd-lookup/res")
    end()


def test_a_change_that_is_taken_back_is_told_to_nobody_and_a_known_answer_by_its_tag_alone() -> (
    None
):
    world = World()
    a = world.ask(GET, "rd-lookup/ep")
    assert a is not None
    etag = dict(a.options)[ETAG]
    asked = request(GET, "rd-lookup/ep")
    told: list[CoapResponse] = []
    options = ((ETAG, etag), *asked.options)
    tell = lambda _exchange, response, _last: told.append(response)  # noqa: E731
    assert world.answers.observe(1, CoapRequest(GET, options), tell)

    def changes(*steps: Callable[[], object]) -> None:
        for step in steps:
            step()
        world.answers.changed()
        world.turns()

    registered = lambda: world.registry.register("n", LINKS, 0.0, base="coap://h")  # noqa: E731
    location = registered().location
    removed = lambda: world.registry.remove(location, 0.0)  # noqa: E731
    changes()
    assert [one.code for one in told] == [0x45]
    changes(
        lambda: world.registry.register("m", LINKS, 0.0, base="coap://h"),
        lambda: world.registry.remove(endpoint_at(world, "m"), 0.0),
    )
    assert len(told) == 1
    changes(removed)
    assert [(one.code, one.payload, dict(one.options)[ETAG]) for one in told[1:]] == [
        (0x43, b"", etag)
    ]


def endpoint_at(world: World, name: str) -> str:
    """Return the location of an endpoint."""
    found = world.registry.standing(name, "", 0.0)
    assert found is not None
    return found.location


def test_an_observed_look_up_that_has_no_answer_any_more_ends_with_the_reason() -> None:
    world = World()
    assert world.observe(1, "rd-lookup/res")
    for number in range(11):
        links = [WebLink(f"/{'x' * 100_000}")]
        world.registry.register(f"n{number}", links, 0.0, base="coap://h")
    world.answers.changed()
    world.turns()
    ((exchange, why),) = world.told
    assert (exchange, world.last) == (1, [1])
    assert "ask with count and page" in why


@pytest.mark.parametrize(
    ("fetched", "code", "links"),
    [
        (None, 0xA4, ""),
        (CoapResponse(0x84, (), b"</a>"), 0xA4, ""),
        (CoapResponse(0x44, (), b"</a>"), 0xA4, ""),
        (CoapResponse(0x45, ((12, b"\x32"),), b"</a>"), 0xA2, ""),
        (CoapResponse(0x45, ((12, b"\x28"),), b"</a"), 0xA2, ""),
        (CoapResponse(0x45, ((12, b"\x28"),), b"</a>"), 0x44, "</a>"),
        (CoapResponse(0x45, (), b"</a>"), 0x44, "</a>"),
    ],
)
def test_rfc9176_5_1_a_simple_registration_is_answered_by_what_its_registrant_has(
    fetched: CoapResponse | None, code: int, links: str
) -> None:
    world, asked, told = World(), list[CoapRequest](), list[CoapResponse]()
    assert world.observe(7, "rd-lookup/res")

    def ask(request: CoapRequest, heard: Callable[[CoapResponse | None], None]) -> None:
        asked.append(request)
        heard(fetched)

    later = world.answers.answer(request(POST, ".well-known/rd", "ep=pump"), PUMP, 0.0)
    assert later is not None
    assert not isinstance(later, CoapResponse)
    later.begin(told.append, ask)
    world.turns()
    assert [one.code for one in told] == [code]
    assert [(one.code, one.values(URI_PATH)) for one in asked] == [(GET, [b".well-known", b"core"])]
    found = [world.registry.at(f"/rd/1-{number}") for number in (1, 2)]
    assert [str(link) for one in found if one for link in one.links] == ([links] if links else [])
    assert [exchange for exchange, _ in world.told] == ([7] if links else [])


@pytest.mark.parametrize(("max_age", "fresh_s"), [((), 60), (((14, b"\x05"),), 5)])
def test_rfc9176_5_1_links_are_fetched_again_when_their_max_age_is_over(
    max_age: tuple[tuple[int, bytes], ...], fresh_s: int
) -> None:
    world = World()
    registration = request(POST, ".well-known/rd", "ep=pump")
    later = world.answers.answer(registration, PUMP, 0.0)
    assert later is not None
    assert not isinstance(later, CoapResponse)
    later.begin(lambda _: None, lambda _, heard: heard(CoapResponse(0x45, max_age, b"</a>")))
    world.now += fresh_s - 0.1
    assert isinstance(world.answers.answer(registration, PUMP, 0.0), CoapResponse)
    world.now += 0.1
    assert not isinstance(world.answers.answer(registration, PUMP, 0.0), CoapResponse)
