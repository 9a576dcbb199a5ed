"""What has passed through the broker since it started.

Plain integers, which the data plane adds to once for a read or a write and not for each message.
What a read or a write holds is counted whole, and what is rarer than a PUBLISH by itself, so that
PUBLISH packets are what is left.
"""

from __future__ import annotations

from dataclasses import dataclass

ACKNOWLEDGEMENT_BYTES = 4
"""PUBACK and its like with nothing but an identifier."""


@dataclass(slots=True)
class Traffic:
    """Counters that only grow."""

    sockets: int = 0
    """Connections opened, refused ones included."""
    connects: int = 0
    """CONNECT packets."""
    packets_read: int = 0
    bytes_read: int = 0
    """Links are counted until they are handed over."""
    others_read: int = 0
    """Packets that are no PUBLISH."""
    acknowledgements_alone: int = 0
    """Those that came in a read of their own and are not counted in the other three."""
    received_qos_1: int = 0
    received_qos_2: int = 0
    published_bytes: int = 0
    """Of PUBLISH packets received, headers and all."""
    packets_sent: int = 0
    bytes_sent: int = 0
    sent_others: int = 0
    """Packets sent that are no PUBLISH."""
    sent_other_bytes: int = 0
    clients_max: int = 0
    """The most clients that were connected at a time."""
    sessions_expired: int = 0

    def read_alone(self, ones: int, twos: int, published_bytes: int, acknowledgements: int) -> None:
        """Count packets that came in reads of their own: PUBLISH by QoS, and acknowledgements."""
        self.packets_read += ones + twos
        self.bytes_read += published_bytes
        self.published_bytes += published_bytes
        self.received_qos_1 += ones
        self.received_qos_2 += twos
        self.acknowledgements_alone += acknowledgements

    @property
    def packets_received(self) -> int:
        """Packets of any kind."""
        return self.packets_read + self.acknowledgements_alone

    @property
    def bytes_received(self) -> int:
        """Their bytes."""
        return self.bytes_read + self.acknowledgements_alone * ACKNOWLEDGEMENT_BYTES

    @property
    def received_others(self) -> int:
        """Packets received that are no PUBLISH."""
        return self.others_read + self.acknowledgements_alone

    @property
    def published(self) -> int:
        """PUBLISH packets received."""
        return self.packets_received - self.received_others

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
