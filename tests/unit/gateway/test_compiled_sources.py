"""The sources hold none of the forms that mypyc compiles to another meaning (decision 0018).

mypy accepts all of it, and it runs as it should uncompiled. So it is looked for in the sources.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from compiled_sources import PROJECT, compiled_sources


@cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    """All that stands in what is compiled, and in which file."""
    return tuple(
        (str(path.relative_to(PROJECT)), node)
        for path in sorted(compiled_sources())
        for node in ast.walk(ast.parse(path.read_text()))
    )


def is_left_while_it_runs(block: list[ast.stmt]) -> bool:
    leaves = ast.Await | ast.AsyncFor | ast.AsyncWith | ast.Yield | ast.YieldFrom
    return any(isinstance(node, leaves) for statement in block for node in ast.walk(statement))


def test_nothing_waits_or_yields_while_it_handles_an_exception() -> None:
    """All compiled coroutines share the exception that is handled."""
    assert not [
        f"{file}:{block[0].lineno}"
        for file, node in nodes()
        if isinstance(node, ast.Try)
        for block in (*(handler.body for handler in node.handlers), node.finalbody)
        if is_left_while_it_runs(block)
    ]


def caught_as(function: ast.AST) -> dict[str, set[str]]:
    """The types of exceptions that a function calls by each name."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type:
            found.setdefault(node.name, set()).add(ast.unparse(node.type))
    return found


def test_a_name_stands_for_exceptions_of_one_type_in_a_function() -> None:
    """An exception of a second type is a TypeError, and is not handled."""
    assert not [
        f"{file}:{node.lineno}: {name} is {types}"
        for file, node in nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, types in caught_as(node).items()
        if len(types) > 1
    ]


def test_no_class_method_calls_that_of_its_base() -> None:
    """`super()` gives the base's method the metaclass instead of the class."""
    assert not [
        f"{file}:{node.lineno}: {node.name}"
        for file, node in nodes()
        if isinstance(node, ast.FunctionDef)
        if "classmethod" in map(ast.unparse, node.decorator_list)
        if "super()" in ast.unparse(node)
    ]


def gives_one_by_one(value: ast.expr) -> bool:
    lazy = {"map", "filter", "zip", "iter", "reversed", "enumerate"}
    is_call = isinstance(value, ast.Call) and ast.unparse(value.func) in lazy
    return is_call or isinstance(value, ast.GeneratorExp)


def test_nothing_is_taken_apart_while_it_is_made() -> None:
    """Whatever a step of an iterator raises is told as "not enough values to unpack"."""
    assert not [
        f"{file}:{node.lineno}: {ast.unparse(node)}"
        for file, node in nodes()
        if isinstance(node, ast.Assign) and gives_one_by_one(node.value)
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets)
    ]


SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp


def of_its_own(function: ast.AST) -> Iterator[ast.AST]:
    """Give what stands in a function, with its nested functions but not what is in those."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, SCOPES):
            yield from of_its_own(node)


def captured_functions(function: ast.AST) -> set[str]:
    """Return the nested functions that another one, or itself, calls or passes on."""
    nested = [node for node in of_its_own(function) if isinstance(node, SCOPES)]
    names = {getattr(node, "name", "") for node in nested}
    used = {one.id for node in nested for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names & used


def test_no_nested_function_is_used_by_another_one() -> None:
    """They hold each other, and only the collector would free what both hold.

    A run of the simulator ends before that matters.
    """
    assert not [
        f"{file}:{node.lineno}: {names}"
        for file, node in nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not file.startswith("tree_handler/simulation/")
        and (names := captured_functions(node))
    ]


def test_no_local_name_stands_for_the_classes_of_an_isinstance() -> None:
    """An attribute of the object is then read as another class has it."""
    found = []
    for file, function in nodes():
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        assigned = {
            one.id
            for one in ast.walk(function)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        for node in ast.walk(function):
            match node:
                case ast.Call(ast.Name("isinstance"), [_, ast.Name(classes)]):
                    if classes in assigned:
                        found.append(f"{file}:{node.lineno}: {classes}")
    assert not found


def test_the_tests_of_what_is_compiled_run_compiled_in_ci() -> None:
    packages = {path.relative_to(PROJECT).parts[0] for path in compiled_sources()}
    makefile = (PROJECT / "Makefile").read_text()
    _, _, behind = makefile.partition("\nON_ONE_BUILD = ")
    named = behind.partition("\n# ")[0].split()
    assert {f"tests/unit/{package}" for package in packages} <= set(named)


def test_a_field_that_is_no_argument_has_a_factory() -> None:
    """A mere default of it stands in the class alone, where nothing compiled looks."""
    assert not [
        f"{file}:{node.lineno}: {ast.unparse(node)}"
        for file, node in nodes()
        if isinstance(node, ast.AnnAssign) and node.value is not None
        for value in [ast.unparse(node.value)]
        if value.startswith("field(") and "init=False" in value and "default=" in value
    ]


def test_what_all_objects_of_a_class_share_is_declared_as_that() -> None:
    """Without `ClassVar` it would be an attribute of each object, and may never be set."""
    assert not [
        f"{file}:{statement.lineno}: {ast.unparse(statement)}"
        for file, node in nodes()
        if isinstance(node, ast.ClassDef)
        if not any(one in " ".join(map(ast.unparse, node.bases)) for one in ("Enum", "Flag"))
        for statement in node.body
        if isinstance(statement, ast.Assign)
        if not ast.unparse(statement).startswith("__")
    ]
