"""The cases of the tree's benchmark: a publisher and a subscriber at the two ends of a chain."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.broker_cases import LARGE_BYTES, LIGHT_LOAD_HZ, SMALL_BYTES, Load

WINDOWS = {SMALL_BYTES: 10_000, LARGE_BYTES: 1_000}
"""Messages on their way, by payload: about a megabyte. That is enough that what limits is not the
time over the hops, and not so much that a gateway drops QoS 0 messages, whose queue is 2 MiB."""
HOPS = (1, 2)
PAYLOADS = (SMALL_BYTES, LARGE_BYTES)


@dataclass(frozen=True, slots=True)
class ChainLoad(Load):
    """A load on a chain of brokers. `hops` are the links between the two ends."""

    hops: int = 1

    @property
    def name(self) -> str:
        """The case in words."""
        what = f"QoS {self.qos} {self.payload_bytes} B"
        how = f"at {self.rate_hz} messages/s" if self.rate_hz else "pipelined"
        over = "no hop" if not self.hops else "1 hop" if self.hops == 1 else f"{self.hops} hops"
        return f"{over}, {what} {how}"


def rate_loads(hops: int) -> list[ChainLoad]:
    """Return the loads that are measured in messages/s over so many hops."""
    return [
        ChainLoad(1, 1, qos, payload_bytes, window, hops=hops)
        for payload_bytes, window in WINDOWS.items()
        for qos in (0, 1, 2)
    ]


def latency_loads(hops: int) -> list[ChainLoad]:
    """Return the light loads."""
    return [ChainLoad(1, 1, qos, SMALL_BYTES, 1_000, LIGHT_LOAD_HZ, hops=hops) for qos in (0, 1, 2)]
