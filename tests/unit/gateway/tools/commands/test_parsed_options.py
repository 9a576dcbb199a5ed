"""Options of a command line arrive as docs/commands.md has them, and so do those left out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from one_parser import parser

ASKS: dict[str, Any] = {
    **dict.fromkeys(("at", "config", "gateway", "psk_file", "psk_identity")),
    "json": False,
    "timeout": 15.0,
    "way": "",
}
"""The options of a command that asks a gateway."""
OPENS: dict[str, Any] = {
    **dict.fromkeys(("key", "scratch")),
    "json": False,
    "max_bytes": 16 * 1024**3,
    "no_start": False,
}
"""Those of a command that opens backups."""
FETCHES = OPENS | {
    **dict.fromkeys(("ssh_key", "known_hosts", "s3_credentials")),
    "s3_endpoint": "",
    "s3_region": "",
}
"""Those of a command that fetches backups."""
FLASHES: dict[str, Any] = {
    "devices": [],
    "all": False,
    "inventory": Path("i"),
    "image": "m",
    "to": Path("t"),
    **dict.fromkeys(("images", "wheels", "labels", "sha256", "keyring")),
    "first_boot": "auto",
    **dict.fromkeys(("first_start", "yes", "yes_really", "unverified", "json"), False),
}


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            "alerts",
            ASKS
            | {"action": "list", "what": [], "note": "", "cleared": False}
            | dict.fromkeys(("begins", "for_s", "watch")),
        ),
        (
            "alerts silence rule=a gateway=b --for 2h --from 1970-01-02T00:00Z --note why "
            "--cleared --watch",
            ASKS
            | {"action": "silence", "what": ["rule=a", "gateway=b"], "note": "why"}
            | {"begins": 86_400_000_000, "for_s": 7_200.0, "cleared": True, "watch": 2.0},
        ),
        ("backup check a b", OPENS | {"files": [Path("a"), Path("b")]}),
        (
            "backup check a --no-start --key k --scratch s --max-bytes 9 --json",
            {"files": [Path("a")], "no_start": True, "key": Path("k"), "scratch": Path("s")}
            | {"max_bytes": 9, "json": True},
        ),
        (
            "backup fetch gw --from /a --to b",
            FETCHES | {"gateway": "gw", "place": "/a", "to": Path("b")},
        ),
        (
            "backup trial gw gw-b --from /a",
            FETCHES | {"gateways": ["gw", "gw-b"], "place": "/a", "no_word": False},
        ),
        (
            "backup trial gw --from sftp://u@h/f --ssh-key k --known-hosts h --s3-credentials c "
            "--s3-endpoint e --s3-region r --no-word",
            FETCHES
            | {"gateways": ["gw"], "place": "sftp://u@h/f", "no_word": True, "ssh_key": Path("k")}
            | {"known_hosts": Path("h"), "s3_credentials": Path("c")}
            | {"s3_endpoint": "e", "s3_region": "r"},
        ),
        (
            "bench",
            {"config": None, "folder": None, "seconds": 120.0, "keep": False, "json": False},
        ),
        (
            "bench --config c --folder f --seconds 5 --keep --json",
            {"config": Path("c"), "folder": Path("f"), "seconds": 5.0, "keep": True, "json": True},
        ),
        (
            "clients",
            ASKS | {"words": [], "forget": False} | dict.fromkeys(("id", "kick", "watch")),
        ),
        (
            "clients --kick x --forget --watch 3",
            ASKS | {"words": [], "forget": True, "id": None, "kick": "x", "watch": 3.0},
        ),
        (
            "clients show x",
            ASKS
            | {"words": ["show", "x"], "forget": False}
            | dict.fromkeys(("id", "kick", "watch")),
        ),
        ("config show", {"config": None, "json": False, "key": None}),
        (
            "config set",
            {"changes": [], "config": None, "dry_run": False, "if_unchanged": None}
            | {"json": False, "no_apply": False, "unset": [], "within": 60.0},
        ),
        (
            "config set a=1 b=2 --unset c --unset d --config f --dry-run --no-apply --within 5 "
            "--if-unchanged e --json",
            {"changes": ["a=1", "b=2"], "config": Path("f"), "dry_run": True, "if_unchanged": "e"}
            | {"json": True, "no_apply": True, "unset": ["c", "d"], "within": 5.0},
        ),
        ("rd list", ASKS | {"action": "list", "criteria": [], "every": 2.0}),
        (
            "rd watch ep=a rt=b --every 9",
            ASKS | {"action": "watch", "criteria": ["ep=a", "rt=b"], "every": 9.0},
        ),
        ("doctor", ASKS | {"timeout": 5.0}),
        ("discover", ASKS | {"criteria": [], "scope": "all"}
         | dict.fromkeys(("domain", "group", "rt"))),
        (
            "first-start",
            dict.fromkeys(("card", "folder", "page_port", "port", "write_card")),
        ),
        (
            "first-start etc --card c --write-card d --page-port 1 --port 2",
            {"folder": Path("etc"), "card": Path("c"), "write_card": Path("d")}
            | {"page_port": 1, "port": 2},
        ),
        ("flash --inventory i --image m --to t", FLASHES),
        (
            "flash a b --all --inventory i --image m --to t --images d --wheels w --labels l "
            "--first-boot firstrun --first-start -y --yes-really --sha256 s --keyring k "
            "--unverified --json",
            FLASHES
            | {"devices": ["a", "b"], "images": Path("d"), "wheels": Path("w")}
            | {"labels": Path("l"), "sha256": "s", "keyring": Path("k"), "first_boot": "firstrun"}
            | dict.fromkeys(
                ("all", "first_start", "yes", "yes_really", "unverified", "json"), True
            ),
        ),
        ("status", ASKS | {"watch": None}),
        (
            "status gw:1 --psk-file p --psk-identity i --timeout 0.5 --json --at gw-b",
            ASKS
            | {"gateway": "gw:1", "psk_file": Path("p"), "psk_identity": "i", "timeout": 0.5}
            | {"json": True, "at": "gw-b", "watch": None},
        ),
        ("status --host gw:1", ASKS | {"gateway": "gw:1", "watch": None}),
        ("status --config c", ASKS | {"config": Path("c"), "watch": None}),
        ("tree", ASKS | {"watch": None}),
        ("hierarchy", ASKS | {"watch": None}),
        ("drain", ASKS | {"timeout": 60.0}),
        ("check", {"config": None, "json": False}),
    ],
)  # fmt: skip
def test_what_is_typed_and_what_is_left_out(line: str, options: dict[str, Any]) -> None:
    found = vars(parser().parse_args(shlex.split(line)))
    del found["command"]
    found.pop("goes_on", None)
    assert found == options


@pytest.mark.parametrize(
    "line",
    [
        "alerts end x",
        "backup",
        "backup check",
        "backup fetch gw --from /a",
        "backup fetch gw --to b",
        "backup fetch --from /a --to b",
        "backup trial gw",
        "backup trial --from /a",
        "clients --id x --kick y",
        "completion sh",
        "config",
        "first-start --port 65536",
        "flash --image m --to t",
        "flash --inventory i --to t",
        "flash --inventory i --image m",
        "flash --inventory i --image m --to t --first-boot none",
        "rd",
        "rd find",
        "status gw:1 --config c",
        "status --host gw:1 --config c",
        "tree --at gw-b",
    ],
)
def test_what_lacks_a_part_or_has_two_that_exclude_each_other_is_refused(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(shlex.split(line))
    assert ended.value.code == 2
    assert capsys.readouterr().err
