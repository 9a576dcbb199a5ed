"""A subscription: a filter, and what a client asked for with it."""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subscription:
    """The options that a client asked for with a filter (MQTT 5.0, section 3.8.3.1)."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    """0 if there is none."""
