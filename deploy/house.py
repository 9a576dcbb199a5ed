"""Measures of the house: how long modules and functions are, and who imports whom in a circle.

    python deploy/house.py                    measure this tree; exit 1 where a limit is passed
    python deploy/house.py --list             also name what passes a goal
    python deploy/house.py --at b92c763       measure that commit, and enforce nothing
    python deploy/house.py --before b92c763   a table of that commit beside this tree

Each measure has a goal. Where the goal is not reached yet, `LIMITS` holds the number that stands
now: it may fall and never rise, and an entry leaves the table when its goal is reached.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("gateway", "tree_handler", "dtls", "resource_directory", "coap_engine", "cloud_ingest")
BROKER_ROOMS = ("gateway/broker", "gateway/mqtt", "gateway/log", "gateway/tls")
"""What was `gateway/broker` once, wherever it has moved."""
BROKER = "gateway/broker and its rooms"
REST = "gateway, the rest"
PARTS = (BROKER, REST, *PACKAGES[1:])
WHOLE = "all"

LINES = "lines"
LONG_MODULES = "modules over 400 lines"
LONG_FUNCTIONS = "functions over 60 lines"
WIDE_CONSTRUCTORS = "constructors over 7 parameters"
IN_CYCLES = "modules in import cycles"
SHARED_NAMES = "class names that stand twice"

MODULE_LINES = 400
FUNCTION_LINES = 60
CONSTRUCTOR_PARAMETERS = 7
BROKER_LINES = 14_796 * 3 // 4
"""A quarter fewer than before the broker got rooms."""

LIMITS: Mapping[tuple[str, str], int] = {
    (LINES, BROKER): 20_480,
}
"""What stands above its goal today, by measure and part."""

RECORD_BASES = frozenset({"NamedTuple", "TypedDict", "Struct", "Protocol", "BaseException"})
RECORD_ENDINGS = ("Error", "Exception", "Warning")


@dataclass(frozen=True)
class Finding:
    """One thing that passes a goal.

    Args:
        measure: which goal it passes.
        part: the part of the tree that it stands in, or `WHOLE`.
        place: where to look, as path and line.
        text: what stands there.

    """

    measure: str
    part: str
    place: str
    text: str


@dataclass(frozen=True)
class Measured:
    """The numbers of one tree.

    Args:
        lines: the lines of each part.
        findings: all that passes a goal.

    """

    lines: Mapping[str, int]
    findings: tuple[Finding, ...]

    def number(self, measure: str, part: str) -> int:
        """Return one number of the table: lines, or how many findings there are."""
        if measure == LINES:
            return self.lines.get(part, 0)
        return sum(found.measure == measure and found.part == part for found in self.findings)


class Module:
    """One source file: its name, its syntax and what it imports.

    Args:
        path: where it stands, from the root of the tree.
        source: its text.

    Raises:
        SyntaxError: it is no Python of this version.

    """

    def __init__(self, path: PurePosixPath, source: str) -> None:
        self.path = path
        self.part = part_of(path)
        self.lines = len(source.splitlines())
        self.syntax = ast.parse(source, str(path))
        self.is_package = path.name == "__init__.py"
        parts = path.parent.parts if self.is_package else path.with_suffix("").parts
        self.name = ".".join(parts)
        self.classes = tuple(n for n in ast.walk(self.syntax) if isinstance(n, ast.ClassDef))

    def imports(self, known: Iterable[str]) -> set[str]:
        """Return the modules among `known` that this one names in any import.

        An import inside a function or behind TYPE_CHECKING counts as any other.
        """
        names = set(known)
        found: set[str] = set()
        for node in ast.walk(self.syntax):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    found.add(inner if inner in names else base)
        return (found & names) - {self.name}

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        kept = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*kept, *([node.module] if node.module else [])])


def part_of(path: PurePosixPath) -> str:
    """Return the part of the tree that a file belongs to."""
    if path.parts[0] != "gateway":
        return path.parts[0]
    return BROKER if "/".join(path.parts[:2]) in BROKER_ROOMS else REST


def tree_here(root: Path) -> Iterator[tuple[PurePosixPath, str]]:
    """Give path and text of each source file of a working tree."""
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            yield PurePosixPath(file.relative_to(root).as_posix()), file.read_text("utf-8")


def tree_at(root: Path, revision: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Give path and text of each source file of a commit.

    Raises:
        subprocess.CalledProcessError: git knows no such commit.

    """
    git = ["git", "-C", str(root)]
    listing = subprocess.check_output([*git, "ls-tree", "--name-only", revision], text=True)  # noqa: S603
    there = sorted(set(PACKAGES).intersection(listing.split()))
    archive = subprocess.check_output([*git, "archive", "--format=tar", revision, "--", *there])  # noqa: S603
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                yield PurePosixPath(member.name), content.read().decode("utf-8")


def measure(files: Iterable[tuple[PurePosixPath, str]]) -> Measured:
    """Measure a tree that is given as paths and texts."""
    modules = [Module(path, source) for path, source in files]
    lines: Counter[str] = Counter()
    for module in modules:
        lines[module.part] += module.lines
    findings = [
        *long_modules(modules),
        *long_functions(modules),
        *wide_constructors(modules),
        *in_cycles(modules),
        *shared_names(modules),
    ]
    return Measured(lines, tuple(findings))


def long_modules(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the modules that are longer than `MODULE_LINES`."""
    for module in modules:
        if module.lines > MODULE_LINES:
            yield Finding(LONG_MODULES, module.part, str(module.path), f"{module.lines} lines")


def long_functions(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the functions that are longer than `FUNCTION_LINES`, from `def` to the last line."""
    for module in modules:
        for node in ast.walk(module.syntax):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    place = f"{module.path}:{node.lineno}"
                    yield Finding(LONG_FUNCTIONS, module.part, place, f"{node.name}: {lines} lines")


def wide_constructors(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the constructors of more than `CONSTRUCTOR_PARAMETERS`, those of records aside."""
    for module in modules:
        for each in module.classes:
            if _is_record(each):
                continue
            taken = sum(_parameters(n) for n in each.body if isinstance(n, ast.FunctionDef))
            if taken > CONSTRUCTOR_PARAMETERS:
                place = f"{module.path}:{each.lineno}"
                text = f"{each.name}: {taken} parameters"
                yield Finding(WIDE_CONSTRUCTORS, module.part, place, text)


def _parameters(function: ast.FunctionDef) -> int:
    if function.name != "__init__":
        return 0
    taken = function.args
    variable = sum(each is not None for each in (taken.vararg, taken.kwarg))
    return len(taken.posonlyargs) + len(taken.args) + len(taken.kwonlyargs) + variable - 1


def _is_record(each: ast.ClassDef) -> bool:
    decorators = {_last_name(d.func if isinstance(d, ast.Call) else d) for d in each.decorator_list}
    bases = {_last_name(base) for base in each.bases}
    return (
        "dataclass" in decorators
        or not bases.isdisjoint(RECORD_BASES)
        or any(base.endswith(RECORD_ENDINGS) for base in bases)
    )


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def in_cycles(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the modules that reach themselves over imports."""
    by_name = {module.name: module for module in modules}
    edges = {name: module.imports(by_name) for name, module in by_name.items()}
    reached = {name: _reach(name, edges) for name in edges}
    for name, module in by_name.items():
        if name in reached[name]:
            circle = sorted(other for other in reached[name] if name in reached[other])
            others = [other for other in circle if other != name]
            text = f"in a circle of {len(circle)} with {', '.join(others[:3])}"
            yield Finding(IN_CYCLES, module.part, str(module.path), text)


def _reach(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = list(edges[start])
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead.extend(edges[name])
    return reached


def shared_names(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the public class names that more than one class has."""
    places: dict[str, list[str]] = {}
    for module in modules:
        for each in module.classes:
            if not each.name.startswith("_"):
                places.setdefault(each.name, []).append(f"{module.path}:{each.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield Finding(SHARED_NAMES, WHOLE, found[0], f"{name}: also {', '.join(found[1:])}")


ROWS = (
    (LINES, BROKER),
    *((m, p) for m in (LONG_MODULES, LONG_FUNCTIONS, WIDE_CONSTRUCTORS, IN_CYCLES) for p in PARTS),
    (SHARED_NAMES, WHOLE),
)


def goal_of(measured: str, part: str) -> int:
    """Return what a number shall be at most."""
    return BROKER_LINES if (measured, part) == (LINES, BROKER) else 0


def passed_limits(now: Measured, limits: Mapping[tuple[str, str], int]) -> list[str]:
    """Return a sentence for each number that stands above its limit."""
    return [
        f"{measured}, {part}: {now.number(measured, part)}, and at most {limit} may stand"
        for measured, part in ROWS
        if now.number(measured, part)
        > (limit := limits.get((measured, part), goal_of(measured, part)))
    ]


def table(columns: Mapping[str, Measured], limits: Mapping[tuple[str, str], int]) -> str:
    """Return the numbers of one or more trees side by side, with limit and goal."""
    rows = [["measure", "part", *columns, "limit", "goal"]]
    for measured, part in ROWS:
        numbers = [each.number(measured, part) for each in columns.values()]
        goal = goal_of(measured, part)
        limit = limits.get((measured, part), goal)
        if measured == LINES or any(numbers) or limit:
            rows.append([measured, part, *(str(n) for n in (*numbers, limit, goal))])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        words = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        counts = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*words, *counts]))
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Print the measures and return 1 if a limit of this tree is passed."""
    parser = argparse.ArgumentParser(description="Measure modules, functions, classes and imports.")
    parser.add_argument("--at", metavar="REV", help="measure a commit, and enforce nothing")
    parser.add_argument("--before", metavar="REV", help="show a commit beside this tree")
    parser.add_argument("--list", action="store_true", help="name what passes a goal")
    parser.add_argument("--quiet", action="store_true", help="print only what passes a limit")
    options = parser.parse_args(arguments)
    columns: dict[str, Measured] = {}
    if options.before:
        columns[options.before] = measure(tree_at(ROOT, options.before))
    shown = measure(tree_at(ROOT, options.at) if options.at else tree_here(ROOT))
    columns[options.at or "now"] = shown
    if not options.quiet:
        sys.stdout.write(table(columns, LIMITS))
    if options.list:
        for found in sorted(shown.findings, key=lambda each: (each.measure, each.place)):
            sys.stdout.write(f"{found.place}: {found.measure}: {found.text}\n")
    broken = [] if options.at else passed_limits(shown, LIMITS)
    sys.stderr.writelines(f"{sentence}\n" for sentence in broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
