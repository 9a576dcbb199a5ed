"""Goal: nobody stops the gateway with CoAP datagrams and no key.

Method: two linked gateway processes with the limits and the access rules of the default
configuration; strangers attack one's plain CoAP from raw sockets of other loopback addresses,
while an MQTT client with a password publishes with QoS 1 what another one gets at the neighbour,
and an authenticated DTLS peer (libcoap's client) writes and reads. How long the PUBACKs took is
printed (``-s``); what is asserted is that all came, that connection and link stay, who is served
and how much memory grew. Then the gateway is killed and started again, and a session that was away
gets all that was acknowledged. With ``--soak`` (`make soak`) the attacks last longer, and the 99th
percentile of PUBACKs is held against its limit.
"""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from attacked_fleet import KEY, SWITCH, AttackedFleet, plain_address, stopping
from coap_messages import (
    BLOCK1,
    CHANGED,
    CONFIRMABLE,
    CONTENT,
    ECHO,
    EMPTY,
    EMPTY_OPTIONS,
    GET,
    NON_CONFIRMABLE,
    OBSERVE,
    PUT,
    UNAUTHORIZED,
    URI_PATH,
    URI_QUERY,
    message,
    options_of,
    path,
)
from gateways import Gateway
from hostile_fleet import port_of, shown
from victim import PASSWORD, USER

from benchmarks.fleet_devices import Asker, RefusedError
from coap_engine import codes
from dtls.context import ClientContext
from dtls.errors import SessionClosedError

RETURNS_S = 300.0
"""Longer than EXCHANGE_LIFETIME, for which a body in assembly is kept."""
HOSTS = itertools.count()
"""No two attacks come from one host."""

pytestmark = [pytest.mark.peer("coap-client-openssl", "libcoap3-bin"), pytest.mark.drawn(5)]


@pytest.fixture(scope="module")
def is_soak(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, is_soak: bool) -> Iterator[AttackedFleet]:
    with AttackedFleet.running(tmp_path_factory.mktemp("fleet"), is_soak=is_soak) as running:
        yield running


@pytest.mark.parametrize(
    ("size_bytes", "every_s"),
    [
        pytest.param(60_000, 1.0, id="60 kB"),
        pytest.param(1_442, 1 / 40, id="1,442 bytes"),
    ],
)
def test_datagrams_of_empty_options_hold_up_nobody(
    fleet: AttackedFleet, size_bytes: int, every_s: float
) -> None:
    stranger = fleet.stranger(next(HOSTS))
    head = message(CONFIRMABLE, GET, 1, b"", (URI_PATH, b"status"))
    datagram = head + EMPTY_OPTIONS * (size_bytes - len(head))
    fleet.serves_during(lambda: stranger.send(datagram), every_s)
    fleet.writes_and_reads()
    fleet.starts_again()


def test_observations_of_strangers_leave_an_authenticated_peer_its_share(
    fleet: AttackedFleet,
) -> None:
    strangers = [fleet.stranger(next(HOSTS)) for _ in range(16)]

    def observe(number: int) -> None:
        request = message(
            NON_CONFIRMABLE, GET, number, number.to_bytes(2, "big"), (OBSERVE, b""),
            *path("sensors/valve"),
        )  # fmt: skip
        for stranger in strangers:
            stranger.send(request)

    numbers = iter(range(256))
    fleet.serves_during(lambda: observe(next(numbers, 0)), 0.007)
    for number in (*numbers, *range(256)):  # again, for what the socket's buffer did not hold
        observe(number)
        time.sleep(0.005)
    for _ in range(3):
        fleet.writes_and_reads()
    fleet.starts_again()


def test_blocks_of_requests_that_never_end_are_bounded(fleet: AttackedFleet, is_soak: bool) -> None:
    stranger = fleet.stranger(next(HOSTS))
    numbers = itertools.count()

    def begin() -> None:
        number = (next(numbers) & 0xFFFF).to_bytes(2, "big")
        block = (0 << 4 | 8 | 6).to_bytes(1, "big")
        head = message(
            NON_CONFIRMABLE, PUT, int.from_bytes(number, "big"), number,
            *path("sensors/valve"), (URI_QUERY, number.hex().encode()), (BLOCK1, block),
        )  # fmt: skip
        stranger.send(head + b"\xff" + bytes(58_000))

    fleet.serves_during(begin, 1 / 200, least_s=5.0)
    fleet.writes_and_reads()
    if is_soak:
        held = 'hedgerow_coap_held{kind="bytes"}'
        fleet.gateway.wait_for(lambda: fleet.gateway.metric(held) == 0, RETURNS_S)
    fleet.starts_again()


def test_what_is_asked_from_forged_addresses_holds_up_nobody(fleet: AttackedFleet) -> None:
    strangers = [fleet.stranger(next(HOSTS)) for _ in range(16)]
    numbers = itertools.count()

    def ask() -> None:
        number = next(numbers) & 0xFFFF
        for stranger in strangers:
            stranger.send(message(CONFIRMABLE, GET, number, b"", (URI_PATH, b"status")))

    fleet.serves_during(ask, 0.007)
    fleet.starts_again()


def test_what_resources_are_asked_for_holds_up_nobody(fleet: AttackedFleet) -> None:
    strangers = [fleet.stranger(next(HOSTS)) for _ in range(16)]
    numbers = itertools.count()

    def ask() -> None:
        number = next(numbers) & 0xFFFF
        for stranger in strangers:
            stranger.send(message(NON_CONFIRMABLE, GET, number, b"", *path("q/-/-/gw-b/status")))

    fleet.serves_during(ask, 0.007)
    fleet.starts_again()


def thermometers(fleet: AttackedFleet, stack: ExitStack) -> Iterator[Asker]:
    """Sessions of one device, at each of the two gateways."""
    for gateway in (fleet.gateway, fleet.neighbour):
        context = ClientContext("thermometer", KEY.encode())
        asker = stack.enter_context(closing(Asker(port_of(gateway, "coaps"), context)))
        asker.shake_hands()
        yield asker


def test_a_device_drains_no_gateway_and_writes_nowhere(fleet: AttackedFleet) -> None:
    with ExitStack() as stack:
        askers = list(thermometers(fleet, stack))
        requests = [(codes.POST, "drain", b""), (codes.PUT, "sensors/valve", b"1")]
        requests += [
            (code, f"q/-/-/{name}/{below}", payload)
            for code, below, payload in requests
            for name in ("gw", "gw-b")
        ]
        asked = itertools.cycle(itertools.product(askers, requests))

        def ask() -> None:
            asker, (code, where, payload) = next(asked)
            assert shown(asker.ask(code, path(where), payload)) == "4.03", where

        fleet.serves_during(ask, 0.02)
    for gateway in (fleet.gateway, fleet.neighbour):
        gateway.broker().connect(username=USER, password=PASSWORD).disconnect()
    fleet.starts_again()


def test_a_key_that_was_taken_out_of_the_file_opens_nothing(fleet: AttackedFleet) -> None:
    kept = fleet.psk.read_text()
    with ExitStack() as stack:
        askers = list(thermometers(fleet, stack))
        try:
            fleet.psk.write_text("".join(kept.splitlines(keepends=True)[:1]))
            for gateway in (fleet.gateway, fleet.neighbour):
                gateway.reload()
            for asker in askers:
                with pytest.raises(SessionClosedError):
                    asker.ask(codes.GET, path("rd-lookup/ep"))
            with pytest.raises(RefusedError):
                list(thermometers(fleet, stack))
            fleet.writes_and_reads()
        finally:
            fleet.psk.write_text(kept)
            for gateway in (fleet.gateway, fleet.neighbour):
                gateway.reload()


def answer_to(stranger: socket.socket) -> bytes:
    """Return the answer; a gateway that stood still acknowledges first, and answers by itself."""
    while (answer := stranger.recv(1 << 16))[1] == EMPTY:
        pass
    return answer


def test_a_stranger_gets_no_more_than_three_times_what_he_sent(fleet: AttackedFleet) -> None:
    stranger = fleet.stranger(next(HOSTS))
    asked = path(".well-known/core")
    request = message(CONFIRMABLE, GET, 1, b"t", *asked)
    stranger.send(request)
    answer = answer_to(stranger)
    assert len(answer) <= 3 * len(request)
    assert answer[1] == UNAUTHORIZED
    echo = (ECHO, options_of(answer)[ECHO])
    stranger.send(message(CONFIRMABLE, GET, 2, b"u", *asked, echo))
    assert answer_to(stranger)[1] == CONTENT


def test_a_stranger_learns_no_more_than_that_a_gateway_is_up(fleet: AttackedFleet) -> None:
    stranger = fleet.stranger(next(HOSTS))
    stranger.send(message(CONFIRMABLE, GET, 1, b"t", (URI_PATH, b"status")))
    answer = answer_to(stranger)
    assert answer[1] == CONTENT
    assert set(json.loads(answer[answer.index(b"\xff") + 1 :])) == {"id", "version", "up_s"}


def test_a_write_over_plain_coap_needs_a_fresh_echo(tmp_path: Path) -> None:
    with (
        stopping(Gateway(tmp_path, SWITCH)) as gateway,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        stranger.bind(("127.2.1.1", 0))
        stranger.connect(plain_address(gateway))
        stranger.settimeout(20.0)
        body = b"\xff" + b'[{"n":"valve","v":1}]'
        options = [*path("sensors/valve"), (12, b"\x6e")]
        stranger.send(message(CONFIRMABLE, PUT, 1, b"t", *options) + body)
        answer = answer_to(stranger)
        assert answer[1] == UNAUTHORIZED
        echo = (ECHO, options_of(answer)[ECHO])
        stranger.send(message(CONFIRMABLE, PUT, 2, b"u", *options, echo) + body)
        assert answer_to(stranger)[1] == CHANGED
