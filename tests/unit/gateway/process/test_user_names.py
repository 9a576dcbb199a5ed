"""Names of users that a person can't tell apart are not taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.access import password_lines
from gateway.broker.access.password_lines import PasswordLineError

LOOK_ALIKE = [
    "zoe\u0308",  # decomposed
    "\uff4flga",  # full width
    "\ufb01nn",  # a ligature
    "ol\u200bga",  # of no width
    "olga\u202e",  # turns the direction
    "olga\u00a0b",  # another space
    "olga\u2003b",
    "\ufeffolga",
]


@pytest.mark.parametrize("name", LOOK_ALIKE)
def test_a_name_that_looks_like_another_one_is_refused_and_shown_by_its_characters(
    name: str,
) -> None:
    with pytest.raises(PasswordLineError) as caught:
        password_lines.check_new_name(name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["zo\u00eb", "olga", "\u738b", "\u043e\u043b\u044c\u0433\u0430"])
def test_a_name_of_any_language_is_taken(name: str) -> None:
    password_lines.check_new_name(name)


def test_who_has_such_a_name_already_is_given_another_password_and_taken_out(
    tmp_path: Path,
) -> None:
    file, name = tmp_path / "passwords", "zoe\u0308"
    line = password_lines.line(name, b"open sesame")
    file.write_text(f"{line}\n")
    _, after = password_lines.change(file, name, password_lines.line(name, b"another one"))
    assert list(after.names) == [name]
    _, after = password_lines.change(file, name, None)
    assert not list(after.names)
    with pytest.raises(PasswordLineError, match="look like others"):
        password_lines.change(file, name, line)
