"""Traffic through the broker since it started.

Plain integers. What a read or a write holds is counted whole, and what is rarer than a PUBLISH by
itself, so that PUBLISH packets are what is left.
"""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Counters that only grow."""

    connects: int = 0
    """CONNECT packets."""
    packets_read: int = 0
    bytes_read: int = 0
    """Links are counted until they are handed over."""
    others_read: int = 0
    """Packets that are no PUBLISH."""
    received_qos_1: int = 0
    received_qos_2: int = 0
    published_bytes: int = 0
    """Of PUBLISH packets received, headers and all."""
    packets_sent: int = 0
    bytes_sent: int = 0
    sent_others: int = 0
    """Packets sent that are no PUBLISH."""
    sent_other_bytes: int = 0

    @property
    def published(self) -> int:
        """PUBLISH packets received."""
        return self.packets_read - self.others_read

    @property
    def received_qos_0(self) -> int:
        """Those of them at QoS 0."""
        return self.published - self.received_qos_1 - self.received_qos_2

    @property
    def delivered(self) -> int:
        """PUBLISH packets sent."""
        return self.packets_sent - self.sent_others

    @property
    def delivered_bytes(self) -> int:
        """Their bytes, headers and all."""
        return self.bytes_sent - self.sent_other_bytes
