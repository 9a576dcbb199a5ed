"""Bodies of responses in blocks (RFC 7959, sections 2.4 and 3), and a client that gets them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coap_engine import codes, option_numbers
from coap_engine.blocks import Block, BodyLimits
from coap_engine.body_fetch import BodyFetch, FetchFailedError
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.rates import Rates
from coap_engine.request_bodies import RequestBodies, WholeBody
from coap_engine.response_bodies import ResponseBodies
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits, Shares

PEER = CoapPeer(("192.0.2.1", 5683), "192.0.2.1")
OTHER = CoapPeer(("192.0.2.1", 5684), "192.0.2.1")
PATH: Option = (11, b"status")
BODY = bytes(range(256)) + b"x" * 124  # 380 bytes: three blocks of 128, six of 64
NO_ROOM = Quota(0, 0, 0, 0, 1)


def block(text: str) -> bytes:
    """The value of an option written as the RFC writes it: number/more/size."""
    number, more, size = map(int, text.split("/"))
    return Block(number, bool(more), size.bit_length() - 5).encode()


def spelled(options: tuple[Option, ...]) -> str:
    (value,) = [value for number, value in options if number == option_numbers.BLOCK2]
    read = Block.decode(value)
    return f"{read.number}/{read.more:d}/{read.size_bytes}"


def value(answer: CoapResponse, number: int) -> bytes | None:
    return dict(answer.options).get(number)


def without_room() -> Shares:
    one = Quota(1, 1, 1, 1, 1)
    return Shares(ShareLimits(one, one, NO_ROOM, Rates()))


class Server:
    """A port with one resource, which counts how often it is asked."""

    def __init__(
        self, body: bytes = BODY, limits: BodyLimits | None = None, shares: Shares | None = None
    ) -> None:
        limits = limits or BodyLimits()
        self.shares = shares or Shares()
        self.responses = ResponseBodies(self.shares, limits)
        self.requests = RequestBodies(self.shares, limits)
        self.response = CoapResponse(codes.CONTENT, (), body)
        self.asked = 0

    def ask(
        self,
        *options: Option,
        code: int = codes.GET,
        payload: bytes = b"",
        peer: CoapPeer = PEER,
        now: float = 0.0,
    ) -> CoapResponse:
        whole = self.requests.take(peer, code, options, payload, now)
        if isinstance(whole, CoapResponse):
            return whole
        kept = self.responses.following(peer, code, options, whole.payload, now)
        if kept is not None:
            return kept
        self.asked += 1
        return self.responses.cut(peer, code, options, whole.payload, self.response, now)

    def get(self, block2: str | None = None, *more: Option) -> CoapResponse:
        options = [PATH, *more]
        if block2 is not None:
            options.append((option_numbers.BLOCK2, block(block2)))
        return self.ask(*sorted(options))


def exchanges(server: Server, asked: list[str | None]) -> tuple[list[str], bytes]:
    answers = [server.get(one) for one in asked]
    assert {answer.code for answer in answers} == {codes.CONTENT}
    assert len({value(answer, option_numbers.ETAG) for answer in answers}) == 1
    return [spelled(answer.options) for answer in answers], b"".join(a.payload for a in answers)


def test_rfc_7959_section_3_1_simple_block_wise_get() -> None:
    server = Server(limits=BodyLimits(size_exponent=3))
    blocks, body = exchanges(server, [None, "1/0/128", "2/0/128"])
    assert blocks == ["0/1/128", "1/1/128", "2/0/128"]
    assert (body, server.asked) == (BODY, 1)
    assert server.shares.held_bytes.held == 0


def test_rfc_7959_section_3_1_block_wise_get_with_early_negotiation() -> None:
    server = Server(limits=BodyLimits(size_exponent=3))
    blocks, body = exchanges(server, [f"{n}/0/64" for n in range(6)])
    assert blocks == [*(f"{n}/1/64" for n in range(5)), "5/0/64"]
    assert (body, server.asked) == (BODY, 1)


def test_rfc_7959_section_3_1_block_wise_get_with_late_negotiation() -> None:
    server = Server(limits=BodyLimits(size_exponent=3))
    blocks, body = exchanges(server, [None, "2/0/64", "3/0/64", "4/0/64", "5/0/64"])
    assert blocks == ["0/1/128", "2/1/64", "3/1/64", "4/1/64", "5/0/64"]
    assert (body, server.asked) == (BODY, 1)


def posts(server: Server, asked: list[tuple[str | None, str | None, bytes]]) -> list[str]:
    said = []
    for block1, block2, payload in asked:
        options = [PATH]
        if block2 is not None:
            options.append((option_numbers.BLOCK2, block(block2)))
        if block1 is not None:
            options.append((option_numbers.BLOCK1, block(block1)))
        answer = server.ask(*options, code=codes.POST, payload=payload)
        blocks = f" 2:{spelled(answer.options)}" if value(answer, 23) is not None else ""
        said.append(f"{answer.code >> 5}.{answer.code & 31:02}{blocks}")
    return said


def test_rfc_7959_section_3_3_atomic_block_wise_post_with_block_wise_response() -> None:
    server = Server(limits=BodyLimits(size_exponent=3))
    server.response = CoapResponse(codes.CHANGED, (), BODY)
    assert posts(
        server,
        [
            ("0/1/128", None, b"a" * 128),
            ("1/1/128", None, b"b" * 128),
            ("2/0/128", None, b"c" * 9),
            (None, "1/0/128", b""),
            (None, "2/0/128", b""),
        ],
    ) == ["2.31", "2.31", "2.04 2:0/1/128", "2.04 2:1/1/128", "2.04 2:2/0/128"]
    assert server.asked == 1


def test_rfc_7959_section_3_3_block_wise_post_with_early_negotiated_response() -> None:
    server = Server(limits=BodyLimits(size_exponent=3))
    server.response = CoapResponse(codes.CHANGED, (), BODY)
    said = posts(
        server,
        [
            ("0/1/128", None, b"a" * 128),
            ("1/0/128", "0/0/64", b"b" * 128),
            *((None, f"{n}/0/64", b"") for n in range(1, 6)),
        ],
    )
    assert said == ["2.31", *(f"2.04 2:{n}/1/64" for n in range(5)), "2.04 2:5/0/64"]
    assert server.asked == 1


def test_rfc_7959_section_3_4_blocks_of_an_observed_resource() -> None:
    server = Server(limits=BodyLimits(size_exponent=3))
    observe: Option = (option_numbers.OBSERVE, b"")
    first = server.get(None, observe)
    assert [spelled(first.options), spelled(server.get("1/0/128").options)] == [
        "0/1/128",
        "1/1/128",
    ]
    changed = CoapResponse(codes.CONTENT, (), BODY[::-1])
    notification = server.responses.cut(PEER, codes.GET, (observe, PATH), b"", changed, 1.0)
    rest = [server.get("1/0/128"), server.get("2/0/128")]
    assert b"".join(answer.payload for answer in (notification, *rest)) == BODY[::-1]
    tags = {value(answer, option_numbers.ETAG) for answer in (notification, *rest)}
    assert len(tags) == 1
    assert value(first, option_numbers.ETAG) not in tags
    assert server.asked == 1


def test_blocks_are_taken_from_any_place() -> None:
    server = Server()
    server.get("0/0/64")
    assert server.get("3/0/64").payload == BODY[192:256]
    assert server.get("1/0/128").payload == BODY[128:256]
    assert server.asked == 1


def test_a_larger_block_than_ours_comes_as_a_smaller_one_of_the_same_place() -> None:
    server = Server(limits=BodyLimits(size_exponent=2))
    answer = server.get("1/0/128")
    assert (spelled(answer.options), answer.payload) == ("2/1/64", BODY[128:192])


@pytest.mark.parametrize("shares", [Shares(), without_room()])
def test_a_block_beyond_the_end_is_a_bad_request(shares: Shares) -> None:
    server = Server(shares=shares)
    server.get("0/0/128")
    assert server.get("3/0/128").code == codes.BAD_REQUEST
    assert server.get("23/0/16").payload == BODY[368:]


def test_the_size_is_told_with_the_first_block_and_where_asked_for() -> None:
    server = Server()
    size = len(BODY).to_bytes(2, "big")
    assert value(server.get("0/0/128"), option_numbers.SIZE2) == size
    assert value(server.get("1/0/128"), option_numbers.SIZE2) is None
    asked = server.get("1/0/128", (option_numbers.SIZE2, b""))
    assert value(asked, option_numbers.SIZE2) == size


def test_what_fits_is_sent_as_it_is() -> None:
    server = Server(b"short")
    assert server.get() == CoapResponse(codes.CONTENT, (), b"short")
    assert spelled(server.get("0/0/64").options) == "0/0/64"
    assert server.responses.kept == 0


def test_an_etag_of_the_resource_stays() -> None:
    server = Server()
    server.response = CoapResponse(codes.CONTENT, ((option_numbers.ETAG, b"7"),), BODY)
    assert value(server.get("0/0/64"), option_numbers.ETAG) == b"7"
    assert value(server.get("1/0/64"), option_numbers.ETAG) == b"7"


def test_without_room_the_resource_is_asked_for_each_block_and_a_change_shows() -> None:
    server = Server(shares=without_room())
    blocks, body = exchanges(server, [f"{n}/0/64" for n in range(6)])
    assert (len(blocks), body, server.asked) == (6, BODY, 6)
    before = server.get("0/0/64")
    server.response = CoapResponse(codes.CONTENT, (), BODY[::-1])
    after = server.get("1/0/64")
    assert value(before, option_numbers.ETAG) != value(after, option_numbers.ETAG)


def test_without_room_a_post_is_not_carried_out_twice() -> None:
    server = Server(shares=without_room())
    assert posts(server, [(None, "0/0/64", b"do"), (None, "1/0/64", b"")]) == [
        "2.05 2:0/1/64",
        "4.08",
    ]
    assert server.asked == 1


def test_an_error_in_place_of_a_later_block_is_told() -> None:
    server = Server(shares=without_room())
    server.get("0/0/64")
    server.response = CoapResponse(codes.UNAUTHORIZED, (), b"no longer")
    assert server.get("1/0/64") == server.response
    server.response = CoapResponse(codes.VALID, ())
    assert server.get("1/0/64") == server.response


def test_a_fetch_is_asked_on_with_its_body_or_without() -> None:
    server = Server()

    def fetch(number: int, payload: bytes) -> CoapResponse:
        asked = (option_numbers.BLOCK2, block(f"{number}/0/128"))
        return server.ask(PATH, asked, code=codes.FETCH, payload=payload)

    fetch(0, b"filter")
    assert fetch(1, b"filter").payload == BODY[128:256]
    assert fetch(2, b"").payload == BODY[256:]
    assert server.asked == 1
    assert fetch(1, b"another").payload == BODY[128:256]
    assert server.asked == 2


def test_a_fetch_of_a_body_in_blocks_is_answered_in_blocks() -> None:
    server = Server()
    tag: Option = (option_numbers.REQUEST_TAG, b"t")
    for number, payload in ((0, b"f" * 16), (1, b"g")):
        more = int(number == 0)
        asked = (option_numbers.BLOCK1, block(f"{number}/{more}/16"))
        answer = server.ask(PATH, asked, tag, code=codes.FETCH, payload=payload)
    assert answer.payload == BODY
    asked = (option_numbers.BLOCK2, block("1/0/256"))
    assert server.ask(PATH, asked, tag, code=codes.FETCH).code == codes.REQUEST_ENTITY_INCOMPLETE
    first = [(option_numbers.BLOCK2, block("0/0/256")), (option_numbers.BLOCK1, block("0/0/32"))]
    assert server.ask(PATH, *first, tag, code=codes.FETCH, payload=b"f").payload == BODY[:256]
    assert server.ask(PATH, asked, tag, code=codes.FETCH).payload == BODY[256:]


def test_what_nobody_asks_for_is_forgotten() -> None:
    server = Server(limits=BodyLimits(kept_s=60.0))
    server.get("0/0/64")
    assert server.responses.next_timer() == 60.0
    server.responses.handle_timer(60.0)
    assert (server.responses.kept, server.shares.held_bytes.held) == (0, 0)


def test_a_peer_that_asks_for_many_bodies_at_once_gets_each_of_them_from_what_was_kept() -> None:
    server = Server()
    queries = [(15, bytes([n])) for n in range(16)]
    for number in range(6):
        asked = (option_numbers.BLOCK2, block(f"{number}/0/64"))
        for query in queries:
            part = server.ask(PATH, query, asked).payload
            assert part == BODY[number * 64 :][:64]
    assert server.asked == 16
    assert server.responses.kept == 0


def test_nothing_is_kept_for_a_peer_after_its_session() -> None:
    server = Server()
    asked = (option_numbers.BLOCK2, block("0/0/64"))
    for query in (b"a", b"b", b"c"):
        server.ask(PATH, (15, query), asked)
    server.ask(PATH, asked, peer=OTHER)
    assert server.responses.kept == 4
    server.responses.forget_peer(PEER)
    assert server.responses.kept == 1


def test_blocks_asked_for_without_the_etags_of_the_first_request_are_of_the_same_body() -> None:
    server = Server()
    server.get("0/0/128", (option_numbers.ETAG, b"had"))
    assert server.get("1/0/128").payload == BODY[128:256]
    assert server.asked == 1


def test_a_body_longer_than_allowed_is_an_error_of_ours() -> None:
    server = Server(limits=BodyLimits(body_bytes=100, size_exponent=2))
    assert server.get().code == codes.INTERNAL_SERVER_ERROR


@pytest.mark.parametrize(
    ("option", "code"), [(b"\x17", codes.BAD_REQUEST), (b"1234", codes.BAD_OPTION)]
)
def test_a_block2_that_can_not_be_is_refused(option: bytes, code: int) -> None:
    server = Server()
    asked = (PATH, (option_numbers.BLOCK2, option))
    assert server.ask(*asked) == CoapResponse(code)
    assert server.asked == 0
    cut = server.responses.cut(PEER, codes.GET, asked, b"", server.response, 0.0)
    assert cut == CoapResponse(code)


def fetched(server: Server, fetch: BodyFetch) -> CoapResponse:
    options = fetch.options
    try:
        while True:
            step = fetch.take(server.ask(*options))
            if isinstance(step, CoapResponse):
                return step
            options = step
    finally:
        fetch.close()


def test_a_body_is_fetched_and_its_bytes_given_back() -> None:
    server, shares = Server(limits=BodyLimits(size_exponent=2)), Shares()
    fetch = BodyFetch(PEER, (PATH,), shares)
    assert fetch.options == (PATH, (option_numbers.BLOCK2, b"\x06"))
    whole = fetched(server, fetch)
    assert (whole.code, whole.payload) == (codes.CONTENT, BODY)
    assert [number for number, _ in whole.options] == [option_numbers.ETAG]
    fetch.close()
    assert shares.held_bytes.held == 0


@pytest.mark.parametrize("limit", [379, 200, 10])
def test_a_body_over_the_limit_is_not_fetched(limit: int) -> None:
    server = Server(limits=BodyLimits(size_exponent=2))
    with pytest.raises(FetchFailedError):
        fetched(server, BodyFetch(PEER, (PATH,), Shares(), BodyLimits(body_bytes=limit)))
    assert server.asked == 1


def test_a_body_without_room_is_not_fetched() -> None:
    with pytest.raises(FetchFailedError):
        fetched(
            Server(limits=BodyLimits(size_exponent=2)), BodyFetch(PEER, (PATH,), without_room())
        )


def test_an_error_ends_a_fetch_as_its_answer() -> None:
    server, fetch = Server(limits=BodyLimits(size_exponent=2)), BodyFetch(PEER, (PATH,), Shares())
    assert not isinstance(fetch.take(server.ask(*fetch.options)), CoapResponse)
    error = CoapResponse(codes.UNAUTHORIZED, (), b"no longer")
    assert fetch.take(error) == error


@pytest.mark.parametrize(
    "answer",
    [
        CoapResponse(codes.CONTENT, ((option_numbers.BLOCK2, block("2/1/16")),), b"b" * 16),
        CoapResponse(codes.CONTENT, ((option_numbers.BLOCK2, block("0/1/16")),), b"b" * 16),
        CoapResponse(codes.CONTENT, ((option_numbers.BLOCK2, block("1/1/16")),), b"b" * 15),
        CoapResponse(codes.CONTENT, ((option_numbers.BLOCK2, block("1/1/16")),), b""),
        CoapResponse(codes.CONTENT, ((option_numbers.BLOCK2, b"\x1f"),), b"b" * 16),
        CoapResponse(codes.CONTENT, ((4, b"new"), (23, block("1/1/16"))), b"b" * 16),
        CoapResponse(codes.CONTENT, (), b"b" * 16),
    ],
)
def test_blocks_that_make_no_body_end_a_fetch(answer: CoapResponse) -> None:
    fetch = BodyFetch(PEER, (PATH,), Shares())
    fetch.take(CoapResponse(codes.CONTENT, ((23, block("0/1/16")),), b"a" * 16))
    with pytest.raises(FetchFailedError):
        fetch.take(answer)


@given(st.data())
@settings(max_examples=150)
def test_a_body_is_got_whole_or_not_at_all(data: st.DataObject) -> None:
    """The resource changes, blocks are asked twice, what was kept goes, sizes differ."""
    versions = data.draw(st.lists(st.binary(max_size=300), min_size=1, max_size=3))
    exponents = st.integers(0, 4)
    shares = data.draw(st.sampled_from([None, without_room()]))
    server = Server(versions[0], BodyLimits(size_exponent=data.draw(exponents)), shares)
    fetch = BodyFetch(PEER, (PATH,), Shares(), BodyLimits(size_exponent=data.draw(exponents)))
    options = fetch.options
    changed = False
    while True:
        match data.draw(st.sampled_from(["ask", "ask", "ask", "change", "time", "again"])):
            case "change":
                body = data.draw(st.sampled_from(versions))
                changed = changed or body != server.response.payload
                server.response = CoapResponse(codes.CONTENT, (), body)
            case "time":
                server.responses.handle_timer(1e9)
            case "again":
                server.ask(*options)
            case _:
                try:
                    step = fetch.take(server.ask(*options))
                except FetchFailedError:
                    assert changed
                    break
                if isinstance(step, CoapResponse):
                    assert changed or step.code == codes.CONTENT
                    assert step.code != codes.CONTENT or step.payload in versions
                    break
                options = step
    server.responses.handle_timer(1e9)
    assert server.shares.held_bytes.held == 0


def test_a_whole_body_names_its_block() -> None:
    answer = RequestBodies(Shares()).take(
        PEER, codes.POST, ((option_numbers.BLOCK1, block("0/0/16")),), b"a", 0.0
    )
    assert answer == WholeBody(b"a", block("0/0/16"))
