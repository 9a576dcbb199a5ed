"""`hedgerow check` prints each fault of a configuration in a line, in the order of the file."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from one_parser import hedgerow

from gateway.base import exit_codes

WELL = """\
[gateway]
id = "gw-a"
state_dir = "."
[tree]
key_file = "tree.key"
tls = "off"
[access]
anonymous = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    key, made = tmp_path / "tree.key", tmp_path / "gw.toml"
    key.touch(0o600)
    key.write_text("ab" * 32)
    made.write_text(WELL)
    return made


def test_a_configuration_without_a_fault_is_well(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hedgerow("check", "--config", file) == exit_codes.DONE
    assert capsys.readouterr() == (f"{file}: nothing is wrong\n", "")
    assert hedgerow("check", "--config", file, "--json") == exit_codes.DONE
    assert json.loads(capsys.readouterr().out) == {"file": str(file), "faults": []}


def test_faults_are_told_in_the_order_of_their_lines(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(WELL.replace("[access]", "hello_s = 100.0\nstrange = 1\n[access]"))
    assert hedgerow("check", "--config", file) == exit_codes.WRONG_USE
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{file}:7: tree.hello_s: ")
    assert second.startswith(f"{file}:8: tree.strange: ")
    assert hedgerow("check", "--config", file, "--json") == exit_codes.WRONG_USE
    told = json.loads(capsys.readouterr().out)
    assert [(one["line"], one["where"]) for one in told["faults"]] == [
        (7, "tree.hello_s"),
        (8, "tree.strange"),
    ]


def test_what_is_no_file_is_told_by_its_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none, sock = tmp_path / "none", tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(sock))
    for path, why in (
        (none, "No such file or directory"),
        (tmp_path, "a folder, not a file"),
        (sock, "a socket, not a file"),
        (Path("/dev/null"), "a device, not a file"),
    ):
        assert hedgerow("check", "--config", path) == exit_codes.WRONG_USE
        assert capsys.readouterr() == ("", f"hedgerow: {path}: {why}\n")
