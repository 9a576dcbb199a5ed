"""Measures of the house: what is long, imported in circles, or hidden from who reads.

    python deploy/house.py                    measure this tree; exit 1 where a limit is passed
    python deploy/house.py --list             also name what passes a goal
    python deploy/house.py --at b92c763       measure that commit, and enforce nothing
    python deploy/house.py --before b92c763   a table of that commit beside this tree

The goal of each is none. Where it is not reached yet, `LIMITS` holds the number that stands now: it
may fall and never rise, and an entry leaves the table when there is none left. Which room of
`gateway/` stands above which is a contract in pyproject.toml, held by import-linter.
"""

from __future__ import annotations

import argparse
import ast
import gc
import io
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "gateway",
    "tree_handler",
    "dtls",
    "resource_directory",
    "coap_engine",
    "cloud_ingest",
    "record_formats",
    "alerts",
    "light_dataclasses",
)
BROKER_ROOMS = ("gateway/broker", "gateway/mqtt", "gateway/log", "gateway/tls", "gateway/trust/tls")
"""The rooms that were `gateway/broker` once, wherever they have moved."""
FLOORS = ("gateway.base", "gateway.trust", "gateway.node", "gateway.process", "gateway.tools")
"""Floors whose folders, and modules beside them, are rooms; elsewhere the folder itself is one."""
BROKER = "gateway/broker and its rooms"
REST = "gateway, the rest"
PARTS = (BROKER, REST, *PACKAGES[1:])
TESTS = "tests"
BESIDE = (TESTS, "benchmarks", "deploy")
"""Folders beside the packages: their docstrings are measured, and the private looks of tests."""
WHOLE = "all"

LONG_MODULES = "modules over 300 statements"
LONG_FUNCTIONS = "functions over 40 statements"
WIDE_CONSTRUCTORS = "constructors over 7 parameters"
IN_CYCLES = "modules in import cycles"
ROOMS_IN_CIRCLES = "rooms in import circles"
LITERAL_SPLATS = "arguments in unpacked literals"
LATE_ATTRIBUTES = "attributes born outside constructors"
SHARED_NAMES = "names of classes and types that stand twice"
QUESTIONS = "docstrings that begin as a question or a reference"
HEADINGS = "headings of modules and attributes that begin so"
UNSAID_RETURNS = "docstrings of results without a verb"
UNTOLD_ARGUMENTS = "constructors whose Args are not their parameters"
STRAY_TEXTS = "texts that stand below nothing which they describe"
PRIVATE_LOOKS = "looks at private attributes of others"
LONE_PROTOCOLS = "protocols that stand for one class"

MODULE_STATEMENTS = 300
FUNCTION_STATEMENTS = 40
CONSTRUCTOR_PARAMETERS = 7

LIMITS: Mapping[tuple[str, str], int] = {
    (LONG_MODULES, BROKER): 1,
    (LONG_FUNCTIONS, BROKER): 2,
    (LONG_FUNCTIONS, REST): 1,
    (LATE_ATTRIBUTES, REST): 9,
    (PRIVATE_LOOKS, TESTS): 38,
}
"""The numbers that stand above their goal today, by measure and part."""

RECORD_BASES = frozenset({"NamedTuple", "TypedDict", "Struct", "Protocol", "BaseException"})
RECORD_ENDINGS = ("Error", "Exception", "Warning")
TYPE_VARIABLES = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple"})
CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__"})
QUESTION_WORDS = frozenset(
    ("what", "who", "whom", "whose", "whether", "which", "where", "when", "why", "how", "see")
)
BEFORE_QUESTIONS = frozenset(
    (
        *("about", "after", "against", "among", "and", "as", "at", "before", "behind", "between"),
        *("by", "for", "from", "in", "into", "like", "of", "on", "or", "over", "since", "through"),
        *("to", "towards", "under", "until", "up", "upon", "with", "within", "without", ""),
    )
)
"""Words that make no statement of a question: "From where", "To whom", "... and when"."""
NOUNS_BEGIN = frozenset({"A", "An", "The", "All", "Each", "Those", "Its", "Of", "One"})
"""First words of a noun phrase: with them a docstring begins that leaves out "Return"."""
HEADED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
"""Nodes that begin with a docstring of their own."""
LOOPS = ast.For | ast.AsyncFor | ast.While
BRANCHES = ast.If | ast.Try | ast.TryStar | ast.ExceptHandler | ast.match_case
BLOCKS = HEADED | LOOPS | BRANCHES | ast.With | ast.AsyncWith
"""Nodes that hold statements."""
OF_NAMED_TUPLES = frozenset({"_replace", "_asdict", "_fields", "_make"})
"""Public for all that: the underscore keeps them apart from fields."""
OF_THE_LIBRARY = frozenset({"os._exit", "sys._getframe"})
"""Documented functions of the standard library, for all their underscores."""
_ARGUMENT = re.compile(r"^    ([*\w]+(?:, [*\w]+)*):", re.MULTILINE)
_IS_CAP_WORDS = re.compile("[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$")


@dataclass(frozen=True)
class Finding:
    """One thing that passes a goal.

    Args:
        measure: the goal that it passes.
        part: the part of the tree that it stands in, or `WHOLE`.
        place: path and line.
        text: the text that stands there.

    """

    measure: str
    part: str
    place: str
    text: str


@dataclass(frozen=True)
class Measured:
    """The numbers of one tree.

    Args:
        findings: all that passes a goal.

    """

    findings: tuple[Finding, ...]

    def number(self, measure: str, part: str) -> int:
        """Return one number of the table: how many findings there are."""
        return sum(found.measure == measure and found.part == part for found in self.findings)


class Module:
    """One source file: its name, its syntax and what it imports.

    Args:
        path: of the file, from the root of the tree.
        source: its text.

    Attributes:
        nodes: all of its syntax, each node once: to walk anew for each measure takes longer than
            the measures.
        blocks: those of the nodes that hold statements.

    Raises:
        SyntaxError: it is no Python of this version.

    """

    def __init__(self, path: PurePosixPath, source: str) -> None:
        self.path = path
        self.part = part_of(path)
        self.syntax = ast.parse(source, str(path))
        self.is_package = path.name == "__init__.py"
        parts = path.parent.parts if self.is_package else path.with_suffix("").parts
        self.name = ".".join(parts)
        parts = self.name.split(".")
        self.room = ".".join(parts[: 3 if ".".join(parts[:2]) in FLOORS else 2])
        self.nodes = tuple(ast.walk(self.syntax))
        self.blocks = tuple(n for n in self.nodes if isinstance(n, BLOCKS))
        self.classes = tuple(n for n in self.nodes if isinstance(n, ast.ClassDef))
        self._imports = tuple(n for n in self.nodes if isinstance(n, ast.Import | ast.ImportFrom))

    def imports(self, known: Iterable[str]) -> set[str]:
        """Return the modules among `known` that this one names in any import.

        An import inside a function or behind TYPE_CHECKING counts as any other.
        """
        names = set(known)
        found: set[str] = set()
        for node in self._imports:
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            else:
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
    return BROKER if any(map(path.is_relative_to, BROKER_ROOMS)) else REST


def tree_here(root: Path) -> Iterator[tuple[PurePosixPath, str]]:
    """Give path and text of each source file of a working tree."""
    for package in (*PACKAGES, *BESIDE):
        for file in sorted((root / package).rglob("*.py")):
            yield PurePosixPath(file.relative_to(root).as_posix()), file.read_text("utf-8")


def tree_at(root: Path, revision: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Give path and text of each source file of a commit.

    Raises:
        subprocess.CalledProcessError: git knows no such commit.

    """
    git = ["git", "-C", str(root)]
    listing = subprocess.check_output([*git, "ls-tree", "--name-only", revision], text=True)  # noqa: S603
    there = sorted({*PACKAGES, *BESIDE}.intersection(listing.split()))
    archive = subprocess.check_output([*git, "archive", "--format=tar", revision, "--", *there])  # noqa: S603
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            content = files.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                yield PurePosixPath(member.name), content.read().decode("utf-8")


def measure(files: Iterable[tuple[PurePosixPath, str]]) -> Measured:
    """Measure a tree that is given as paths and texts."""
    parsed = [Module(path, source) for path, source in files]
    modules = [module for module in parsed if module.part not in BESIDE]
    findings = [
        *private_looks(module for module in parsed if module.part == TESTS),
        *long_modules(modules),
        *long_functions(modules),
        *wide_constructors(modules),
        *in_cycles(modules),
        *rooms_in_circles(modules),
        *literal_splats(modules),
        *late_attributes(modules),
        *shared_names(modules),
        *lone_protocols(parsed),
        *questions(parsed),
        *headings(parsed),
        *stray_texts(parsed),
        *unsaid_returns(modules),
        *untold_arguments(modules),
    ]
    return Measured(tuple(findings))


def long_modules(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the modules that have more than `MODULE_STATEMENTS`, however they are laid out."""
    for module in modules:
        statements = _statements(module.syntax)
        if statements > MODULE_STATEMENTS:
            text = f"{statements} statements"
            yield Finding(LONG_MODULES, module.part, str(module.path), text)


def long_functions(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the functions that have more than `FUNCTION_STATEMENTS`; ruff counts their branches."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                statements = _statements(node) - 1
                if statements > FUNCTION_STATEMENTS:
                    place = f"{module.path}:{node.lineno}"
                    text = f"{node.name}: {statements} statements"
                    yield Finding(LONG_FUNCTIONS, module.part, place, text)


def _statements(node: ast.AST) -> int:
    within = (getattr(node, name, ()) for name in ("body", "orelse", "finalbody"))
    handlers = [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    count = sum(map(_statements, handlers)) + isinstance(node, ast.stmt)
    return count + sum(_statements(inner) for block in within for inner in block)


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
    for name, others in _circles(edges):
        text = f"in a circle of {len(others) + 1} with {', '.join(others[:3])}"
        yield Finding(IN_CYCLES, by_name[name].part, str(by_name[name].path), text)


def rooms_in_circles(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the rooms, a package's folders and the modules beside them, that reach themselves.

    Imports within a room, and those of a package's own ``__init__``, lead nowhere else.
    """
    by_name = {module.name: module for module in modules}
    edges: dict[str, set[str]] = {module.room: set() for module in by_name.values()}
    for module in by_name.values():
        rooms = {by_name[name].room for name in module.imports(by_name)}
        edges[module.room] |= rooms - {module.room}
    for room, others in _circles(edges):
        yield Finding(ROOMS_IN_CIRCLES, WHOLE, room, f"in a circle with {', '.join(others)}")


def _circles(edges: Mapping[str, set[str]]) -> Iterator[tuple[str, list[str]]]:
    """Give each name that reaches itself, and the others of its circle."""
    reached = {name: _reach(name, edges) for name in edges}
    for name in edges:
        if name in reached[name]:
            circle = (other for other in reached[name] if name in reached[other])
            yield name, sorted(other for other in circle if other != name)


def _reach(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = list(edges[start])
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead.extend(edges[name])
    return reached


def literal_splats(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the calls that hide arguments in a literal which they unpack: ``f(*(a, b))``."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Call) and any(map(_is_literal_splat, node.args)):
                place = f"{module.path}:{node.lineno}"
                yield Finding(LITERAL_SPLATS, module.part, place, ast.unparse(node.func))


def _is_literal_splat(given: ast.expr) -> bool:
    """Say whether it unpacks a literal whose items could stand as arguments themselves."""
    return isinstance(given, ast.Starred) and isinstance(given.value, ast.Tuple | ast.List)


def late_attributes(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find what a class assigns to ``self`` in a method and neither declares nor makes before."""
    modules = tuple(modules)
    known = {each.name: each for module in modules for each in module.classes}
    for module in modules:
        for each in module.classes:
            early = set(_early(each, known))
            late = {
                name: node.lineno
                for method in each.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                for name, node in _assigned(method)
                if name not in early
            }
            for name, line in late.items():
                place = f"{module.path}:{line}"
                yield Finding(LATE_ATTRIBUTES, module.part, place, f"{each.name}.{name}")


def _early(each: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    """Give the attributes that an object has from the first, those of its known bases too."""
    for node in each.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            if any(getattr(target, "id", "") == "__slots__" for target in node.targets):
                yield from _texts(node.value)
        elif isinstance(node, ast.FunctionDef):
            if node.name in CONSTRUCTORS:
                yield from (name for name, _ in _assigned(node))
            elif node.decorator_list:  # a property with a setter
                yield node.name
    for base in map(_last_name, each.bases):
        if base in known and known[base] is not each:
            yield from _early(known[base], known)


def _texts(node: ast.expr) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


@cache
def _assigned(method: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, ast.expr]]:
    """Return the attributes of ``self`` that a method assigns to, and where."""
    return [
        (node.attr, node)
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    ]


def shared_names(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the public names that more than one class or alias of a type has."""
    places: dict[str, list[str]] = {}
    for module in modules:
        defined = [(each.name, each.lineno) for each in module.classes]
        for name, line in (*defined, *_aliases(module)):
            if not name.startswith("_"):
                places.setdefault(name, []).append(f"{module.path}:{line}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield Finding(SHARED_NAMES, WHOLE, found[0], f"{name}: also {', '.join(found[1:])}")


def _is_type_variable(value: ast.expr | None) -> bool:
    """Say whether it makes a variable of types, which has no meaning beyond its module."""
    return isinstance(value, ast.Call) and _last_name(value.func) in TYPE_VARIABLES


def _aliases(module: Module) -> Iterator[tuple[str, int]]:
    """Give the names in CapWords that a module assigns to: aliases of types."""
    for node in module.syntax.body:
        if _is_type_variable(getattr(node, "value", None)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and _IS_CAP_WORDS.match(target.id):
                yield target.id, node.lineno


def lone_protocols(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the protocols in whose place the one class could stand that has what they ask for.

    A protocol is a seam where more than one class fits it, a test's stand-in among them; where the
    class stands in another room, which the protocol's does not import; or where its module imports
    the protocol's, so that the import would close a circle. A class fits by the names that it has.
    """
    known: dict[str, list[ast.ClassDef]] = {}
    parsed = list(modules)
    owners = [(module, each) for module in parsed for each in module.classes]
    for _, each in owners:
        known.setdefault(each.name, []).append(each)
    by_name = {module.name: module for module in parsed if module.part not in BESIDE}
    edges = {name: module.imports(by_name) for name, module in by_name.items()}
    rooms: dict[str, set[str]] = {}
    for name, imported in edges.items():
        reached = {by_name[one].room for one in (name, *imported)}
        rooms.setdefault(by_name[name].room, set()).update(reached)
    fitting = [(*one, _members(one[1], known)) for one in owners if not _is_protocol(one[1])]
    for module, protocol in owners:
        if module.part in BESIDE or not _is_protocol(protocol):
            continue
        asked = _members(protocol, known)
        found = [
            (of, each)
            for of, each, has in fitting
            if asked <= has or ("__getattr__" in has and asked & has)
        ]
        if len(found) != 1 or found[0][0].part in BESIDE:
            continue
        of, each = found[0]
        is_open = of.path.parent == module.path.parent or of.room in rooms[module.room]
        closes_circle = of is not module and module.name in _reach(of.name, edges)
        if is_open and not closes_circle:
            place = f"{module.path}:{protocol.lineno}"
            yield Finding(LONE_PROTOCOLS, WHOLE, place, f"{protocol.name}: {each.name}")


def _is_protocol(each: ast.ClassDef) -> bool:
    return any(_last_name(base) == "Protocol" for base in each.bases)


def _members(each: ast.ClassDef, known: Mapping[str, list[ast.ClassDef]]) -> set[str]:
    """Return the names of what a class has, of its own and of its bases of this tree."""
    found: set[str] = set()
    ahead, met = [each], {each}
    while ahead:
        one = ahead.pop()
        for node in one.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found |= {name, *(attribute for attribute, _ in _assigned(node))}
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
                case ast.Assign(targets=targets):
                    found |= {target.id for target in targets if isinstance(target, ast.Name)}
        bases = {base for name in map(_last_name, one.bases) for base in known.get(name, ())}
        ahead += bases - met
        met |= bases
    return found - {"__slots__"}


def questions(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the docstrings of classes and functions that begin as a question.

    PEP 257 asks for a sentence: what an instance is, or what a call does.
    """
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _question(QUESTIONS, module, node.name, node.body[0])


def unsaid_returns(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the docstrings of functions with a result that begin with one of `NOUNS_BEGIN`.

    A property is named as an attribute is, and a true or false is often that of an event. None of
    them has its result as half a question behind a semicolon: "Delete it; whether it was there."
    """
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sentence = (ast.get_docstring(node) or "").partition("\n\n")[0]
                first = sentence.partition("\n")[0]
                is_noun = _has_result(node) and first.partition(" ")[0] in NOUNS_BEGIN
                if is_noun or "; whether " in " ".join(sentence.split()):
                    place = f"{module.path}:{node.lineno}"
                    yield Finding(UNSAID_RETURNS, module.part, place, f"{node.name}: {first}")


def _has_result(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Say whether a call returns more than true or false, and is no property."""
    result = function.returns and ast.unparse(function.returns)
    decorators = (ast.unparse(each) for each in function.decorator_list)
    return result not in {None, "None", "bool", "NoReturn"} and not any(
        "property" in each or "setter" in each for each in decorators
    )


def headings(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the docstrings of modules and attributes that begin as a question.

    A heading names its subject: what the module holds, or what the value is.
    """
    for module in modules:
        if module.syntax.body:
            yield from _question(HEADINGS, module, module.name, module.syntax.body[0])
        for block in module.blocks:
            for named, text in pairwise(block.body):
                if isinstance(named, ast.Assign | ast.AnnAssign):
                    target = named.target if isinstance(named, ast.AnnAssign) else named.targets[0]
                    yield from _question(HEADINGS, module, ast.unparse(target), text)


def untold_arguments(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the classes whose Args name a parameter twice, leave one out, or name what is none.

    A class without Args says in its first sentences what it is made of.
    """
    for module in modules:
        for each in module.classes:
            told = _told_arguments(ast.get_docstring(each) or "")
            made = [n for n in each.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
            if not told or not made:
                continue
            given = made[0].args
            taken = [*given.posonlyargs, *given.args][1:] + given.kwonlyargs
            taken += [one for one in (given.vararg, given.kwarg) if one is not None]
            names = [one.arg for one in taken]
            differing = sorted((Counter(told) - Counter(names)) | (Counter(names) - Counter(told)))
            if differing:
                place = f"{module.path}:{each.lineno}"
                yield Finding(
                    UNTOLD_ARGUMENTS, module.part, place, f"{each.name}: {', '.join(differing)}"
                )


def _told_arguments(docstring: str) -> list[str]:
    """Return the names that the section Args explains, in its order."""
    section = docstring.partition("\nArgs:\n")[2].partition("\n\n")[0]
    told = _ARGUMENT.findall(section)
    return [name.strip(" *") for names in told for name in names.split(",")]


def stray_texts(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find the texts that are no docstring: what they described has gone elsewhere.

    One that stands at the head of a module, class or function describes that, and one right below
    an assignment describes what is assigned.
    """
    for module in modules:
        for node in module.blocks:
            for body in (getattr(node, name, ()) for name in ("body", "orelse", "finalbody")):
                is_headed = isinstance(node, HEADED) and body is node.body
                before: ast.AST | None = node if is_headed else None
                for each in body:
                    if _is_text(each) and not isinstance(
                        before, HEADED | ast.Assign | ast.AnnAssign
                    ):
                        place = f"{module.path}:{each.lineno}"
                        yield Finding(STRAY_TEXTS, module.part, place, ast.unparse(each))
                    before = None if isinstance(each, HEADED) else each


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def _question(measured: str, module: Module, name: str, text: ast.stmt) -> Iterator[Finding]:
    """Find the docstring that a statement may be, if it begins as a question."""
    match text:
        case ast.Expr(value=ast.Constant(value=str(written))):
            first = written.strip().partition("\n")[0]
            if _is_question(first):
                yield Finding(
                    measured, module.part, f"{module.path}:{text.lineno}", f"{name}: {first}"
                )


def _is_question(sentence: str) -> bool:
    """Say whether its first word, behind `BEFORE_QUESTIONS`, is one of `QUESTION_WORDS`."""
    words = (word.strip(".,:;").lower() for word in sentence.split())
    return next((word for word in words if word not in BEFORE_QUESTIONS), "") in QUESTION_WORDS


def private_looks(modules: Iterable[Module]) -> Iterator[Finding]:
    """Find where a module reads, sets or patches ``_name`` of anything but ``self`` or ``cls``.

    A test looks from outside: what a client, a neighbour or a disk sees.
    """
    for module in modules:
        for node in module.nodes:
            match node:
                case ast.Attribute(value=ast.Name(id="self" | "cls")):
                    continue
                case ast.Attribute(attr=name):
                    pass
                case ast.Call(args=[_, ast.Constant(value=str(name)), *_]) if _last_name(
                    node.func
                ) in {"getattr", "setattr", "delattr"}:
                    pass
                case _:
                    continue
            if name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES:
                place = f"{module.path}:{node.lineno}"
                if (look := ast.unparse(node)) not in OF_THE_LIBRARY:
                    yield Finding(PRIVATE_LOOKS, TESTS, place, look)


OF_PARTS = (
    LONG_MODULES,
    LONG_FUNCTIONS,
    WIDE_CONSTRUCTORS,
    IN_CYCLES,
    LITERAL_SPLATS,
    LATE_ATTRIBUTES,
    QUESTIONS,
    HEADINGS,
    UNSAID_RETURNS,
    STRAY_TEXTS,
    UNTOLD_ARGUMENTS,
)
ROWS = (
    *((measured, part) for measured in OF_PARTS for part in PARTS),
    *((measured, part) for measured in (QUESTIONS, HEADINGS, STRAY_TEXTS) for part in BESIDE),
    (ROOMS_IN_CIRCLES, WHOLE),
    (SHARED_NAMES, WHOLE),
    (LONE_PROTOCOLS, WHOLE),
    (PRIVATE_LOOKS, TESTS),
)


def passed_limits(now: Measured, limits: Mapping[tuple[str, str], int]) -> list[str]:
    """Return a sentence for each number above its limit, and for each limit above its number."""
    said = []
    for measured, part in ROWS:
        number, limit = now.number(measured, part), limits.get((measured, part), 0)
        if number > limit:
            said.append(f"{measured}, {part}: {number}, and at most {limit} may stand")
        elif number < limit:
            said.append(f"{measured}, {part}: {number}, and the limit of {limit} can fall")
    return said


def table(columns: Mapping[str, Measured], limits: Mapping[tuple[str, str], int]) -> str:
    """Return the numbers of one or more trees side by side, with their limits."""
    rows = [["measure", "part", *columns, "limit"]]
    for measured, part in ROWS:
        numbers = [each.number(measured, part) for each in columns.values()]
        limit = limits.get((measured, part), 0)
        if any(numbers) or limit:
            rows.append([measured, part, *(str(n) for n in (*numbers, limit))])
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
    gc.disable()  # all syntax stays: to look for garbage in it took half of the time
    sys.exit(main())
