"""An error of a command is one line with the name that was typed, and the code that it has.

The table is read as a user reads it: each row is what is typed, and the line that is printed.
"""

from __future__ import annotations

import re
import shlex

import pytest

from gateway.base import exit_codes
from gateway.tools import cli

NONE = "/proc/none/x"
"""No such file, and none can be made there, whoever runs the test."""
NO_FILE = f"{NONE}: No such file or directory"
REFUSED = "Connection refused"
PORT = "the port is no number from 1 to 65535"
INTERNAL = re.compile(r"Errno|Traceback|\.lock|\.new\b|cast to integer|call failed")
WRONG = exit_codes.WRONG_USE
ROWS = (
    # no file
    *(
        (f"{name} --config {NONE}", f"hedgerow: {NO_FILE}", WRONG)
        for name in (
            *(
                "run",
                "check",
                "status",
                "tree",
                "hierarchy",
                "drain",
                "members",
                "clients",
                "doctor",
            ),
            *("place a/b", "sensors list", "collector"),
        )
    ),
    (f"rd list --psk-file {NONE}", f"--psk-file: {NO_FILE}", WRONG),
    (f"sub -t x --user u --password-file {NONE}", f"--password-file: {NO_FILE}", WRONG),
    (f"keys list --ca {NONE}", f"keys: {NONE}: no such folder: --ca says", WRONG),
    (f"keys log --ca {NONE}", f"keys: {NONE}: no such folder: --ca says", WRONG),
    (f"keys issue --ca {NONE} a", f"keys: {NONE}: no such folder: --ca says", WRONG),
    (f"keys issue --psk a --file {NONE}", f"keys: {NO_FILE}", WRONG),
    (f"policy explain user:x publish a --file {NONE}", NO_FILE, WRONG),
    (
        f"flash --inventory {NONE} --image {NONE} --to {NONE}",
        f"flash: --inventory: {NO_FILE}",
        exit_codes.CARD_REFUSED,
    ),
    *(
        (f"ingest --spool . --tables t --{name} {NONE}", f"--{name}: {NO_FILE}", WRONG)
        for name in ("alerts", "mappings", "certificates")
    ),
    (f"dashboard --tables {NONE}", f"{NONE}: no such folder", WRONG),
    (f"dashboard --tables . --access {NONE}", NO_FILE, WRONG),
    (f"query --tables {NONE} x", f"{NONE}: no such folder", WRONG),
    (f"init --collector --fleet {NONE}", f"{NONE}/authority/ca.pem: no such file", WRONG),
    (f"init -y {NONE}", f"{NONE.rpartition('/')[0]}: No such file", WRONG),
    ("init -y /proc/x", "hedgerow: /proc/x: No such file or directory; nothing is written", WRONG),
    ("keys init-ca --ca /proc/x", "keys: /proc/x: No such file or directory", WRONG),
    # a wrong value
    ("status 127.0.0.1:x", f"coap://127.0.0.1:x/status: {PORT}", WRONG),
    ("get coap://127.0.0.1:99999/x", f"coap://127.0.0.1:99999/x: {PORT}", WRONG),
    ("get x://y", "x://y: scheme 'x', coap or coaps is needed", WRONG),
    ("dashboard --tables . --listen x", "--listen: 'x' is not HOST:PORT", WRONG),
    ("init --name 'A B' -y q", "name: 'A B' is not 1 to 63 lower-case letters", WRONG),
    # no answer: nobody listens there
    *(
        (f"{name} 127.0.0.1:9 --timeout 1", REFUSED, exit_codes.FAILED)
        for name in (
            "status",
            "tree",
            "hierarchy",
            "drain",
            "members",
            "clients",
        )
    ),
    ("get coap://127.0.0.1:9/x", REFUSED, exit_codes.UNREACHABLE),
    ("pub -t x -m y --host 127.0.0.1 --port 9", f"127.0.0.1:9: {REFUSED}", exit_codes.FAILED),
    ("sub -t x --host 127.0.0.1 --port 9", f"127.0.0.1:9: {REFUSED}", exit_codes.FAILED),
)


@pytest.mark.parametrize(("typed", "line", "code"), ROWS, ids=[row[0] for row in ROWS])
def test_a_line_names_what_was_typed_and_says_what_is_wrong(
    typed: str, line: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = cli.main(shlex.split(typed))
    out, err = capsys.readouterr()
    said = err or out  # what lists faults prints them as its answer
    assert ended == code
    assert line in said
    assert said.count("\n") == 1
    assert INTERNAL.search(said) is None
