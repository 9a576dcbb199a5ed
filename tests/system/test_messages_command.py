"""`hedgerow pub` and `hedgerow sub` against a real gateway, in the clear and over TLS."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority
from fleet_gateway import FleetGateway
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.commands import payloads
from record_formats.record import Record

RECORD = Record("lamp", "W", 21.5, 1_700_000_000.0, 12)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FleetGateway]:
    authority = Authority(tmp_path)
    issued = authority.issue("gw-a", is_gateway=True)
    made = FleetGateway(tmp_path, "gw-a", issued, authority.file)
    await made.start()
    yield made
    await made.stop()


async def begin(*arguments: str, given: bool = False) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.tools.cli", *arguments),
        stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def hedgerow(*arguments: str, given: bytes | None = None) -> tuple[int, str, str]:
    process = await begin(*arguments, given=given is not None)
    async with asyncio.timeout(60):
        out, err = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def subscribed(gateway: FleetGateway) -> None:
    """Wait until somebody has subscribed."""
    async with asyncio.timeout(60):
        while not gateway.process.status()["broker"]["subscriptions"]:
            await asyncio.sleep(0.02)


async def test_what_one_publishes_the_other_shows_each_in_a_line(gateway: FleetGateway) -> None:
    where = ("--config", str(gateway.path))
    watching = await begin("sub", *where, "-t", "load/#", "-t", "other", "-C", "5")
    await subscribed(gateway)
    record = gateway.folder / "record"
    record.write_bytes(RECORD.encode())
    for what in (("-f", str(record)), ("-m", '{"a": [1, 2]}'), ("-m", "plain\x1b[2J"), ("-n",)):
        assert await hedgerow("pub", *where, "-t", "load/x", *what) == (0, "", "")
    assert (await hedgerow("pub", *where, "-t", "other", "-m", "21.50", "-q", "2"))[0] == 0
    async with asyncio.timeout(60):
        out, err = await watching.communicate()
    assert (watching.returncode, err) == (0, b"")
    lines = out.decode().splitlines()
    assert lines[0].endswith("load/x  21.5 W  (lamp 12)")
    assert lines[1].endswith('load/x  {"a": [1, 2]}')
    assert lines[2].endswith(r"load/x  plain\x1b[2J")
    assert lines[3].endswith("load/x  ")
    assert lines[4].endswith("other   21.5")


async def test_scripts_get_a_document_for_each_message(gateway: FleetGateway) -> None:
    where = ("--config", str(gateway.path))
    watching = await begin("sub", *where, "-t", "#", "-C", "4", "--json", "-q", "0")
    await subscribed(gateway)
    for payload in (RECORD.encode(), b'{"a": 1}', b"text", b"\xff\x00"):
        record = gateway.folder / "payload"
        record.write_bytes(payload)
        assert (await hedgerow("pub", *where, "-t", "x", "-f", str(record)))[0] == 0
    async with asyncio.timeout(60):
        out, _ = await watching.communicate()
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["topic"] for one in told] == ["x"] * 4
    assert told[0]["record"]["value"] == 21.5
    assert (told[1]["json"], told[2]["text"], told[3]["base64"]) == ({"a": 1}, "text", "/wA=")


async def test_each_line_of_standard_input_is_a_message(gateway: FleetGateway) -> None:
    where = ("--config", str(gateway.path))
    watching = await begin("sub", *where, "-t", "#", "-C", "3")
    await subscribed(gateway)
    assert await hedgerow("pub", *where, "-t", "x", "-l", given=b"one\ntwo\r\nthree") == (0, "", "")
    async with asyncio.timeout(60):
        out, _ = await watching.communicate()
    assert [line.split()[-1] for line in out.decode().splitlines()] == ["one", "two", "three"]


async def test_what_the_gateway_refuses_is_an_error_in_one_line(gateway: FleetGateway) -> None:
    where = ("--config", str(gateway.path))
    code, out, err = await hedgerow("pub", *where, "-t", "$SYS/x", "-m", "1")
    assert (code, out, err) == (1, "", "hedgerow: '$SYS/x': not authorized\n")
    code, out, err = await hedgerow("pub", *where, "-t", "a/#", "-m", "1")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    await gateway.stop()
    code, out, err = await hedgerow("sub", *where, "-t", "a")
    assert (code, out) == (1, "")
    assert err.startswith("hedgerow: gw-a is not running")


async def test_over_tls_an_authority_or_the_gateways_own_certificate_is_asked_for(
    gateway: FleetGateway, tmp_path: Path
) -> None:
    port = str(gateway.process.mqtt_ports["mqtts"])
    message = ("-t", "x", "-m", "1")
    given = ("pub", "--port", port, *message, "--cafile")
    assert await hedgerow(*given, str(tmp_path / "authority.pem")) == (0, "", "")
    other = Authority(tmp_path, "other")
    code, _, err = await hedgerow(*given, str(other.file))
    assert code == 1
    assert "certificate" in err
    # Where there is no plain listener --config goes over TLS.
    state = gateway.folder / "state" / "listeners.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"mqtt": None}))
    local = ("pub", "--config", str(gateway.path), *message)
    assert await hedgerow(*local) == (0, "", "")
    issued = other.issue("gw-a", is_gateway=True)
    config = gateway.path.read_text()
    begins = config.index('certificate_file = "') + len('certificate_file = "')
    ends = config.index('"', begins)
    gateway.path.write_text(config[:begins] + str(issued.certificate) + config[ends:])
    code, _, err = await hedgerow(*local)
    assert code == 1
    assert "another certificate than mqtt.certificate_file" in err


@given(st.binary(max_size=60), st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_whatever_comes_is_one_printable_line_and_one_document(payload: bytes, topic: str) -> None:
    line = payloads.Table().line(topic, payload, received_s=0.0)
    assert line.isprintable()
    told = json.loads(payloads.as_json(topic, payload, 1, retain=False, received_s=0.0))
    assert told["topic"] == topic


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("pub", "-t", "x"), "one of the arguments -m/--message"),
        (("pub", "-t", "x", "-m", "1", "--port", "0"), "argument --port: 0 is no port"),
        (("pub", "-t", "x", "-m", "1", "--cafile", "/none"), "--cafile: /none: no such file"),
        (("sub", "-t", "x", "--user", "a"), "--user: needs --password-file"),
        (("sub", "-t", "x", "--password-file", "a"), "--password-file: needs --user"),
        (("sub", "-t", "x", "-u", "a", "--password-file", "/none"), "--password-file: /none"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: tuple[str, ...], why: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = done.stderr.decode().splitlines()
    assert why in line
