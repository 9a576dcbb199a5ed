"""One run: a gateway of its own is started, asked for two minutes, and taken away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.base import machine_memory
from gateway.tools.bench import coap_load, disk, measured_gateway, mqtt_load
from gateway.tools.bench.errors import BenchError
from gateway.tools.bench.figures import SPARED_BYTES, STEADY_PER_S, AnswerTimes, Figures
from gateway.tools.bench.measured_gateway import SENSOR, MeasuredGateway

IDLE_S: Final = 2.0
MOST_SHARE: Final = 0.4
STEADY_SHARE: Final = 0.4
READS_SHARE: Final = 0.2
_NEEDED_BYTES: Final = SPARED_BYTES


async def measured(folder: Path, seconds: float, told: Callable[[str], None]) -> Figures:
    """Measure this machine.

    Args:
        folder: on the disk that a gateway writes to; it gets a folder of its own there.
        seconds: for how long, the start not counted.
        told: is given what goes on, for a person.

    Raises:
        BenchError: too little memory is left, or the gateway that is measured does not serve.
        OSError: the folder can't be written to.

    """
    available_bytes = machine_memory.left()
    if available_bytes is None:
        raise BenchError("/proc/meminfo does not say how much memory is left (MemAvailable)")
    if available_bytes < _NEEDED_BYTES:
        raise BenchError(
            f"{available_bytes >> 20} MiB of memory are left, and {_NEEDED_BYTES >> 20} are needed "
            "for a second gateway beside the one that serves"
        )
    measured_gateway.remove_left(folder)
    gateway = MeasuredGateway(folder)
    try:
        told("asking the disk")
        sync = disk.sync_times(gateway.folder)
        told("starting a gateway")
        start_s = await gateway.start()
        start_cpu_s = gateway.cpu_s
        await asyncio.sleep(IDLE_S)
        idle_bytes = gateway.memory_bytes
        async with mqtt_load.connected(gateway.port("mqtt")) as load:
            told("publishing as much as goes")
            messages_per_s = await load.most_per_s(seconds * MOST_SHARE)
            told(f"publishing {STEADY_PER_S} messages a second")
            took_s = await load.puback_times_s(seconds * STEADY_SHARE, STEADY_PER_S)
        told("reading a sensor")
        reads = await coap_load.reads_per_s(
            gateway.port("coap"), ("sensors", SENSOR), seconds * READS_SHARE
        )
    finally:
        await gateway.stop()
        gateway.remove()
    return Figures(
        start_s=round(start_s, 2),
        start_cpu_s=round(start_cpu_s, 2),
        sync=sync,
        idle_bytes=idle_bytes,
        messages_per_s=round(messages_per_s, 1),
        puback=AnswerTimes.of(took_s),
        reads_per_s=round(reads, 1),
        available_bytes=available_bytes,
    )
