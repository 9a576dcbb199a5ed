"""The import benchmark reads `-X importtime` and names the module of ours behind each import."""

from __future__ import annotations

from benchmarks.imported import INTERPRETER, Grown, Imported, parsed, report, weighed, weights

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


GROWN = f"""\
4800 5000 {""}
40 0 re
4 60 _json
1100 8 msgspec
20 0 gateway.base.toml
"""


def test_packages_are_summed_the_largest_first() -> None:
    grown = weights(GROWN.splitlines())
    lines = list(report(parsed(TOLD.splitlines()), grown, with_first=True))
    assert lines[2:7] == [
        "| all | 6 | 202 | 1,164 | 68 |",
        "| Python's own | 3 | 150 | 44 | 60 |",
        "| ours | 2 | 47 | 20 | 0 |",
        "| msgspec | 1 | 5 | 1,100 | 8 |",
        "| an interpreter alone | - | - | 4,800 | 5,000 |",
    ]
    assert "| Python's own, for gateway.base.toml | 2 | 50 | 4 | 60 |" in lines


def test_a_process_tells_what_each_import_took_and_goes_on_without_what_is_not_there() -> None:
    grown = weighed([Imported("json", 1, ""), Imported("none_such", 1, "")])
    assert grown.keys() == {INTERPRETER, "json"}
    assert grown[INTERPRETER].own_kib > 0
    assert grown["json"] != Grown(0, 0)


def test_a_module_beside_folders_counts_with_what_they_are_in() -> None:
    names = ("gateway", "gateway.program", "gateway.broker", "gateway.broker.owners", "gateway.log")
    rows = list(report([Imported(name, 1, "") for name in names], {}, with_first=False))
    assert rows[-2:] == ["| gateway | 3 | 3 | 0 | 0 |", "| gateway.broker | 2 | 2 | 0 | 0 |"]


def test_what_told_nothing_has_imported_nothing() -> None:
    assert list(report(parsed([]), {}, with_first=False))[2] == "| all | 0 | 0 | 0 | 0 |"
