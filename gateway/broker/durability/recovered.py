"""Findings of a start."""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(slots=True)
class RecoveryCounts:
    """The counts of what a start found.

    Attributes:
        sessions: how many durable sessions there are.
        waiting: messages that wait for them or are on their way to them.
        odd: records that did not fit; each is in the log as a warning.
        had_before: deliveries at QoS 2 that were left out (`delivery_gaps`).
        left_out: retained messages of the checkpoint for which there is no room.

    """

    sessions: int = 0
    waiting: int = 0
    odd: int = 0
    had_before: int = 0
    left_out: int = 0
