"""A gateway's sensors at work: they are read when due, and what they say is published.

A reading goes to ``<domain>/<group>/<gateway>/<sensor>`` with QoS 1, as a client's message would;
each of several values to that topic and its name.
Where Home Assistant is told of the sensors, actuators can be set over MQTT too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from cloud_ingest.record import Record
from gateway.broker.hooks import Tree
from gateway.home_assistant.announcements import Announcements
from gateway.home_assistant.commands import Commands, OverheardTree
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from tree_handler.batch import Entry, Row

AGAIN_S = 2.0
"""So long after it met another gateway a gateway announces its sensors again: then it knows what
that one's clients want."""


class Readings:
    """Reads the sensors of one gateway, publishes their readings, and sets its actuators.

    Args:
        gateway_id: whose they are.
        prefix: what its topics begin with.
        sensors: what is read.
        announcements: what Home Assistant is told of them.
        accept: takes what is published.
        refused: is told of a command that was not carried out: its kind, and topic with reason.

    Attributes:
        configured: what is read, and how it is published.
        sensors: what is read.
        sampler: reads them.

    """

    def __init__(
        self,
        gateway_id: str,
        prefix: str,
        sensors: Sequence[ConfiguredSensor],
        announcements: Announcements,
        accept: Callable[[Entry], None],
        refused: Callable[[str, str], None],
    ) -> None:
        self._base_name = f"{gateway_id}/"
        self._prefix = prefix
        self._forms = {each.sensor.name: each.form for each in sensors}
        self._announcements = announcements
        self._met = {gateway_id}
        self._again: asyncio.TimerHandle | None = None
        self._accept = accept
        self._sampling: asyncio.Task[None] | None = None
        self.configured = sensors
        self.sensors = [each.sensor for each in sensors]
        self.sampler = Sampler(self._publish)
        self._commands = Commands(
            announcements.actuators, self._base_name, self.sampler.write, refused
        )

    # -- what others publish ---------------------------------------------------------------------

    @property
    def command_topics(self) -> list[str]:
        """The topics that this gateway itself listens to."""
        return self._commands.topics

    def overhear(self, tree: Tree) -> Tree:
        """The tree that the broker is to publish through, so that commands are heard."""
        return OverheardTree(tree, self.hear) if self.command_topics else tree

    def hear(self, rows: Iterable[Row]) -> None:
        """Take what was published anywhere; what is no command is nobody's here."""
        if self.command_topics:
            self._commands.hear(rows)

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

    @property
    def retained_filters(self) -> tuple[str, ...]:
        """What was retained on topics that these match is what `start` has to know."""
        return self._announcements.filters

    def start(self, retained: Mapping[str, bytes]) -> None:
        """Announce the sensors, and read them from now on.

        Args:
            retained: payloads that are retained now, by topic.

        """
        for entry in self._announcements.begin(retained):
            self._accept(entry)
        self.sampler.add_all(self.sensors)
        self._sampling = asyncio.create_task(self.sampler.run(), name="sensors")

    def move(
        self,
        prefix: str,
        announcements: Announcements,
        retained: Callable[[Sequence[str]], Mapping[str, bytes]],
    ) -> None:
        """Publish elsewhere from now on; what is retained at the old topics is cleared.

        Args:
            prefix: what its topics begin with from now on.
            announcements: what Home Assistant is told of the sensors there.
            retained: finds the payloads that are retained on topics that filters match.

        """
        left = [f"{self._prefix}/{name}" for name, form in self._forms.items() if form.retain]
        kept = retained(left)
        for entry in self._announcements.leave():
            self._accept(entry)
        for topic in left:
            if topic in kept:
                self._accept(Entry(topic, b"", qos=1, retain=True))
        self._prefix, self._announcements = prefix, announcements
        self._commands.follow(announcements.actuators)
        if self._is_reading:
            for entry in announcements.begin(retained(announcements.filters)):
                self._accept(entry)

    @property
    def _is_reading(self) -> bool:
        return self._sampling is not None and not self._sampling.cancelling()

    def end(self) -> None:
        """Read them no more."""
        if self._again is not None:
            self._again.cancel()
        if self._sampling is not None and self._is_reading:
            self._sampling.cancel()
            for entry in self._announcements.end():
                self._accept(entry)

    async def stop(self) -> None:
        """Read them no more, and wait for the reads under way."""
        self.end()
        await self._commands.stop()
        if self._sampling is not None:
            await asyncio.gather(self._sampling, return_exceptions=True)

    def _publish(self, sensor: Sensor, record: Record) -> None:
        form = self._forms[sensor.name]
        payload = form.payload(record, self._base_name)
        if payload is not None:
            topic = f"{self._prefix}/{record.name}"
            self._accept(Entry(topic, payload, qos=1, retain=form.retain))
