"""Command lines of ours that plays and roles of Ansible run, as words.

Expressions of Jinja are read, not run: lists are put together, variables of roles and plays are
what they say, and a condition is taken both as it holds and as it does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from command_lines import HEDGEROW, UNKNOWN, CommandLine, of_shell, of_unit, of_words
from jinja2 import Environment, nodes

ROOT = Path(__file__).resolve().parents[1]
ANSIBLE = ROOT / "deploy/ansible"
_STATEMENT = re.compile(r"{%.*?%}|{#.*?#}", re.DOTALL)
_EXPRESSION = re.compile(r"{{.*?}}", re.DOTALL)
_RUNS = ("argv", "cmd", "validate")
"""Keys of a task whose values are run."""
_jinja = Environment(autoescape=True)


def of_ansible() -> Iterator[CommandLine]:
    """Return our commands in all plays and roles, as conditions have them and as they do not."""
    for file in sorted(ANSIBLE.rglob("*.yml")):
        place = str(file.relative_to(ROOT))
        for task in mappings(loaded(file)):
            for key in _RUNS:
                for holds in (True, False):
                    yield from _of_value(place, task.get(key), holds)


def of_templates() -> Iterator[CommandLine]:
    """Return our commands in the templates of all roles."""
    for file in sorted(ANSIBLE.rglob("*.j2")):
        text = _EXPRESSION.sub(UNKNOWN, _STATEMENT.sub("", file.read_text()))
        for found in of_unit(str(file.relative_to(ROOT)), text):
            if found.words[:1] != (UNKNOWN,):  # a variable's, see `of_list_of`
                yield found


def of_list_of(name: str) -> Iterator[CommandLine]:
    """Return the command lines that a variable holds by name, without the program.

    Args:
        name: the variable.

    """
    for what, value in _variables()[name].items():
        for holds in (True, False):
            yield CommandLine(f"{name}.{what}", HEDGEROW, (*_words(value, holds),))


def _of_value(place: str, value: object, holds: bool) -> Iterator[CommandLine]:
    if isinstance(value, list) or (isinstance(value, str) and _is_expression(value)):
        words = _words(value, holds)
        if len(words) == 1:
            yield from of_shell(place, words[0])
        else:
            yield from of_words(place, words)
    elif isinstance(value, str):
        yield from of_shell(place, _text(value, holds))


def _is_expression(value: str) -> bool:
    return value.strip().startswith("{{") and value.strip().endswith("}}")


def _words(value: object, holds: bool) -> list[str]:
    """Return the words that a value of YAML comes to."""
    if isinstance(value, list):
        return [word for one in value if (word := _text(str(one), holds))]
    if isinstance(value, str) and _is_expression(value):
        (output,) = _parsed(value.strip()).body
        assert isinstance(output, nodes.Output)
        if len(output.nodes) == 1:
            return [word for word in _listed(output.nodes[0], holds) if word]
    return [_text(str(value), holds)]


def _text(value: str, holds: bool) -> str:
    """Return a text with what is known of the expressions in it."""
    return "".join(
        _word(node, holds)
        for output in _parsed(_STATEMENT.sub("", value)).body
        if isinstance(output, nodes.Output)
        for node in output.nodes
    )


def _parsed(value: str) -> nodes.Template:
    return _jinja.parse(value)


def _listed(node: nodes.Node, holds: bool) -> list[str]:
    """Return the words of a list that an expression makes; what is not known has none."""
    match node:
        case nodes.List():
            return [_word(item, holds) for item in node.items]
        case nodes.Add():
            return _listed(node.left, holds) + _listed(node.right, holds)
        case nodes.CondExpr():
            chosen = node.expr1 if holds else node.expr2
            return [] if chosen is None else _listed(chosen, holds)
        case nodes.Filter(name="product"):  # each word with each value of the other list
            return [*_listed(node.node, holds), UNKNOWN] if node.node and holds else []
        case nodes.Filter() if node.node is not None:
            return _listed(node.node, holds)
        case nodes.Name() if isinstance(value := _variables().get(node.name), list | str):
            return _words(value, holds)
        case nodes.Const() | nodes.Concat():
            return [_word(node, holds)]
    return []


def _word(node: nodes.Node, holds: bool) -> str:
    """Return one word that an expression makes."""
    match node:
        case nodes.TemplateData():
            return node.data
        case nodes.Const():
            return str(node.value)
        case nodes.Concat():
            return "".join(_word(part, holds) for part in node.nodes)
        case nodes.CondExpr():
            chosen = node.expr1 if holds else node.expr2
            return "" if chosen is None else _word(chosen, holds)
        case nodes.Name() if isinstance(value := _variables().get(node.name), str):
            return UNKNOWN if "lookup(" in value else _text(value, holds) or UNKNOWN
    return UNKNOWN


@cache
def _variables() -> Mapping[str, Any]:
    """Return what roles and plays call by a name; a name is of one role or play alone."""
    found: dict[str, Any] = {}
    for file in sorted(ANSIBLE.rglob("*.yml")):
        found_in = loaded(file)
        if {"vars", "defaults"} & {*file.relative_to(ANSIBLE).parts} and isinstance(found_in, dict):
            found |= found_in
        for one in mappings(found_in):
            for name, value in (one.get("vars") or {}).items() if "vars" in one else ():
                if name.startswith("_"):
                    found[name] = value
    return found


@cache
def loaded(file: Path) -> Any:
    """Return what a file of YAML has."""
    return yaml.safe_load(file.read_text())


def mappings(value: object) -> Iterator[dict[str, Any]]:
    """Return each mapping in a value of YAML: plays, blocks, tasks, and their arguments."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from mappings(one)
