"""Counters of the outcomes of requests to and from other gateways."""

from __future__ import annotations

from light_dataclasses import dataclass


@dataclass(slots=True)
class QueryCounters:
    """Counts of queries, for status and metrics."""

    asked: int = 0
    asked_again: int = 0
    answered: int = 0
    timed_out: int = 0
    executed: int = 0
    refused: int = 0
    repeated: int = 0
    answered_again: int = 0
    abandoned: int = 0
    late: int = 0
    unknown: int = 0
    foreign: int = 0
    malformed: int = 0
    unproven: int = 0
    replayed: int = 0
    challenged: int = 0
    notified: int = 0
    cancelled: int = 0
