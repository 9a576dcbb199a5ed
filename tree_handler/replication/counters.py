"""Counters of what happened to batches, for status and metrics."""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Messages, but for `forwarded` and `discarded` (batches), `forgotten` (streams), `left_out`
    (rows that neighbours told over a limit, and batches that would make too many gaps), `forged`
    (batches that their seal does not prove, or that have none) and `unknown` (batches that an
    unknown key has signed)."""

    published: int = 0
    received: int = 0
    forwarded: int = 0
    duplicates: int = 0
    discarded: int = 0
    repaired: int = 0
    malformed: int = 0
    lost: int = 0
    set_aside: int = 0
    forgotten: int = 0
    left_out: int = 0
    forged: int = 0
    unknown: int = 0
