"""Clients that want more of a broker than is theirs: each class is one attack, for `attacking`."""

from __future__ import annotations

import itertools
import selectors
import socket
import time

from attacking import Attacker
from password_flood import Flood
from raw_client import Client
from raw_packets import V311, Kind, Packets

Address = tuple[str, int]
GREEDY, GREEDY_PASSWORD = "greedy", b"more"
BLOCK = 100
"""Messages on their way at a time."""
HOSTS = itertools.count(1)


def host() -> str:
    """An address of loopback that nothing else has."""
    number = next(HOSTS)
    return f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def connection(address: Address) -> Client:
    return Client(address, Packets(V311))


class Caller(Attacker):
    """Comes as the greedy user. Args: the broker's address."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    def comes(self, client_id: str, *, clean: bool) -> None:
        """Connect, and leave again."""
        client = connection(self._address)
        client.send(
            client.packets.connect(
                client_id, username=GREEDY, password=GREEDY_PASSWORD, clean=clean
            )
        )
        is_refused = client.expect(Kind.CONNACK).reason
        self.seen["refused" if is_refused else "accepted"] += 1
        if not is_refused:
            client.disconnect()
        client.close()


class SessionOpener(Caller):
    """Opens sessions that last, and leaves. Args: the broker's address, and how many."""

    def __init__(self, address: Address, count: int) -> None:
        super().__init__(address)
        self._numbers = iter(range(count))

    def step(self) -> bool:
        if (number := next(self._numbers, None)) is None:
            return False
        self.comes(f"greedy-{number}", clean=False)
        return True


class QueueFiller(Attacker):
    """Publishes with QoS 1 as fast as it can, into queues of sessions that are away.

    Args:
        address: of the broker.
        sessions: how many of them there are.

    """

    def __init__(self, address: Address, sessions: int) -> None:
        super().__init__()
        for number in range(sessions):
            away = connection(address)
            away.connect(f"away-{number}", username=GREEDY, password=GREEDY_PASSWORD, clean=False)
            away.subscribe(("greedy/#", 1))
            away.disconnect()
        self._client = connection(address)
        self._client.connect("filler", username=GREEDY, password=GREEDY_PASSWORD)
        packets = self._client.packets
        self._block = b"".join(
            packets.publish("greedy/q", b"%010d" % number, qos=1, packet_id=number)
            for number in range(1, BLOCK + 1)
        )

    def step(self) -> bool:
        self._client.send(self._block)
        for _ in range(BLOCK):
            self._client.expect(Kind.PUBACK)
        self.seen["acknowledged"] += BLOCK
        return True


class PasswordGuesser(Attacker):
    """Has 400 wrong passwords checked at a time. Args: the broker's address, for how long each."""

    def __init__(self, address: Address, wait_s: float) -> None:
        super().__init__()
        self._address = address
        self._wait_s = wait_s
        self._prefixes = (f"127.{100 + n // 256}.{n % 256}." for n in itertools.count())

    def step(self) -> bool:
        flood = Flood(self._address, next(self._prefixes))
        end_s = time.monotonic() + self._wait_s
        while time.monotonic() < end_s:
            flood.count()
            time.sleep(0.01)
        self.seen["floods"] += 1
        self.seen["answered"] += flood.answered
        flood.close()
        return True


class Impostor(Caller):
    """Comes with other users' client identifiers. Args: the broker's address, and those."""

    def __init__(self, address: Address, *client_ids: str) -> None:
        super().__init__(address)
        self._named = itertools.cycle(itertools.product(client_ids, (True, False)))

    def step(self) -> bool:
        client_id, clean = next(self._named)
        self.comes(client_id, clean=clean)
        return True


class SilentCaller(Attacker):
    """Keeps connections open that say nothing, or half a CONNECT. Args: address, how many."""

    def __init__(self, address: Address, count: int) -> None:
        super().__init__()
        self._address = address
        self._count = count
        self._selector = selectors.DefaultSelector()
        self._open_all()

    def _open_all(self) -> None:
        for _ in range(self._count - len(self._selector.get_map())):
            self._open()

    def _open(self) -> None:
        try:
            one = socket.create_connection(self._address, 5, (host(), 0))
            if self.seen["opened"] % 2:
                one.sendall(b"\x10\x20\x00\x04MQ")
        except OSError:
            self.seen["turned away"] += 1
            return
        one.setblocking(False)
        self.seen["opened"] += 1
        self._selector.register(one, selectors.EVENT_READ)

    def step(self) -> bool:
        for key, _ in self._selector.select(0.05):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            self._selector.unregister(one)
            one.close()
            self.seen["closed"] += 1
        self._open_all()
        return True
