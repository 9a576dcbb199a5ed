"""Signs of the job and of its collectors, beside micro-batches: evidence for the watch.

Times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CollectorSign:
    """The state of a spool: its collector's status, and how far the job has read it.

    Attributes:
        spool: its folder.
        status_us: when ``status.json`` was written, by the clock of its disk; it is compared with
            itself alone. None: there is none.
        refusals: how often the collector's disk refused something, by what it was.
        marked: how far the spool goes, over all segments.
        committed: likewise, how far the tables have it.

    """

    spool: str
    status_us: int | None
    refusals: Mapping[str, int]
    marked: int
    committed: int


@dataclass(frozen=True, slots=True)
class IngestSigns:
    """The signs of trouble that the job saw since it last reported.

    Attributes:
        collectors: of all of its spools.
        begun_again: why the query was begun again, each time.
        has_started: the job has just begun.
        steady_us: a clock of the job's machine that nobody sets; it is compared with itself alone,
            and not over a start. None: there is none.

    """

    collectors: tuple[CollectorSign, ...]
    begun_again: tuple[str, ...] = ()
    has_started: bool = False
    steady_us: int | None = None
