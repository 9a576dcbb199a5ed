"""The mesh benchmark's table: ours beside others, event by event."""

from __future__ import annotations

from benchmarks.mesh import failures, healing
from benchmarks.mesh.failures import Figures


def figures(start_ms: float, silence_ms: float) -> Figures:
    found = Figures()
    found.back_ms[failures.COLD_START].append(start_ms)
    found.silences_ms[failures.DEATH].append(silence_ms)
    found.counts["acknowledged"] = 1_000
    return found


def test_what_the_same_takes_without_tls_stands_beside_ours() -> None:
    ours, others = figures(150.0, 80.0), {healing.WITHOUT_TLS: figures(100.0, 70.0)}
    text = list(healing.lines(ours, others))
    (row,) = (line for line in text if line.strip().startswith(failures.DEATH))
    assert " ".join(row.split()).endswith("80 / 80 / 80 70 / 70 / 70")
    assert f"{healing.WITHOUT_TLS}: 1,000 acknowledged" in text
    found = {
        (one.case, one.ours, one.peer)
        for one in healing.comparisons(ours, others)
        if one.peer_name == healing.WITHOUT_TLS
    }
    expected = {("convergence of 5", 150.0, 100.0), (f"repair: {failures.DEATH}", 80.0, 70.0)}
    assert found == expected


def test_a_cell_without_a_figure_is_empty_and_no_comparison() -> None:
    others = {healing.WITHOUT_TLS: Figures()}
    text = list(healing.lines(figures(150.0, 80.0), others))
    (row,) = (line for line in text if line.strip().startswith(failures.DEATH))
    assert row.split()[-1] == "-"
    names = {one.peer_name for one in healing.comparisons(figures(150.0, 80.0), others)}
    assert names == {healing.PUBLISHED}
