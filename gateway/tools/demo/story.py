"""The demo: what a fleet does, shown step by step with real processes and real readings.

1. Three gateways find each other, elect a root and block the redundant link; a collector joins.
2. Devices replay recorded series over MQTT, and one gateway's sensor is read over CoAP and DTLS
   through another one.
3. The root is killed with SIGKILL; the tree heals; the root comes back.
4. Spark reads the collector's spool, and what it counts is held against what was acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.coap_client import CoapClient, Response
from gateway.sensors import recorded
from gateway.tools.commands.progress_bar import GoingOn
from gateway.tools.demo import count, page, picture
from gateway.tools.demo.device import Device, Notes, Watcher
from gateway.tools.demo.fleet import COLLECTOR, OPERATOR, ROOT, SITES, Fleet, FleetError, Member
from gateway.tools.demo.network import network
from gateway.tools.demo.one_tree import forwards_to, is_one_tree
from gateway.tools.demo.patience import StalledError
from gateway.tools.demo.result import Result
from gateway.tools.demo.tally import tally
from gateway.tools.demo.timeline import Timeline
from record_formats import record

RATE_HZ = 20.0
LEAST_SHARE = 0.5
"""Of the readings that a device publishes in a while on a quiet machine; these are waited for."""
SPEED = 18_000.0
"""Recorded seconds in a second: the series has a value each quarter of an hour."""
SERIES = ("irradiance", "module-temperature", "ambient-temperature")
OWNER, ASKED = "gw-south", "gw-north"
HEIR, SUBSCRIBER = "gw-north", "gw-south"
"""The root while the root is away, and the gateway where somebody subscribes to all devices."""
SHOWN = (ROOT, HEIR)
"""The gateways whose devices' readings the page draws: one that was killed, and another."""


async def tell(report: Path, *, quick: bool = False) -> Result:
    """Run the demo and leave `report.json` and `index.html` in the folder ``report``.

    Raises:
        FleetError: a step did not come about; the message says which and why.

    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hedgerow-demo-") as folder, GoingOn() as line:
        story = _Story(Path(folder), 3.0 if quick else 8.0, line)
        result = await story.run()
        await story.leave_dashboard(report / "dashboard")
    result.total_s = round(time.monotonic() - started, 1)
    report.mkdir(parents=True, exist_ok=True)
    (report / "report.json").write_text(json.dumps(result.as_json(), indent=1) + "\n")
    (report / "index.html").write_text(page.render(result.as_json()))
    sys.stdout.write(f"\n{result.verdict}\n")
    sys.stdout.write(f"Took {result.total_s} s. The page to look at: {report / 'index.html'}\n")
    return result


class _Story:
    def __init__(self, folder: Path, publish_s: float, line: GoingOn) -> None:
        self._line = line
        self._folder = folder
        self._publish_s = publish_s
        self._fleet = Fleet(folder)
        self._result = Result(killed=ROOT, subscriber=SUBSCRIBER)
        self._devices: dict[str, Device] = {}

    async def run(self) -> Result:
        async with self._fleet:
            await self._grow()
            timeline, watcher = await self._publish()
            self._line.say("4. Stopping the gateways; each hands on what it has")
            await count.settle(self._fleet)
        notes = {name: device.notes for name, device in self._devices.items()}
        self._result.timeline = timeline.as_json(timeline.deliveries(notes, watcher))
        await self._count(timeline, notes)
        return self._result

    async def _publish(self) -> tuple[Timeline, Watcher]:
        """Steps 2 and 3, while devices publish and somebody subscribes to them all."""
        watcher = Watcher(
            self._fleet.members[SUBSCRIBER].mqtt_port,
            "+/+/+/device/#",
            lambda payload: record.decode(payload).number,
        )
        await watcher.start()
        timeline = Timeline()
        listening = asyncio.create_task(timeline.listen(self._fleet), name="demo timeline")
        publishing = self._start_devices()
        try:
            await self._let_devices_publish()
            await self._read_through_another_gateway()
            await self._kill_the_root(timeline, watcher)
            await self._let_devices_publish()
        finally:
            for device in self._devices.values():
                device.stop()
            await publishing
            timeline.mark("until_s")
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await watcher.stop()
        return timeline, watcher

    # -- 1 ---------------------------------------------------------------------------------------

    async def _grow(self) -> None:
        self._line.say("1. Starting three gateways and a collector")
        started = time.monotonic()
        await asyncio.gather(*(self._fleet.start_gateway(name) for name in self._fleet.members))
        await self._fleet.start_collector()
        statuses = await self._until(
            "one tree",
            lambda found: (
                is_one_tree(found, ROOT, gateways=len(SITES)) and forwards_to(found, COLLECTOR)
            ),
        )
        self._result.converged_s = round(time.monotonic() - started, 2)
        self._line.say(
            f"   One tree {self._result.converged_s} s after the first process was started:"
        )
        self._show("before", statuses)

    # -- 2 ---------------------------------------------------------------------------------------

    def _start_devices(self) -> asyncio.Future[list[None]]:
        self._line.say(
            f"2. A device at each gateway replays a recorded series, {RATE_HZ:.0f} readings/s"
        )
        for (name, member), series in zip(self._fleet.members.items(), SERIES, strict=True):
            topic = f"{member.site.prefix}/device/{series}"
            self._devices[name] = Device(
                series, topic, member.mqtt_port, recorded.load(series), rate_hz=RATE_HZ, speed=SPEED
            )
        return asyncio.gather(*(device.run() for device in self._devices.values()))

    async def _let_devices_publish(self) -> None:
        """Pass some time, in which each device has readings acknowledged, however long it takes."""
        before = {name: len(one.notes.acknowledged) for name, one in self._devices.items()}
        await asyncio.sleep(self._publish_s)
        least = self._publish_s * RATE_HZ * LEAST_SHARE

        async def have_published() -> bool:
            return all(
                len(one.notes.acknowledged) - before[name] >= least
                for name, one in self._devices.items()
            )

        await self._wait("readings of each device", have_published)

    async def _read_through_another_gateway(self) -> None:
        path = f"/q/{self._fleet.members[OWNER].site.prefix}/sensors/host/load1"
        asked = self._fleet.members[ASKED]
        async with CoapClient(psk_identity=OPERATOR, psk_key=self._fleet.psk_key) as client:
            await _get(client, asked, "/sensors/host/load1")  # the handshake is not what is timed
            sent = time.monotonic()
            answer = await _get(client, asked, path)
        self._result.remote_read_ms = round((time.monotonic() - sent) * 1000, 2)
        self._result.remote_read = answer.payload.decode()
        self._line.say(
            f"   {OWNER}'s load, read over CoAP/DTLS through {ASKED} in "
            f"{self._result.remote_read_ms} ms: {self._result.remote_read}"
        )

    # -- 3 ---------------------------------------------------------------------------------------

    async def _kill_the_root(self, timeline: Timeline, watcher: Watcher) -> None:
        self._line.say(f"3. Killing the root, {ROOT}, with SIGKILL")
        killed_s = time.monotonic()
        timeline.mark("killed_s", killed_s)
        await self._fleet.kill(ROOT)
        healed_s = await self._first_after(watcher, killed_s)
        timeline.mark("healed_s", healed_s)
        self._result.heal_s = round(healed_s - killed_s, 3)
        statuses = await self._until(
            "a tree without the root",
            lambda found: is_one_tree(found, HEIR, gateways=len(SITES) - 1),
        )
        self._line.say(
            f"   The first message published after the kill crossed from {HEIR} to {SUBSCRIBER} "
            f"{self._result.heal_s} s after it:"
        )
        self._show("healed", statuses)
        started = time.monotonic()
        timeline.mark("started_again_s", started)
        await self._fleet.start_gateway(ROOT)
        statuses = await self._until(
            "the root's return", lambda found: is_one_tree(found, ROOT, gateways=len(SITES))
        )
        timeline.mark("back_s")
        self._result.rejoin_s = round(time.monotonic() - started, 2)
        self._line.say(f"   Started again, it is root once more after {self._result.rejoin_s} s:")
        self._show("after", statuses)

    async def _first_after(self, watcher: Watcher, moment_s: float) -> float:
        """Return when the first message arrived of those that were published after a moment."""
        notes = self._devices[HEIR].notes
        patience = self._fleet.patience()
        while True:
            fresh = [
                watcher.arrived[sent.topic, sent.number]
                for sent in notes.sent
                if sent.sent_s > moment_s and (sent.topic, sent.number) in watcher.arrived
            ]
            if fresh:
                return min(fresh)
            try:
                patience.check()
            except StalledError as over:
                raise FleetError(f"no message crossed after the kill {over}") from None
            await asyncio.sleep(0.005)

    # -- 4 ---------------------------------------------------------------------------------------

    async def _count(self, timeline: Timeline, notes: Mapping[str, Notes]) -> None:
        self._line.say("   Spark reads the spool into tables (half a minute)")
        counted = await count.count(self._fleet, notes, killed=[ROOT])
        self._line.say("\n".join(f"   {line}" for line in counted.printed.splitlines()))
        result = self._result
        result.fleet = counted.fleet
        for name, value in counted.account.items():
            setattr(result, name, value)
        readings = counted.excerpt["readings"]
        found = tally(
            ((origin, topic, rows) for origin, topic, rows in counted.excerpt["rows"]),
            ((row[0], (topic, row[1])) for topic, rows in readings.items() for row in rows),
            {(sent.topic, sent.number) for one in notes.values() for sent in one.acknowledged},
            self._is_sensor,
            counted.fleet["gateways"],
        )
        result.tally = found.as_json()
        self._line.say("   What the messages in the table are:")
        self._line.say("\n".join(f"   {line}" for line in found.as_text()))
        for gateway in SHOWN:
            device = self._devices[gateway]
            rows = readings[device.topic]
            result.curves.append(
                {
                    "sensor": device.name,
                    "gateway": gateway,
                    "unit": rows[0][3] if rows else "",
                    "points": timeline.readings(rows),
                }
            )

    async def leave_dashboard(self, folder: Path) -> None:
        """Leave a copy of the dashboard over the tables of this run."""
        await count.draw(self._fleet, folder)

    def _is_sensor(self, origin: str, topic: str) -> bool:
        """Return whether an origin publishes a sensor of its own on a topic."""
        return topic.startswith(f"{self._fleet.members[origin].site.prefix}/")

    # -- watching --------------------------------------------------------------------------------

    async def _until(
        self, what: str, holds: Callable[[dict[str, dict[str, Any]]], bool]
    ) -> dict[str, dict[str, Any]]:
        statuses: dict[str, dict[str, Any]] = {}

        async def came_about() -> bool:
            nonlocal statuses
            statuses = await self._fleet.statuses()
            return holds(statuses)

        await self._wait(what, came_about)
        return statuses

    async def _wait(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        try:
            await self._fleet.patience().until(holds)
        except StalledError as over:
            raise FleetError(f"{what} did not come about {over}") from None

    def _show(self, name: str, statuses: dict[str, dict[str, Any]]) -> None:
        lines = picture.draw(statuses)
        self._result.trees[name] = lines
        self._result.networks[name] = asdict(network(statuses, self._fleet.members))
        self._line.say("\n".join(f"      {line}" for line in lines))


async def _get(client: CoapClient, member: Member, path: str) -> Response:
    answer = await client.request("GET", member.coaps + path)
    if not answer.ok:
        raise FleetError(f"GET {path}: {answer.code} {answer.payload.decode(errors='replace')}")
    return answer
