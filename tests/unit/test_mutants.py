"""Of the script that changes modules and asks whether tests notice (tests/mutants)."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "mutants"))
changes = importlib.import_module("changes")
draw = importlib.import_module("draw")
importers = importlib.import_module("importers")
leftover = importlib.import_module("leftover")
patience = importlib.import_module("patience")
reach = importlib.import_module("reach")
summary = importlib.import_module("summary")


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
        (
            "x = 'ä' if a else b == c",
            ["x = 'ä' if not (a) else b == c", "x = 'ä' if a else b != c"],
        ),
        ("x = [a for a in b if c]", ["x = [a for a in b if not (c)]"]),
        (
            "try:\n    pass\nfinally:\n    x = y\n    z = y",
            ["try:\n    pass\nfinally:\n    pass"],
        ),
        ("del a[b]", ["pass"]),
        ("class A:\n def f(self):\n  self.a = b", ["class A:\n def f(self):\n  pass"]),
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
        "class A:\n def __init__(self):\n  self.a = b",
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
    found = importers.test_files_for("gateway/a.py", sources, importers.importers_of(sources))
    names = [Path(path).stem for path in found]
    assert names == ["test_a", "test_b", "test_bed", "test_whole"]


def test_of_tests_that_are_as_near_those_named_like_the_module_come_first() -> None:
    sources = {
        "gateway/log/segment_file.py": "",
        "tests/unit/gateway/test_all.py": "import gateway.log.segment_file",
        "tests/unit/gateway/test_segment_reads.py": "import gateway.log.segment_file",
    }
    found = importers.test_files_for(
        "gateway/log/segment_file.py", sources, importers.importers_of(sources)
    )
    assert [Path(path).stem for path in found] == ["test_segment_reads", "test_all"]


def test_words_with_one_stem_are_one_in_the_name_of_a_test() -> None:
    sources = {"gateway/messaging.py": "", "tests/system/test_all.py": ""}
    sources |= {f"tests/unit/test_{name}.py": "import gateway.messaging" for name in "abcdefghi"}
    sources |= {"tests/system/test_messages_command.py": ""}
    found = importers.test_files_for(
        "gateway/messaging.py", sources, importers.importers_of(sources)
    )
    names = [Path(path).stem.removeprefix("test_") for path in found]
    assert names == [*"abcdefgh", "messages_command", "i", "all"]


def test_what_reads_all_sources_comes_behind_the_nearest_tests_of_each_module() -> None:
    (reader,) = importers.READ_SOURCES
    near = [f"tests/unit/test_{number}.py" for number in range(9)]
    sources = {"gateway/a.py": "", reader: ""} | dict.fromkeys(near, "import gateway.a")
    found = importers.test_files_for("gateway/a.py", sources, importers.importers_of(sources))
    assert found == [*near[:8], reader, near[8]]


def test_a_text_that_names_a_module_imports_it() -> None:
    sources = {
        "gateway/tools/cli.py": "",
        "tests/unit/test_numbers.py": "PLACE = 'gateway.tools.cli:main'",
        "tests/unit/test_others.py": "PLACE = 'see gateway.tools.cli'",
    }
    assert importers.importers_of(sources) == {
        "gateway/tools/cli.py": {"tests/unit/test_numbers.py"}
    }


def test_those_named_after_a_module_come_behind_the_nearest_however_far_they_are() -> None:
    sources = {
        "gateway/tools/top.py": "",
        "gateway/cli.py": "import gateway.tools.top",
        "tests/conformance/test_all.py": "",
        "tests/system/test_top_command.py": "",
    }
    sources |= {f"tests/unit/test_{name}.py": "import gateway.cli" for name in "abcdefghij"}
    found = importers.test_files_for(
        "gateway/tools/top.py", sources, importers.importers_of(sources)
    )
    names = [Path(path).stem.removeprefix("test_") for path in found]
    assert names == [*"abcdefgh", "top_command", "i", "j", "all"]


def test_a_seed_draws_the_same_changes_again_each_in_another_module_of_the_product() -> None:
    sources = {f"gateway/m{number}.py": "x = a < b\ny = 1\n" for number in range(9)}
    sources |= {
        "tests/test_a.py": "x = 1\n",
        "gateway_tools/a.py": "x = 1\n",
        "dtls/a.py": "import a",
    }
    sources |= {"gateway/__init__.py": ""}
    mutants = draw.drawn(5, 100, sources, "")
    assert mutants == draw.drawn(5, 100, sources, "") != draw.drawn(6, 100, sources, "")
    assert sorted(one.module for one in mutants) == [f"gateway/m{number}.py" for number in range(9)]
    assert [one.number for one in mutants] == list(range(1, 10))


def test_what_is_drawn_is_of_the_folder_asked_for() -> None:
    sources = {"gateway/a.py": "x = 1\n", "gateway/log/a.py": "x = 1\n", "dtls/a.py": "x = 1\n"}
    mutants = draw.drawn(5, 100, sources, "gateway/log")
    assert [one.module for one in mutants] == ["gateway/log/a.py"]


def test_what_failed_is_read_from_the_summary_with_all_of_its_parameter() -> None:
    log = "ERROR    gateway.log.message_log:message_log.py:175 tests/of/it are logged\n"
    end = "=========== short test summary info ===========\n"
    failed = "tests/unit/test_a.py::test_b[bytes of a topic]"
    assert summary.first_failed(f"{log}{end}FAILED {failed} - assert 1 == 2\n1 failed\n") == failed
    assert summary.first_failed(f"{log}{end}ERROR tests/unit/test_a.py\n") == "tests/unit/test_a.py"
    assert summary.first_failed(f"{log}1 passed\n") is None


class Endless:
    """A process without an end, and a clock by which each wait for it takes so long."""

    def __init__(self, *takes_s: float) -> None:
        self.now_s = 0.0
        self.waits = 0
        self._takes_s = list(takes_s)

    def communicate(self, timeout: float) -> tuple[str, str]:
        self.waits += 1
        self.now_s += self._takes_s.pop(0) if self._takes_s else timeout
        raise subprocess.TimeoutExpired("pytest", timeout)


def test_while_all_processes_stand_the_tests_of_a_change_lose_no_time() -> None:
    for takes_s, waits in (((), 20), ((90.0,), 19), ((90.0, 0.6, 600.0), 18)):
        endless = Endless(*takes_s)
        had = patience.Patience(10.0, lambda endless=endless: endless.now_s)
        assert had.output_of(endless) is None
        assert had.left_s == pytest.approx(0, abs=0.001)
        assert endless.waits == waits


def test_what_a_process_wrote_is_returned_and_its_time_is_spent() -> None:
    had = patience.Patience(60.0)
    command = [sys.executable, "-c", "print('1 passed')"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert had.output_of(running) == "1 passed\n"
    assert 0 < had.left_s < 60


SOURCE = '''"""A text."""
LIMIT = 64


class A:
    limit = 64

    @property
    def f(self, n: int = 64) -> int:
        """A text."""
        if n == 1:
            return 2
        elif n == 3:
            return [
                64,
            ]
        try:
            return 4
        except OSError:
            for at in range(64):
                self.at = at
        return 0
'''


def place_of_probe(piece: str) -> tuple[str, str] | None:
    """Return the lines around the probe of a change of a piece of `SOURCE`."""
    change = changes.Change(SOURCE.index(piece), piece, "", 0)
    text = reach.probed(SOURCE, change, 7)
    if text is None:
        return None
    lines = text.splitlines()
    (at,) = (at for at, line in enumerate(lines) if line.lstrip() == '__import__("probe").note(7)')
    assert lines[:at] + lines[at + 1 :] == SOURCE.splitlines()
    return lines[at - 1].strip(), lines[at + 1].strip()


@pytest.mark.parametrize(
    ("piece", "before", "after"),
    [
        ("2\n", "if n == 1:", "return 2"),
        ("n == 1", '"""A text."""', "if n == 1:"),
        ("n == 3", '"""A text."""', "if n == 1:"),  # before an elif nothing can stand
        ("64,", "elif n == 3:", "return ["),
        ("4\n        except", "try:", "return 4"),
        ("range", "except OSError:", "for at in range(64):"),
        ("= at", "for at in range(64):", "self.at = at"),
        ("64) -> int", '"""A text."""', "if n == 1:"),  # a default counts where the body runs
    ],
)
def test_a_probe_stands_before_the_statement_that_is_changed(
    piece: str, before: str, after: str
) -> None:
    assert place_of_probe(piece) == (before, after)


@pytest.mark.parametrize("piece", ["LIMIT = 64", "limit = 64"])
def test_what_runs_at_import_has_no_probe(piece: str) -> None:
    assert place_of_probe(piece) is None


def test_a_probe_can_stand_at_each_change_of_a_real_module() -> None:
    source = Path(changes.__file__).read_text()
    for change in changes.changes_of(source):
        text = reach.probed(source, change, 1)
        assert text is None or compile(text, "probed", "exec")


def test_what_reaches_a_change_is_tried_the_cheapest_files_first_in_portions() -> None:
    noted = [
        *("1\ttests/a.py::test_x", "2\ttests/a.py::test_y", "1\ttests/b.py::test_x[a b]"),
        *("1\ttests/c.py::test_x", "1\ttests/c.py::test_z", ""),
        *(
            "12.000\ttests/a.py::test_x",
            "8.500\ttests/b.py::test_x[a b]",
            "0.100\ttests/c.py::test_x",
        ),
    ]
    reached = reach.read(noted)
    assert list(reached.portions(1)) == [
        ["tests/c.py::test_x", "tests/c.py::test_z", "tests/b.py::test_x[a b]"],
        ["tests/a.py::test_x"],
    ]
    assert list(reached.portions(2)) == [["tests/a.py::test_y"]]
    assert list(reached.portions(3)) == []


def test_files_come_few_at_first_and_none_in_no_portion() -> None:
    files = [f"tests/test_{number}.py" for number in range(20)]
    assert importers.in_portions(files) == [files[:4], files[4:16], files[16:]]
    assert importers.in_portions(files[:4]) == [files[:4]]
    assert importers.in_portions([]) == []


def test_a_draw_is_known_by_all_that_is_drawn() -> None:
    sources = {f"dtls/{name}.py": f"{name} = 1 + 2\n" for name in "abc"}
    known = {
        draw.drawn_as(draw.drawn(seed, count, sources, ""))
        for seed, count in ((1, 3), (1, 3), (1, 2), (2, 3))
    }
    assert len(known) == 3


def test_what_the_tests_of_a_change_left_running_is_killed_and_nothing_else(tmp_path: Path) -> None:
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]

    def started(folder: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {leftover.TRIED_IN: str(tmp_path / folder)}
        return subprocess.Popen(
            waits, stdin=subprocess.PIPE, env=environment, start_new_session=True
        )

    with started("1") as own, started("10") as other:
        leftover.kill_those_left(tmp_path / "1")
        assert own.wait(30) == -signal.SIGKILL
        assert other.poll() is None
        other.communicate(b"")
        assert other.returncode == 0
