"""Of the script that changes modules and asks whether tests notice (tests/mutants)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "mutants"))
changes = importlib.import_module("changes")
importers = importlib.import_module("importers")


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a not  in b", ["x = a in b"]),
        ("x = (a) and (b)", ["x = (a) or (b)"]),
        ("x = a + b\nx -= c", ["x = a - b\nx -= c", "x = a + b\nx += c"]),
        ("LIMIT = 64", ["LIMIT = 65"]),
        ("x = not a", ["x = a"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("x: bool = True", ["x: bool = False"]),
        ("if a:\n    tell(b)", ["if not (a):\n    tell(b)", "if a:\n    pass"]),
        (
            "if a:\n    raise AError('1 < 2')",
            ["if not (a):\n    raise AError('1 < 2')", "if a:\n    pass"],
        ),
        ("for a in b:\n    break", ["for a in b:\n    continue"]),
        ("x = 'ä' if a else b == c", ["x = 'ä' if a else b != c"]),
    ],
)
def test_what_a_source_becomes(source: str, texts: list[str]) -> None:
    assert [change.applied_to(source) for change in changes.changes_of(source)] == texts


@pytest.mark.parametrize(
    "source",
    [
        '"""A text of 1 < 2."""',
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "x: Literal[1]",
        "if TYPE_CHECKING:\n    from a import b",
        "_log.warning('%d of %d', a)",
        "x = f'{a + b}'",
        "class P(Protocol):\n    limit = 1",
    ],
)
def test_what_says_nothing_of_the_behaviour_is_left_alone(source: str) -> None:
    assert changes.changes_of(source) == []


def test_each_change_of_a_real_module_parses_and_is_where_it_says() -> None:
    source = Path(str(changes.__file__)).read_text()
    found = changes.changes_of(source)
    assert found
    for change in found:
        assert source.startswith(change.before, change.start)
        assert source.count("\n", 0, change.start) == change.line - 1


def test_a_module_is_noticed_by_what_imports_it_the_nearest_first_and_then_by_whole_gateways() -> (
    None
):
    sources = {
        "gateway/__init__.py": "",
        "gateway/a.py": "",
        "gateway/b.py": "from gateway import a",
        "tests/bed.py": "from gateway.b import x",
        "tests/unit/test_a.py": "import gateway.a",
        "tests/unit/test_b.py": "from gateway.b import x",
        "tests/unit/test_bed.py": "from bed import y",
        "tests/unit/test_other.py": "import json",
        "tests/system/test_whole.py": "import subprocess",
    }
    found = importers.test_files_for("gateway/a.py", sources)
    names = [Path(path).stem for path in found]
    assert names == ["test_a", "test_b", "test_bed", "test_whole"]
