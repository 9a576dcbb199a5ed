"""Two linked gateways with the rules of the default configuration, and their users meanwhile."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gateways import Gateway
from raw_client import Client

from gateway.commands import password_lines

ATTACK_S, SOAK_S = 2.0, 30.0
P99_MS = 20.0
MEMORY_BYTES = 32 << 20
IDENTITY, KEY = "meter-1", "0123456789abcdef"
USER, PASSWORD = "plant", b"open sesame"
TOPIC = "plant/t"
POLICY = f"""version = 1
[principals]
"psk:{IDENTITY}" = ["valves"]
"user:{USER}" = ["plant"]
[roles.valves]
includes = ["reader"]
allow = ["PUT /sensors/valve"]
[roles.plant]
allow = ["publish {TOPIC}", "subscribe {TOPIC}"]
"""
SWITCH = '[[sensors]]\ntype = "switch"\nname = "valve"\n'


def say(what: str) -> None:
    """Print a measurement, which is shown with ``-s`` or when the test fails."""
    sys.stdout.write(f"{what}\n")


@contextmanager
def stopping(gateway: Gateway) -> Iterator[Gateway]:
    """Stop a gateway in the end; nothing is left of one that hangs."""
    try:
        yield gateway
        gateway.stop()
    finally:
        gateway.process.kill()
        gateway.process.wait()


def plain_address(gateway: Gateway) -> tuple[str, int]:
    """Where a gateway takes plain CoAP."""
    host, _, port = gateway.listeners["coap"].rpartition(":")
    return host, int(port)


class AttackedFleet:
    """A gateway with a switch and a neighbour; who attacks it has no key, who uses it has one.

    Args:
        gateway: the one that is attacked.
        neighbour: another one, that has dialled it.
        is_soak: attack for long, and hold what a PUBACK takes against its limit.

    """

    def __init__(self, gateway: Gateway, neighbour: Gateway, *, is_soak: bool) -> None:
        self.gateway = gateway
        self._neighbour = neighbour
        self._is_soak = is_soak
        self._uri = f"coaps://{gateway.listeners['coaps']}/sensors/valve"
        self._publisher: Client = gateway.broker().connect(username=USER, password=PASSWORD)
        self._subscriber: Client = neighbour.broker().connect(username=USER, password=PASSWORD)
        self._subscriber.subscribe((TOPIC, 0))
        gateway.wait_for(lambda: len(self._links()) == 1)

    @classmethod
    @contextmanager
    def running(cls, folder: Path, *, is_soak: bool) -> Iterator[AttackedFleet]:
        """A fleet until the end of the block."""
        psk = folder / "psk"
        passwords, policy = folder / "passwords", folder / "policy.toml"
        for secret in (psk, passwords):
            secret.touch(mode=0o600)
        psk.write_text(f"{IDENTITY}:{KEY.encode().hex()}\n")
        passwords.write_text(password_lines.line(USER, PASSWORD) + "\n")
        policy.write_text(POLICY)
        access = f'password_file = "{passwords}"\npolicy_file = "{policy}"'
        coap = f'dtls_port = 0\npsk_file = "{psk}"'
        tls = 'tls = "off"'
        with stopping(Gateway(folder, SWITCH, tls, coap, access=access)) as gateway:
            host, port = gateway.address
            other = folder / "neighbour"
            other.mkdir()
            dials = f'{tls}\nneighbours = ["{host}:{port}"]'
            with stopping(Gateway(other, "", dials, access=access, name="gw-b")) as neighbour:
                yield cls(gateway, neighbour, is_soak=is_soak)

    def stranger(self, number: int = 0) -> socket.socket:
        """A socket at an address of its own."""
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found.bind((f"127.2.0.{number + 1}", 0))
        found.connect(plain_address(self.gateway))
        found.settimeout(20.0)
        return found

    def writes_and_reads(self) -> None:
        """An authenticated peer sets the switch and reads it."""
        for value in (1, 0):
            senml = json.dumps([{"n": "valve", "v": value}])
            self._coap("-m", "put", "-t", "110", "-e", senml)
            assert self._coap("-A", "0") == f"{value}.0"

    def serves_during(
        self, attack: Callable[[], object], every_s: float, least_s: float = 0.0
    ) -> None:
        """Repeat an attack's step.

        Meanwhile every PUBACK comes, on the connection that was there before, the authenticated
        peer is served, the link to the neighbour stays and takes messages, and memory does not
        grow.
        """
        links, rss_bytes = self._links(), self.gateway.rss_bytes()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                self.writes_and_reads()
            except BaseException as failure:
                failures.append(failure)

        worker = threading.Thread(target=work)
        worker.start()
        took_ms, steps = self._publish_during(attack, every_s, least_s, worker)
        worker.join()
        assert not failures, failures
        took_ms.sort()
        middle, p99 = took_ms[len(took_ms) // 2], took_ms[len(took_ms) * 99 // 100]
        grown_bytes = self.gateway.rss_bytes() - rss_bytes
        say(
            f"{steps} steps, {len(took_ms)} PUBACKs: p50 {middle:.1f} ms, p99 {p99:.1f} ms, "
            f"{grown_bytes / (1 << 20):.1f} MiB more"
        )
        for client in (self._publisher, self._subscriber):
            client.ping()
        assert self._links() == links
        assert grown_bytes < MEMORY_BYTES
        if self._is_soak:
            assert p99 < P99_MS

    def _publish_during(
        self, attack: Callable[[], object], every_s: float, least_s: float, worker: threading.Thread
    ) -> tuple[list[float], int]:
        took_ms: list[float] = []
        begun_s, steps = time.monotonic(), 0
        end_s = begun_s + max(SOAK_S if self._is_soak else ATTACK_S, least_s)
        while (now_s := time.monotonic()) < end_s or worker.is_alive():
            while begun_s + steps * every_s <= now_s:
                attack()
                steps += 1
            sent_s = time.monotonic()
            self._publisher.publish(TOPIC, b"%d" % len(took_ms), qos=1)
            took_ms.append((time.monotonic() - sent_s) * 1000)
            time.sleep(0.002)
        for number in range(len(took_ms)):
            self._subscriber.expect_publish(TOPIC, b"%d" % number, 0)
        return took_ms, steps

    def _links(self) -> list[str]:
        """The links by their connections: one that was lost and made anew is another."""
        told = json.loads(self._status())
        return sorted(one["address"] for one in told["neighbours"])

    def _status(self) -> str:
        host, port = plain_address(self.gateway)
        command = [sys.executable, "-m", "gateway.cli", "status", "--json", f"{host}:{port}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _coap(self, *arguments: str) -> str:
        command = ["coap-client-openssl", "-B", "10", "-u", IDENTITY, "-k", KEY, *arguments]
        done = subprocess.run(
            [*command, self._uri], capture_output=True, text=True, check=False, timeout=30
        )
        return done.stdout.strip()
