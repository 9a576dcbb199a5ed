"""One central broker beside the distributed modes: delays, bytes, what they take of the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.comparison import Comparison
from benchmarks.mesh import delays
from benchmarks.mesh.delays import CENTRAL, Case, Delays
from gateway.base import event_loop
from gateway.process.configuration.config import MODES

Found = list[tuple[Case, Delays]]
CENTRAL_NAME = "one central broker"
DISTANT = 3
"""Gateways in the experiments with many clients."""


def modes(*, quick: bool, note: Callable[[str], None]) -> Found:
    """Row C8, for each mode, and for one central broker; once more with links without TLS."""
    if quick:
        return _measured("flood", [Case("flood")], note)
    found: Found = []
    for mode in (CENTRAL, *MODES):
        found += _measured(mode, delays.cases(mode), note)
    return found + _measured("flood", [Case("flood", tls="off")], note)


def crowds(note: Callable[[str], None]) -> Found:
    """Row B9."""
    return [
        *_measured("flood", delays.crowds(1), note),
        *_measured("flood", delays.crowds(DISTANT), note),
    ]


def _measured(mode: str, cases: list[Case], note: Callable[[str], None]) -> Found:
    note(f"{len(cases)} cases of {mode}, {cases[0].hosts} hosts")
    return event_loop.run(delays.measure(mode, cases))


def lines(found: Found) -> Iterator[str]:
    """Yield the table."""
    yield (
        f"{'end-to-end delay and cost':<66}{'p50 ms':>8}{'p95 ms':>8}{'deliv./s':>10}"
        f"{'bytes/msg':>11}{'idle B/s':>10}{'cores':>7}{'MiB':>6}{'lost':>6}{'twice':>6}"
    )
    for case, one in found:
        yield (
            f"  {case!s:<64}{one.p50_ms:>8.1f}{one.p95_ms:>8.1f}{one.delivered_hz:>10,.0f}"
            f"{one.message_bytes:>11,.0f}{one.idle_bytes_s:>10,.0f}{one.cpu:>7.2f}"
            f"{one.rss_mib:>6.0f}{one.lost:>6}{one.doubled:>6}"
        )


def comparisons(found: Found) -> Iterator[Comparison]:
    """Yield each mode beside one central broker, and beside flooding: published for topic overlays
    is less than half of flooding's delay at 50 % locality."""
    by_case = {(case.mode, str(case).partition(",")[2]): one for case, one in found}
    for (mode, what), one in by_case.items():
        for peer, name in ((CENTRAL, CENTRAL_NAME), ("flood", "flood (ours)")):
            other = by_case.get((peer, what))
            if other is None or mode in (CENTRAL, peer):
                continue
            yield Comparison(
                f"delay p50: {mode},{what}", one.p50_ms, other.p50_ms, name, "ms", "lower"
            )
            if one.message_bytes > 0 and other.message_bytes > 0:
                case = f"bytes between hosts for a message: {mode},{what}"
                ours, theirs = one.message_bytes, other.message_bytes
                yield Comparison(case, ours, theirs, name, "B", "lower")


def faults(found: Sequence[tuple[Case, Delays]]) -> list[str]:
    """Return a line for each case in which something was lost or doubled."""
    return [
        f"{case}: {one.lost} lost, {one.doubled} doubled"
        for case, one in found
        if one.lost or one.doubled
    ]
