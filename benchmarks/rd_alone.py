"""Cases of directories that are new: expiry of very many at once, and 500 of four attributes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks import coap_load
from benchmarks.coap_figures import CaseResult, rate_result
from benchmarks.coap_load import Load, Programs, Run
from benchmarks.coap_servers import Served
from benchmarks.comparison import shown
from benchmarks.rd_cases import registration

FEW = 500
_ATTRIBUTES = "&d=house&et=sensor&gp=attic"
_PART = 2_500
"""So many registrations have the same lifetime, which is until all are to be over."""
_AFTER_S = 6.0


def expiry(
    programs: Programs, served: Served, endpoints: int, lifetime_s: int
) -> Iterator[CaseResult]:
    """Measure how long a look-up waits while very many registrations expire at about one time.

    Args:
        programs: the compiled generator.
        served: an empty directory of ours.
        endpoints: their number.
        lifetime_s: of the first of them; all have to be registered by then.

    """
    end_s = time.monotonic() + lifetime_s
    for first in range(0, endpoints, _PART):
        left_s = max(1, math.ceil(end_s - time.monotonic()))
        load = registration(first, min(_PART, endpoints - first))
        uri = load.uri.replace("lt=3600", f"lt={left_s}")
        fault = coap_load.run(programs, replace(load, uri=uri), served.port).fault
        if fault or time.monotonic() > end_s - _AFTER_S:
            why = fault or f"{first:,} were registered when the first were over"
            yield CaseResult(_case(endpoints), "us", "lower", {}, {served.name: why})
            return
    full_mib = served.rss_mib()
    ask = Load("", "/rd-lookup/ep?ep=n0", 1)
    quiet = coap_load.run(programs, ask, served.port, measure_s=2.0)
    time.sleep(max(0.0, end_s - 1.0 - time.monotonic()))
    busy = coap_load.run(programs, ask, served.port, measure_s=_AFTER_S)
    note = (
        f"p99 {shown(busy.p99_us)} us; before: p99 {shown(quiet.p99_us)} us, "
        f"longest {shown(quiet.max_us)} us; RSS {full_mib:.0f} MiB "
        f"with all, {served.rss_mib():.0f} MiB after"
    )
    yield CaseResult(
        _case(endpoints), "us", "lower", {served.name: busy.max_us}, notes={served.name: note}
    )


def _case(endpoints: int) -> str:
    return f"expiry of {endpoints:,} registrations, longest look-up meanwhile"


def four_attributes(
    programs: Programs, servers: Sequence[Served], rounds: int
) -> Iterator[CaseResult]:
    """Rate and memory of 500 registrations with ``ep``, ``d``, ``et`` and ``gp``."""
    runs: dict[str, list[Run]] = {served.name: [] for served in servers}
    before = {served.name: served.rss_mib() for served in servers}
    after: dict[str, float] = {}
    for turn in range(rounds):
        for served in servers:
            load = registration(turn * FEW, FEW, query=_ATTRIBUTES)
            runs[served.name].append(coap_load.run(programs, load, served.port))
            after.setdefault(served.name, served.rss_mib())
    yield rate_result(f"{FEW} registrations of 4 attributes", "1/s", runs)
    notes = {
        name: f"{before[name]:.1f} before, {after[name] - before[name]:.1f} more" for name in after
    }
    yield CaseResult(f"RSS with {FEW} of 4 attributes", "MiB", "lower", after, notes=notes)
