"""Whatever raises an error, a log line of it says what is wrong, without the name of its class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from gateway.web.api_error import ApiError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("alerts", "cloud_ingest", "coap_engine", "dtls", "gateway", "record_formats"),
    *("resource_directory", "tree_handler"),
)


def constructors() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Give those of errors, each with its class."""
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            for one in ast.walk(ast.parse(file.read_text())):
                if isinstance(one, ast.ClassDef) and one.name.endswith("Error"):
                    for method in one.body:
                        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                            yield f"{file.relative_to(ROOT)}: {one.name}", method


def says_why(constructor: ast.FunctionDef) -> bool:
    """Return whether it tells Python something of it: `str` of an error is what Python was told."""
    return any(
        isinstance(one, ast.Call) and ast.unparse(one.func) == "super().__init__" and one.args
        for one in ast.walk(constructor)
    )


def test_each_error_of_ours_says_what_it_is_about() -> None:
    found = list(constructors())
    assert len(found) > 20
    assert [name for name, constructor in found if not says_why(constructor)] == []


def test_what_a_page_is_told_stands_in_the_log_too() -> None:
    assert str(ApiError(HTTPStatus.CONFLICT, "there is one")) == "there is one"
