"""Errors of the directory name the value at fault, shortened."""

from __future__ import annotations

import pytest

from resource_directory.errors import DirectoryError


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "lt"),
        ("", "lt: ''"),
        (0, "lt: 0"),
        ("x" * 78, f"lt: '{'x' * 78}'"),
        ("x" * 79, f"lt: '{'x' * 76}..."),
        ("x" * 500, f"lt: '{'x' * 76}..."),
    ],
)
def test_an_error_shows_80_characters_of_a_value_and_of_a_longer_one_77(
    value: object, said: str
) -> None:
    error = DirectoryError("lt", value)
    assert str(error) == said
    assert (error.what, error.value) == ("lt", value)
