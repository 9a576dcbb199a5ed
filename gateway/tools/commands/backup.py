"""`hedgerow backup`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gateway.tools.commands.errors import expect_folder
from gateway.tools.commands.parser import word_or_file

MAX_BYTES: Final = 16 << 30
"""A backup that is longer when it is unpacked is taken for one that means harm."""


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    backup = commands.add_parser(
        "backup",
        help="check backups, and fetch the newest usable one",
        description="Check backups of gateways where the key to them is: on another machine than "
        "a gateway. docs/backups.md tells how they are made.",
    )
    verbs = backup.add_subparsers(metavar="VERB", required=True)
    _add_check(verbs)
    _add_fetch(verbs)
    _add_trial(verbs)


def _add_check(verbs: Any) -> None:
    check = _verb(
        verbs,
        "check",
        "say whether backups are usable, and what they hold",
        "Read each backup to its last byte as a restore does, start its gateway alone in a "
        "scratch folder, and say what it holds and how old it is. Exits with 1 if any would not "
        "serve.",
    )
    check.add_argument("files", nargs="+", type=Path, metavar="FILE", help=".tar.gz or .tar.gz.age")
    check.add_argument(
        "--no-start", action="store_true", help="read it only: its gateway is not started"
    )


def _add_fetch(verbs: Any) -> None:
    fetch = _verb(
        verbs,
        "fetch",
        "fetch a gateway's newest usable backup",
        "Fetch the newest backup of a gateway from where its timer puts it, decrypt and check it "
        "as `check` does; one that is not usable is named, and the one before it is taken. Exits "
        "with 1 if there is none.",
    )
    fetch.add_argument("gateway", metavar="GATEWAY", help="whose")
    _add_place(fetch)
    fetch.add_argument(
        "--to", type=Path, required=True, metavar="FILE", help="gets it, not encrypted"
    )


def _add_trial(verbs: Any) -> None:
    trial = _verb(
        verbs,
        "trial",
        "restore the newest backups on trial, and leave word of it",
        "Fetch the newest backup of each gateway, start its gateway alone in a scratch folder, and "
        "leave a file of what came of it beside the backup, where the gateway reads it at its next "
        "backup. Exits with 1 if any backup is missing or would not serve.",
    )
    trial.add_argument("gateways", nargs="+", metavar="GATEWAY", help="whose")
    _add_place(trial)
    trial.add_argument(
        "--no-word", action="store_true", help="leave no word of it in the place of backups"
    )


def _verb(verbs: Any, name: str, about: str, description: str) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=description)
    verb.add_argument(
        "--key", type=Path, metavar="FILE", help="opens encrypted ones: of age-keygen, or of SSH"
    )
    verb.add_argument(
        "--scratch", type=Path, metavar="FOLDER", help="has room for one that is unpacked"
    )
    verb.add_argument(
        "--max-bytes",
        type=_count,
        default=MAX_BYTES,
        metavar="N",
        help=f"a backup that is longer when it is unpacked is none (default: {MAX_BYTES})",
    )
    verb.add_argument("--json", action="store_true", help="for scripts")
    verb.set_defaults(command=_runs(name), no_start=False)
    return verb


def _add_place(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--from",
        dest="place",
        type=word_or_file,
        required=True,
        metavar="PLACE",
        help="/FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER",
    )
    verb.add_argument("--ssh-key", type=Path, metavar="FILE", help="of sftp: the private key")
    verb.add_argument("--known-hosts", type=Path, metavar="FILE", help="of sftp: the server's key")
    verb.add_argument(
        "--s3-credentials",
        type=Path,
        metavar="FILE",
        help="of s3: lines access_key_id = ... and secret_access_key = ...",
    )
    verb.add_argument("--s3-endpoint", default="", metavar="URL", help="of an S3 not Amazon's")
    verb.add_argument("--s3-region", default="", metavar="NAME", help="of s3")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes")
    return int(text)


def _runs(name: str) -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        from gateway.tools.commands import backup_verbs  # noqa: PLC0415  # others start no gateway

        if options.scratch is not None:
            expect_folder("--scratch", options.scratch)
        run: Callable[[argparse.Namespace], int] = getattr(backup_verbs, name)
        return run(options)

    return command
