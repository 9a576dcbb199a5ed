"""A user of a gateway while somebody means it harm, and what it is like for him meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gateways import Gateway
from raw_client import Client, ConnectionEndedError
from raw_packets import Kind

P99_MS = 20.0
EVERY_S = 0.002
USER, PASSWORD = "plant", b"open sesame"
TOPIC = "plant/t"
PUBLISHER, ABSENT = "plant-publisher", "plant-absent"
COMES_IN_S = 60.0
"""In an attack a client that tries again is let in within so long."""
HEARD_S = 30.0
"""Messages that a lost link held up are beyond it within so long."""
AFTERWARDS = 50
"""So many messages show that all goes on behind a start."""


def say(what: str) -> None:
    """Print a measurement, which is shown with ``-s`` or when the test fails."""
    sys.stdout.write(f"{what}\n")


@dataclass
class Figures:
    """The times for which a publisher had to wait.

    Attributes:
        took_ms: how long each PUBACK took.

    """

    took_ms: list[float] = field(default_factory=list)

    @property
    def p99_ms(self) -> float:
        return self._at(0.99)

    def _at(self, share: float) -> float:
        return sorted(self.took_ms)[int(len(self.took_ms) * share)]

    def __str__(self) -> str:
        return (
            f"{len(self.took_ms)} PUBACKs: p50 {self._at(0.5):.1f} ms, p99 {self.p99_ms:.1f} ms, "
            f"longest {max(self.took_ms):.1f} ms"
        )


class Victim:
    """One user's clients: at a gateway one that publishes and one that is away, beyond it one more.

    All that the publisher got a PUBACK for is the subscriber's at the neighbour, and the absent
    one's when it comes back to the gateway, in order.

    Args:
        gateway: the one that is attacked.
        neighbour: another one, linked to it.

    """

    def __init__(self, gateway: Gateway, neighbour: Gateway) -> None:
        self._gateway = gateway
        self._published = 0
        self._unheard: list[bytes] = []
        self._owed: list[bytes] = []
        self._subscriber = neighbour.broker().connect(username=USER, password=PASSWORD)
        self._subscriber.socket.settimeout(HEARD_S)
        self._subscriber.subscribe((TOPIC, 0))
        absent = self._comes(ABSENT, clean=False)
        absent.subscribe((TOPIC, 1))
        absent.disconnect()
        self._publisher = self._comes(PUBLISHER)

    def publishes(
        self, is_over: Callable[[], bool], between: Callable[[], object] = lambda: None
    ) -> Figures:
        """Publish one message after the other, and see that all come beyond.

        Args:
            is_over: whether it was enough.
            between: called before each message.

        """
        figures = Figures()
        while not is_over():
            between()
            payload = b"%d" % self._published
            sent_s = time.monotonic()
            self._publisher.publish(TOPIC, payload, qos=1)
            figures.took_ms.append((time.monotonic() - sent_s) * 1000)
            self._published += 1
            self._unheard.append(payload)
            self._owed.append(payload)
            time.sleep(EVERY_S)
        self._all_are_heard()
        return figures

    def _all_are_heard(self) -> None:
        for payload in self._unheard:
            self._subscriber.expect_publish(TOPIC, payload, 0)
        self._unheard.clear()
        for client in (self._publisher, self._subscriber):
            client.ping()

    def comes_in_anew(self) -> None:
        """One more client of the user connects, subscribes and gets what it publishes.

        As any client it tries again where its connection is closed before it was let in.
        """
        newcomer = self._comes_at_last(None)
        newcomer.subscribe((f"{TOPIC}/new", 1))
        newcomer.publish(f"{TOPIC}/new", b"in", qos=1)
        newcomer.acknowledge(newcomer.expect_publish(f"{TOPIC}/new", b"in", 1))
        newcomer.disconnect()

    def starts_again(self) -> float:
        """SIGKILL the gateway and start it: nothing is missing, and all goes on.

        Returns:
            How many seconds the start took.

        """
        took_s = self._gateway.kill_and_start()
        self._publisher = self._comes_at_last(PUBLISHER)
        self._absent_comes_back()
        last = self._published + AFTERWARDS
        self.publishes(lambda: self._published >= last)
        self._absent_comes_back()
        say(f"started again within {took_s:.2f} s")
        return took_s

    def _absent_comes_back(self) -> None:
        """Let it come back: what it is owed comes in order, and copies are marked so."""
        absent = self._comes_at_last(ABSENT, clean=False)
        assert absent.connack is not None
        assert absent.connack.session_present
        got: dict[bytes, None] = {}
        while len(got) < len(self._owed):
            message = absent.expect(Kind.PUBLISH)
            absent.acknowledge(message)
            assert message.dup or message.payload not in got, message
            got.setdefault(message.payload)
        assert list(got) == self._owed
        absent.send(absent.packets.pingreq())
        absent.expect(Kind.PINGRESP)
        absent.disconnect()
        self._owed.clear()

    def _comes_at_last(self, client_id: str | None, *, clean: bool = True) -> Client:
        end_s = time.monotonic() + COMES_IN_S
        while True:
            try:
                return self._comes(client_id, clean=clean)
            except (ConnectionEndedError, OSError):
                assert time.monotonic() < end_s, "kept out"
                time.sleep(EVERY_S)

    def _comes(self, client_id: str | None, *, clean: bool = True) -> Client:
        broker = self._gateway.broker()
        return broker.connect(client_id, username=USER, password=PASSWORD, clean=clean)
