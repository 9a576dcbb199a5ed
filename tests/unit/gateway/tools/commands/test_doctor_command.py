"""`hedgerow doctor` looks at the gateway that runs and at its broker, and prints what it found."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from coap_partner import partner, says, tells
from one_parser import hedgerow

from gateway.base import exit_codes
from gateway.process.state_folder import listeners_file
from gateway.process.status import doctor as examining
from gateway.process.status.doctor import DoctorObservations, Symptom, Weight
from gateway.releases.folder import ReleaseFolder
from gateway.tools.commands import doctor

LOOK = Symptom(Weight.LOOK, "clock", "no time service keeps the clock", "ask `timedatectl`")
WRONG = Symptom(Weight.WRONG, "disk", "1.0 MB are free", "make room")
CONNECTED = b"\x20\x03\x00\x00\x00"
NOT_AUTHORIZED = b"\x20\x03\x00\x87\x00"
PING_ANSWER = b"\xd0\x00"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    key, made = tmp_path / "tree.key", tmp_path / "gw.toml"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    made.write_text(
        '[gateway]\nid = "gw-a"\nstate_dir = "."\n'
        '[tree]\nkey_file = "tree.key"\ntls = "off"\n[access]\nanonymous = true\n'
    )
    return made


@pytest.fixture
def looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[DoctorObservations]]:
    """Note all that the doctor looks at, and have it find nothing."""
    seen, disk = list[DoctorObservations](), SimpleNamespace(f_bavail=3, f_frsize=4_096)
    monkeypatch.setattr(os, "statvfs", lambda path: disk if path == tmp_path else None)

    def noted(examined: DoctorObservations) -> list[Symptom]:
        seen.append(examined)
        return []

    monkeypatch.setattr(examining, "findings", noted)
    monkeypatch.setattr(doctor, "REBOOT", tmp_path / "reboot-required")
    monkeypatch.setattr(doctor, "RELEASES", tmp_path / "releases")
    yield seen


@asynccontextmanager
async def broker(answer: bytes | None) -> AsyncIterator[str]:
    """Have one that answers whoever comes, or never says a word; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.read(1)) == b"\x10"  # CONNECT
        if answer is not None:
            writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (CONNECTED, ""),
        (NOT_AUTHORIZED, ""),
        (PING_ANSWER, "MQTT: PingResp instead of CONNACK"),
    ],
)
async def test_a_broker_that_answers_is_well_even_if_it_lets_nobody_in(
    answer: bytes,
    said: str,
    file: Path,
    looked: list[DoctorObservations],
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = {"id": "gw-a", "name": "\x1b[2J"}
    async with partner() as (made, address), broker(answer) as at:
        made.paths["status"] = tells(status)
        listeners_file.write(file.parent, "gw-a", {"coap": [address], "mqtt": [at]})
        code = await asyncio.to_thread(hedgerow, "doctor", "--config", file)
    assert (code, capsys.readouterr().out) == (exit_codes.DONE, "nothing is wrong\n")
    (seen,) = looked
    assert (seen.silence, seen.silence_remedy) == ("", "")
    assert seen.status == {"id": "gw-a", "name": r"\x1b[2J"}
    assert seen.broker == said
    assert (seen.faults, seen.reboot_for) == ({}, None)
    assert seen.releases == {"trial": None, "last": None}
    assert seen.free_bytes == 12_288


async def test_a_broker_and_a_gateway_that_say_nothing_sensible_are_told(
    file: Path, looked: list[DoctorObservations]
) -> None:
    async with partner() as (made, address), broker(None) as at:
        made.paths["status"] = says(b"out of order", 0xA0)
        listeners_file.write(file.parent, "gw-a", {"coap": [address], "mqtt": [at]})
        await asyncio.to_thread(hedgerow, "doctor", "--config", file, "--timeout", "0.2")
    (seen,) = looked
    assert seen.status is None
    assert seen.silence.endswith(("5.00 out of order", "no answer within 0.2 s"))
    assert seen.broker.startswith("MQTT: ")
    assert seen.broker.endswith("no answer within 0.2 s")


def test_a_gateway_that_does_not_run_is_silent_and_so_is_its_broker(
    file: Path, looked: list[DoctorObservations]
) -> None:
    assert hedgerow("doctor", "--config", file) == exit_codes.DONE
    (seen,) = looked
    assert seen.status is None
    assert seen.silence.startswith("gw-a is not running")
    assert seen.broker == f"MQTT: {seen.silence}"


def test_the_broker_of_a_configuration_that_is_wrong_is_not_asked(
    file: Path, looked: list[DoctorObservations]
) -> None:
    file.write_text(file.read_text() + "[mqtt]\nport = 99999\n")
    assert hedgerow("doctor", "--config", file) == exit_codes.DONE
    (seen,) = looked
    assert (seen.broker, seen.free_bytes) == (None, None)
    assert len(seen.faults) == 1


@pytest.mark.parametrize(
    ("found", "code", "shown"),
    [
        ([], exit_codes.DONE, "nothing is wrong\n"),
        (
            [LOOK],
            exit_codes.DONE,
            "look  clock: no time service keeps the clock\n       ask `timedatectl`\n",
        ),
        (
            [WRONG, LOOK],
            exit_codes.FAILED,
            "wrong  disk: 1.0 MB are free\n       make room\n"
            "look  clock: no time service keeps the clock\n       ask `timedatectl`\n",
        ),
    ],
)
def test_each_finding_has_a_line_and_one_below_it_with_what_to_do(
    found: list[Symptom],
    code: int,
    shown: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(examining, "findings", lambda _seen: found)
    assert hedgerow("doctor", "--config", file) == code
    assert capsys.readouterr().out == shown
    assert hedgerow("doctor", "--config", file, "--json") == code
    assert json.loads(capsys.readouterr().out) == {
        "is_well": code == exit_codes.DONE,
        "findings": [
            {"weight": one.weight, "about": one.about, "what": one.what, "advice": one.advice}
            for one in found
        ],
    }


@pytest.mark.usefixtures("looked")
def test_a_wrong_file_of_keys_or_no_configuration_ends_it(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listeners_file.write(tmp_path, "gw-a", {"coaps": ["192.0.2.1:5684"]})
    psk, none = tmp_path / "psk", tmp_path / "none.toml"
    assert hedgerow("doctor", "--config", file, "--psk-file", psk) == exit_codes.WRONG_USE
    assert hedgerow("doctor", "--config", none) == exit_codes.WRONG_USE
    why = "No such file or directory"
    said = f"hedgerow: --psk-file: {psk}: {why}\nhedgerow: {none}: {why}\n"
    assert capsys.readouterr().err == said


def test_releases_that_this_user_may_not_see_are_not_told_of(
    file: Path, looked: list[DoctorObservations], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_folder: ReleaseFolder) -> None:
        raise PermissionError

    monkeypatch.setattr(ReleaseFolder, "trial", denied)
    assert hedgerow("doctor", "--config", file) == exit_codes.DONE
    assert looked[0].releases is None
