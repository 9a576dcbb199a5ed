"""A body is held for its time from its last touch, to a second, and goes with its peer."""

from __future__ import annotations

from coap_engine import codes
from coap_engine.held_bodies import OPTION_BYTES, OVERHEAD_BYTES, BodyKey, HeldBodies, body_key
from coap_engine.message import CoapPeer, Option
from coap_engine.option_numbers import URI_PATH
from coap_engine.shares import Shares

NEAR, FAR = CoapPeer("near", "near"), CoapPeer("far", "far")
LIFETIME_S = 100.0


class Held:
    """Bodies of two peers, and the shares that they take."""

    def __init__(self) -> None:
        self.shares = Shares()
        self.bodies = HeldBodies[str](self.shares, LIFETIME_S)

    def add(self, peer: CoapPeer, path: bytes, now: float = 0.0, size_bytes: int = 10) -> BodyKey:
        options: tuple[Option, ...] = ((URI_PATH, path),)
        key = body_key(peer, codes.PUT, options)
        assert self.bodies.add(peer, key, path.decode(), size_bytes, now) is None
        return key

    def there(self, *keys: BodyKey) -> list[bool]:
        return [self.bodies.get(key) is not None for key in keys]


def test_what_a_body_takes_is_its_bytes_and_what_its_options_take() -> None:
    held = Held()
    held.add(NEAR, b"abc", size_bytes=10)
    took = 10 + OVERHEAD_BYTES + OPTION_BYTES + 3
    assert held.shares.held_bytes.held == took
    again = held.add(NEAR, b"abc", size_bytes=30)
    assert (len(held.bodies), held.shares.held_bytes.held) == (1, took + 20)
    body = held.bodies.get(again)
    assert body is not None
    assert held.bodies.grow(body, 5, 0.0) is None
    assert held.shares.held_bytes.held == took + 25
    body.end()
    assert (len(held.bodies), held.shares.held_bytes.held) == (0, 0)


def test_bodies_go_in_the_order_in_which_nothing_came_of_them_for_their_time() -> None:
    held = Held()
    assert held.bodies.next_timer() is None
    first, second, third = (held.add(NEAR, b"%d" % n, float(n)) for n in range(3))
    for key, now in ((first, 0.75), (second, 3.0)):
        body = held.bodies.get(key)
        assert body is not None
        held.bodies.touch(body, now)
    assert held.bodies.next_timer() == LIFETIME_S, "the first was touched within a second"
    held.bodies.handle_timer(LIFETIME_S - 0.25)
    assert held.there(first, second, third) == [True, True, True]
    held.bodies.handle_timer(LIFETIME_S)
    assert held.there(first, second, third) == [False, True, True]
    assert held.bodies.next_timer() == 2.0 + LIFETIME_S
    held.bodies.handle_timer(2.0 + LIFETIME_S)
    assert held.there(first, second, third) == [False, True, False]
    held.bodies.handle_timer(3.0 + LIFETIME_S)
    assert len(held.bodies) == 0
    assert held.shares.held_bytes.held == 0


def test_with_a_peer_all_that_is_held_for_it_goes_and_nothing_else() -> None:
    held = Held()
    gone = [held.add(NEAR, path) for path in (b"a", b"b")]
    stays = held.add(FAR, b"a")
    for _ in range(2):
        held.bodies.forget_peer(NEAR)
        assert held.there(*gone, stays) == [False, False, True]
    held.bodies.forget_peer(FAR)
    assert len(held.bodies) == 0
    assert held.shares.held_bytes.held == 0
