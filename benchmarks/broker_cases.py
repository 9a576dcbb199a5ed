"""The cases of the broker benchmark, in the words of its output.

``P->S`` is P publishers and S subscribers: pairs where they are as many, one topic for all
subscribers where there is one publisher. Pipelined, a publisher has up to `window` messages on
their way; one in flight, it waits for each to be delivered (and acknowledged, with QoS 1 and 2).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.comparison import Better

SMALL_BYTES, LARGE_BYTES = 79, 1024
"""Payloads: a sensor's reading, and a kibibyte."""
LIGHT_LOAD_HZ = 100
IDLE_CLIENTS = 1000


@dataclass(frozen=True, slots=True)
class Load:
    """The work of the generator. `rate_hz` 0 is as fast as the window allows."""

    publishers: int
    subscribers: int
    qos: int
    payload_bytes: int = SMALL_BYTES
    window: int = 1
    rate_hz: int = 0

    @property
    def name(self) -> str:
        """The case in words; a light load's figures add p50 or p99."""
        what = f"QoS {self.qos} {self.payload_bytes} B"
        if self.rate_hz:
            return f"{what} at {self.rate_hz} messages/s"
        how = "pipelined" if self.window > 1 else "one in flight"
        return f"{self.publishers}->{self.subscribers} {what} {how}"

    @property
    def is_logged(self) -> bool:
        """True if a durable broker logs it before it acknowledges: QoS 0 is never logged."""
        return self.qos > 0


@dataclass(frozen=True, slots=True)
class Metric:
    """The unit of a figure, and the direction that is better."""

    unit: str
    better: Better


RATE = Metric("messages/s", "higher")
LATENCY = Metric("us", "lower")
MEMORY = Metric("MiB", "lower")

MEMORY_CASE = f"RSS with {IDLE_CLIENTS:,} idle clients"

_TOPOLOGIES = ((1, 1, 1000), (10, 10, 100), (1, 100, 100))
"""Publishers, subscribers, window. A thousand messages on their way, or ten thousand copies."""


def rate_loads() -> list[Load]:
    """Return all cases of the full run that are measured in messages/s."""
    pipelined = [
        Load(publishers, subscribers, qos, payload_bytes, window)
        for payload_bytes in (SMALL_BYTES, LARGE_BYTES)
        for publishers, subscribers, window in _TOPOLOGIES
        for qos in (0, 1, 2)
    ]
    return pipelined + [Load(count, count, qos) for count in (1, 100) for qos in (0, 1, 2)]


def quick_rate_loads() -> list[Load]:
    """Return the few that ``--quick`` has time for: each QoS and each topology once."""
    (one, ten, fan_out) = _TOPOLOGIES
    return [
        *(Load(one[0], one[1], qos, window=one[2]) for qos in (0, 1, 2)),
        Load(100, 100, 0),
        Load(100, 100, 1),
        Load(ten[0], ten[1], 1, window=ten[2]),
        Load(fan_out[0], fan_out[1], 1, window=fan_out[2]),
    ]


def latency_loads() -> list[Load]:
    """Return the light loads of the full run."""
    return [Load(1, 1, qos, window=1000, rate_hz=LIGHT_LOAD_HZ) for qos in (0, 1, 2)]
