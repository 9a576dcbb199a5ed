"""Tells which tests reach the place of a change.

A probe stands before the statement that holds the change, in a copy in which all tests run once.
Pure: texts in, texts out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from changes import Change

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FIRST_S = 15.0
"""The seconds of the first portion of tests together; each next one has twice as many."""
_START_S = 1.0
"""The seconds that one more file costs, beside its tests."""


@dataclass
class Reached:
    """The tests that reach each change, and what each test takes.

    Args:
        tests: by the number of the change; none where no probe could stand or none was passed.
        seconds: by the test.
    """

    tests: dict[int, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def portions(self, number: int) -> Iterator[list[str]]:
        """Return the tests that reach a change, in portions: files that take least time first."""
        files: dict[str, list[str]] = {}
        for test in sorted(self.tests.get(number, ())):
            files.setdefault(test.partition("::")[0], []).append(test)
        portion: list[str] = []
        takes_s, bound_s = 0.0, _FIRST_S
        for tests in sorted(files.values(), key=self._takes_s):
            takes_s += self._takes_s(tests)
            if portion and takes_s > bound_s:
                yield portion
                portion, takes_s, bound_s = [], self._takes_s(tests), 2 * bound_s
            portion += tests
        if portion:
            yield portion

    def _takes_s(self, tests: list[str]) -> float:
        return _START_S + sum(self.seconds.get(test, 0.0) for test in tests)


def read(lines: Iterable[str]) -> Reached:
    """Read what the probes noted, see `probe.RECORD`."""
    reached = Reached()
    for line in lines:
        number, _, test = line.rstrip("\n").partition("\t")
        if "." in number:
            reached.seconds[test] = float(number)
        elif number:
            reached.tests.setdefault(int(number), set()).add(test)
    return reached


def probed(source: str, change: Change, number: int) -> str | None:
    """Return a source with a probe before the statement in which a change is made.

    None where a module or a class holds that statement: it runs when the module is imported, which
    says nothing of who looks at the outcome. A change of a function's defaults is probed in its
    body.
    """
    around = list(_around(ast.parse(source).body, *_position(source, change.start)))
    functions = [at for at, one in enumerate(around) if isinstance(one, _FUNCTIONS)]
    if not functions or any(isinstance(one, ast.ClassDef) for one in around[functions[-1] :]):
        return None
    function = around[functions[-1]]
    assert isinstance(function, _FUNCTIONS)
    lines = source.splitlines(keepends=True)
    # No statement can stand before an elif, so the probe stands before the first if.
    within = [one for one in around[functions[-1] + 1 :] if not _is_elif(lines, one)]
    at = (within[-1] if within else _first(function)).lineno - 1
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    return "".join([*lines[:at], f'{indent}__import__("probe").note({number})\n', *lines[at:]])


def _position(source: str, offset: int) -> tuple[int, int]:
    before = source[:offset]
    return before.count("\n") + 1, len(before.rpartition("\n")[2].encode())


def _around(block: list[ast.stmt], line: int, column: int) -> Iterator[ast.stmt]:
    """Return the statements that hold a position, the outermost first."""
    for one in block:
        begin = min([(one.lineno, one.col_offset), *_decorators(one)])
        if begin <= (line, column) < (one.end_lineno or one.lineno, one.end_col_offset or 0):
            yield one
            for part in _blocks(one):
                yield from _around(part, line, column)


def _decorators(statement: ast.stmt) -> Iterator[tuple[int, int]]:
    for decorator in getattr(statement, "decorator_list", ()):
        yield decorator.lineno, 0


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _first(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    documented = ast.get_docstring(function) is not None and len(function.body) > 1
    return function.body[1 if documented else 0]


def _is_elif(lines: list[str], statement: ast.stmt) -> bool:
    return lines[statement.lineno - 1].encode()[statement.col_offset :].startswith(b"elif")
