"""`hedgerow shell`: log in to a gateway through the relay of its fleet, by OpenSSH."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gateway.base.near_words import near
from gateway.tools.commands.errors import FailedError, WrongUseError

VARIABLE: Final = "HEDGEROW_RELAY"
"""Of the environment: the folder that `relay.yml` fills, which the ssh_config in it needs, too."""
SSH_FAILED: Final = 255
"""The exit code of ssh(1) for errors of its own."""
_KNOWN: Final = ".known_hosts"


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    shell = commands.add_parser(
        "shell",
        help="log in to a gateway that nobody reaches, through the relay of its fleet",
        description="Run ssh to a gateway behind NAT, through the relay at which it holds a way "
        "open, and check both host keys. Exits with the code of the command that is run there, "
        "and with 1 where there is no connection. docs/relay.md tells how a relay is set up.",
    )
    shell.add_argument(
        "--relay",
        type=Path,
        metavar="DIR",
        help="the folder that relay.yml fills: host keys and ssh's configuration "
        f"(default: {VARIABLE} of the environment)",
    )
    shell.add_argument("login", metavar="[USER@]GATEWAY", help="its id, and the user's name there")
    shell.add_argument(
        "words",
        nargs="*",
        metavar="COMMAND",
        help="command to run there, behind -- (default: a login shell)",
    )
    shell.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    user, _, gateway = options.login.rpartition("@")
    folder = _folder(options.relay)
    _refuse_unknown(gateway, folder)
    code = _ssh(folder, user, gateway, options.words)
    if code == SSH_FAILED:
        raise FailedError(
            f"{gateway}: no connection through the relay, and ssh or the relay has said why: the "
            "relay lets in whom relay_operators names, and the gateway whoever has a key there"
        )
    return code


def _folder(given: Path | None) -> Path:
    """Return the folder of public keys, which has what ssh needs.

    Raises:
        WrongUseError: none is named, or it is none.

    """
    named = given or os.environ.get(VARIABLE)
    if not named:
        raise WrongUseError(
            f"--relay: not given, and {VARIABLE} is not set: it is the folder that relay.yml fills "
            "(docs/relay.md)"
        )
    folder = Path(named).absolute()
    if not (folder / "ssh_config").is_file():
        raise WrongUseError(f"--relay: {named} has no ssh_config, which relay.yml writes there")
    return folder


def _refuse_unknown(gateway: str, folder: Path) -> None:
    """Refuse a gateway whose host key nobody has written down.

    Raises:
        WrongUseError: it is one.

    """
    known = sorted(path.name.removesuffix(_KNOWN) for path in folder.glob(f"gateways/*{_KNOWN}"))
    if gateway in known:
        return
    right = near(gateway, known)
    hint = f"did you mean {right}?" if right else "relay.yml writes it there once it has a way"
    raise WrongUseError(f"{gateway!r}: {folder / 'gateways'} has no host key of it, {hint}")


def _ssh(folder: Path, user: str, gateway: str, words: Sequence[str]) -> int:
    """Run ssh on this terminal, and return its exit code.

    Raises:
        FailedError: there is no ssh.

    """
    import shlex  # noqa: PLC0415  # for who logs in alone: with what each brings
    import signal  # noqa: PLC0415  # as above
    import subprocess  # noqa: PLC0415  # as above

    command = ["ssh", "-F", str(folder / "ssh_config"), *(["-l", user] if user else []), gateway]
    if words:
        # One word is a line for the shell there, as with ssh; several are a command's own.
        command.append(words[0] if len(words) == 1 else shlex.join(words))
    try:
        process = subprocess.Popen(  # noqa: S603  # the operator's own words
            command, env=os.environ | {VARIABLE: str(folder)}
        )
    except FileNotFoundError as error:
        raise FailedError("ssh is not installed: sudo apt-get install openssh-client") from error
    # Ctrl-C is for what runs there.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
