"""Each shell is told every command and option that there is, and completes them."""

from __future__ import annotations

import argparse
import os
import pty
import select
import shutil
import socket
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest
from one_parser import hedgerow

from gateway.tools.cli import command_line
from gateway.tools.commands import offered_names
from gateway.tools.commands.completion import forms, script
from gateway.tools.commands.offered_names import ask, plain
from resource_directory.link_format import WebLink

SHELLS = ("bash", "fish", "zsh")
CHECKS = {"bash": ("bash", "-n"), "fish": ("fish", "--no-execute"), "zsh": ("zsh", "-f", "-n")}


FILES_OF_OPTIONS = (
    ("flash", "--image"),
    ("backup", "fetch", "--from"),
    *((command, "--tables") for command in ("ingest", "dashboard", "query")),
)
"""Options whose value may be a file or folder, and something else."""
NAMES = {"resources": "host/load1 gw-north/door", "gateways": "gw-north gw-south"}
"""Names by kind, as the program of a test answers with them."""


@cache
def own_script(shell: str) -> str:
    """Return the completion script of a shell for all commands."""
    return script(shell, command_line())


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `hedgerow` whose gateway answers at once."""
    program = tmp_path / "hedgerow"
    answers = "\n".join(f"  {kind}) printf '%s\\n' {names} ;;" for kind, names in NAMES.items())
    program.write_text(f'#!/bin/sh\ncase "$2" in\n{answers}\nesac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def completed(*words: str) -> set[str]:
    """Return the completions that bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"{own_script('bash')}\nCOMP_WORDS=({line}) COMP_CWORD={len(words) - 1}\n"
        'compopt() { echo "files"; }\n_hedgerow\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc"], input=program, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_stands_in_the_script(shell: str) -> None:
    parser = command_line()
    text = script(shell, parser)
    found = forms(parser)
    assert {"run", "status", "clients", "pub", "sub", "completion"} <= set(found)
    for command, form in found.items():
        assert command in text
        for option in form.options:
            for name in option.names:
                shown = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                assert (shown if shell == "fish" else name) in text


@pytest.mark.peer("bash", "bash")
def test_bash_completes_commands_options_choices_and_files() -> None:
    assert completed("hedgerow", "cl") == {"clients"}
    assert {"run", "sub", "--version"} <= completed("hedgerow", "")
    assert completed("hedgerow", "clients", "--k") == {"--kick"}
    assert completed("hedgerow", "run", "--log-level", "") == {"debug", "info", "warning"}
    assert completed("hedgerow", "run", "--config", "") == {"files"}
    assert completed("hedgerow", "clients", "--kick", "") == set()
    assert completed("hedgerow", "completion", "z") == {"zsh"}
    assert completed("hedgerow", "keys", "ro") == {"roll-over"}
    assert completed("hedgerow", "keys", "issue", "--ps") == {"--psk"}
    assert completed("hedgerow", "keys", "issue", "--ca", "") == {"files"}
    assert completed("hedgerow", "keys", "init-ca", "--key-type", "") == {"p256", "ed25519"}
    assert completed("hedgerow", "clients", "k") == {"kick"}
    assert completed("hedgerow", "logs", "--lev") == {"--level"}
    assert completed("hedgerow", "logs", "--level", "w") == {"warning"}
    assert completed("hedgerow", "no-such-command", "") == set()


@pytest.mark.peer("bash", "bash")
def test_bash_completes_files_that_stand_as_words() -> None:
    for words in (("backup", "check"), ("keys", "import"), ("policy", "check")):
        found = completed("hedgerow", *words, "")
        assert "files" in found
        assert not [word for word in found if word[0] == "-"], "they would stand in front of files"
    for words in FILES_OF_OPTIONS:
        assert completed("hedgerow", *words, "") == {"files"}
    assert "files" not in completed("hedgerow", "status", "")


@pytest.mark.peer("bash", "bash")
@pytest.mark.usefixtures("answering")
def test_bash_completes_names_of_sensors_and_gateways() -> None:
    assert completed("hedgerow", "get", "gw") >= {"gw-north/door"}
    assert completed("hedgerow", "get", "h") == {"host/load1"}
    assert completed("hedgerow", "get", "--ho") == {"--host"}
    assert completed("hedgerow", "call", "post", "gw") == {"gw-north/door"}
    assert completed("hedgerow", "discover", "--at", "gw-s") == {"gw-south"}
    for command in ("status", "top", "clients", "members", "sensors", "alerts", "rd", "drain"):
        assert completed("hedgerow", command, "--at", "gw-s") == {"gw-south"}
    assert completed("hedgerow", "members", "forget", "gw-s") == {"gw-south"}
    assert completed("hedgerow", "backup", "fetch", "gw-s") >= {"gw-south"}
    assert completed("hedgerow", "status", "gw") == set()


@pytest.mark.peer("fish", "fish")
@pytest.mark.usefixtures("answering")
def test_fish_completes_names_and_files(tmp_path: Path) -> None:
    (tmp_path / "own.toml").touch()

    def offered(line: str) -> set[str]:
        asked = f"cd {tmp_path}\n{own_script('fish')}\ncomplete -C '{line}'\n"
        home = os.environ | {"HOME": str(tmp_path)}
        done = subprocess.run(
            ["fish"], input=asked, capture_output=True, text=True, timeout=60, check=True, env=home
        )
        return {one.partition("\t")[0] for one in done.stdout.splitlines()}

    assert offered("hedgerow get h") == {"host/load1"}
    assert offered("hedgerow discover --at gw-s") == {"gw-south"}
    assert offered("hedgerow policy check o") == {"own.toml"}
    assert offered("hedgerow flash --image o") == {"own.toml"}
    assert offered("hedgerow status o") == set()
    assert "--client-id" in offered("hedgerow policy check --")
    assert "--log-level" not in offered("hedgerow policy run --"), "run is no command there"


@pytest.mark.peer("zsh", "zsh")
@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("begun", "whole"),
    [
        ("get h", "get host/load1 "),
        ("status --at gw-s", "status --at gw-south "),
        ("policy ch", "policy check "),
        ("policy check o", "policy check own.toml "),
        ("backup check o", "backup check own.toml "),
        ("backup fetch gw-s", "backup fetch gw-south "),
        ("flash --image o", "flash --image own.toml "),
        ("clients k", "clients kick "),
    ],
)
def test_zsh_completes_names_and_files(begun: str, whole: str, tmp_path: Path) -> None:
    """Completion is of a terminal: one is made, and what stands on its line is looked at."""
    (tmp_path / "own.toml").touch()
    settings = f"autoload -Uz compinit; compinit -u -D; PS1=; cd {tmp_path}\n"
    (tmp_path / ".zshrc").write_text(f"{settings}{own_script('zsh')}\necho it begins\n")
    ours, theirs = pty.openpty()
    home = os.environ | {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(["zsh"], stdin=theirs, stdout=theirs, stderr=theirs, env=home) as shell:
        os.close(theirs)
        try:
            shown_until(ours, "it begins")
            os.write(ours, f"hedgerow {begun}\t".encode())
            shown_until(ours, f"hedgerow {whole}")
        finally:
            shell.kill()
            os.close(ours)


def shown_until(terminal: int, text: str) -> None:
    """Read a terminal until a text has stood on it."""
    seen = ""
    while text not in seen:
        assert select.select([terminal], [], [], 60.0)[0], f"{text!r} is not in {seen!r}"
        seen += os.read(terminal, 4096).decode(errors="replace")


def test_a_name_that_a_shell_would_run_is_not_offered() -> None:
    odd = ["$(reboot)", "a b", "`id`", "x;id", "-rf", "*", "~root", "é", "a\nb"]
    links = [WebLink(f"/sensors/{quote(name, '')}", (("gw", name),)) for name in odd]
    links.append(WebLink("/sensors/host/load1", (("gw", "gw-north"),)))
    assert plain("gateways", links) == {"gw-north"}
    assert plain("resources", links) == {"gw-north/host/load1"}


def test_nothing_is_offered_and_nothing_said_where_no_gateway_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        options = command_line().parse_args(["discover", "--host", host])
        assert ask("resources", options) == []
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    lost = tmp_path / "none.toml"
    assert ask("gateways", command_line().parse_args(["discover", "--config", str(lost)])) == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "shell", [pytest.param(each, marks=pytest.mark.peer(each, each)) for each in SHELLS]
)
def test_a_shell_can_read_its_script(shell: str) -> None:
    program = shutil.which(shell)
    assert program is not None
    done = subprocess.run(
        [program, *CHECKS[shell][1:]],
        input=script(shell, command_line()),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_help_says_cannot_end_a_string_of_the_shell() -> None:
    parser = argparse.ArgumentParser(prog="hedgerow")
    commands = parser.add_subparsers()
    odd = commands.add_parser("odd", help='it\'s $(odd) `odd` "odd" [odd]: 100%% odd\\')
    odd.add_argument("--odd", help="'; odd #", metavar="'O'")
    for shell in ("fish", "zsh"):
        text = script(shell, parser)
        assert "it'\\''s (odd) odd odd odd - 100 odd" in text
        assert "'\\''; odd" in text
        assert text.count("'") % 2 == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_what_a_shell_reads(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hedgerow("completion", shell) == 0
    assert capsys.readouterr() == (own_script(shell), "")


@pytest.mark.parametrize("kind", ["gateways", "resources"])
def test_the_command_prints_the_names_of_this_machines_gateway_one_in_a_line(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[str]()

    def answer(of: str, options: argparse.Namespace) -> list[str]:
        asked.append(of)
        assert (options.gateway, options.config, options.criteria) == (None, None, [])
        return ["gw-a/door", "gw-b/door"] if len(asked) == 1 else []

    monkeypatch.setattr(offered_names, "ask", answer)
    assert hedgerow("completion", kind) == 0
    assert capsys.readouterr() == ("gw-a/door\ngw-b/door\n", "")
    assert hedgerow("completion", kind) == 0
    assert capsys.readouterr() == ("", "")
    assert asked == [kind, kind]
