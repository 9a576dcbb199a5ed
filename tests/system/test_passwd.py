"""Goal: `hedgerow passwd` makes lines that let in exactly the user, and never breaks the file."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.broker.access.password_lines import (
    PasswordLineError,
    change,
    line,
    managed_by,
    replaced,
)
from gateway.broker.access.passwords import Passwords

COMMAND = [sys.executable, "-m", "gateway.tools.cli", "passwd"]


def run(*arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "given",
    [b"secret\n", b"secret", b"secret\r\n", b"secret\nmore\n", b"\xef\xbb\xbfsecret\r\n"],
)
def test_the_line_is_printed_and_lets_the_user_in(given: bytes) -> None:
    code, out, err = run("alice", given=given)
    assert (code, err) == (0, "")
    passwords = Passwords.parse(out, "printed")
    assert passwords.verify("alice", b"secret")
    assert not passwords.verify("alice", b"secret\n")


def test_a_password_in_utf_16_is_refused_by_that_name() -> None:
    code, out, err = run("alice", given="\ufeffsecret\n".encode("utf-16-le"))
    assert (code, out) == (2, "")
    assert "no password: standard input begins with a byte order mark of UTF-16" in err


def test_a_terminal_is_asked_twice_and_shows_nothing() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "alice"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    for prompt in (b"Password of alice: ", b"Again: "):
        while not shown.endswith(prompt):
            shown += os.read(ours, 1000)
        os.write(ours, b"secret\n")
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert b"secret" not in shown
    assert Passwords.parse(out.decode(), "printed").verify("alice", b"secret")


def test_a_file_is_made_changed_and_users_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    file = ("--file", str(path))
    assert run("alice", *file, given=b"one\n")[0] == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "bob added" in run("bob", *file, given=b"two\n")[2]
    assert "alice changed" in run("alice", *file, given=b"three\n")[2]
    passwords = Passwords.parse(path.read_text(), "file")
    assert len(passwords) == 2
    assert passwords.verify("alice", b"three")
    assert not passwords.verify("alice", b"one")
    assert passwords.verify("bob", b"two")
    assert "alice taken out" in run("alice", *file, "--delete")[2]
    assert "alice" not in Passwords.parse(path.read_text(), "file")
    assert run("alice", *file, "--delete")[0] == 1
    assert list(tmp_path.iterdir()) == [path]
    assert run("alice", "--file", str(tmp_path / "none"), "--delete")[0] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_mode_comments_and_other_lines_stay(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    bob = line("bob", b"x")
    path.write_text(f"# staff\n\nalice:{bob.partition(':')[2]}\n{bob}\n")
    path.chmod(0o640)
    assert change(path, "alice", line("alice", b"new"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    lines = path.read_text().splitlines()
    assert (lines[:2], lines[3]) == (["# staff", ""], bob)
    assert Passwords.parse(path.read_text(), "file").verify("alice", b"new")


def test_who_changes_a_file_that_is_written_anew_is_told(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text("# managed by: Ansible (gateway_passwords)\n")
    code, _, err = run("alice", "--file", str(path), given=b"one\n")
    assert code == 0 and "alice added" in err
    assert "Ansible (gateway_passwords) writes it, and undoes this" in err


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    change(tmp_path / "link", "alice", line("alice", b"x"))
    assert (tmp_path / "link").is_symlink()
    assert "alice:" in (tmp_path / "real").read_text()


def test_a_user_whose_name_begins_like_anothers_is_not_taken_for_it() -> None:
    assert replaced("al:x\nalice:y\n", "al", None) == "alice:y\n"
    assert replaced("#al:x\n", "al", "al:z") == "#al:x\nal:z\n"
    assert replaced("al:x", "bo", "bo:z") == "al:x\nbo:z\n"


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x0c", "\x85", "\r"])
def test_what_the_reader_takes_for_one_line_stays_one(separator: str) -> None:
    """A comment's second half would be a user that nobody has made."""
    text = f"# staff{separator}eve:x\nal:y\n"
    assert replaced(text, "bo", "bo:z") == f"{text}bo:z\n"
    assert replaced("", "bo", "bo:z") == "bo:z\n"


def test_a_comment_says_what_writes_the_file_anew() -> None:
    assert managed_by("# managed by: Ansible (x)\nal:y\n") == "Ansible (x)"
    assert managed_by("al:y\n#managed by:  Puppet \n") == "Puppet"
    for text in ("", "# managed by:\nal:y\n", "al: # managed by: x\n", "# staff\n"):
        assert managed_by(text) == ""


@pytest.mark.parametrize("user", ["", " ", "a:b", "#a", "a\nb", "a ", "\x7f"])
def test_a_name_that_no_line_can_hold_is_refused(user: str) -> None:
    with pytest.raises(PasswordLineError):
        line(user, b"secret")


@pytest.mark.parametrize(
    ("arguments", "given", "why"),
    [
        (("alice",), b"", "a password has 1 to"),
        (("a:b",), b"x\n", "'a:b' can be no user name"),
        (("alice", "--delete"), b"", "--delete: needs --file"),
        (("alice", "--file", "/none/passwords"), b"x\n", "/none/passwords"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: tuple[str, ...], given: bytes, why: str) -> None:
    code, out, err = run(*arguments, given=given)
    assert (code, out) == (2, "")
    (message,) = err.splitlines()
    assert why in message


def test_a_file_with_a_wrong_line_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text("nonsense\n")
    code, _, err = run("alice", "--file", str(path), given=b"x\n")
    assert code == 2
    assert f"{path}:1:" in err
    assert path.read_text() == "nonsense\n"
