"""Goal: nobody stops the gateway with CoAP datagrams and no key.

Method: a gateway process with the limits of the default configuration; strangers attack its plain
CoAP from raw sockets of other loopback addresses, while an MQTT client publishes with QoS 1 and an
authenticated DTLS peer (libcoap's client) writes and reads. How long the PUBACKs took is printed
(``-s``); what is asserted is that all came, that the link stays, and who is served.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateways import Gateway
from raw_client import Client

ATTACK_S, SOAK_S = 2.0, 30.0
MEMORY_BYTES = 32 << 20
IDENTITY, KEY = "meter-1", "0123456789abcdef"
CONFIRMABLE, NON_CONFIRMABLE = 0x40, 0x50
GET, PUT = 1, 3
CONTENT, CHANGED, UNAUTHORIZED = 0x45, 0x44, 0x81
OBSERVE, URI_PATH, URI_QUERY, BLOCK1, ECHO = 6, 11, 15, 27, 252
EMPTY_OPTIONS = b"\x00"
"""Each such byte is one more option of the number before and no length."""

pytestmark = pytest.mark.peer("coap-client-openssl", "libcoap3-bin")


def say(what: str) -> None:
    """Print a measurement, which is shown with ``-s`` or when the test fails."""
    sys.stdout.write(f"{what}\n")


class Target:
    """A gateway with a switch, CoAP over UDP and over DTLS, and what its users do meanwhile."""

    def __init__(self, gateway: Gateway, attack_s: float) -> None:
        self.gateway = gateway
        host, _, port = gateway.listeners["coap"].rpartition(":")
        self.address = (host, int(port))
        self.publisher: Client = gateway.broker().connect()
        self._uri = f"coaps://{gateway.listeners['coaps']}/sensors/valve"
        self._attack_s = attack_s

    def stranger(self, number: int = 0) -> socket.socket:
        """A socket at an address of its own."""
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found.bind((f"127.2.0.{number + 1}", 0))
        found.connect(self.address)
        found.settimeout(20.0)
        return found

    def writes_and_reads(self) -> None:
        """An authenticated peer sets the switch and reads it."""
        for value in (1, 0):
            senml = json.dumps([{"n": "valve", "v": value}])
            self._coap("-m", "put", "-t", "110", "-e", senml)
            assert self._coap("-A", "0") == f"{value}.0"

    def serves_mqtt_during(
        self, attack: Callable[[], object], every_s: float, least_s: float = 0.0
    ) -> None:
        """Repeat an attack's step; every PUBACK comes, on the link that was there before."""
        took_ms = []
        begun_s = time.monotonic()
        steps = 0
        while (now_s := time.monotonic()) < begun_s + max(self._attack_s, least_s):
            while begun_s + steps * every_s <= now_s:
                attack()
                steps += 1
            self.publisher.publish("t", b"x", qos=1)
            took_ms.append((time.monotonic() - now_s) * 1000)
            time.sleep(0.002)
        took_ms.sort()
        middle, p99 = took_ms[len(took_ms) // 2], took_ms[len(took_ms) * 99 // 100]
        say(f"{steps} steps, {len(took_ms)} PUBACKs: p50 {middle:.1f} ms, p99 {p99:.1f} ms")
        self.publisher.ping()

    def _coap(self, *arguments: str) -> str:
        command = ["coap-client-openssl", "-B", "10", "-u", IDENTITY, "-k", KEY, *arguments]
        done = subprocess.run(
            [*command, self._uri], capture_output=True, text=True, check=False, timeout=30
        )
        return done.stdout.strip()


@pytest.fixture
def target(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    psk = tmp_path / "psk"
    psk.touch(mode=0o600)
    psk.write_text(f"{IDENTITY}:{KEY.encode().hex()}\n")
    switch = '[[sensors]]\ntype = "switch"\nname = "valve"\n'
    gateway = Gateway(tmp_path, switch, coap=f'dtls_port = 0\npsk_file = "{psk}"')
    yield Target(gateway, SOAK_S if request.config.getoption("--soak") else ATTACK_S)
    try:
        gateway.stop()
    finally:
        gateway.process.kill()  # nothing is left of one that hangs
        gateway.process.wait()


def option(last: int, number: int, value: bytes) -> bytes:
    """One option (RFC 7252, section 3.1) with less than 269 bytes."""
    delta = number - last
    head, more = bytearray(1), bytearray()
    for shift, part in ((4, delta), (0, len(value))):
        head[0] |= min(part, 13) << shift
        if part >= 13:
            more.append(part - 13)
    return bytes(head + more) + value


def message(kind: int, code: int, number: int, token: bytes, *options: tuple[int, bytes]) -> bytes:
    """A header, a token and options, which come in their order."""
    data = bytes([kind | len(token), code]) + number.to_bytes(2, "big") + token
    last = 0
    for option_number, value in options:
        data += option(last, option_number, value)
        last = option_number
    return data


def path(text: str) -> list[tuple[int, bytes]]:
    return [(URI_PATH, part.encode()) for part in text.split("/")]


def options_of(answer: bytes) -> dict[int, bytes]:
    """The options of a message, the last of each number."""
    at, number, found = 4 + (answer[0] & 15), 0, {}
    while at < len(answer) and answer[at] != 0xFF:
        parts = [answer[at] >> 4, answer[at] & 15]
        at += 1
        for index, part in enumerate(parts):
            if part == 13:
                parts[index] = 13 + answer[at]
                at += 1
            elif part == 14:
                parts[index] = 269 + int.from_bytes(answer[at : at + 2], "big")
                at += 2
        number += parts[0]
        found[number] = answer[at : at + parts[1]]
        at += parts[1]
    return found


@pytest.mark.parametrize(
    ("size_bytes", "every_s"),
    [
        pytest.param(60_000, 1.0, id="60 kB"),
        pytest.param(1_442, 1 / 40, id="1,442 bytes"),
    ],
)
def test_datagrams_of_empty_options_hold_up_nobody(
    target: Target, size_bytes: int, every_s: float
) -> None:
    stranger = target.stranger()
    head = message(CONFIRMABLE, GET, 1, b"", (URI_PATH, b"status"))
    datagram = head + EMPTY_OPTIONS * (size_bytes - len(head))
    target.serves_mqtt_during(lambda: stranger.send(datagram), every_s)
    target.writes_and_reads()


def test_observations_of_strangers_leave_an_authenticated_peer_its_share(target: Target) -> None:
    strangers = [target.stranger(number) for number in range(16)]

    def observe(number: int) -> None:
        request = message(
            NON_CONFIRMABLE, GET, number, number.to_bytes(2, "big"), (OBSERVE, b""),
            *path("sensors/valve"),
        )  # fmt: skip
        for stranger in strangers:
            stranger.send(request)

    numbers = iter(range(256))
    target.serves_mqtt_during(lambda: observe(next(numbers, 0)), 0.007)
    for number in (*numbers, *range(256)):  # again, for what the socket's buffer did not hold
        observe(number)
        time.sleep(0.005)
    for _ in range(3):
        target.writes_and_reads()


def test_blocks_of_requests_that_never_end_are_bounded(target: Target) -> None:
    target.writes_and_reads()
    stranger = target.stranger()
    before_bytes = target.gateway.rss_bytes()
    sent = 0

    def begin() -> None:
        nonlocal sent
        block = (0 << 4 | 8 | 6).to_bytes(1, "big")
        head = message(
            NON_CONFIRMABLE, PUT, sent, sent.to_bytes(2, "big"),
            *path("sensors/valve"), (URI_QUERY, str(sent).encode()), (BLOCK1, block),
        )  # fmt: skip
        stranger.send(head + b"\xff" + bytes(58_000))
        sent += 1

    target.serves_mqtt_during(begin, 1 / 200, least_s=5.0)
    grown = target.gateway.rss_bytes() - before_bytes
    say(f"{sent} requests of 58 kB: {grown / (1 << 20):.0f} MiB more")
    assert grown < MEMORY_BYTES
    target.writes_and_reads()


def test_a_stranger_gets_no_more_than_three_times_what_he_sent(target: Target) -> None:
    stranger = target.stranger()
    request = message(CONFIRMABLE, GET, 1, b"t", (URI_PATH, b"status"))
    stranger.send(request)
    answer = stranger.recv(1 << 16)
    assert len(answer) <= 3 * len(request)
    assert answer[1] == UNAUTHORIZED
    echo = (ECHO, options_of(answer)[ECHO])
    stranger.send(message(CONFIRMABLE, GET, 2, b"u", (URI_PATH, b"status"), echo))
    assert stranger.recv(1 << 16)[1] == CONTENT


def test_a_write_over_plain_coap_needs_a_fresh_echo(target: Target) -> None:
    stranger = target.stranger()
    body = b"\xff" + b'[{"n":"valve","v":1}]'
    options = [*path("sensors/valve"), (12, b"\x6e")]
    stranger.send(message(CONFIRMABLE, PUT, 1, b"t", *options) + body)
    answer = stranger.recv(1 << 16)
    assert answer[1] == UNAUTHORIZED
    echo = (ECHO, options_of(answer)[ECHO])
    stranger.send(message(CONFIRMABLE, PUT, 2, b"u", *options, echo) + body)
    assert stranger.recv(1 << 16)[1] == CHANGED
