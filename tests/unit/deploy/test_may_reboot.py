"""The decision if a Pi that pulls may reboot now (roles/gateway/files/may_reboot.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from loaded_file import loaded

PROGRAM = Path(__file__).resolve().parents[3] / "deploy/ansible/roles/gateway/files/may_reboot.py"
reason_to_wait = loaded(PROGRAM).reason_to_wait
WHOLE = {"id": "gw-b", "members": ["gw-a", "gw-b", "gw-c"], "reached": ["gw-a", "gw-c"]}


def test_a_pi_may_reboot_while_all_other_gateways_are_there() -> None:
    assert reason_to_wait(WHOLE) == ""


def test_a_fleet_of_one_may_reboot() -> None:
    assert reason_to_wait({"id": "gw-b", "members": ["gw-b"], "reached": []}) == ""


def test_no_second_gateway_reboots_while_one_is_away() -> None:
    assert reason_to_wait(WHOLE | {"reached": ["gw-c"]}).startswith("gw-a away")


def test_a_gateway_that_reaches_nobody_waits_and_names_all() -> None:
    assert reason_to_wait(WHOLE | {"reached": []}).startswith("gw-a, gw-c away")


@pytest.mark.parametrize(
    "status",
    [
        *(None, {}, [], "x"),
        {"id": "gw-b"},
        WHOLE | {"reached": None},
        WHOLE | {"members": [1]},
        WHOLE | {"members": "gw-a"},
        WHOLE | {"id": ["gw-b"]},
    ],
)
def test_an_answer_that_does_not_tell_who_is_there_is_no_leave_to_reboot(status: object) -> None:
    assert reason_to_wait(status)


def asked(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), *command], capture_output=True, text=True, check=False
    )


def test_the_exit_code_lets_systemd_reboot_or_says_in_the_journal_why_not() -> None:
    tells = ("-c", "import sys; print(sys.argv[1])")
    assert asked(sys.executable, *tells, json.dumps(WHOLE)).returncode == 0
    waits = asked(sys.executable, *tells, json.dumps(WHOLE | {"reached": []}))
    assert waits.returncode == 1
    assert waits.stdout.startswith("The reboot waits for the next turn: gw-a, gw-c away")


@pytest.mark.parametrize(
    "command", [("/no/such/program",), (sys.executable, "-c", "raise OSError")]
)
def test_a_gateway_that_can_not_be_asked_keeps_its_pi_up(command: tuple[str, ...]) -> None:
    waits = asked(*command)
    assert waits.returncode == 1
    assert "does not answer" in waits.stdout
