"""Bodies of peers make room for each other by fixed rules when all shares are taken."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coap_engine import codes, option_numbers
from coap_engine.blocks import Block, BodyLimits
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.request_bodies import RequestBodies, WholeBody
from coap_engine.response_bodies import ResponseBodies
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits, Shares

BLOCK = 1_024
PATH: Option = (option_numbers.URI_PATH, b"p")


def stranger(number: int) -> CoapPeer:
    return CoapPeer((f"192.0.2.{number}", 5683), f"192.0.2.{number}")


def device(name: str) -> CoapPeer:
    return CoapPeer(("session", name), name, name, is_address_proven=True)


class Bodies:
    """Both tables of an engine, over shares that a test chooses."""

    def __init__(self, quota: Quota) -> None:
        self.shares = Shares(ShareLimits(held_bytes=quota))
        self.requests = RequestBodies(self.shares, BodyLimits())
        self.responses = ResponseBodies(self.shares, BodyLimits())

    def begin(self, peer: CoapPeer, tag: int, now: float = 0.0) -> int:
        """Send the first block of a body; returns the code of the answer, 0 for a whole body."""
        return self.send(peer, tag, 0, now)

    def send(self, peer: CoapPeer, tag: int, number: int, now: float = 0.0) -> int:
        options = (
            PATH,
            (option_numbers.BLOCK1, Block(number, True, 6).encode()),
            (option_numbers.REQUEST_TAG, bytes([tag])),
        )
        taken = self.requests.take(peer, codes.PUT, options, b"b" * BLOCK, now)
        return 0 if isinstance(taken, WholeBody) else taken.code

    def keep(self, peer: CoapPeer, query: int, size_bytes: int = 3 * BLOCK, now: float = 0) -> None:
        options = (PATH, (option_numbers.URI_QUERY, bytes([query])))
        response = CoapResponse(codes.CONTENT, (), bytes([query]) * size_bytes)
        self.responses.cut(peer, codes.GET, options, b"", response, now)

    def has_kept(self, peer: CoapPeer, query: int) -> bool:
        options = (
            PATH,
            (option_numbers.URI_QUERY, bytes([query])),
            (option_numbers.BLOCK2, Block(1, False, 6).encode()),
        )
        return self.responses.following(peer, codes.GET, options, b"", 0.0) is not None


def test_who_holds_most_makes_room_for_who_holds_less() -> None:
    bodies = Bodies(Quota(40_000, 40_000, 40_000, 80_000, 30))
    greedy, modest = stranger(1), stranger(2)
    for tag in range(17):
        assert bodies.begin(greedy, tag) == codes.CONTINUE
    assert bodies.begin(modest, 0) == codes.CONTINUE
    assert bodies.send(modest, 0, 1) == codes.CONTINUE
    assert bodies.send(greedy, 0, 1) == codes.REQUEST_ENTITY_INCOMPLETE
    assert bodies.send(greedy, 16, 1) == codes.CONTINUE


def test_who_holds_most_takes_nothing_from_who_holds_less() -> None:
    bodies = Bodies(Quota(40_000, 40_000, 40_000, 80_000, 30))
    for number in range(1, 18):
        assert bodies.begin(stranger(number), 0) == codes.CONTINUE
    assert bodies.begin(stranger(1), 1) == codes.SERVICE_UNAVAILABLE
    assert bodies.send(stranger(2), 0, 1) == codes.SERVICE_UNAVAILABLE
    assert bodies.begin(stranger(18), 1) == codes.CONTINUE  # what was given up has left room


def test_a_stranger_takes_nothing_from_who_is_authenticated() -> None:
    bodies = Bodies(Quota(40_000, 40_000, 40_000, 40_000, 30))
    for tag in range(17):
        assert bodies.begin(device("pump"), tag) == codes.CONTINUE
    assert bodies.begin(stranger(1), 0) == codes.SERVICE_UNAVAILABLE
    assert bodies.requests.in_assembly == 17


def test_who_is_authenticated_has_room_made_by_strangers() -> None:
    bodies = Bodies(Quota(40_000, 40_000, 40_000, 40_000, 30))
    for tag in range(17):
        assert bodies.begin(stranger(1), tag) == codes.CONTINUE
    assert bodies.begin(device("pump"), 0) == codes.CONTINUE


def test_a_kept_answer_that_nobody_asks_for_makes_room_for_an_upload_of_the_same_peer() -> None:
    bodies = Bodies(Quota(6_000, 40_000, 40_000, 80_000, 30))
    bodies.keep(stranger(1), 0)
    assert bodies.begin(stranger(1), 0, 1.0) == codes.TOO_MANY_REQUESTS
    assert bodies.begin(stranger(1), 0, 11.0) == codes.CONTINUE
    assert not bodies.has_kept(stranger(1), 0)


def test_an_answer_that_is_not_kept_is_no_refusal() -> None:
    bodies = Bodies(Quota(6_000, 40_000, 40_000, 80_000, 30))
    for query in range(3):
        bodies.keep(stranger(1), query)
    assert [bodies.has_kept(stranger(1), query) for query in range(3)] == [True, False, False]
    assert bodies.shares.refusals()["held_bytes_host"] == 0


def test_a_crowd_of_little_bodies_takes_what_it_is_counted_for() -> None:
    bodies = Bodies(Quota(1 << 20, 4 << 20, 4 << 20, 16 << 20, 30))
    for query in range(256):
        for peer in map(stranger, range(1, 9)):
            bodies.keep(peer, query, BLOCK + 1)
    assert bodies.shares.held_bytes.held <= 4 << 20
    assert bodies.responses.kept <= (4 << 20) // 2_048


@given(st.data())
@settings(max_examples=25)
def test_no_share_is_exceeded_and_all_of_it_is_given_back_whoever_comes(
    data: st.DataObject,
) -> None:
    quota = Quota(8_000, 16_000, 12_000, 24_000, 30)
    bodies = Bodies(quota)
    peers = [stranger(1), stranger(2), stranger(3), device("a"), device("b"), device("c")]
    now = 0.0
    for _ in range(data.draw(st.integers(1, 40))):
        peer = data.draw(st.sampled_from(peers))
        number, way = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 3))
        match way:
            case 0:
                bodies.keep(peer, number, BLOCK * (number + 1) + 1, now)
            case 1:
                bodies.requests.forget_peer(peer)
            case _:
                bodies.send(peer, number, data.draw(st.integers(0, 2)), now)
        now += data.draw(st.sampled_from([0.0, 1.0, 11.0]))
        held = bodies.shares.held_bytes
        assert held.held <= quota.everybody
        assert held.held_by_strangers <= quota.strangers
    bodies.requests.handle_timer(1e9)
    bodies.responses.handle_timer(1e9)
    assert (bodies.shares.held_bytes.held, bodies.shares.held_bytes.holders) == (0, 0)
