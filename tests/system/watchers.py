"""Watchers that ask and observe a fleet while it is disturbed, and an account of their answers."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from asked_fleet import ACTUATOR, AskedFleet, AskedGateway

from gateway.coap_client import ClientError, CoapClient, Response

READ_PAUSE_S = 0.2
WRITE_PAUSE_S = 1.0
LIMIT_S = 6.0
"""So long an answer is waited for: longer than a gateway waits for another one."""
ASKED_AGAIN_S = 6.0
"""For so long a write is asked again that was not answered, at one gateway after the other."""
SENML = 110
TEXT = 0
_GOOD, _REFUSED, _UNKNOWN = "good", "refused", "unknown"

_UNANSWERED = "5.04"

Pair = tuple[str, str]
"""The gateway that is asked, and the one that it is about; ``*`` for all."""


@dataclass(slots=True)
class Account:
    """An account of one run.

    Attributes:
        wrong: answers of a gateway that was not asked for.
        codes: how often which answer came, by what was done.
        good: when each pair had good answers: begun and come.
        written: what became of each write: its target and outcome.
        told: the values that each observer was told.
        done_when_asked_again: writes that were not answered at first, and in the end were.

    """

    wrong: list[str] = field(default_factory=list)
    codes: dict[tuple[str, str], int] = field(default_factory=dict)
    good: dict[Pair, list[tuple[float, float]]] = field(default_factory=dict)
    written: dict[int, tuple[str, str]] = field(default_factory=dict)
    told: dict[Pair, list[float]] = field(default_factory=dict)
    done_when_asked_again: int = 0

    def note(self, what: str, code: str) -> None:
        """One answer more."""
        self.codes[what, code] = self.codes.get((what, code), 0) + 1

    def first_good(self, pair: Pair, since: float) -> float | None:
        """Return when a pair first had a good answer to what was asked since, or None."""
        return next((came for begun, came in self.good.get(pair, ()) if begun >= since), None)


class Watchers:
    """Readers, writers and observers at every gateway of a fleet, of every gateway.

    Args:
        fleet: whom they ask.

    """

    def __init__(self, fleet: AskedFleet) -> None:
        self.account = Account()
        self._fleet = fleet
        self._numbers = itertools.count(1)
        self._writes = True
        self._writing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Account]:
        """Have them all at work meanwhile."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in self._all()]
            try:
                yield self.account
            finally:
                for task in tasks:
                    task.cancel()

    async def stop_writing(self) -> None:
        """Begin no more writes, and wait for what came of those that were begun."""
        self._writes = False
        if self._writing:
            await asyncio.wait(self._writing)

    def _all(self) -> list[Coroutine[Any, Any, None]]:
        gateways = self._fleet.gateways
        pairs = list(itertools.product(gateways, repeat=2))
        return [
            *(self._repeat(entry, READ_PAUSE_S, self._reader(entry, one)) for entry, one in pairs),
            *(self._repeat(entry, WRITE_PAUSE_S, self._writer(entry)) for entry in gateways),
            *(self._repeat(entry, WRITE_PAUSE_S, self._of_all(entry)) for entry in gateways),
            *(self._observer(entry, one) for entry, one in pairs),
        ]

    async def _repeat(
        self,
        entry: AskedGateway,
        pause_s: float,
        once: Callable[[CoapClient], Coroutine[Any, Any, None]],
    ) -> None:
        """Do something again and again, with a socket of its own."""
        while True:
            async with CoapClient() as client:
                try:
                    while True:
                        await once(client)
                        await asyncio.sleep(pause_s)
                except ClientError:
                    await asyncio.sleep(pause_s)

    def _reader(
        self, entry: AskedGateway, target: AskedGateway
    ) -> Callable[[CoapClient], Coroutine[Any, Any, None]]:
        async def read(client: CoapClient) -> None:
            begun = time.monotonic()
            answer = await self._ask(client, "GET", entry, target.path, accept=SENML)
            if answer.ok and self._is_of(answer, entry, target):
                pair = (entry.name, target.name)
                self.account.good.setdefault(pair, []).append((begun, time.monotonic()))

        return read

    def _writer(self, entry: AskedGateway) -> Callable[[CoapClient], Coroutine[Any, Any, None]]:
        targets = itertools.cycle(self._fleet.gateways)

        async def write(client: CoapClient) -> None:
            if not self._writes:
                return
            task = asyncio.create_task(self._write(client, entry, next(targets)))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
            await asyncio.shield(task)

        return write

    async def _write(self, client: CoapClient, entry: AskedGateway, target: AskedGateway) -> None:
        number, name, begun = next(self._numbers), secrets.token_bytes(8), time.monotonic()
        written = self.account.written
        written[number] = (target.name, _UNKNOWN)
        answer = await self._ask_to_write(client, entry, target, number, b"\0" + name)
        if answer is not None and answer.code != _UNANSWERED:
            written[number] = (target.name, _GOOD if answer.ok else _REFUSED)
            return
        others = itertools.cycle(self._fleet.gateways)
        while time.monotonic() - begun < ASKED_AGAIN_S:
            await asyncio.sleep(READ_PAUSE_S)
            asked_s = math.ceil(time.monotonic() - begun)
            async with CoapClient() as again:
                answer = await self._ask_to_write(
                    again, next(others), target, number, bytes((asked_s,)) + name
                )
            if answer is not None and answer.ok:
                written[number] = (target.name, _GOOD)
                self.account.done_when_asked_again += 1
                return

    async def _ask_to_write(
        self,
        client: CoapClient,
        entry: AskedGateway,
        target: AskedGateway,
        number: int,
        request_id: bytes,
    ) -> Response | None:
        """Set an actuator to a number; None if there was no answer."""
        try:
            return await self._ask(
                client,
                "PUT",
                entry,
                target.path,
                payload=str(number).encode(),
                content_format=TEXT,
                request_id=request_id,
            )
        except ClientError:
            return None

    def _of_all(self, entry: AskedGateway) -> Callable[[CoapClient], Coroutine[Any, Any, None]]:
        async def read(client: CoapClient) -> None:
            begun, known = time.monotonic(), {one.name for one in self._fleet.gateways}
            path = f"/q/*/*/*/sensors/{ACTUATOR}"
            answer = await self._ask(client, "GET", entry, path, accept=SENML)
            if not answer.ok:
                return
            good = set()
            for record in json.loads(answer.payload):
                name = record["n"].partition("/")[0]
                if name not in known:
                    self.account.wrong.append(f"{entry.name} tells of {record}")
                if "v" in record:
                    good.add(name)
            if good == known:
                pair = (entry.name, "*")
                self.account.good.setdefault(pair, []).append((begun, time.monotonic()))

        return read

    async def _observer(self, entry: AskedGateway, target: AskedGateway) -> None:
        """Observe, and again when that has ended; a gateway that was killed tells nobody."""
        while True:
            stands = (target.path, entry.pid)
            hearing = asyncio.create_task(self._hear(entry, target))
            try:
                while not hearing.done() and (target.path, entry.pid) == stands:
                    await asyncio.wait([hearing], timeout=READ_PAUSE_S)
            finally:
                hearing.cancel()
                await asyncio.wait([hearing])
            if not hearing.cancelled():
                hearing.result()
            await asyncio.sleep(READ_PAUSE_S)

    async def _hear(self, entry: AskedGateway, target: AskedGateway) -> None:
        """Observe until that ends."""
        pair = (entry.name, target.name)
        async with CoapClient() as client:
            answers = client.observe(entry.uri(target.path), accept=SENML, timeout_s=LIMIT_S)
            try:
                async with aclosing(answers):
                    async for answer in answers:
                        self.account.note("observe", answer.code)
                        if answer.ok and self._is_of(answer, entry, target):
                            value = json.loads(answer.payload)[0]["v"]
                            self.account.told.setdefault(pair, []).append(value)
            except ClientError as error:
                self.account.note("observe", type(error).__name__)

    async def _ask(
        self, client: CoapClient, method: str, entry: AskedGateway, path: str, **more: Any
    ) -> Response:
        what = f"{method} *" if "*" in path else method
        try:
            answer = await client.request(method, entry.uri(path), timeout_s=LIMIT_S, **more)
        except ClientError as error:
            self.account.note(what, type(error).__name__)
            raise
        self.account.note(what, answer.code)
        return answer

    def _is_of(self, answer: Response, entry: AskedGateway, target: AskedGateway) -> bool:
        try:
            name = json.loads(answer.payload)[0]["bn"].rstrip("/")
        except (ValueError, LookupError):
            name = None
        if name != target.name:
            self.account.wrong.append(f"{entry.name} asked for {target.name}: {answer}")
            return False
        return True


def unkept(account: Account, fleet: AskedFleet) -> list[str]:
    """Promises that were not kept: one line for each."""
    found = list(account.wrong)
    for gateway in fleet.gateways:
        effects = gateway.effects
        twice = [one for one, count in effects.items() if count > 1]
        found += [f"{gateway.name} carried out {one} more than once" for one in twice]
        for number, (target, outcome) in account.written.items():
            is_done, is_target = number in effects, target == gateway.name
            if is_done and not is_target:
                found.append(f"{gateway.name} carried out {number}, which was for {target}")
            if is_target and outcome == _GOOD and not is_done:
                found.append(f"{target} said that {number} was done, and it was not")
            if is_target and outcome == _REFUSED and is_done:
                found.append(f"{target}: {number} was refused, and carried out")
    return found


def percentiles(times_s: list[float]) -> str:
    """Half of them, and the worst."""
    return f"p50 {statistics.median(times_s):.2f} s, worst {max(times_s):.2f} s, n={len(times_s)}"
