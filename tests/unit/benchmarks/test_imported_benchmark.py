"""The import benchmark reads `-X importtime` and names the module of ours behind each import."""

from __future__ import annotations

from benchmarks.imported import Imported, parsed, report

TOLD = """\
import time: self [us] | cumulative | imported package
import time:       100 |        100 |   re
a gateway's own line
import time:        20 |         20 |       _json
import time:        30 |         50 |     json
import time:        40 |         90 |   gateway.base.toml
import time:         7 |         97 | gateway
import time:         5 |          5 | msgspec
"""


def test_a_module_is_asked_for_by_the_nearest_of_ours_above_it() -> None:
    assert parsed(TOLD.splitlines()) == [
        Imported("msgspec", 5, ""),
        Imported("gateway", 7, ""),
        Imported("gateway.base.toml", 40, "gateway"),
        Imported("json", 30, "gateway.base.toml"),
        Imported("_json", 20, "gateway.base.toml"),
        Imported("re", 100, "gateway"),
    ]


def test_packages_are_summed_the_largest_first() -> None:
    lines = list(report(parsed(TOLD.splitlines()), with_first=True))
    assert lines[2:6] == [
        "| all | 6 | 202 |",
        "| Python's own | 3 | 150 |",
        "| ours | 2 | 47 |",
        "| msgspec | 1 | 5 |",
    ]
    assert "| Python's own, for gateway.base.toml | 2 | 50 |" in lines


def test_a_module_beside_folders_counts_with_what_they_are_in() -> None:
    names = ("gateway", "gateway.program", "gateway.broker", "gateway.broker.owners", "gateway.log")
    rows = list(report([Imported(name, 1, "") for name in names], with_first=False))
    assert rows[-2:] == ["| gateway | 3 | 3 |", "| gateway.broker | 2 | 2 |"]


def test_what_told_nothing_has_imported_nothing() -> None:
    assert list(report(parsed([]), with_first=False))[2] == "| all | 0 | 0 |"
