"""Goal: floods of handshakes that come to nothing keep nobody with a key or certificate waiting.

Method: a gateway process with the limits of the default configuration; attackers at other loopback
addresses, while clients with a key and with a certificate shake hands one after the other and ask.
All of them come in, and memory does not grow by more than its bound. CI has a short form of each
flood; with ``--soak`` (`make soak`) they have their full length, and 95 of 100 of those who come in
have their answer within a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from authority import Authority
from dtls_attackers import HOSTS, KEY, Beginner, hello
from dtls_clients import CertificateClientContext, DtlsPeer
from gateways import Gateway

from dtls.context import ClientContext, Context

STATUS = b"\x40\x01\x00\x02\xb6status"
CONNECT = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04calm"
P95_S = 1.0
MEMORY_BYTES = 32 << 20
CALM = 20
"""So many legitimate handshakes there are at least."""


class Besieged:
    """The gateway, and who may come in."""

    def __init__(self, folder: Path, *, is_soak: bool) -> None:
        self.is_soak = is_soak
        self.authority = Authority(folder)
        own = self.authority.issue("localhost", is_server=True)
        (folder / "psk").write_text(f"meter-1:{KEY.hex()}\n")
        (folder / "psk").chmod(0o600)
        files = (
            f'certificate_file = "{own.certificate}"\nkey_file = "{own.key}"\n'
            f'client_ca_file = "{self.authority.file}"\n'
        )
        coap = f'dtls_port = 0\npsk_file = "{folder}/psk"\n{files}'
        tls = f'tls_port = 0\nclient_certificate = "optional"\n{files}'
        self.gateway = Gateway(folder, "", 'tls = "off"', coap, mqtt=tls)
        self.port = int(self.gateway.listeners["coaps"].rpartition(":")[2])
        self.mqtts = int(self.gateway.listeners["mqtts"].rpartition(":")[2])
        self.shown = (
            ClientContext("meter-1", KEY),
            CertificateClientContext(self.authority.issue("pump-7"), self.authority),
        )

    def stop(self) -> None:
        self.gateway.stop()

    def length(self, short: int, full: int) -> int:
        return full if self.is_soak else short

    def hold(self, took_s: float) -> None:
        """Hold a time against its limit; in CI a machine may stand still for as long."""
        assert not self.is_soak or took_s < P95_S

    async def shake_hands(self) -> float:
        """One with a key and one with a certificate; how long the slower of them took."""

        async def one(context: Context) -> float:
            begun_s = time.monotonic()
            async with DtlsPeer(context, self.port) as peer:
                assert (await peer.ask(STATUS))[1] == 0x45
            return time.monotonic() - begun_s

        return max(await asyncio.gather(*(one(context) for context in self.shown)))

    async def connect(self) -> float:
        """One MQTT client over TLS; how long it took."""
        begun_s = time.monotonic()
        context = self.authority.client_context()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.mqtts, ssl=context)
        writer.write(CONNECT)
        assert await reader.readexactly(4) == b"\x20\x02\0\0"
        writer.close()
        return time.monotonic() - begun_s

    async def goes_on_during(self, attack: Callable[[], None], *, mqtt: bool = False) -> None:
        """Others come in while an attack lasts."""
        await self.shake_hands()
        before_bytes = self.gateway.own_bytes()
        attacker = threading.Thread(target=attack)
        attacker.start()
        took_s: list[float] = []
        while attacker.is_alive() or len(took_s) < CALM:
            took_s.append(await self.shake_hands())
            if mqtt:
                took_s.append(await self.connect())
            await asyncio.sleep(0.01)
        attacker.join()
        took_s.sort()
        p95_s = took_s[(len(took_s) - 1) * 95 // 100]
        grown_bytes = self.gateway.own_bytes() - before_bytes
        sys.stdout.write(
            f"\n{len(took_s)} came in: median {took_s[len(took_s) // 2] * 1000:.0f} ms, "
            f"p95 {p95_s * 1000:.0f} ms, {grown_bytes / (1 << 20):.1f} MiB more\n"
        )
        self.hold(p95_s)
        assert grown_bytes < MEMORY_BYTES


@pytest.fixture(scope="module")
def besieged(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Besieged]:
    is_soak = bool(request.config.getoption("--soak"))
    made = Besieged(tmp_path_factory.mktemp("gateway"), is_soak=is_soak)
    yield made
    made.stop()


async def test_client_hellos_without_a_cookie(besieged: Besieged) -> None:
    attackers = [Beginner(besieged.port) for _ in range(16)]
    count = besieged.length(6_000, 30_000)
    cookies = 'hedgerow_dtls_events_total{event="cookies_sent"}'

    def flood() -> None:
        first = hello()
        while besieged.gateway.metric(cookies) < count * 0.5:  # a full buffer drops some
            for number in range(count // 40):
                for _ in range(40):
                    attackers[number % 16].socket.send(first)
                time.sleep(0.004)

    await besieged.goes_on_during(flood)
    assert besieged.gateway.metric(cookies) >= count * 0.5


async def test_half_opens_that_say_no_more(besieged: Besieged) -> None:
    held: list[Beginner] = []

    def fall_silent() -> None:
        for _ in range(besieged.length(200, 1_500)):
            held.append(Beginner(besieged.port))
            held[-1].return_cookie()

    await besieged.goes_on_during(fall_silent)
    for attacker in held:
        attacker.socket.close()


async def test_cookies_that_are_sent_again_from_elsewhere_and_from_there(
    besieged: Besieged,
) -> None:
    owner, others = Beginner(besieged.port), [Beginner(besieged.port) for _ in range(16)]
    with_cookie = owner.return_cookie()

    def replay() -> None:
        for number in range(besieged.length(30, 300)):
            for _ in range(50):
                others[number % 16].socket.send(with_cookie)
                owner.socket.send(with_cookie)
            time.sleep(0.01)

    await besieged.goes_on_during(replay)


def alert(chance: random.Random) -> bytes:
    level, description = chance.choice([(2, 40), (2, 48), (1, 0), (2, 80), (1, 90), (2, 20)])
    epoch = chance.choice([b"\0\0", b"\0\1"])
    return b"\x15\xfe\xfd" + epoch + chance.randbytes(6) + b"\0\x02" + bytes((level, description))


async def test_alerts_of_strangers_in_the_name_of_a_device(besieged: Besieged) -> None:
    """They come from its own address and port, between any two of its datagrams."""
    chance = random.Random(3)
    took_s = []
    for number in range(besieged.length(20, 300)):
        peer = DtlsPeer(besieged.shown[number % 2], besieged.port)
        begun_s = time.monotonic()
        shaking = asyncio.create_task(peer.handshake())
        while not shaking.done():
            peer.inject(alert(chance))
            await asyncio.sleep(0.002)
        await shaking
        for _ in range(10):
            peer.inject(alert(chance))
        assert (await peer.ask(STATUS))[1] == 0x45
        took_s.append(time.monotonic() - begun_s)
        peer.close()
    besieged.hold(sorted(took_s)[(len(took_s) - 1) * 95 // 100])


async def test_a_device_that_reboots_comes_in_again_from_the_same_port(besieged: Besieged) -> None:
    """RFC 6347, section 4.2.8: the old session stays until the new one is complete."""
    for context in besieged.shown:
        peer = DtlsPeer(context, besieged.port)
        for _ in range(besieged.length(5, 50)):
            besieged.hold(await peer.handshake())
            assert (await peer.ask(STATUS))[1] == 0x45
            peer.reboot()
        await peer.handshake()
        assert (await peer.ask(STATUS))[1] == 0x45
        peer.close()
    assert besieged.gateway.metric('hedgerow_dtls_events_total{event="replaced"}') >= 10


async def test_a_session_outlives_client_hellos_in_its_name(besieged: Besieged) -> None:
    async with DtlsPeer(besieged.shown[0], besieged.port) as peer:
        for _ in range(50):
            peer.inject(hello())
        await asyncio.sleep(0.1)
        assert (await peer.ask(STATUS))[1] == 0x45


@contextlib.asynccontextmanager
async def silent_connections(besieged: Besieged, count: int) -> AsyncIterator[None]:
    opened = []
    for _ in range(count):
        number = next(HOSTS)
        one = socket.socket()
        one.bind((f"127.7.{number >> 8}.{number & 255 or 1}", 0))
        one.connect(("127.0.0.1", besieged.mqtts))
        one.send(
            b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03"
        )  # a ClientHello that goes no further
        opened.append(one)
    yield
    for one in opened:
        one.close()


async def test_tls_handshakes_on_mqtt(besieged: Besieged) -> None:
    end_s = time.monotonic() + besieged.length(2, 20)

    def shake_hands_again_and_again() -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        while time.monotonic() < end_s:
            number = next(HOSTS)
            source = (f"127.7.{number >> 8 & 255}.{number & 255 or 1}", 0)
            with contextlib.suppress(OSError):
                one = socket.create_connection(("127.0.0.1", besieged.mqtts), 5, source)
                with context.wrap_socket(one):
                    pass

    async with silent_connections(besieged, besieged.length(100, 500)):
        await besieged.goes_on_during(shake_hands_again_and_again, mqtt=True)
