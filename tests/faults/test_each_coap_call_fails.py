"""Each call for sockets of CoAP and DTLS fails: no write is lost or done twice, all are served."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiocoap
import by_seed
import pytest
from aiocoap import resource
from coap_client import CoapWriter
from failing_calls import FailingCalls, Fault
from failing_datagrams import DatagramNames
from failing_sockets import HOST, Network
from virtual_loop import VirtualLoop

from dtls.errors import SocketError
from dtls.keystore import Keystore
from gateway.coap.server import CoapListener, CoapServer
from tests.policies import open_access

COAP, COAPS = 5683, 5684
KEYS = {name: bytes(16) for name in ("secure-1", "secure-2")}
LOOK_S = 0.1
PATIENCE_S = 400.0
"""In this time a client has given up twice and asked anew (RFC 7252, section 4.8.2)."""
DRAWN = 4

FAULTS = (
    *(
        Fault(f"{errno.errorcode[n]}-in-sendto", n, place="sendto")
        for n in (errno.EIO, errno.EINTR)
    ),
    Fault("ENOBUFS-in-sendto", errno.ENOBUFS, 5, place="sendto"),
    Fault("EPERM-in-sendto", errno.EPERM, 5, place="sendto"),
    Fault("EAGAIN-in-sendto", errno.EAGAIN, 5, place="sendto"),
    Fault("nothing-is-sent-for-long", errno.ENETUNREACH, 40, place="sendto"),
    Fault("EIO-in-recvfrom", errno.EIO, place="recvfrom"),
    Fault("ECONNREFUSED-in-recvfrom", errno.ECONNREFUSED, 5, place="recvfrom"),
    Fault("EINTR-in-recvfrom", errno.EINTR, place="recvfrom"),
    Fault("ENOBUFS-in-recvfrom", errno.ENOBUFS, 5, place="recvfrom"),
    Fault("EIO-in-ioctl", errno.EIO, place="ioctl"),
    Fault("EMFILE-in-socket", errno.EMFILE, place="socket"),
    Fault("EADDRINUSE-in-bind", errno.EADDRINUSE, 2, place="bind"),
)


class Value(resource.Resource):
    """A value that is written; it outlives the server.

    Attributes:
        written: all that was, in order.

    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    async def render_put(self, incoming: aiocoap.Message) -> aiocoap.Message:
        """Write."""
        self.written.append(incoming.payload)
        return aiocoap.Message(code=aiocoap.CHANGED)


class CoapLife:
    """A server that is killed and started again while clients write.

    Args:
        loop: where it runs.
        calls: those that may fail.

    Attributes:
        lines: what its starts were refused with.

    """

    def __init__(self, loop: VirtualLoop, calls: FailingCalls) -> None:
        self.lines: list[str] = []
        self.calls = calls
        self._loop = loop
        self._network = Network(calls, loop)
        self.names = DatagramNames(self._network)
        self._process: object = None
        secure = [CoapWriter(name, self.names, COAPS, key) for name, key in KEYS.items()]
        self.clients = [CoapWriter("plain", self.names, COAP, None), *secure]
        self.values = {client.name: Value() for client in self.clients}

    async def run(self) -> None:
        """Write, restart, write; then see what is left without a fault."""
        await self._start_until_up()
        await self._write(4)
        self.kill()
        await self._start_until_up()
        await self._write(3)
        self.calls.mend()
        await self._write(1)

    def kill(self) -> None:
        """End the server without a word to anybody."""
        self._loop.kill(self._process)
        self._network.kill(self._process)

    async def end(self) -> None:
        """Leave nothing of it behind in this process."""
        self.kill()
        for client in self.clients:
            client.close()
        await asyncio.sleep(0)

    async def _start_until_up(self) -> None:
        for _ in range(5):
            self._process = object()
            try:
                await self._loop.run_in(self._process, self._start())
            except SocketError as error:
                self.lines.append(str(error))
                self.kill()
                await asyncio.sleep(1)
            else:
                return
        raise AssertionError(self.lines[-1])

    async def _start(self) -> None:
        site = resource.Site()
        for name, value in self.values.items():
            site.add_resource([name], value)
        self.server = CoapServer(
            site,
            coap=CoapListener((HOST,), COAP),
            coaps=CoapListener((HOST,), COAPS),
            keystore=Keystore(KEYS),
            access=open_access(),
        )
        with self.names.in_place():
            await self.server.start()

    async def _write(self, count: int) -> None:
        for client in self.clients:
            done = len(client.acknowledged) + len(client.wanted)
            client.wanted += [f"{client.name} {done + at}".encode() for at in range(count)]
        until_s = self._loop.time() + PATIENCE_S
        while not all(client.is_idle for client in self.clients):
            if self._loop.time() > until_s:
                raise AssertionError([c.name for c in self.clients if not c.is_idle])
            for client in self.clients:
                client.go_on(self._loop.time())
            await asyncio.sleep(LOOK_S)

    def broken(self) -> Iterator[str]:
        """Yield each promise that does not hold."""
        yield from (f"nobody dealt with {error!r}" for error in self._loop.unforeseen)
        for client in self.clients:
            written = Counter(self.values[client.name].written)
            for payload in client.acknowledged:
                if not written[payload]:
                    yield f"{payload!r} is acknowledged and was not written"
            for payload, count in written.items():
                if count > client.tries[payload]:
                    yield f"{payload!r} was written {count} times for {client.tries[payload]}"
        for line in self.lines:
            if "coap" not in line:
                yield f"no port is named: {line}"
        if open_requests := self.server.peers()["open_requests"]:
            yield f"{open_requests} requests are never answered"


@contextmanager
def lived(folder: Path, number: int = 0, fault: Fault | None = None) -> Iterator[CoapLife]:
    """Live a life in which the call with a number fails."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        loop: Any = VirtualLoop()
        calls = FailingCalls(folder, patch)
        life = CoapLife(loop, calls)
        stack.enter_context(life.names.asked_how_many())
        if fault is not None:
            calls.fail(number, fault)
        try:
            loop.run_until_complete(life.run())
            yield life
        finally:
            loop.run_until_complete(life.end())
            loop.close()


def test_a_life_without_a_fault_reaches_the_network_in_every_way(folder: Path) -> None:
    with lived(folder) as life:
        assert list(life.broken()) == []
        assert life.lines == []
        assert {"sendto", "recvfrom", "ioctl", "socket", "bind"} <= set(life.calls.counts)
        assert [len(client.acknowledged) for client in life.clients] == [8, 8, 8]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_whatever_call_of_coap_fails_no_write_is_lost_or_done_twice_and_all_are_served(
    folder: Path, pytestconfig: pytest.Config, fault: Fault
) -> None:
    with lived(folder) as life:
        calls = life.calls.counts[fault.place]
    for number in by_seed.some(pytestconfig, range(1, calls + 1), DRAWN):
        where = f"{fault} at call {number} of {calls}"
        try:
            with lived(folder, number, fault) as life:
                assert list(life.broken()) == [], where
        except Exception as error:
            raise AssertionError(where) from error
