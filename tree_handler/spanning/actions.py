"""Actions that the spanning tree asks of its shell, in order and at once."""

from __future__ import annotations

from light_dataclasses import dataclass
from tree_handler.spanning.bpdu import Bpdu


@dataclass(frozen=True, slots=True)
class Send:
    """Send this BPDU over the link."""

    link: int
    bpdu: Bpdu


@dataclass(frozen=True, slots=True)
class Forward:
    """Carry data over the link, both ways, from now on."""

    link: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Neither send nor accept data over the link any more."""

    link: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the link; the tree has forgotten it."""

    link: int
    why: str


@dataclass(frozen=True, slots=True)
class Changed:
    """Root, parent or a role is another one now; for status and logs."""

    why: str


@dataclass(frozen=True, slots=True)
class Outlived:
    """A neighbour knows of a later life of this gateway: start again behind that epoch."""

    boot_epoch: int


SpanningAction = Send | Forward | Discard | Drop | Changed | Outlived
