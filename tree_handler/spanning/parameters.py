"""Timers and margins of the spanning tree."""

from __future__ import annotations

import math
from dataclasses import fields

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Parameters:
    """Timers and margins; the same on all gateways of a tree.

    Attributes:
        hello_s: interval of the root's HELLO.
        missed_hellos: a neighbour that is silent for so many intervals is dead.
        switch_margin: a path is better only if it is so by this fraction of the cost ...
        switch_margin_ms: ... and by so many milliseconds.
        unmeasured_ms: what a link costs before its first round trip is measured.
        request_interval_s: the root raises its sequence on request at most this often.
        remember_s: how long the distance to a root is remembered after its last announcement.
        max_links: links at most; one more is dropped.

    Raises:
        ProtocolError: if a value is not positive.

    """

    hello_s: float = 0.5
    missed_hellos: int = 3
    switch_margin: float = 0.25
    switch_margin_ms: float = 1.0
    unmeasured_ms: int = 10
    request_interval_s: float = 0.05
    remember_s: float = 120.0
    max_links: int = 256

    @property
    def silence_s(self) -> float:
        """A neighbour is dead that is silent for so long; over a slow link for twice as long."""
        return self.missed_hellos * self.hello_s

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise ProtocolError(field.name, value)
