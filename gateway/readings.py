"""A gateway's sensors at work: they are read when due, and what they say is published.

A reading goes to ``<domain>/<group>/<gateway>/<sensor>`` with QoS 1, as a client's message would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from cloud_ingest.record import Record
from gateway.sensors.catalogue import ConfiguredSensor
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from tree_handler.batch import Entry


class Readings:
    """Reads the sensors of one gateway and publishes their readings.

    Args:
        gateway_id: whose they are.
        prefix: what its topics begin with.
        sensors: what is read.
        accept: takes what is published.

    Attributes:
        sensors: what is read.
        sampler: reads them.

    """

    def __init__(
        self,
        gateway_id: str,
        prefix: str,
        sensors: Sequence[ConfiguredSensor],
        accept: Callable[[Entry], None],
    ) -> None:
        self._base_name = f"{gateway_id}/"
        self._prefix = prefix
        self._forms = {each.sensor.name: each.form for each in sensors}
        self._accept = accept
        self._sampling: asyncio.Task[None] | None = None
        self.sensors = [each.sensor for each in sensors]
        self.sampler = Sampler(self._publish)

    def start(self) -> None:
        """Read them from now on."""
        self.sampler.add_all(self.sensors)
        self._sampling = asyncio.create_task(self.sampler.run(), name="sensors")

    def end(self) -> None:
        """Read them no more."""
        if self._sampling is not None:
            self._sampling.cancel()

    async def stop(self) -> None:
        """Read them no more, and wait for the reads under way."""
        self.end()
        if self._sampling is not None:
            await asyncio.gather(self._sampling, return_exceptions=True)

    def _publish(self, sensor: Sensor, record: Record) -> None:
        form = self._forms[sensor.name]
        payload = form.payload(record, self._base_name)
        self._accept(Entry(f"{self._prefix}/{sensor.name}", payload, qos=1, retain=form.retain))
