"""Goal: what goes wrong at a command is one line and exit code 2, and never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from cryptography import x509

from gateway.base import exit_codes
from gateway.tools.commands import output

HEDGEROW = [sys.executable, "-m", "gateway.tools.cli"]
PRINTING = [
    ["--help"],
    ["--version"],
    ["drain", "--help"],
    ["simulate", "--runs", "3", "--gateways", "2"],
    ["simulate", "--exhaustive", "2", "--states", "50", "--json"],
    ["simulate", "--growth", "10"],
    ["passwd", "alice"],
]


def hedgerow(command_line: str) -> tuple[int, str, str]:
    return run([*HEDGEROW, *command_line.split()])


def run(command: list[str], *, stdout: int | IO[Any] = subprocess.PIPE) -> tuple[int, str, str]:
    done = subprocess.run(
        command,
        input="secret\n",
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout or "", done.stderr


@pytest.mark.drawn(3)
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_full_device_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        code, _, said = run([*HEDGEROW, *arguments], stdout=full)
    line = "hedgerow: standard output: No space left on device; make room on its disk (`df -h` "
    done = "What this was to change may be changed: look before you repeat it"
    assert (code, said) == (2, f"{line}shows how full it is). {done}\n")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_reader_that_has_gone_is_one_line(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        code, _, said = run([*HEDGEROW, *arguments], stdout=writing)
    finally:
        os.close(writing)
    assert (code, said) == (2, "hedgerow: standard output: Broken pipe\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_an_encoding_lacks_is_escaped(encoding: str) -> None:
    taken = io.BytesIO()
    stream = io.TextIOWrapper(taken, encoding=encoding)
    with contextlib.redirect_stdout(stream), output.arriving():
        sys.stdout.write("└─ 漢\udcff\n")
        sys.stdout.writelines(["ok\n"])
    shown = "└─ 漢" if encoding == "utf-8" else "`- \\u6f22"
    assert taken.getvalue().decode(encoding) == f"{shown}\\udcff\nok\n"


def test_an_encoding_takes_its_own_letters_and_escapes_those_of_others() -> None:
    taken = io.BytesIO()
    stream = io.TextIOWrapper(taken, encoding="iso8859-2")
    with contextlib.redirect_stdout(stream), output.arriving():
        sys.stdout.write("├ Łódź ñ\n")
    assert taken.getvalue().decode("iso8859-2") == "| Łódź \\xf1\n"


def test_an_output_that_is_closed_is_one_line() -> None:
    shell = ["sh", "-c", 'exec "$@" >&-', "sh"]
    code, _, said = run([*shell, *HEDGEROW, "passwd", "alice"])
    assert (code, said) == (2, "hedgerow: standard output: Bad file descriptor\n")


def test_where_standard_error_is_full_the_exit_code_still_tells() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*HEDGEROW, "status", "--config", "/none"], stderr=full, check=False)
    assert done.returncode == 2


def test_a_closed_standard_input_is_no_password() -> None:
    code, _, said = run(["sh", "-c", 'exec "$@" <&-', "sh", *HEDGEROW, "passwd", "alice"])
    assert (code, said) == (2, "hedgerow: no password: standard input is closed\n")


@pytest.mark.parametrize(
    "prompts", [[b"Password of alice: "], [b"Password of alice: ", b"Again: "]]
)
def test_ctrl_d_in_place_of_a_password_is_one_line(prompts: list[bytes]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*HEDGEROW, "passwd", "alice"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    for number, prompt in enumerate(prompts, 1):
        while not shown.endswith(prompt):
            shown += os.read(ours, 1000)
        os.write(ours, b"\x04" if number == len(prompts) else b"secret\n")
    out, _ = process.communicate(timeout=60)
    shown = os.read(ours, 10_000)
    os.close(ours)
    assert (process.returncode, out) == (2, b"")
    assert shown.split() == b"hedgerow: no password: the input has ended".split()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["simulate", "--gateways", "1"], "--gateways: 1 is not 2 or more"),
        (["simulate", "--gateways", "two"], "--gateways: 'two' is no whole number"),
        (["simulate", "--gateways-to", "1"], "--gateways-to: 1 is not 2 or more"),
        (["simulate", "--growth", "5"], "--growth: 5 is not 10 or more"),
        (["status", "--timeout", "soon"], "--timeout: 'soon' is no time in seconds"),
        (["status", "--timeout", "nan"], "--timeout: 'nan' is no time in seconds"),
        (["drain", "--timeout", "-1"], "--timeout: '-1' is no time in seconds"),
    ],
)
def test_a_wrong_number_is_named(arguments: list[str], why: str) -> None:
    code, out, said = run([*HEDGEROW, *arguments])
    assert (code, out) == (2, "")
    (line,) = said.splitlines()
    assert f"argument {why} (see hedgerow {arguments[0]} --help)" in line


@pytest.mark.parametrize("subject", ["tree", "routed", "topic", "overlays", "retained"])
def test_the_smallest_network_of_each_subject_runs(subject: str) -> None:
    code, _, said = hedgerow(f"simulate --subject {subject} --runs 4 --gateways 2")
    assert (code, said) == (0, "")


def test_an_exhaustive_search_is_told_as_json_too() -> None:
    code, out, _ = hedgerow("simulate --exhaustive 2 --states 200 --json")
    told = json.loads(out)
    assert code == 0
    assert told["failed"] == 0
    assert told["searches"] == len(told["reports"]) > 0
    assert all(one["search"].startswith("pair") and one["states"] > 1 for one in told["reports"])


def test_growth_and_timing_are_told_as_json_too() -> None:
    _, out, _ = hedgerow("simulate --growth 10 --json")
    assert [row["gateways"] for row in json.loads(out)] == [10]
    _, out, _ = hedgerow("simulate --timing --runs 2 --json")
    assert json.loads(out)["cold_start_s"]["times"] == 2


@pytest.mark.parametrize(("command", "timeout_s"), [("status", 15), ("drain", 60), ("get", 15)])
def test_help_names_the_time_out_that_holds(command: str, timeout_s: int) -> None:
    _, out, _ = run([*HEDGEROW, command, "--help"])
    assert f"--timeout S time to wait, in seconds (default: {timeout_s})" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("renew", "keys renew: neither a name nor --all nor --ending-within is given"),
        ("issue", "keys issue: no name is given"),
        ("issue gw%a", "'gw%a' is no gateway id: 1 to 63 lower-case letters, digits and hyphens"),
        ("issue gw-a GW-B", "'GW-B' is no gateway id"),
        ("issue ../gw", "'../gw' is no gateway id"),
        ("issue ca", "'ca' can be no name of a certificate here"),
        ("issue revoked", "'revoked' can be no name"),
        ("issue --role bridge a%b", "'a%b' can be no name"),
        ("issue --role bridge a/b", "'a/b' can be no name"),
        ("issue --role bridge ca.key", "'ca.key' can be no name"),
        ("issue --role Bridge b", "--role: 'Bridge' is not 1 to 63 lower-case"),
        ("issue --psk device", "--psk: needs --file"),
        ("revoke --psk device", "--psk: needs --file"),
        ("roll-over --finish", "keys: no roll-over is under way"),
        ("export gw-x --to x.p12", "keys: no password for the PKCS#12 file: --password-file"),
        ("init-ca", "keys: "),
    ],
)
def test_nothing_is_made_of_keys_that_a_gateway_would_not_take(
    tmp_path: Path, arguments: str, why: str
) -> None:
    assert hedgerow(f"keys init-ca --ca {tmp_path}")[0] == 0
    action, *more = arguments.split()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    code, out, said = run([*HEDGEROW, "keys", action, "--ca", str(tmp_path), *more])
    assert (code, out) == (2, "")
    (line,) = said.splitlines()
    assert line.startswith(f"hedgerow: {why}")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("arguments", ["revoke nope", "revoke ca", "renew nope", "renew gone"])
def test_a_name_without_a_good_certificate_has_an_exit_code_of_its_own(
    tmp_path: Path, arguments: str
) -> None:
    assert hedgerow(f"keys init-ca --ca {tmp_path}")[0] == 0
    for action in ("issue", "revoke"):
        assert hedgerow(f"keys {action} --ca {tmp_path} gone")[0] == 0
    action, name = arguments.split()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    code, out, said = hedgerow(f"keys {action} --ca {tmp_path} {name}")
    assert (code, out) == (exit_codes.NO_CERTIFICATE, "")
    (line,) = said.splitlines()
    why = "its certificate is revoked: issue a new one" if name == "gone" else "has no certificate"
    assert line.startswith(f"hedgerow: keys: '{name}'") and why in line
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("days", ["soon", "0", "99999999999"])
def test_days_that_are_none_are_named(days: str) -> None:
    code, _, said = hedgerow(f"keys issue gw-a --days {days}")
    assert (code, len(said.splitlines())) == (2, 1)
    assert f"argument --days: {days!r} is not 1 to 36500 days" in said


def test_a_folder_or_authority_that_is_of_no_use_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, said = hedgerow(f"keys issue gw-a --ca {tmp_path}/file")
    assert (code, len(said.splitlines())) == (2, 1)
    assert f"{tmp_path}/file" in said
    folder = tmp_path / "fleet"
    assert hedgerow(f"keys init-ca --ca {folder}")[0] == 0
    for name in ("issued.json", "ca.pem", "ca.key.pem"):  # in the order in which they are read
        (folder / name).write_text("nonsense")
        code, _, said = hedgerow(f"keys issue gw-b --ca {folder}")
        assert (code, len(said.splitlines())) == (2, 1)
        assert f"{folder}/{name}: " in said


def test_a_certificate_is_made_and_revoked(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    assert hedgerow(f"keys init-ca --ca {folder}") == (0, f"{folder}/ca.pem\n", "")
    made = hedgerow(f"keys issue --ca {folder} gw-a gw-b")
    assert made == (0, f"{folder}/gw-a.pem\n{folder}/gw-b.pem\n", "")
    assert hedgerow(f"keys issue --ca {folder} --role bridge Barn.1")[0] == 0
    code, out, _ = hedgerow(f"keys revoke --ca {folder} gw-a")
    assert (code, out.split()[0]) == (0, "gw-a")
    revoked = x509.load_pem_x509_crl((folder / "revoked.pem").read_bytes())
    own = x509.load_pem_x509_certificate((folder / "gw-a.pem").read_bytes())
    assert [one.serial_number for one in revoked] == [own.serial_number]
