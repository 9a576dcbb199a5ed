"""Clients over a network that loses, repeats and reorders datagrams, and strangers who send any.

The client is a model of its own: it repeats what is not acknowledged, acknowledges what it gets,
and knows messages that it has had (RFC 7252, section 4.2).
"""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coap_engine import codes
from coap_engine.codec import ACK, CON, RST, CoapMessage, decode, empty_message
from coap_engine.engine import Engine
from coap_engine.limits import EngineLimits
from coap_engine.message import CoapPeer, CoapResponse, ExchangeEnded, Option, RequestReceived
from coap_engine.option_numbers import ETAG, OBSERVE, URI_PATH
from coap_engine.recent_requests import RecentLimits

SERVER = CoapPeer("server", "server")
REPEATED_AFTER_S = 2.0
REPETITIONS = 12


class ModelClient:
    """Asks one thing after another, and repeats it until it has the answer."""

    def __init__(self, name: str) -> None:
        self.peer = CoapPeer(name, name, name, is_address_proven=True)
        self.answers: dict[bytes, bytes] = {}
        self.newest: tuple[int, bytes] = (-1, b"")
        self._message_id = 0
        self._waiting: dict[int, tuple[float, int, bytes]] = {}
        self._tokens: dict[bytes, int] = {}
        self.out: list[bytes] = []

    def ask(self, number: int, now: float, *, observe: bool = False) -> None:
        self._message_id += 1
        token = number.to_bytes(2, "big")
        options: tuple[Option, ...] = ((URI_PATH, token),)
        if observe:
            options = ((OBSERVE, b""), *options)
        code = codes.GET if observe else codes.POST
        datagram = CoapMessage(CON, code, self._message_id, token, options).encode()
        self._waiting[self._message_id] = (now + REPEATED_AFTER_S, REPETITIONS, datagram)
        self._tokens[token] = self._message_id
        self.out.append(datagram)

    def receive(self, datagram: bytes) -> None:
        message = decode(datagram)
        if message.type == CON:
            known = message.token in self._tokens
            self.out.append(empty_message(ACK if known else RST, message.message_id))
        if message.type in (ACK, RST):
            self._waiting.pop(message.message_id, None)
        if message.code != 0 and message.token in self._tokens:
            self._waiting.pop(self._tokens[message.token], None)
            self.answers[message.token] = message.payload
            observe = dict(message.options).get(OBSERVE)
            if observe is not None:  # what was overtaken is known by its number: RFC 7641, 3.4
                number = int.from_bytes(observe, "big")
                self.newest = max(self.newest, (number, message.payload))

    def timers(self, now: float) -> None:
        for message_id, (due, left, datagram) in list(self._waiting.items()):
            if due <= now and left:
                self._waiting[message_id] = (now + REPEATED_AFTER_S, left - 1, datagram)
                self.out.append(datagram)

    @property
    def is_waiting(self) -> bool:
        return any(left for _, left, _ in self._waiting.values())


class LossyWorld:
    """An engine, clients, and a network that draws what becomes of each datagram."""

    def __init__(self, seed: int, loss: float, limits: EngineLimits | None = None) -> None:
        self.random = random.Random(seed)
        self.engine = Engine(self.random.randbytes, limits or EngineLimits())
        self.clients = [ModelClient(f"client {number}") for number in range(3)]
        self.loss = loss
        self.now = 0.0
        self.flying: list[tuple[float, int, CoapPeer | None, ModelClient, bytes]] = []
        self.later: list[tuple[float, RequestReceived]] = []
        self.carried_out: list[tuple[object, bytes]] = []
        self.observers: dict[int, RequestReceived] = {}
        self._order = itertools.count()

    def fly(self, to_engine: bool, client: ModelClient, datagram: bytes) -> None:
        for _ in range(2 if self.random.random() < self.loss / 2 else 1):
            if self.random.random() >= self.loss:
                when = self.now + self.random.expovariate(4.0)
                peer = client.peer if to_engine else None
                self.flying.append((when, next(self._order), peer, client, datagram))

    def step(self, seconds: float = 0.1) -> None:
        self.now += seconds
        due = sorted(one for one in self.flying if one[0] <= self.now)
        self.flying = [one for one in self.flying if one[0] > self.now]
        for _, _, peer, client, datagram in due:
            if peer is None:
                client.receive(datagram)
            else:
                self.engine.receive_datagram(datagram, peer, self.now)
        timer = self.engine.next_timer()
        if timer is not None and timer <= self.now:
            self.engine.handle_timer(self.now)
        self._serve()
        for datagram, peer in self.engine.datagrams_to_send():
            client = next(c for c in self.clients if c.peer == peer)
            self.fly(False, client, datagram)
        for client in self.clients:
            client.timers(self.now)
            out, client.out = client.out, []
            for datagram in out:
                self.fly(True, client, datagram)

    def _serve(self) -> None:
        for event in self.engine.events():
            if isinstance(event, RequestReceived):
                path = event.request.value(URI_PATH) or b""
                self.carried_out.append((event.peer.address, path))
                self.later.append((self.now + self.random.choice((0.0, 0.05, 1.0)), event))
            elif isinstance(event, ExchangeEnded):
                self.observers.pop(event.exchange, None)
                self.later = [one for one in self.later if one[1].exchange != event.exchange]
        for _, asked in [one for one in self.later if one[0] <= self.now]:
            path = asked.request.value(URI_PATH) or b""
            response = CoapResponse(codes.CONTENT, ((ETAG, b"1"),), b"did " + path)
            self.engine.respond(asked.exchange, response, self.now)
            if asked.request.observe:
                self.observers[asked.exchange] = asked
        self.later = [one for one in self.later if one[0] > self.now]

    def until_peace(self) -> None:
        for _ in range(6_000):
            self.step()
            if not (self.flying or self.later or any(c.is_waiting for c in self.clients)):
                timer = self.engine.next_timer()
                if timer is None or timer > self.now + 100.0:
                    return


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([0.0, 0.2, 0.5]))
def test_who_repeats_gets_an_answer_and_nothing_is_carried_out_twice(
    seed: int, loss: float
) -> None:
    world = LossyWorld(seed, loss)
    asked = 0
    for client in world.clients:
        for _ in range(8):
            asked += 1
            client.ask(asked, world.now)
            for _ in range(world.random.randrange(12)):
                world.step()
    world.until_peace()
    assert len(set(world.carried_out)) == len(world.carried_out)
    for client in world.clients:
        for token, payload in client.answers.items():
            assert payload == b"did " + token
    answered = sum(len(client.answers) for client in world.clients)
    assert answered >= asked * (0.9 if loss < 0.5 else 0.7)
    if not loss:
        assert answered == asked
    assert world.engine.open_exchanges == 0


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32))
def test_an_observer_has_the_newest_value_in_the_end_in_whatever_order_it_came(seed: int) -> None:
    world = LossyWorld(seed, 0.0)
    client = world.clients[0]
    client.ask(1, world.now, observe=True)
    for _ in range(100):
        world.step()
    (exchange,) = world.observers
    for value in range(40):
        world.engine.respond(exchange, CoapResponse(codes.CONTENT, (), b"%d" % value), world.now)
        world.step(0.5)
    world.until_peace()
    assert client.newest[1] == b"39"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32))
def test_an_observer_on_a_bad_network_is_served_or_dropped_and_leaves_nothing(seed: int) -> None:
    world = LossyWorld(seed, 0.4)
    client = world.clients[0]
    client.ask(1, world.now, observe=True)
    for value in range(80):
        for exchange in list(world.observers):
            response = CoapResponse(codes.CONTENT, (), b"%d" % value)
            world.engine.respond(exchange, response, world.now)
        world.step(0.5)
    world.until_peace()
    assert world.engine.open_exchanges == len(world.observers)
    world.engine.forget_peer(client.peer)
    assert world.engine.open_exchanges == 0


LIMITS = EngineLimits(recent=RecentLimits(of_host=8, of_strangers=64, of_principals=64))
_heads = st.sampled_from([b"\x40", b"\x44", b"\x50", b"\x60", b"\x70"])
_codes = st.sampled_from([b"\0", b"\x01", b"\x02", b"\x03", b"\x05", b"\x45", b"\x84", b"\xff"])
_rests = st.lists(
    st.sampled_from([b"\x60", b"\x51a", b"\xd1\x0aa", b"\xd1\x0e\x08", b"\xff", b"payload"])
    | st.binary(max_size=6),
    max_size=6,
).map(b"".join)
_datagrams = st.builds(
    lambda head, code, number, rest: head + code + bytes([0, number]) + rest,
    _heads,
    _codes,
    st.integers(0, 20),
    _rests,
) | st.binary(max_size=40)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), _datagrams, st.floats(0, 5)), max_size=150),
    st.booleans(),
)
def test_whatever_strangers_send_stays_within_limits_and_is_forgotten(
    storm: list[tuple[int, bytes, float]], is_answered: bool
) -> None:
    engine = Engine(random.Random(1).randbytes, LIMITS)
    now = 0.0
    for host, datagram, seconds in storm:
        now += seconds
        peer = CoapPeer((f"10.0.0.{host}", 1), f"10.0.0.{host}")
        engine.receive_datagram(datagram, peer, now)
        for event in engine.events():
            if isinstance(event, RequestReceived) and is_answered:
                engine.respond(event.exchange, CoapResponse(codes.CONTENT, (), bytes(9)), now)
        sent = engine.datagrams_to_send()
        assert sum(len(one) for one, _ in sent) <= 3 * len(datagram) + 32
        if (due := engine.next_timer()) is not None and due <= now:
            engine.handle_timer(now)
            engine.datagrams_to_send()
    for _ in range(3_000):
        due = engine.next_timer()
        if due is None:
            break
        now = max(now, due)
        engine.handle_timer(now)
        engine.events()
        engine.datagrams_to_send()
    assert engine.next_timer() is None
    assert engine.shares.requests.held == 0
    assert engine.shares.held_bytes.held == 0


@pytest.mark.parametrize("count", [10_000])
def test_a_flood_of_new_addresses_leaves_no_more_than_the_limit(count: int) -> None:
    engine = Engine(random.Random(1).randbytes, LIMITS)
    for number in range(count):
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        datagram = CoapMessage(CON, codes.GET, 1, b"", ((URI_PATH, b"x"),)).encode()
        engine.receive_datagram(datagram, CoapPeer((address, 1), address), number / 1_000)
        for event in engine.events():
            if isinstance(event, RequestReceived):
                engine.respond(event.exchange, CoapResponse(codes.CONTENT), number / 1_000)
        engine.datagrams_to_send()
    assert engine.remembered_requests <= 64


@pytest.mark.parametrize("principal", [None, "psk:device"])
def test_however_much_a_client_reads_its_write_is_not_carried_out_again(
    principal: str | None,
) -> None:
    engine = Engine(random.Random(1).randbytes)
    peer = CoapPeer(("10.0.0.1", 1), "10.0.0.1", principal, is_address_proven=True)
    asked: list[int] = []

    def receive(code: int, number: int, now: float) -> None:
        message = CoapMessage(CON, code, number, b"", ((URI_PATH, b"x"),))
        engine.receive_datagram(message.encode(), peer, now)
        for event in engine.events():
            if isinstance(event, RequestReceived):
                asked.append(code)
                engine.respond(event.exchange, CoapResponse(codes.CONTENT, (), bytes(600)), now)
        engine.datagrams_to_send()

    receive(codes.POST, 1, 0.0)
    for number in range(5_000):
        receive(codes.GET, number + 2, 1.0 + number / 200)
    receive(codes.POST, 1, 44.0)  # its last repetition (RFC 7252, section 4.8.2)
    assert asked.count(codes.POST) == 1
