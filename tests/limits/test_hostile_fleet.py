"""Goal: who registers, asks, observes and names without end or sense gets clear refusals.

Method: two linked gateway processes with the limits of the default configuration. After each
attack an operator with a key writes and reads, the neighbour tells what he wrote, and the memory
of the one that was attacked has not grown by more than its bound. With ``--soak`` (`make soak`)
the floods are twenty times as long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hostile_fleet import VALVE, HostileFleet, path, shown

from benchmarks.fleet_devices import Asker, queries, registration
from coap_engine import codes, option_numbers
from coap_engine.blocks import Block
from coap_engine.codec import CoapMessage
from coap_engine.limits import DEFAULT_LIMITS
from coap_engine.message import Option, value_of

LOOK_UP = path(b"rd-lookup", b"ep")
LINK = b"</x>"
BURST = 64
FORGOTTEN_S = 300.0
"""Longer than MAX_TRANSMIT_WAIT, after which who acknowledges nothing observes no more."""
HOST_OBSERVATIONS = DEFAULT_LIMITS.shares.observations.host


@pytest.fixture(scope="module")
def longer(request: pytest.FixtureRequest) -> int:
    return 20 if request.config.getoption("--soak") else 1


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileFleet]:
    with HostileFleet.running(tmp_path_factory.mktemp("fleet")) as running:
        yield running


def answers(asker: Asker, tokens: set[bytes]) -> list[CoapMessage]:
    """Those to so many requests; every one of them must come."""
    found: dict[bytes, CoapMessage] = {}
    while tokens - found.keys():
        come = asker.come(20.0)
        assert come, f"{len(tokens - found.keys())} of {len(tokens)} have no answer"
        found.update((one.token, one) for one in come if one.code)
    return [found[token] for token in tokens]


def endpoints(fleet: HostileFleet, criterion: str) -> list[str]:
    asked = [*LOOK_UP, *queries(criterion, "count=5")]
    answer = fleet.stranger().ask(codes.GET, asked)
    assert shown(answer) == "2.05"
    return [one for one in answer.payload.decode().split(",") if one]


def test_registrations_without_a_key_are_refused_and_none_stands(
    fleet: HostileFleet, longer: int
) -> None:
    for host in ("127.0.0.1", "127.3.0.1"):
        asker = fleet.stranger(host=host)
        for number in range(longer):
            for one in range(BURST):  # what is beyond a stranger's rate is dropped
                asker.send(codes.POST, registration(f"ep=forged-{number}-{one}"), LINK)
            answer = asker.ask(codes.POST, registration(f"ep=forged-{number}"), LINK)
            assert shown(answer) == "4.01", answer.payload
    assert endpoints(fleet, "ep=forged*") == []
    fleet.goes_on()


def test_a_device_that_registers_without_end_keeps_no_other_one_out(
    fleet: HostileFleet, longer: int
) -> None:
    thing, other = fleet.with_key("thing"), fleet.with_key("other")
    codes_seen: Counter[str] = Counter()
    for number in range(8 * longer):
        options = [registration(f"ep=flood-{number}-{one}", "lt=60") for one in range(BURST)]
        tokens = {thing.send(codes.POST, one, LINK) for one in options}
        theirs = registration(f"ep=meter-{number}", "lt=600")
        assert shown(other.ask(codes.POST, theirs, LINK)) == "2.01"
        codes_seen.update(shown(one) for one in answers(thing, tokens))
    assert set(codes_seen) <= {"2.01", "4.29", "5.03"}
    for number in range(8 * longer):
        assert len(endpoints(fleet, f"ep=meter-{number}")) == 1
    fleet.goes_on()


@pytest.mark.parametrize(
    ("parameters", "body", "code"),
    [
        pytest.param((), LINK, "4.00", id="no name"),
        pytest.param(("ep=a", "lt=0"), LINK, "4.00", id="no lifetime"),
        pytest.param(("ep=a", "lt=99999999999"), LINK, "4.00", id="a lifetime without end"),
        pytest.param(("ep=a", "ep=b"), LINK, "4.00", id="two names"),
        pytest.param(("ep=a", "base=coap://[::1"), LINK, "4.00", id="a base that is none"),
        pytest.param(("ep=a",), b"<" * 900, "4.00", id="links that are none"),
        pytest.param(("ep=a",), b"\xff\xfe", "4.00", id="no text"),
        pytest.param(("ep=a", *(f"a{n}=1" for n in range(33))), LINK, "4.13", id="33 attributes"),
        pytest.param(
            ("ep=a",),
            b'</x>;rt="%s"' % b" ".join(b"r%d" % n for n in range(65)),
            "4.13",
            id="a link of 65 types",
        ),
    ],
)
def test_a_registration_that_is_none_is_refused(
    fleet: HostileFleet, parameters: Sequence[str], body: bytes, code: str
) -> None:
    answer = fleet.with_key("thing").ask(codes.POST, registration(*parameters), body)
    assert (shown(answer), bool(answer.payload)) == (code, True), answer.payload


def test_a_registration_of_more_than_a_body_is_refused_at_its_first_block(
    fleet: HostileFleet,
) -> None:
    first = (option_numbers.BLOCK1, Block(0, True, 6).encode())
    size = (option_numbers.SIZE1, (2 << 20).to_bytes(3, "big"))
    options = [*registration("ep=vast"), first, size]
    answer = fleet.with_key("thing").ask(codes.POST, options, LINK.ljust(1_024))
    assert shown(answer) == "4.13"
    assert endpoints(fleet, "ep=vast") == []


def test_a_device_does_not_take_the_place_of_another_one(fleet: HostileFleet) -> None:
    made = fleet.with_key("other").ask(codes.POST, registration("ep=owned"), LINK)
    place = [
        (option_numbers.URI_PATH, value)
        for number, value in made.options
        if number == option_numbers.LOCATION_PATH
    ]
    thing = fleet.with_key("thing")
    for code, options, body in (
        (codes.POST, registration("ep=owned"), LINK),
        (codes.POST, [*place, *queries("lt=1")], b""),
        (codes.DELETE, place, b""),
    ):
        assert shown(thing.ask(code, options, body)) == "4.03"
    assert len(endpoints(fleet, "ep=owned")) == 1


def test_wildcards_over_everything_in_a_loop_are_answered_or_told_when_to_try_again(
    fleet: HostileFleet, longer: int
) -> None:
    everything: list[list[Option]] = [
        path(b"q", b"*", b"*", b"*", b".well-known", b"core"),
        path(b"q", b"+", b"*", b"*", b"sensors"),
        [*path(b"rd-lookup", b"res"), *queries("scope=all")],
        [*LOOK_UP, *queries("ep=*", "scope=all")],
    ]
    asker = fleet.stranger()
    for _ in range(longer):
        asked = everything * (BURST // len(everything))
        found = answers(asker, {asker.send(codes.GET, one) for one in asked})
        assert {shown(one) for one in found} <= {"2.05", "4.04", "4.29", "5.03"}
        refused = [one for one in found if shown(one) == "5.03"]
        assert refused, "nothing bounded them"
        assert all(value_of(one.options, option_numbers.MAX_AGE) for one in refused)
    fleet.goes_on()


def test_observers_that_never_answer_have_their_part_and_no_more(
    fleet: HostileFleet, longer: int
) -> None:
    silent = fleet.stranger()
    observing = []
    for beyond in ((), (b"q", b"-", b"-", b"gw-b")):
        options = [(option_numbers.OBSERVE, b""), *path(*beyond, *VALVE)]
        found = [silent.ask(codes.GET, options) for _ in range(HOST_OBSERVATIONS)]
        assert {shown(one) for one in found} == {"2.05"}
        observing += [value_of(one.options, option_numbers.OBSERVE) is not None for one in found]
    assert observing == [True] * HOST_OBSERVATIONS + [False] * HOST_OBSERVATIONS
    for _ in range(20 * longer):
        fleet.set_switch()
    assert silent.come(20.0, acknowledges=False), "it is told"
    if longer > 1:
        silent.close()
        fleet.set_switch()
        held = 'hedgerow_coap_held{kind="observations"}'
        fleet.gateway.wait_for(lambda: fleet.gateway.metric(held) == 0, FORGOTTEN_S)
    fleet.goes_on()


GONE = "4.04"
WRONG = "4.00"


@pytest.mark.parametrize(
    ("segments", "code"),
    [
        ((b"q", b"-", b"-", b"gw-c", b"status"), GONE),
        ((b"q", b"campus", b"north", b"gw-b", b"status"), GONE),
        ((b"q", b"-", b"-", b"GW-B", b"status"), WRONG),
        ((b"q", b"-", b"-", b"gw-b\n", b"status"), WRONG),
        ((b"q", b"-", b"-", b"gw-b\0", b"status"), WRONG),
        ((b"q", b"-", b"-", b"$hedgerow", b"status"), WRONG),
        ((b"q", b"-", b"-", b"#", b"status"), WRONG),
        ((b"q", b"-", b"-", b"x" * 255, b"status"), WRONG),
        ((b"q", b"-", b"gw-b"), WRONG),
        ((b"q",), WRONG),
        ((b"q", b"-", b"-", b"gw-b", b"q", b"-", b"-", b"gw", b"status"), WRONG),
    ],
)
def test_a_forged_target_is_refused(
    fleet: HostileFleet, segments: Sequence[bytes], code: str
) -> None:
    answer = fleet.stranger().ask(codes.GET, path(*segments))
    assert (shown(answer), bool(answer.payload)) == (code, True), answer.payload


@pytest.mark.parametrize(
    "uri", [b"coap://192.0.2.1/", b"http://gw-b/status", b"coap://gw-c/status"]
)
def test_a_gateway_is_a_proxy_to_gateways_alone(fleet: HostileFleet, uri: bytes) -> None:
    assert shown(fleet.stranger().ask(codes.GET, [(option_numbers.PROXY_URI, uri)])) == "5.05"


LEADING_OUT = [
    (b"..", b"..", b"etc", b"passwd"),
    (b"sensors", b"..", b"status"),
    (b"sensors", b".", b"valve"),
    (b"rd", b"..", b"status"),
    (b"sensors/valve",),
    (b"", b"status"),
    (b"sensors", b"", b"valve"),
    (b"sensors", b"valve", b""),
    (b"sensors", b"valve\0"),
]
NAMED_ODDLY = [
    (b"sensors%2Fvalve",),
    (b"sensors", b"%2e%2e", b"status"),
    (b"sensors", b"..%2F..%2Fstatus"),
]
AT = [(), (b"q", b"-", b"-", b"gw"), (b"q", b"-", b"-", b"gw-b")]


@pytest.mark.parametrize("at", AT)
@pytest.mark.parametrize("segments", LEADING_OUT)
def test_a_path_that_leads_out_leads_nowhere_and_to_no_other_gateway(
    fleet: HostileFleet, segments: Sequence[bytes], at: Sequence[bytes]
) -> None:
    answer = fleet.stranger().ask(codes.GET, path(*at, *segments))
    assert shown(answer) == (WRONG if at else GONE), answer.payload


@pytest.mark.parametrize("at", AT)
@pytest.mark.parametrize("segments", NAMED_ODDLY)
def test_what_looks_encoded_is_a_name_that_nothing_has(
    fleet: HostileFleet, segments: Sequence[bytes], at: Sequence[bytes]
) -> None:
    refused = {GONE} if segments[0] == b"sensors" or not at else {GONE, "4.01"}
    assert shown(fleet.stranger().ask(codes.GET, path(*at, *segments))) in refused


@pytest.mark.parametrize("at", AT)
def test_a_path_that_is_no_text_is_a_bad_option(fleet: HostileFleet, at: Sequence[bytes]) -> None:
    answer = fleet.stranger().ask(codes.GET, path(*at, b"sensors", b"\xff\xfe"))
    assert (shown(answer), answer.payload) == ("4.02", b"option 11")


@pytest.mark.parametrize("gateway", [b"..", b".", b"", b"%2e%2e", b"gw-b/..", b"gw-b%2F"])
def test_a_gateway_by_a_name_that_leads_out_is_refused(fleet: HostileFleet, gateway: bytes) -> None:
    for place in ((b"-", b"-"), (b"..", b"-"), (b"-", b"")):
        answer = fleet.stranger().ask(codes.GET, path(b"q", *place, gateway, b"status"))
        assert shown(answer) == WRONG, answer.payload


@pytest.mark.parametrize("name", ["../../../escaped", "..%2F..%2Fescaped", "/escaped", "."])
def test_a_name_that_leads_out_is_a_name_like_any_and_no_file(
    fleet: HostileFleet, name: str
) -> None:
    thing = fleet.with_key("thing")
    made = thing.ask(codes.POST, registration(f"ep={name}", "d=../escaped"), LINK)
    assert shown(made) == "2.01"
    place = [value for number, value in made.options if number == option_numbers.LOCATION_PATH]
    assert place[0] == b"rd", place
    assert all(part.isdigit() for segment in place[1:] for part in segment.split(b"-")), place
    assert not list(fleet.folder.parent.rglob("*escaped*"))
    fleet.goes_on()
