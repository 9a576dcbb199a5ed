"""Figures that were measured, and what the machine should be given after them; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from gateway.base.percentiles import percentile
from light_dataclasses import dataclass

STEADY_PER_S: Final = 200
"""Messages a second while latencies are measured."""
LATE_MS: Final = 50.0
"""With acknowledgements later than this at `STEADY_PER_S` a machine should get less than that."""
SHARE_OF_MOST: Final = 0.25
"""So much of the most that a machine can do it should get: sites have bursts, and links."""
CLIENT_BYTES: Final = 16 << 10
"""An idle client takes 10 KiB, and has a queue now and then."""
SPARED_BYTES: Final = 128 << 20
"""Left to the system, to upgrades and to what grows under load."""
CLIENTS_MAX: Final = 10_000
"""The clients that the limits of a configuration let in where they say nothing else."""


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """The percentiles of answer times, in milliseconds.

    Attributes:
        p50_ms: half of them came by then.
        p99_ms: 99 of 100.

    """

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> AnswerTimes:
        """Return the percentiles of times in seconds, one at least."""
        p50_s, p99_s = percentile(seconds, 50), percentile(seconds, 99)
        return cls(round(p50_s * 1000, 2), round(p99_s * 1000, 2))


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of one run.

    Attributes:
        start_s: from the start of the process until it served, by the clock.
        start_cpu_s: processor time of that.
        sync: how long the disk took to have 4 KiB for certain.
        idle_bytes: memory of the gateway when nothing was asked of it.
        messages_per_s: QoS 1 from one client to another, as many as went.
        puback: of `STEADY_PER_S` messages a second.
        reads_per_s: CoAP GETs of one sensor, eight at a time.
        available_bytes: memory that the system had left before the run.

    """

    start_s: float
    start_cpu_s: float
    sync: AnswerTimes
    idle_bytes: int
    messages_per_s: float
    puback: AnswerTimes
    reads_per_s: float
    available_bytes: int


@dataclass(frozen=True, slots=True)
class RecommendedLoad:
    """The load that is recommended for the machine.

    Attributes:
        messages_per_s: of QoS 1, of all clients together.
        clients: that are connected at the same time.

    """

    messages_per_s: int
    clients: int


def verdict(figures: Figures) -> RecommendedLoad:
    """Return what a machine with these figures should be given."""
    messages = figures.messages_per_s * SHARE_OF_MOST
    if figures.puback.p99_ms > LATE_MS:
        messages = min(messages, STEADY_PER_S / 2)
    room = figures.available_bytes - figures.idle_bytes - SPARED_BYTES
    return RecommendedLoad(_round(messages), min(_round(max(room, 0) / CLIENT_BYTES), CLIENTS_MAX))


def _round(value: float) -> int:
    """Round down to two digits: what is measured is no more exact."""
    whole = int(value)
    step = int(10 ** max(len(str(whole)) - 2, 0))
    return whole // step * step


def as_document(figures: Figures) -> dict[str, Any]:
    """Return figures and verdict, ready for JSON."""
    return asdict(figures) | {"verdict": asdict(verdict(figures))}


def as_text(figures: Figures) -> str:
    """Return them as lines for a person."""
    given = verdict(figures)
    rows = (
        ("start", f"{figures.start_s:.1f} s ({figures.start_cpu_s:.1f} s of processor time)"),
        ("memory, idle", f"{figures.idle_bytes / (1 << 20):.0f} MiB"),
        ("disk, 4 KiB for certain", _times(figures.sync)),
        ("MQTT, QoS 1", f"{figures.messages_per_s:,.0f} messages/s at most"),
        (f"PUBACK at {STEADY_PER_S}/s", _times(figures.puback)),
        ("CoAP, GET of a sensor", f"{figures.reads_per_s:,.0f}/s"),
    )
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {value}" for name, value in rows]
    advice = f"Give it up to {given.messages_per_s:,} messages/s of {given.clients:,} clients."
    if figures.puback.p99_ms > LATE_MS:
        advice += f" At {STEADY_PER_S}/s acknowledgements are late: is the disk slow, or the load?"
    return "\n".join([*lines, "", advice])


def _times(latency: AnswerTimes) -> str:
    return f"{latency.p50_ms:g} ms, 99 of 100 within {latency.p99_ms:g} ms"
