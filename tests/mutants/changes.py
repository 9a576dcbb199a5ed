"""Finds where one small change would alter what a module means (mutation testing).

Pure: takes a source text, returns the places and what each would become. What says nothing of the
behaviour is left alone: annotations, docstrings, log lines and code for type checkers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_BOOLEAN: dict[type[ast.boolop], tuple[str, str]] = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
_EXTREMES = {"min": "max", "max": "min"}
_CONSTRUCTORS = frozenset({"__init__", "__post_init__"})
_LOGGERS = frozenset({"log", "_log", "logger", "logging", "warnings"})


@dataclass(frozen=True)
class Change:
    """One piece of a source and what stands there instead.

    Args:
        start: offset of the piece in the source, in characters.
        before: the piece.
        after: what replaces it.
        line: the line on which the piece begins, from 1.
    """

    start: int
    before: str
    after: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {' '.join(self.before.split())} -> {self.after}"

    def applied_to(self, source: str) -> str:
        """Return the source with the change made."""
        return source[: self.start] + self.after + source[self.start + len(self.before) :]


def changes_of(source: str) -> list[Change]:
    """Return all changes that can be made in a module, in the order of the text.

    Each leaves a source that parses and means something else to the parser.
    """
    tree = ast.parse(source)
    finder = _Finder(source)
    finder.visit(tree)
    whole = ast.dump(tree)
    return sorted(
        (change for change in finder.found if _alters(whole, change.applied_to(source))),
        key=lambda change: change.start,
    )


def _alters(whole: str, text: str) -> bool:
    try:
        return ast.dump(ast.parse(text)) != whole
    except SyntaxError:
        return False


class _Finder(ast.NodeVisitor):
    """Collects changes; does not go where a change would say nothing of the behaviour."""

    def __init__(self, source: str) -> None:
        self.found: list[Change] = []
        self._in_constructor = False
        self._source = source
        # The parser counts columns in bytes.
        lines = source.encode().splitlines(keepends=True)
        self._line_starts = [0]
        for line in lines:
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._bytes = source.encode()

    def _offset(self, line: int, column: int) -> int:
        return len(self._bytes[: self._line_starts[line - 1] + column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._offset(node.lineno, node.col_offset),
            self._offset(node.end_lineno, node.end_col_offset),
        )

    def _add(self, start: int, end: int, after: str) -> None:
        line = self._source.count("\n", 0, start) + 1
        self.found.append(Change(start, self._source[start:end], after, line))

    def _add_between(self, left: ast.expr, right: ast.expr, words: tuple[str, str]) -> None:
        """Replace the operator between two operands; parentheses and line ends may stand there."""
        start, end = self._span(left)[1], self._span(right)[0]
        before, after = words
        pattern = r"\s+".join(re.escape(word) for word in before.split())
        if (match := re.compile(pattern).search(self._source, start, end)) is not None:
            self._add(match.start(), match.end(), after)

    def _negate(self, condition: ast.expr) -> None:
        start, end = self._span(condition)
        self._add(start, end, f"not ({self._source[start:end]})")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        around, self._in_constructor = self._in_constructor, node.name in _CONSTRUCTORS
        for statement in node.body:
            self.visit(statement)
        self._in_constructor = around

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            for statement in node.body:
                self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._negate(condition)
        self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        if node.finalbody:
            self._add(self._span(node.finalbody[0])[0], self._span(node.finalbody[-1])[1], "pass")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._add(*self._span(node), "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        """Drop what is noted of an object after its start, such as what it gives back."""
        if not self._in_constructor and all(isinstance(one, ast.Attribute) for one in node.targets):
            self._add(*self._span(node), "pass")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _logs(call):
            self._add(*self._span(node), "pass")
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(*self._span(node), "pass")  # and not its text, which people read

    def visit_Break(self, node: ast.Break) -> None:
        self._add(*self._span(node), "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(*self._span(node), "break")

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, node.comparators, strict=False):
            self._add_between(left, right, _COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._add_between(node.values[0], node.values[1], _BOOLEAN[type(node.op)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if (words := _ARITHMETIC.get(type(node.op))) is not None:
            self._add_between(node.left, node.right, words)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if (words := _ARITHMETIC.get(type(node.op))) is not None:
            before, after = words
            self._add_between(node.target, node.value, (before + "=", after + "="))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start, end = self._span(node)
            self._add(start, end, self._source[slice(*self._span(node.operand))])
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _EXTREMES:
            self._add(*self._span(node.func), _EXTREMES[node.func.id])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(*self._span(node), str(not node.value))
        elif isinstance(node.value, int | float):
            self._add(*self._span(node), repr(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone: people read them."""


def _logs(call: ast.Call) -> bool:
    return any(
        isinstance(name, ast.Name) and name.id in _LOGGERS for name in _names_before(call.func)
    )


def _names_before(callee: ast.expr) -> Iterator[ast.expr]:
    while isinstance(callee, ast.Attribute):
        callee = callee.value
        yield callee
