"""Each shell is told every command and option that there is, and completes them."""

from __future__ import annotations

import argparse
import shutil
import subprocess

import pytest

from gateway.cli import command_line
from gateway.commands.completion import forms, script

SHELLS = ("bash", "fish", "zsh")
CHECKS = {"bash": ("bash", "-n"), "fish": ("fish", "--no-execute"), "zsh": ("zsh", "-f", "-n")}


def completed(*words: str) -> set[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script('bash', command_line())}\nCOMP_WORDS=({line}) COMP_CWORD={len(words) - 1}\n"
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
    assert completed("hedgerow", "no-such-command", "") == set()


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
        assert "it’s (odd) odd odd odd - 100 odd" in text
        assert "’; odd" in text
        assert text.count("'") % 2 == 0
