"""Two linked gateways with the rules of the default configuration, and their users meanwhile."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attacking import Attack
from gateways import Gateway
from mosquitto_hashes import pbkdf2_line
from victim import P99_MS, PASSWORD, TOPIC, USER, Figures, Victim, say

from gateway.broker.access import password_lines

ATTACK_S, SOAK_S = 2.0, 30.0
MEMORY_BYTES = 32 << 20
NEIGHBOUR = "gw-b"
IDENTITY, KEY = "meter-1", "0123456789abcdef"
POLICY = f"""version = 1
[principals]
"psk:{IDENTITY}" = ["valves"]
"psk:thermometer" = ["device"]
"user:{USER}" = ["plant"]
"user:greedy" = ["greedy"]
[roles.valves]
includes = ["reader"]
allow = ["PUT /sensors/valve"]
[roles.plant]
allow = ["publish {TOPIC}/#", "subscribe {TOPIC}/#"]
[roles.greedy]
allow = ["publish greedy/#", "subscribe greedy/#"]
"""
SWITCH = '[[sensors]]\ntype = "switch"\nname = "valve"\n'
STANDS_STILL = "\nhello_s = 2.0\n"
"""Of [tree]: that a link stays shows no gateway that stood still for a second, as machines do."""
SMALL_LOG = "[log]\nmax_bytes = 16777216\nsegment_bytes = 4194304\n"


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
    """Return the address at which a gateway takes plain CoAP."""
    host, _, port = gateway.listeners["coap"].rpartition(":")
    return host, int(port)


class AttackedFleet:
    """A gateway with a switch and a neighbour; strangers attack it, and users who want too much.

    Args:
        folder: with the files of both.
        gateway: the one that is attacked.
        neighbour: another one, that has dialled it.
        is_soak: attack for long, and hold what a PUBACK takes against its limit.

    """

    def __init__(
        self, folder: Path, gateway: Gateway, neighbour: Gateway, *, is_soak: bool
    ) -> None:
        self.gateway, self.neighbour, self.psk = gateway, neighbour, folder / "psk"
        self.is_soak = is_soak
        self.victim = Victim(gateway, neighbour)
        self._is_linked()

    @classmethod
    @contextmanager
    def running(cls, folder: Path, *, is_soak: bool, mqtt: str = "") -> Iterator[AttackedFleet]:
        """A fleet until the end of the block.

        Args:
            folder: for its files.
            is_soak: see the class.
            mqtt: further keys of [mqtt] for the one that is attacked.

        """
        psk = folder / "psk"
        passwords, policy = folder / "passwords", folder / "policy.toml"
        for secret in (psk, passwords):
            secret.touch(mode=0o600)
        names = (IDENTITY, "thermometer")
        psk.write_text("".join(f"{name}:{KEY.encode().hex()}\n" for name in names))
        lines = (password_lines.line(USER, PASSWORD), pbkdf2_line("greedy", b"more"))
        passwords.write_text("".join(f"{line}\n" for line in lines))
        policy.write_text(POLICY)
        access = f'password_file = "{passwords}"\npolicy_file = "{policy}"'
        coap = f'dtls_port = 0\npsk_file = "{psk}"'
        tls = 'tls = "off"' + ("" if is_soak else STANDS_STILL)
        made = Gateway(folder, SWITCH + SMALL_LOG, tls, coap, access=access, mqtt=mqtt)
        with stopping(made) as gateway:
            host, port = gateway.address
            other = folder / "neighbour"
            other.mkdir()
            dials = f'{tls}\nneighbours = ["{host}:{port}"]'
            made = Gateway(other, SWITCH, dials, coap, access=access, name=NEIGHBOUR)
            with stopping(made) as neighbour:
                yield cls(folder, gateway, neighbour, is_soak=is_soak)

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
        """Repeat an attack's step, and serve all others.

        Meanwhile every PUBACK comes, on the connection that was there before, an authenticated
        peer writes and reads, the link to the neighbour stays and takes messages, and memory does
        not grow.

        Args:
            attack: a step of it.
            every_s: how often there is one.
            least_s: the shortest time for all of it.

        """
        worker = Worker(self.writes_and_reads)
        begun_s, steps = time.monotonic(), 0
        end_s = begun_s + max(self.attack_s, least_s)

        def due_steps() -> None:
            nonlocal steps
            while begun_s + steps * every_s <= time.monotonic():
                attack()
                steps += 1

        with self._unharmed():
            figures = self.victim.publishes(
                lambda: time.monotonic() >= end_s and not worker.is_alive(), due_steps
            )
            worker.finish()
            say(f"{steps} steps, {figures}")
        self._hold(figures)

    def serves_beside(self, attack: Attack, memory_bytes: int = MEMORY_BYTES) -> None:
        """Serve all others while an attack goes on in another process.

        As with `serves_during`, but those who come in meanwhile are MQTT clients.

        Args:
            attack: when it has ended by itself, that is enough; else it has to do enough.
            memory_bytes: by so much the gateway may grow.

        """
        end_s = time.monotonic() + self.attack_s
        came_in_ms: list[float] = []

        def is_enough() -> bool:
            return time.monotonic() >= end_s and attack.has_done_enough

        def come_in() -> None:
            while not came_in_ms or not (is_enough() or attack.is_over):
                begun_s = time.monotonic()
                self.victim.comes_in_anew()
                came_in_ms.append((time.monotonic() - begun_s) * 1000)
                time.sleep(0.5)

        with self._unharmed(memory_bytes):
            worker = Worker(come_in)
            figures = self.victim.publishes(lambda: not worker.is_alive())
            worker.finish()
            say(f"{figures}, {len(came_in_ms)} came in within {max(came_in_ms):.0f} ms")
        self._hold(figures)

    @property
    def attack_s(self) -> float:
        return SOAK_S if self.is_soak else ATTACK_S

    @contextmanager
    def _unharmed(self, memory_bytes: int = MEMORY_BYTES) -> Iterator[None]:
        link, before_bytes = self.gateway.links()[NEIGHBOUR], self.gateway.own_bytes()
        yield
        grown_bytes = self.gateway.own_bytes() - before_bytes
        say(f"{grown_bytes / (1 << 20):.1f} MiB more")
        assert self.gateway.links()[NEIGHBOUR] == link
        assert grown_bytes < memory_bytes

    def _hold(self, figures: Figures) -> None:
        if self.is_soak:
            assert figures.p99_ms < P99_MS

    def starts_again(self) -> None:
        """After an attack the gateway is killed: it starts, and has all that it acknowledged."""
        self.victim.starts_again()
        self._is_linked()

    def _is_linked(self) -> None:
        self.gateway.wait_for(lambda: NEIGHBOUR in self.gateway.links())

    def _coap(self, *arguments: str) -> str:
        command = ["coap-client-openssl", "-B", "30", "-u", IDENTITY, "-k", KEY, *arguments]
        uri = f"coaps://{self.gateway.listeners['coaps']}/sensors/valve"
        done = subprocess.run(
            [*command, uri], capture_output=True, text=True, check=False, timeout=60
        )
        return done.stdout.strip()


class Worker(threading.Thread):
    """Does something while an attack goes on, and keeps what went wrong. Args: what it does."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self._failures: list[BaseException] = []
        self._work = work
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as failure:
            self._failures.append(failure)

    def finish(self) -> None:
        """Wait until it is done; it must have worked out."""
        self.join()
        assert not self._failures, self._failures
