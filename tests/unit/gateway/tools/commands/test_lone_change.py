"""Goal: of commands that change a file at the same time each one's change stays."""

from __future__ import annotations

import multiprocessing
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dtls.errors import KeystoreError
from gateway.broker.access import password_lines
from gateway.tools.commands import placing, psk_lines
from gateway.tools.commands.errors import WrongUseError

CHANGES = 20
HASH = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$" + "A" * 43


def passwd(file: Path, name: str) -> None:
    password_lines.change(file, name, f"{name}:{HASH}")


def psk(file: Path, name: str) -> None:
    psk_lines.add(file, name)


def changed(change: Callable[[Path, str], None], file: Path, whose: str) -> None:
    for number in range(CHANGES):
        change(file, f"{whose}-{number}")


@pytest.mark.parametrize("change", [passwd, psk])
@pytest.mark.parametrize("is_linked", [False, True])
def test_who_changes_a_file_at_the_same_time_loses_nobodys_line(
    tmp_path: Path, change: Callable[[Path, str], None], is_linked: bool
) -> None:
    file = other = tmp_path / "lines"
    if is_linked:
        (tmp_path / "elsewhere").mkdir()
        other = tmp_path / "elsewhere" / "link"
        other.symlink_to(file)
    change(file, "first")
    context = multiprocessing.get_context("fork")
    both = [
        context.Process(target=partial(changed, change, path, whose))
        for path, whose in ((file, "a"), (other, "b"))
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    names = {line.partition(":")[0] for line in file.read_text().splitlines()}
    assert names == {"first", *(f"{whose}-{n}" for whose in "ab" for n in range(CHANGES))}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (lambda file: placing.run(Namespace(place="house/attic"), file), WrongUseError),
        (lambda file: psk_lines.add(file, "sensor"), KeystoreError),
    ],
    ids=["place", "keys --psk"],
)
def test_links_that_lead_in_a_circle_are_told_as_what_is_wrong_with_the_file(
    tmp_path: Path, command: Callable[[Path], object], error: type[Exception]
) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.symlink_to(other)
    other.symlink_to(file)
    with pytest.raises(error, match=f"{file}.*Too many levels of symbolic links"):
        command(file)
