"""The table of statements and tests is whole and up to date."""

from __future__ import annotations

import pytest
from table import TABLE, VERSIONS, marked_tests, statements, table


def test_the_committed_table_is_up_to_date() -> None:
    assert TABLE.read_text() == table(), "run: python tests/conformance/table.py"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_statement_that_binds_a_server_has_a_test_or_a_reason(version: str) -> None:
    covered = {number for test in marked_tests(version) for number in test.statements}
    bound = [s for s in statements(version) if s.binds in {"server", "both"}]
    assert [s.number for s in bound if s.number not in covered and not s.untested] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_test_names_statements_of_its_standard(version: str) -> None:
    known = {s.number for s in statements(version)}
    for test in marked_tests(version):
        assert test.statements, f"{test.name} names no statement"
        assert test.statements <= known, f"{test.name} names {test.statements - known}"
