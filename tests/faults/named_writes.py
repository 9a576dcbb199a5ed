"""Two gateways, clients that name their writes, and devices that do their worst: all in one loop.

All of a gateway is the product's own but for its sockets, its disk and its clock: its sampler, its
resources, what it asks of the other one and what it remembers. Datagrams are lost, doubled and
late, and each gateway is killed again and again. What each device has really done is counted here.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from aiocoap import resource
from virtual_loop import VirtualLoop

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, RequestReceived
from gateway.coap.answers import Answers
from gateway.coap.peers import VouchedAddress
from gateway.coap.remote.answers import RemoteAnswers
from gateway.coap.remote.exchange import RemoteExchange
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.named_answers import NamedAnswers
from gateway.coap.remote.parts import RemoteParts
from gateway.coap.sensors.resources import SensorResources
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Actuator, Sensor, ValueRefusedError
from record_formats.record import Record
from record_formats.value import GOOD, Value
from tests.policies import open_access
from tree_handler.members.hierarchy import MemberRecord, Membership
from tree_handler.members.place import Place
from tree_handler.remote.query import RemoteQueries
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.routing.locator import GatewayLocation

NEAR, FAR = "gw-near", "gw-far"
VALVES: Final = 12
CLIENTS: Final = 24
LIFE_S: Final = (8.0, 90.0)
"""A gateway is killed after so long."""
DOWN_S: Final = (0.2, 6.0)
SAMPLED_S: Final = 5.0
ASKED_FOR_S: Final = 60.0
COPIES_AT_S: Final = {6.0: (0.0, 2.0, 5.5), 47.0: (0.0, 3.0, 9.0, 21.0, 45.0)}
"""Times at which copies of one message are sent, by how long its client waits for an answer."""


@dataclass
class Devices:
    """The devices behind the drivers, which outlive each gateway.

    Attributes:
        begun: how often a driver was called, by the value that it was to set.
        done: how often it was set.
        wrong: what was answered and is not true.

    """

    random: random.Random
    begun: Counter[int] = field(default_factory=Counter)
    done: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Valve(Actuator):
    """An actuator whose driver fails in every way that one may."""

    def __init__(self, name: str, devices: Devices) -> None:
        super().__init__(name, interval_s=SAMPLED_S)
        self._devices = devices
        self._value: Value = 0.0

    async def read(self) -> Value:
        kind = self._devices.random.random()
        if kind < 0.05:
            raise OSError("no answer")
        if kind < 0.07:
            await asyncio.Event().wait()
        await asyncio.sleep(self._devices.random.uniform(0, 0.7))
        return -1.0 if kind < 0.1 else self._value

    async def write(self, value: Value) -> None:
        assert isinstance(value, float)
        draw, number = self._devices.random, int(value)
        self._devices.begun[number] += 1
        match draw.choices(tuple(WAYS), tuple(WAYS.values()))[0]:
            case "refuses":
                # It says so before it has done anything.
                self._devices.begun[number] -= 1
                raise ValueRefusedError("not now")
            case "fails before":
                raise OSError("no answer")
            case "fails half way":
                self._devices.done[number] += 1
                raise OSError("half way")
            case "raises anything":
                self._devices.done[number] += draw.random() < 0.5
                raise draw.choice(RAISED)
            case "hangs":
                await asyncio.Event().wait()
            case "is late and heeds nothing":
                await _heedless(draw.uniform(10, 25))
            case "is slow":
                await asyncio.sleep(draw.uniform(0.1, 4))
        self._devices.done[number] += 1
        self._value = value


WAYS: Final = {
    "is quick": 60,
    "is slow": 20,
    "refuses": 3,
    "fails before": 3,
    "fails half way": 4,
    "raises anything": 5,
    "hangs": 2,
    "is late and heeds nothing": 3,
}
RAISED: Final[list[BaseException]] = [
    *(SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()),
    *(TimeoutError(), MemoryError(), RecursionError(), StopAsyncIteration(), BaseException()),
]


async def _heedless(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    until_s = loop.time() + seconds
    while (left_s := until_s - loop.time()) > 0:
        try:
            await asyncio.sleep(left_s)
        except asyncio.CancelledError:
            if loop.is_killed():
                raise


class Thermometer(Sensor):
    async def read(self) -> Value:
        await asyncio.sleep(0.01)
        return 21.5


class Disk:
    """A disk on which a gateway notes names; what was noted outlives the gateway."""

    def __init__(self, names: list[bytes]) -> None:
        self.earlier = frozenset(names)
        self._names = names

    def note(
        self, name: bytes, _counting: Callable[[], Collection[bytes]], done: Callable[[str], None]
    ) -> None:
        def synced() -> None:
            self._names.append(name)
            asyncio.get_running_loop().call_later(0.005, done, "")

        asyncio.get_running_loop().call_later(0.005, synced)

    async def stop(self) -> None:
        """Nothing is to be waited for."""


class Life:
    """One life of a gateway."""

    def __init__(self, name: str, epoch: int, world: World) -> None:
        loop = asyncio.get_running_loop()
        self.name, self.epoch = name, epoch
        self.began_s = loop.time()
        self.context = contextvars.copy_context()
        self.records: list[Record] = []
        self.moved: list[Callable[[float], None]] = []
        self.answered: dict[int, CoapResponse | None] = {}
        self._world = world
        self._exchange = 0
        site, access = resource.Site(), open_access()
        self.sampler = Sampler(
            lambda _, record: self.records.append(record),
            clock=loop.time,
            wall_clock=loop.time,
            report=lambda _: None,
        )
        sensors = SensorResources(site, self.sampler, name, Place("campus"))
        if name == FAR:
            self.thermometers = [Thermometer(f"t{n}", interval_s=SAMPLED_S) for n in range(2)]
            valves = [Valve(f"v{n}", world.devices) for n in range(VALVES)]
            for each in (*self.thermometers, *valves):
                self.sampler.add(each)
                sensors.add(each)
        disk: Any = Disk(world.disks[name])
        self.execution = execution = LocalExecution(
            site, name, access, (sensors.answers,), turns=self.sampler.turns, noted=disk
        )
        execution.begin = self._told_truly(execution.begin)  # type: ignore[method-assign]
        queries = RemoteQueries(name, epoch, way_to=self.way_to)
        self.exchange = RemoteExchange(queries, self._send, execution, loop.time)
        self.moved.append(self.exchange.moved)
        self.members = Membership()
        remote = RemoteAnswers(
            RemoteParts(name, self.members, execution, self.exchange, access, self)
        )
        named = NamedAnswers(execution, access)
        self._answers = Answers(site, access, (remote, named, sensors.answers), execution.remote_of)
        self.sampling = loop.create_task(self.sampler.run())

    # -- where others are ------------------------------------------------------------------------

    def epoch_of(self, gateway_id: str) -> int | None:
        life = self._world.lives.get(gateway_id)
        return None if life is None else life.epoch

    def way_to(self, gateway_id: str) -> GatewayLocation | None:
        epoch = self.epoch_of(gateway_id)
        return None if epoch is None else GatewayLocation(epoch, epoch)

    def tell_of_moves(self, told: Callable[[float], None]) -> None:
        self.moved.append(told)

    def _send(self, receiver: str, topic: str, payload: bytes) -> None:
        def arrive(life: Life) -> None:
            if topic in life.exchange.queries.topics:
                life.exchange.receive(topic, payload, 0)

        self._world.carry(receiver, arrive, between_gateways=True)

    # -- what is asked ---------------------------------------------------------------------------

    def take(self, message: int, peer: CoapPeer, request: CoapRequest, told: Told) -> None:
        """Take a datagram; one that came before is answered as before (RFC 7252, section 4.5)."""
        if message in self.answered:
            if (known := self.answered[message]) is not None:
                told(known)
            return
        self.answered[message] = None
        self._exchange += 1

        def respond(_exchange: int, response: CoapResponse, _is_last: bool) -> None:
            self.answered[message] = response
            told(response)

        asked = RequestReceived(self._exchange, peer, request)
        now = asyncio.get_running_loop().time()
        answer = self._answers.asked(asked, now, respond, lambda *_: None)
        if answer is not None:
            respond(asked.exchange, *answer)

    def _told_truly(self, begin: Any) -> Any:
        """Hold what the gateway with the device says of a name against what the device did."""

        def checked(request: ResourceRequest, via: str, tell: Any, **more: Any) -> Any:
            number, devices = int(request.payload or b"0"), self._world.devices

            def told(response: ResourceResponse, goes_on: bool) -> None:
                code = response.code
                is_refused = code >> 5 == 4 or code == codes.SERVICE_UNAVAILABLE
                if is_refused and (devices.begun[number] or devices.done[number]):
                    devices.wrong.append(f"{number}: {response} {response.payload!r}, but it was")
                if response.is_success and devices.done[number] != 1:
                    devices.wrong.append(f"{number}: {response}, but done {devices.done[number]}")
                tell(response, goes_on)

            return begin(request, via, told, **more)

        return checked


Told = Callable[[CoapResponse], None]


class World:
    """The gateways, the way to them, and the clients.

    Args:
        seed: of all that is drawn.
        writes: how many are asked for.

    """

    def __init__(self, seed: int, writes: int) -> None:
        self.random = random.Random(seed)
        self.devices = Devices(random.Random(seed + 1))
        self.disks: dict[str, list[bytes]] = {NEAR: [], FAR: []}
        self.lives: dict[str, Life] = {}
        self.kills = 0
        self.ends: Counter[str] = Counter()
        """The last words that clients were told, and how often."""
        self._epochs = Counter[str]()
        self._message = 0
        self._left = iter(range(1, writes + 1))
        self.sampled: list[tuple[float, int]] = []
        """The time for which each thermometer could be read, and how often it was."""

    async def run(self) -> None:
        """Live until all is asked."""
        lives = [asyncio.create_task(self._live(name)) for name in (NEAR, FAR)]
        clients = [self._client(f"psk:client-{n}") for n in range(CLIENTS)]
        await asyncio.gather(*clients)
        await asyncio.sleep(30)
        for one in lives:
            one.cancel()
        for name in list(self.lives):
            self._kill(name)
        await asyncio.sleep(30)

    # -- gateways --------------------------------------------------------------------------------

    async def _live(self, name: str) -> None:
        while True:
            self._start(name)
            await asyncio.sleep(self.random.uniform(*LIFE_S))
            self._kill(name)
            self.kills += 1
            await asyncio.sleep(self.random.uniform(*DOWN_S))

    def _start(self, name: str) -> None:
        self._epochs[name] += 1
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        process = object()
        context = contextvars.copy_context()
        context.run(loop.begin_process, process)
        life = context.run(Life, name, self._epochs[name], self)
        life.context, life.process = context, process  # type: ignore[attr-defined]
        self.lives[name] = life
        for one in self.lives.values():
            for n, other in enumerate((NEAR, FAR), 1):
                epoch = max(1, self._epochs[other])
                record = MemberRecord(other, epoch, 1, "campus", "", f"10.0.0.{n}", 1883)
                one.context.run(one.members.update, record)
        self._tell_moved()

    def _kill(self, name: str) -> None:
        life = self.lives.pop(name)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if name == FAR:
            assert not life.sampling.done(), "sampling has ended"
            lived_s = loop.time() - life.began_s
            for each in life.thermometers:
                own = [one for one in life.records if one.name == each.name]
                assert {one.quality for one in own} <= {GOOD}
                self.sampled.append((lived_s, len(own)))
        loop.kill(life.process)  # type: ignore[attr-defined]
        self._tell_moved()

    def _tell_moved(self) -> None:
        now = asyncio.get_running_loop().time()
        for life in self.lives.values():
            for told in life.moved:
                life.context.run(told, now)

    def carry(
        self, receiver: str, arrive: Callable[[Life], None], *, between_gateways: bool = False
    ) -> None:
        """Bring something to a gateway: not at all, once or more often, and some time later."""
        loop, draw = asyncio.get_running_loop(), self.random

        def arrived() -> None:
            life = self.lives.get(receiver)
            if life is not None:
                life.context.run(arrive, life)

        for _ in range(self._copies()):
            late_s = draw.uniform(0.001, 0.2) if draw.random() < 0.9 else draw.uniform(0.2, 4.0)
            if between_gateways:
                late_s = min(late_s, 1.0)
            loop.call_later(late_s, arrived, context=contextvars.Context())

    def _copies(self) -> int:
        kind = self.random.random()
        return 0 if kind < 0.2 else 2 if kind < 0.3 else 1

    # -- clients ---------------------------------------------------------------------------------

    async def _client(self, who: str) -> None:
        peer = CoapPeer(VouchedAddress("", who, ("operator",)), who, who, True)
        for number in self._left:
            await self._put_once(peer, number)

    async def _put_once(self, peer: CoapPeer, number: int) -> None:
        loop, draw = asyncio.get_running_loop(), self.random
        name, began_s, valve = draw.randbytes(8), loop.time(), draw.randrange(VALVES)
        last = "nothing"
        while (asked_s := loop.time() - began_s) <= ASKED_FOR_S:
            option = bytes((math.ceil(asked_s),)) + name
            wait_s = 47.0 if draw.random() < 0.1 else 6.0
            answer = await self._ask(peer, valve, number, option, wait_s)
            if answer is not None:
                last = f"{answer.code >> 5}.{answer.code & 31:02d}"
                if last not in ("5.04", "5.03") or (last == "5.03" and draw.random() < 0.5):
                    break
            await asyncio.sleep(draw.uniform(0.1, 2.0))
        self.ends[last] += 1

    async def _ask(
        self, peer: CoapPeer, valve: int, number: int, option: bytes, wait_s: float
    ) -> CoapResponse | None:
        loop = asyncio.get_running_loop()
        self._message += 1
        message, answer = self._message, loop.create_future()
        entry = self.random.choice((NEAR, FAR))
        path = ["sensors", f"v{valve}"]
        if entry == NEAR or self.random.random() < 0.5:
            path = ["q", "campus", "-", FAR, *path]
        request = CoapRequest(
            codes.PUT,
            (
                *((option_numbers.URI_PATH, one.encode()) for one in path),
                (option_numbers.CONTENT_FORMAT, b""),
                (option_numbers.REQUEST_ID, option),
            ),
            b"%d" % number,
        )

        def told(response: CoapResponse) -> None:
            for _ in range(self._copies()):
                loop.call_later(
                    self.random.uniform(0.001, 0.5), back, response, context=contextvars.Context()
                )

        def back(response: CoapResponse) -> None:
            if not answer.done():
                answer.set_result(response)

        def sent() -> None:
            if not answer.done():
                self.carry(entry, lambda life: life.take(message, peer, request, told))

        copies = [loop.call_later(at_s, sent) for at_s in COPIES_AT_S[wait_s]]
        await asyncio.wait([answer], timeout=wait_s)
        for copy in copies:
            copy.cancel()
        return answer.result() if answer.done() else None


def lived(seed: int, writes: int) -> World:
    """Live through so many writes."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    world = World(seed, writes)
    try:
        loop.run_until_complete(world.run())
        return world
    finally:
        for left in asyncio.all_tasks(loop):
            left.cancel()
        loop.run_until_complete(asyncio.sleep(30))
        asyncio.set_event_loop(None)
        loop.close()
