"""A gateway's sensors at work: they are read when due, and what they say is published.

A reading goes to ``<domain>/<group>/<gateway>/<sensor>`` with QoS 1, as a client's message would;
each of several values to that topic and its name. Where Home Assistant is told of the sensors,
actuators can be set over MQTT too. Sensors come and go while the gateway runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from gateway.base.printable import said
from gateway.base.watched_tasks import WatchedTasks
from gateway.broker.hooks import Demand
from gateway.home_assistant.announcements import Announcements
from gateway.home_assistant.commands import REFUSED, Commands, not_vouched
from gateway.process.running.heard_topics import FindKept, HeardTopics
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.options import DriverHangsError
from gateway.sensors.reading import Reading, names_of
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor, SensorError, ValueRefusedError
from gateway.sensors.set_in_turn import set_in_turn
from gateway.sensors.stock import SensorConflictError, SensorPlan, SensorStock
from gateway.sensors.values import as_text, shown
from gateway.trust.policy.origins import OriginRights
from record_formats.record import Record
from tree_handler.batch import Entry, Row

AGAIN_S = 2.0
"""So long after it met another gateway a gateway announces its sensors again: then it knows what
that one's clients want."""

TOLD_CHARACTERS: Final = 60
"""So much of a value stands in the list of sensors."""

Announce = Callable[[Sequence[ConfiguredSensor]], Announcements]
"""Returns what Home Assistant is told of sensors; raises ConfigError if they can't be announced."""
FindRetained = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Returns the payloads that are retained on topics that filters match."""

_log = logging.getLogger(__name__)


def _none() -> None:
    """Nothing keeps a change from being made."""


class Readings:
    """Reads the sensors of one gateway, publishes their readings, and sets its actuators.

    Args:
        gateway_id: whose they are.
        prefix: what its topics begin with.
        stock: which they are.
        announce: what Home Assistant is told of them.
        accept: takes what is published.
        refused: is told of what was not carried out or listened to: its kind, and which.
        watched: begins the sampling anew if it fails.

    Attributes:
        sampler: reads them.
        heard: gives them the messages of their topics.

    """

    def __init__(
        self,
        gateway_id: str,
        prefix: str,
        stock: SensorStock,
        announce: Announce,
        accept: Callable[[Entry], None],
        refused: Callable[[str, str], None],
        watched: WatchedTasks | None = None,
    ) -> None:
        self._watched = (watched or WatchedTasks()).of_part()
        self._prefix = prefix
        self._stock = stock
        self._announce = announce
        self._base_name = f"{gateway_id}/"
        self._announcements = announce(stock.plan.all)
        self._met = {gateway_id}
        self._again: asyncio.TimerHandle | None = None
        self._accept = accept
        self._refused = refused
        self._sampling: asyncio.Task[None] | None = None
        self._is_reading = False  # a task's `cancelling()` is true of a time-out within it, too
        self._forms = {each.sensor.name: each.form for each in stock.plan.all}
        self._retained: dict[str, set[str]] = {}
        """Topics on which readings of a sensor are retained, by this life or one before."""
        self._followers: list[Callable[[Sequence[str], Sequence[Sensor]], None]] = []
        self._wishes: Demand | None = None
        self._changing = asyncio.Lock()
        self._closing: set[asyncio.Future[None]] = set()
        self.sampler = Sampler(self._publish)
        write = partial(set_in_turn, self.sampler)
        self._orders: dict[str, Callable[[str, bytes], None]] = {}
        self._order_topics: dict[str, Callable[[str, bytes], None]] = {}
        self._commands = Commands(self._announcements.actuators, self._base_name, write, refused)
        self.heard = HeardTopics(self.sampler, refused)
        self.heard.follow(prefix, self.sensors)
        self.is_listening = bool(self.command_topics)

    @property
    def closing(self) -> int:
        """Return how many sensors are giving back what they held, or waited for by others."""
        return len(self._closing)

    @property
    def sensors(self) -> list[Sensor]:
        """Return the sensors that are read."""
        return [each.sensor for each in self._stock.plan.all]

    @property
    def configured(self) -> list[ConfiguredSensor]:
        """Likewise, with what their tables say beside."""
        return self._stock.plan.all

    @property
    def is_reading(self) -> bool:
        """Return whether sensors are read: from the start until a drain begins."""
        return self._is_reading

    # -- what others publish ---------------------------------------------------------------------

    @property
    def command_topics(self) -> list[str]:
        """The topics that this gateway itself listens to."""
        return [*self._commands.topics, *self._order_topics, *self.heard]

    def obey(self, suffix: str, take: Callable[[str, bytes], None]) -> None:
        """Have orders carried out that come on a topic below the gateway's own.

        Args:
            suffix: of the topic.
            take: is given the topic and what was published, of those who may command that.

        """
        before = set(self.command_topics)
        self._orders[suffix] = take
        self._follow_orders()
        after = set(self.command_topics)
        self.is_listening = bool(after)
        self._tell_wishes(before, after)

    def _follow_orders(self) -> None:
        self._order_topics = {f"{self._prefix}/{end}": take for end, take in self._orders.items()}

    def hear(self, rows: Iterable[Row], voice: OriginRights | None = None) -> None:
        """Take what was published anywhere; what nobody here listens to is left alone.

        Args:
            rows: the messages.
            voice: of the gateway that they came by; None for this one, whose broker has decided.

        """
        if self._commands.topics:
            self._commands.hear(rows, voice)
        for row in rows if self._order_topics else ():
            if (take := self._order_topics.get(row[0])) is not None:
                if voice is None or voice.may_command(row[0]):
                    take(row[0], row[2])
                else:
                    self._refused(REFUSED, not_vouched(row[0], voice))
        self.heard.hear(rows, voice)

    def wish(self, wishes: Demand | None) -> None:
        """Tell somebody of topics that are wanted from now on, or no more."""
        self._wishes = wishes

    def met(self, gateway_id: str) -> None:
        """Another gateway is there that has to be told what it wants to know.

        Where messages go only to those who want them, a subscriber there would not be given what
        was announced before its wish was known here (docs/retained.md).
        """
        if gateway_id not in self._met:
            self._met.add(gateway_id)
            if self._again is None:
                self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._announce_again)

    def _announce_again(self) -> None:
        self._again = None
        if self._is_reading:
            for entry in self._announcements.again():
                self._accept(entry)

    # -- from start to end -----------------------------------------------------------------------

    def start(self, retained: FindRetained, kept_on: FindKept) -> None:
        """Announce the sensors, and read them from now on.

        Args:
            retained: finds what is retained now.
            kept_on: finds it on one topic, now and whenever a sensor comes that listens there.

        """
        self.heard.kept_on = kept_on
        self._recall(retained)
        for entry in self._announcements.begin(retained(self._announcements.filters)):
            self._accept(entry)
        self._begin(self.sensors)
        self._is_reading = True
        self._sampling = self._watched.start("sensors", self.sampler.run)

    def _recall(self, retained: FindRetained) -> None:
        """Note readings that earlier lives have retained: they end with their sensors, too."""
        sensors = {
            f"{self._prefix}/{name}": sensor.name
            for sensor in self.sensors
            if self._forms[sensor.name].retain
            for name, _ in names_of(sensor)
        }
        for topic in retained(tuple(sensors)):
            self._retained.setdefault(sensors[topic], set()).add(topic)

    def move(self, prefix: str, announce: Announce, retained: FindRetained) -> None:
        """Publish elsewhere from now on; what is retained at the old topics is cleared.

        Args:
            prefix: what its topics begin with from now on.
            announce: what Home Assistant is told of sensors there.
            retained: finds what is retained now.

        """
        left = {f"{self._prefix}/{name}" for name, form in self._forms.items() if form.retain}
        kept = retained(sorted(left.union(*self._retained.values())))
        for entry in self._announcements.leave():
            self._accept(entry)
        for topic in kept:
            self._accept(Entry(topic, b"", qos=1, retain=True))
        self._retained.clear()
        self._prefix, self._announce = prefix, announce
        self._go_by(announce(self._stock.plan.all))
        if self._is_reading:
            for entry in self._announcements.begin(retained(self._announcements.filters)):
                self._accept(entry)

    def _begin(self, sensors: Iterable[Sensor]) -> None:
        for sensor in sensors:
            sensor.push = partial(self.sampler.push, sensor)
            sensor.publish = self._publish_for_sensor
            self.sampler.add(sensor)
            self.sampler.begin(sensor)
            self.heard.begin(sensor)

    def end(self) -> None:
        """Read them no more."""
        if self._again is not None:
            self._again.cancel()
        if self._sampling is not None and self._is_reading:
            self._is_reading = False
            self._sampling.cancel()
            for entry in self._announcements.end():
                self._accept(entry)

    async def stop(self) -> None:
        """Read them no more, and wait for the reads under way."""
        self.end()
        await self._commands.stop()
        if self._sampling is not None:
            await asyncio.gather(self._sampling, return_exceptions=True)
            self._close(self.sensors)
        await asyncio.gather(*self._closing, return_exceptions=True)
        self.sampler.close()

    def _close(self, sensors: Iterable[Sensor]) -> list[asyncio.Future[None]]:
        """Have sensors give back what they hold, if it is anything."""
        return [
            self._keep(self._closed(sensor))
            for sensor in sensors
            if type(sensor).close is not Sensor.close
        ]

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        kept = asyncio.ensure_future(work)
        self._closing.add(kept)
        kept.add_done_callback(self._closing.discard)
        return kept

    async def _begin_after(
        self, closing: Sequence[asyncio.Future[None]], sensors: Sequence[Sensor]
    ) -> None:
        """Read sensors when others have given back what these may need, such as a pin."""
        await asyncio.wait(closing)
        self._begin(one for one in sensors if one in self.sensors and self._is_reading)

    async def _closed(self, sensor: Sensor) -> None:
        try:
            await self.sampler.release(sensor)
        except (SensorError, ValueRefusedError, TimeoutError) as error:
            _log.warning("sensor %s was not closed: %s", sensor.name, said(error))

    def _publish(self, sensor: Sensor, record: Record) -> None:
        form = self._forms[sensor.name]
        payload = form.payload(record, self._base_name, sensor.resolution)
        if payload is not None:
            topic = f"{self._prefix}/{record.name}"
            if form.retain:
                self._retained.setdefault(sensor.name, set()).add(topic)
            self._accept(Entry(topic, payload, qos=1, retain=form.retain))

    def _publish_for_sensor(self, topic: str, payload: bytes) -> None:
        self._accept(Entry(topic, payload, qos=1))

    def follow(self, follower: Callable[[Sequence[str], Sequence[Sensor]], None]) -> None:
        """Tell somebody of the names of sensors that have gone, and of those that have come."""
        self._followers.append(follower)

    @asynccontextmanager
    async def changing(
        self, tables: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[Callable[[], None]]:
        """Make the sensors of a configuration that was read again; what it gives takes them over.

        They are made in a thread, since a constructor is a driver's own code, which may wait.
        Nobody else changes the sensors meanwhile.

        Raises:
            SensorConfigError: a table is wrong, or its driver does not come back: all stays.
            ConfigError: a sensor can't be announced.

        """
        async with self._changing:
            plan = await asyncio.to_thread(self._stock.configured, tables)
            yield partial(self._change, plan, self._announce(plan.all))

    async def add(self, table: Mapping[str, Any], check: Callable[[], None] = _none) -> list[str]:
        """Have one more sensor, after a restart too.

        Args:
            table: as in the configuration.
            check: called when the change has its turn, and again before it is kept: a driver may
                take seconds. It raises what keeps this from being done.

        Returns:
            The names of the sensors that it made.

        Raises:
            SensorConfigError: the table is wrong.
            SensorConflictError: there is one of its name, there are too many, or its driver does
                not come back.
            ConfigError: it can't be announced.
            StockError: it can't be kept.

        """
        async with self._changing:
            before = {each.sensor.name for each in self._stock.plan.all}
            plan = await self._go_by_changed(partial(self._stock.with_added, table), check)
        return [each.sensor.name for each in plan.added if each.sensor.name not in before]

    async def change_table(
        self, name: str, changes: Mapping[str, Any], check: Callable[[], None] = _none
    ) -> list[str]:
        """Have a sensor that was added by another table, after a restart too.

        Args:
            name: the sensor's.
            changes: values of keys of its table; None takes a key out.
            check: as of `add`.

        Returns:
            The names of the sensors that the table makes now.

        Raises:
            KeyError: there is none of this name.
            SensorConfigError: the table is wrong then.
            SensorConflictError: it stands in the configuration, another one has its name, or its
                driver does not come back.
            ConfigError: it can't be announced.
            StockError: it can't be kept.

        """
        async with self._changing:
            before = {id(each.sensor) for each in self._stock.plan.all}
            change = partial(self._stock.with_changed, name, changes)
            plan = await self._go_by_changed(change, check)
        return [each.sensor.name for each in plan.added if id(each.sensor) not in before]

    async def remove(self, name: str, check: Callable[[], None] = _none) -> list[str]:
        """Have a sensor no more that was added, nor what else its table made.

        Args:
            name: the sensor's.
            check: as of `add`.

        Returns:
            The names of those that went.

        Raises:
            KeyError: there is none of this name.
            SensorConflictError: it stands in the configuration.
            StockError: that can't be kept.

        """
        async with self._changing:
            before = [each.sensor.name for each in self._stock.plan.added]
            plan = await self._go_by_changed(partial(self._stock.without, name), check)
        left = {each.sensor.name for each in plan.added}
        return [each for each in before if each not in left]

    async def _go_by_changed(
        self, make: Callable[[], SensorPlan], check: Callable[[], None]
    ) -> SensorPlan:
        """Have a plan made, keep what it adds, and go by it; it is made as in `changing`."""
        check()
        try:
            plan = await asyncio.to_thread(make)
        except DriverHangsError as error:
            raise SensorConflictError(error.why) from error
        check()
        self._announce(plan.all)  # what can't be announced is not kept
        await asyncio.to_thread(self._stock.write, plan)
        self._change(plan, self._announce(plan.all))
        return plan

    def added_table(self, name: str) -> Mapping[str, Any]:
        """Return the table of a sensor that was added.

        Raises:
            KeyError: there is none of this name.
            SensorConflictError: it stands in the configuration.

        """
        return self._stock.added_table(name)

    def is_added(self, name: str) -> bool:
        """Return whether there is a sensor of that name that was added."""
        return any(each.sensor.name == name for each in self._stock.plan.added)

    @property
    def plan(self) -> SensorPlan:
        """Return the sensors that there are now, with their tables."""
        return self._stock.plan

    def listed(self) -> Iterator[dict[str, Any]]:
        """Yield what there is to say of each sensor, ready for JSON.

        They are those that there are now, whichever come and go meanwhile.
        """
        plan = self._stock.plan
        for where in (plan.configured, plan.added):
            for each in where:
                state = self.sampler.state_of(each.sensor)
                last = _told(self.sampler.at_hand(each.sensor))
                yield each.as_json(is_added=where is plan.added, state=state) | {"last": last}

    def _change(self, plan: SensorPlan, announcements: Announcements) -> None:
        """Go by a plan from now on: sensors that it has unchanged keep all that they have."""
        before = {each.sensor.name: each.sensor for each in self._stock.plan.all}
        after = {each.sensor.name: each.sensor for each in plan.all}
        gone = [name for name, sensor in before.items() if after.get(name) is not sensor]
        new = [sensor for name, sensor in after.items() if before.get(name) is not sensor]
        self._stock.take(plan)
        self._forms = {each.sensor.name: each.form for each in plan.all}
        for name in gone:
            if self.sampler.reads(before[name]):
                self.sampler.remove(name)
            for topic in self._retained.pop(name, ()):
                self._accept(Entry(topic, b"", qos=1, retain=True))
        closing = self._close(before[name] for name in gone)
        entries = announcements.begin(self._announcements.wanted)
        self._go_by(announcements)
        for entry in entries:
            self._accept(entry)
        if closing:
            self._keep(self._begin_after(closing, new))
        elif self._sampling is not None:  # else the start begins all
            self._begin(new)
        for follower in self._followers:
            follower(gone, new)

    def _go_by(self, announcements: Announcements) -> None:
        before = set(self.command_topics)
        self._announcements = announcements
        self._commands.follow(announcements.actuators)
        self._follow_orders()
        self.heard.follow(self._prefix, self.sensors)
        after = set(self.command_topics)
        self.is_listening = bool(after)
        self._tell_wishes(before, after)

    def _tell_wishes(self, before: set[str], after: set[str]) -> None:
        if self._wishes is not None:
            for topic in after - before:
                self._wishes.subscribed(topic)
            for topic in before - after:
                self._wishes.unsubscribed(topic)


def _told(reading: Reading | None) -> dict[str, Any] | None:
    """Return the first value of a reading as a person writes it, and when it was taken."""
    if reading is None or reading.value is None:
        return None
    text = as_text(shown(reading.value, reading.resolution))
    return {"value": text[:TOLD_CHARACTERS], "time_s": round(reading.time_s, 3)}
