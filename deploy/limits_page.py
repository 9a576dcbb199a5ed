"""The page of limits, waits and sizes, made of the constants that hold them.

    python deploy/limits_page.py    writes docs/limits.md

Every number of the product that has a name is there: a change of one shows in a review on a page
that a reader knows, and not only in a module. Keys of the configuration stand in
docs/configuration.md, and numbers of protocols in the documents that give them.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "limits.md"

ROOMS: Mapping[str, str] = {
    "gateway/broker": "The MQTT broker",
    "gateway/mqtt": "MQTT's packets",
    "gateway/log": "The message log",
    "gateway/coap": "CoAP's resources",
    "coap_engine": "CoAP's exchanges",
    "dtls": "DTLS",
    "resource_directory": "The Resource Directory",
    "tree_handler": "The tree",
    "gateway/node": "Links and members",
    "gateway/trust": "Keys, certificates, passwords and rights",
    "gateway/sensors": "Sensors and drivers",
    "gateway/alerting": "Alerts of a gateway",
    "alerts": "Alerts and how they are sent",
    "gateway/home_assistant": "Home Assistant",
    "gateway/web": "Requests for web pages",
    "gateway/process": "The gateway's process and its page",
    "gateway/backups": "Backups",
    "gateway/releases": "Releases and upgrades",
    "gateway/base": "Files, turns and clocks",
    "gateway/tools": "Commands",
    "record_formats": "Records",
    "cloud_ingest": "The Spark job, its tables and the collector",
}
"""Heading of each folder's table, in the order of the page."""
ONLY_SIMULATED = ("tree_handler/simulation/", "gateway/tools/directory_simulation/")
"""Folders whose numbers no gateway has: those of simulated fleets."""

_UNITS: Mapping[str, str] = {
    "S": "s",
    "MS": "ms",
    "US": "us",
    "NS": "ns",
    "BYTES": "bytes",
    "CHARACTERS": "characters",
    "ROWS": "rows",
    "DAYS": "days",
    "HOURS": "hours",
    "BITS": "bits",
    "PERCENT": "%",
    "CEL": "°C",
}
"""The unit of a constant by the last word of its name."""
# fmt: off
_OF_LIMITS = {
    "AT", "EACH", "EVERY", "FEW", "HELD", "KEPT", "LARGEST", "LEAST", "LENGTH", "LIMIT", "LONGEST",
    "MANY", "MAX", "MIN", "MOST", "MUCH", "OLDEST", "PER", "SHARE", "SHORTEST", "SMALLEST",
}
# fmt: on
"""Words by which the name of a number says that it is a limit."""
_KIB = 1024
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


@dataclass(frozen=True)
class Number:
    """One constant that holds a number.

    Args:
        module: path from the root of the project.
        name: of the constant; of a class's one, behind the name of the class and a dot.
        value: as the page says it.
        meaning: the first sentence of what stands below it; may be empty.
    """

    module: str
    name: str
    value: str
    meaning: str

    @property
    def row(self) -> str:
        """The row of the page's table."""
        return f"| `{self.name}` | {self.value} | {self.meaning} | `{self.module}` |"


def numbers_of(module: str, source: str) -> Iterator[Number]:
    """Return the constants of a module that hold a number and are a limit, a wait or a size.

    Those are all that have a unit or a word of limits in their name, and all that say below
    themselves what they are for.
    """
    yield from _numbers_in(ast.parse(source).body, module, "")


def _numbers_in(block: list[ast.stmt], module: str, within: str) -> Iterator[Number]:
    for at, statement in enumerate(block):
        if isinstance(statement, ast.ClassDef) and not _is_enum(statement):
            yield from _numbers_in(statement.body, module, f"{within}{statement.name}.")
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and _is_number(statement.value):
                assert statement.value is not None
                meaning = _meaning(block[at + 1 : at + 2])
                words = target.id.upper().strip("_").split("_")
                unit = _unit(words)
                if meaning or unit or _OF_LIMITS.intersection(words):
                    value = _shown(statement.value, unit)
                    yield Number(module, within + target.id, value, meaning)


def _is_enum(one: ast.ClassDef) -> bool:
    """Return whether a class numbers what is on a disk or on the wire."""
    return any("Enum" in ast.unparse(base) or "Flag" in ast.unparse(base) for base in one.bases)


def _unit(words: list[str]) -> str:
    """Return the unit that stands at the end of a name, or before its MIN or MAX."""
    last = words[-2] if len(words) > 1 and words[-1] in ("MIN", "MAX") else words[-1]
    return _UNITS.get(last, "")


def _is_number(value: ast.expr | None) -> bool:
    """Return whether an expression is a number, or is made by arithmetic with one.

    Zero bounds nothing: something is counted from there.
    """
    match value:
        case ast.Constant(value=int() | float() as number):
            return number != 0 and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            sides = (left, right)
            texts = any(isinstance(one, ast.Constant) and not _is_number(one) for one in sides)
            return not texts and any(map(_is_number, sides))
    return False


def _meaning(after: list[ast.stmt]) -> str:
    """Return the first sentence of the text below a constant."""
    for statement in after:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            text = " ".join(str(statement.value.value).split())
            return re.split(r"(?<=[.:;]) (?=[A-Z])", text)[0].rstrip(".").replace("|", "\\|")
    return ""


def _shown(value: ast.expr, unit: str) -> str:
    number = _worked_out(value)
    if number is None:
        return f"`{ast.unparse(value)}`"
    if unit == "bytes" and number and number % _KIB == 0:
        kib = int(number) // _KIB
        return f"{kib // _KIB:,} MiB" if kib % _KIB == 0 else f"{kib:,} KiB"
    whole = int(number) if number == int(number) else number
    return f"{whole:,}{'' if unit == '%' else ' '}{unit}".rstrip()


def _worked_out(value: ast.expr) -> float | None:
    """Return the number that stands there as figures alone; None where names are part of it."""
    match value:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = _worked_out(operand)
            return None if number is None else -number
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
            first, second = _worked_out(left), _worked_out(right)
            if first is not None and second is not None:
                return _ARITHMETIC[type(sign)](first, second)
    return None


def room_of(module: str) -> str | None:
    """Return the folder in whose table a module's numbers stand; None for no table."""
    if module.startswith(ONLY_SIMULATED):
        return None
    return next((room for room in ROOMS if module.startswith(room + "/")), None)


def page(root: Path) -> str:
    """Return the text of the page."""
    rows: dict[str, list[str]] = {room: [] for room in ROOMS}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            module = path.relative_to(root).as_posix()
            if room_of(module) == room:
                rows[room] += [number.row for number in numbers_of(module, path.read_text())]
    parts = [_BEGINNING]
    for room, heading in ROOMS.items():
        if rows[room]:
            table = "\n".join(["| constant | value | meaning | module |", "|---|---|---|---|"])
            parts.append(f"\n## {heading}\n\n{table}\n" + "\n".join(rows[room]) + "\n")
    return "".join(parts)


_BEGINNING = """# Limits, waits and sizes

All numbers in the code that bound what a peer can make a gateway hold or do, that say how long
something waits, or how large a portion of work is. `python deploy/limits_page.py` makes this page
of the constants; a test holds it against them, so a number that moves shows here.

- What an operator may set stands in [configuration](configuration.md), with its range and default.
- What is remembered of others, and what makes it smaller, stands in
  [what is remembered](what-is-remembered.md).
- Why the limits are as they are against hostile peers stands in [trust](trust.md).
- A value in code type is worked out from other constants of its module.
"""


if __name__ == "__main__":
    PAGE.write_text(page(ROOT))
