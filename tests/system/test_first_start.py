"""Goal: a gateway without an owner gets one over the local link: whole or not at all, and once."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import aiohttp
import by_seed
import pytest
from first_start_bed import ASKED, CODE, LIMIT_S, FirstStart, browser, command, first_start
from page_gateway import PageGateway, looker
from ports import free_port
from test_join import fleet, hedgerow, service, token

from gateway.base import exit_codes
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess
from gateway.tools import cli
from gateway.tools.commands.mqtt_client import Login, MqttClient, MqttClientError

pytestmark = pytest.mark.slow
assert fleet  # a fixture, for the test of a fleet


def checked(folder: Path) -> int:
    """The exit code of `hedgerow check`."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return cli.main(["check", "--config", str(folder / "hedgerow.toml")])


async def ended(own: FirstStart) -> int:
    async with asyncio.timeout(LIMIT_S):
        return await own.process.wait()


async def test_an_owner_gets_a_whole_gateway_its_authority_and_a_code_for_telephones(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "etc"
    async with first_start(folder) as own, browser(own) as anna:
        assert (await anna.ask("GET", "api/v1/setup"))[1] == {"stage": "code", "is_in": False}
        assert (await anna.ask("GET", "ca.pem"))[0] == 404
        assert await anna.enter() == 200
        status, told = await anna.ask("GET", "api/v1/setup")
        assert told["stage"] == "form"
        assert told["addresses"]
        asked = {**ASKED, "address": told["addresses"][0]}
        status, told = await anna.ask("POST", "api/v1/own", asked)
        assert status == 200, told
        owned = told["owned"]
        assert (owned["gateway"], owned["address"]) == ("gw-hall", asked["address"])
        status, pem = await anna.ask("GET", "ca.pem")
        assert ssl.PEM_cert_to_DER_cert(pem.decode())
        assert owned["ca_sha256"] in owned["invitation"]
        assert owned["invitation"].startswith(f"https://{asked['address']}:")
        device = owned["device"]
        assert device["user"] == "first-device"
        assert owned["invitation"].endswith(f"&user=first-device&password={device['password']}")
        assert b"<svg" in (await anna.ask("GET", "api/v1/invitation.svg"))[1]
        assert (await anna.ask("POST", "api/v1/finish", {}))[0] == 200
        assert await ended(own) == 0
        trail = [one["what"] for one in own.audit]
    assert trail == [
        *("first start opened", "setup code given", "first start writes a gateway"),
        *("gateway has an owner", "first start closed"),
    ]
    assert checked(folder) == 0
    assert '"console:anna" = ["admin"]' in (folder / "access.toml").read_text()
    assert not (folder / "anna.password").exists()
    everything = "".join(f.read_text() for f in folder.rglob("*") if f.is_file())
    assert "open sesame" not in everything
    assert device["password"] not in everything
    assert '"user:first-device" = ["device"]' in (folder / "access.toml").read_text()
    assert CODE not in everything
    for name in ("passwords", "psk", "tree.key", "tls/gateway.key.pem", "authority/ca.key.pem"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


async def test_the_gateway_runs_and_its_owner_administers_it_by_its_page(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    async with first_start(folder) as own, browser(own) as anna:
        await anna.enter()
        addresses = (await anna.ask("GET", "api/v1/setup"))[1]["addresses"]
        status, told = await anna.ask("POST", "api/v1/own", {**ASKED, "address": addresses[0]})
        assert status == 200
        device = told["owned"]["device"]
        pem = (await anna.ask("GET", "ca.pem"))[1]
        assert (await anna.ask("POST", "api/v1/finish", {}))[0] == 200
        assert await ended(own) == 0

    def read() -> config.GatewaySettings:
        return config.load(folder / "hedgerow.toml", config.GatewaySettings)

    process = GatewayProcess(read(), read=read)
    await process.start()
    try:
        context = ssl.create_default_context(cadata=pem.decode())
        async with looker(PageGateway(process, folder, users=True, tls=context)) as owner:
            assert await owner.log_in("anna", "open sesame") == 200
            told = (await owner.get("me"))[1]
            assert told["who"] == "console:anna"
            assert "admin" in told["roles"]
            async with owner.session.get(f"{owner.base}/ca.pem") as answer:
                assert await answer.read() == pem
            assert await owner.log_in(**device) != 200
        await writes_its_own_topics_alone(read(), device, context)
    finally:
        await process.stop()


async def writes_its_own_topics_alone(
    settings: config.GatewaySettings, device: dict[str, str], tls: ssl.SSLContext
) -> None:
    address, port = settings.gateway.address, settings.mqtt.tls_port
    client = MqttClient(*await asyncio.open_connection(address, port, ssl=tls))
    login = Login("esp", device["user"], device["password"].encode())
    await client.connect(login, 0)
    own, gateway = "first-device/t", f"campus/north/{settings.gateway.id}"
    for topic in (own, f"{gateway}/{own}"):
        await client.publish(topic, b"21.5", 1)
    for topic in ("t", "other-device/t", f"{gateway}/t", f"{gateway}/other-device/t"):
        with pytest.raises(MqttClientError):
            await client.publish(topic, b"21.5", 1)
    with pytest.raises(MqttClientError):
        await client.subscribe([f"{gateway}/sensors/#"], 1)
    await client.close()


async def test_it_never_opens_again_where_there_is_an_owner(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    async with first_start(folder) as own, browser(own) as anna, browser(own) as other:
        await anna.enter()
        addresses = (await anna.ask("GET", "api/v1/setup"))[1]["addresses"]
        asked = {**ASKED, "address": addresses[0]}
        assert (await anna.ask("POST", "api/v1/own", asked))[0] == 200
        assert (await anna.ask("POST", "api/v1/own", asked))[0] == 410
        assert await other.enter(instead=True) == 410
        assert (await other.ask("GET", "api/v1/setup"))[1] == {"stage": "done", "is_in": False}
        assert (await other.ask("GET", "api/v1/invitation.svg"))[0] == 404
        assert (await other.ask("POST", "api/v1/finish", {}))[0] == 410
    code, out, _ = await asyncio.to_thread(hedgerow, "first-start", folder)
    assert (code, out) == (0, f"this gateway has an owner: {folder}/hedgerow.toml is there\n")
    (folder / "hedgerow.toml").unlink()
    assert "has an owner" in hedgerow("first-start", folder)[1]


async def test_a_token_makes_it_a_gateway_of_a_fleet(fleet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    async with (
        service(fleet) as at,
        first_start(folder) as own,
        browser(own) as anna,
    ):
        given = await asyncio.to_thread(token, fleet, at)
        await anna.enter()
        status, told = await anna.ask("POST", "api/v1/join", {"token": "hedgerow-enrol://x"})
        assert (status, told["error"].partition(":")[0]) == (400, "token")
        status, told = await anna.ask("POST", "api/v1/join", {"token": given})
        assert status == 200, told
        assert told["owned"]["gateway"] == "gw-c"
        assert (await anna.ask("POST", "api/v1/finish", {}))[0] == 200
        assert await ended(own) == 0
    assert checked(folder) == 0
    assert (folder / "tree.key").read_bytes() == (fleet / "gw-a" / "tree.key").read_bytes()


async def test_a_card_that_was_written_elsewhere_opens_it_and_its_fingerprint_is_the_pages(
    tmp_path: Path,
) -> None:
    boot = tmp_path / "boot"
    boot.mkdir()
    code, out, _ = hedgerow("first-start", "--write-card", boot)
    assert code == 0
    words = out.split()
    typed, fingerprint = words[words.index("code") + 1], words[words.index("certificate") + 1]
    assert hedgerow("first-start", "--write-card", boot)[0] == exit_codes.WRONG_USE
    card = boot / "hedgerow-first-start.txt"
    async with first_start(tmp_path / "etc", card) as own, browser(own) as anna:
        assert typed not in own.said
        shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", own.port))
        der = ssl.PEM_cert_to_DER_cert(shown)
        assert hashlib.sha256(der).hexdigest().upper() == fingerprint.replace(":", "")
        assert await anna.enter(CODE) == 403
        assert await anna.enter(typed.lower()) == 200


async def test_without_a_code_on_the_card_one_is_made_and_shown(tmp_path: Path) -> None:
    card = tmp_path / "empty.txt"
    card.touch()
    async with first_start(tmp_path / "etc", card) as own, browser(own) as anna:
        assert await anna.enter(own.said.split()[2]) == 200
        assert own.said.split()[2] not in (own.folder / "audit.jsonl").read_text()


@pytest.mark.parametrize("has_code", [True, False])
async def test_a_screen_that_takes_nothing_ends_it_only_where_it_has_to_show_the_code(
    tmp_path: Path, has_code: bool
) -> None:
    card = tmp_path / "card.txt"
    card.write_text(f'code = "{CODE}"\n' if has_code else "")
    port = free_port()
    with Path("/dev/full").open("wb") as full:
        process = await asyncio.create_subprocess_exec(
            *command(tmp_path / "etc", card, port), stdout=full
        )
    own = FirstStart(tmp_path / "etc", port, process)
    try:
        if not has_code:
            assert await ended(own) == exit_codes.FAILED
            return
        async with browser(own) as anna, asyncio.timeout(LIMIT_S):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    assert await anna.enter() == 200
                    return
                await asyncio.sleep(0.1)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


# -- attacks ---------------------------------------------------------------------------------------


async def test_wrong_codes_are_slowed_and_never_told_from_each_other(tmp_path: Path) -> None:
    async with first_start(tmp_path / "etc") as own, browser(own) as guesser:
        answers = [await guesser.enter(f"{number:012}") for number in range(30)]
        assert set(answers) == {403, 429}
        assert answers.count(403) <= 8
        assert await guesser.enter() == 429  # the right one waits as well
        refused = [one for one in own.audit if one["what"] == "refused at the page"]
        assert 1 <= len(refused) <= 30
        assert CODE not in (own.folder / "audit.jsonl").read_text()
    assert not (tmp_path / "etc" / "hedgerow.toml").exists()


async def test_of_two_browsers_one_is_at_it_and_the_other_may_take_over(tmp_path: Path) -> None:
    async with first_start(tmp_path / "etc") as own, browser(own) as one, browser(own) as other:
        assert await one.enter() == 200
        assert await other.enter() == 409
        assert (await other.ask("POST", "api/v1/own", ASKED))[0] == 401
        assert await other.enter(instead=True) == 200
        assert (await one.ask("POST", "api/v1/own", ASKED))[0] == 401
        addresses = (await other.ask("GET", "api/v1/setup"))[1]["addresses"]
        asked = {**ASKED, "address": addresses[0]}
        both = await asyncio.gather(
            other.ask("POST", "api/v1/own", asked), other.ask("POST", "api/v1/own", asked)
        )
        assert sorted(status for status, _ in both) in ([200, 409], [200, 410])
    assert checked(tmp_path / "etc") == 0


async def test_another_site_can_not_have_a_browser_do_it(tmp_path: Path) -> None:
    async with first_start(tmp_path / "etc") as own, browser(own) as anna:
        assert await anna.enter() == 200
        word, anna.csrf = anna.csrf, "another"
        assert (await anna.ask("POST", "api/v1/own", ASKED))[0] == 403
        anna.csrf = word
        for headers in (
            {"Origin": "https://evil.example"},
            {"Sec_Fetch_Site": "cross-site"},
        ):
            assert (await anna.ask("POST", "api/v1/own", ASKED, **headers))[0] == 403
        sent = await anna.ask("POST", "api/v1/own", ASKED, Content_Type="text/plain")
        assert sent[0] == 415
        assert (await anna.ask("GET", "api/v1/setup", Host="evil.example"))[0] == 421
        assert (await anna.ask("GET", "../../etc/passwd"))[0] == 404
    assert not (tmp_path / "etc" / "hedgerow.toml").exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * 9_000, 413),
        (b"[" * 4_000, 400),
        (b"{}", 400),
        (b'{"code": 7}', 400),
        (b'{"code": "' + b"0" * 100 + b'"}', 400),
        (b'{"code": "x", "more": 1}', 400),
        (b"\xff", 400),
    ],
)
async def test_what_is_no_request_is_refused(tmp_path: Path, body: bytes, status: int) -> None:
    async with first_start(tmp_path / "etc") as own, browser(own) as anna:
        try:
            assert (await anna.ask("POST", "api/v1/code", body))[0] == status
        except OSError:  # it did not read on
            assert status == 413
        assert await anna.enter() == 200


async def test_a_wrong_field_is_told_and_nothing_written(tmp_path: Path) -> None:
    async with first_start(tmp_path / "etc") as own, browser(own) as anna:
        await anna.enter()
        addresses = (await anna.ask("GET", "api/v1/setup"))[1]["addresses"]
        for field, value in (("password", "short"), ("name", "../x"), ("address", "10.9.9.9")):
            asked = {**ASKED, "address": addresses[0], field: value}
            status, told = await anna.ask("POST", "api/v1/own", asked)
            assert (status, told["error"].partition(":")[0]) == (400, field)
        assert [one.name for one in (tmp_path / "etc").iterdir()] == ["audit.jsonl"]


async def test_half_requests_leave_room_for_the_owner(tmp_path: Path) -> None:
    async with first_start(tmp_path / "etc") as own:
        half = []
        for _ in range(80):
            opened = socket.create_connection(("127.0.0.1", own.port), timeout=10)
            opened.send(b"\x16\x03\x01")
            half.append(opened)
        async with browser(own) as anna:
            async with asyncio.timeout(LIMIT_S):
                assert await anna.enter() == 200
        for one in half:
            one.close()


# -- power ----------------------------------------------------------------------------------------


async def test_who_is_killed_at_any_moment_leaves_no_owner_or_a_whole_gateway(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    outcomes = set()
    for number in (0, *by_seed.some(pytestconfig, range(1, 12), 4)):
        folder = tmp_path / f"{number}" / "etc"
        folder.mkdir(parents=True)
        async with first_start(folder) as own, browser(own) as anna:
            await anna.enter()
            addresses = (await anna.ask("GET", "api/v1/setup"))[1]["addresses"]
            asked = {**ASKED, "address": addresses[0]}
            asking = asyncio.ensure_future(anna.ask("POST", "api/v1/own", asked))
            await until_it_writes(folder, number)
            own.process.send_signal(signal.SIGKILL)
            await own.process.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        if (folder / "hedgerow.toml").exists():
            outcomes.add("whole")
        else:
            outcomes.add("none")
            async with first_start(folder) as own, browser(own) as anna:
                await anna.enter()
                assert (await anna.ask("POST", "api/v1/own", asked))[0] == 200
        assert checked(folder) == 0
        assert not [one for one in folder.parent.iterdir() if one.name.startswith(".etc")]
    assert "none" in outcomes


async def until_it_writes(folder: Path, files: int) -> None:
    """Wait until so many files of the gateway are being made, or it is there."""
    async with asyncio.timeout(LIMIT_S):
        while not (folder / "hedgerow.toml").exists():
            made = [p for new in folder.parent.glob(".etc.*.new") for p in new.rglob("*")]
            if len(made) >= files:
                return
            await asyncio.sleep(0)


_KILLED_AT_A_STEP = """
import os, sys
from pathlib import Path

from gateway.tools.provisioning import new_folder

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
done = 0
rename = os.rename

def counted(*names, **more):
    global done
    if done == steps:
        os._exit(9)
    done += 1
    rename(*names, **more)

def fill(fresh):
    assert fresh.parent == folder
    for name in ("a", "b", "hedgerow.toml"):
        new_folder.write(fresh / name, name, 0o600)

os.rename = os.replace = counted
if steps < 0:
    new_folder.take_back(folder)
    new_folder.remove_unfinished(folder)
else:
    new_folder.make(folder, fill)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_who_may_not_write_beside_the_folder_writes_in_it_and_a_kill_leaves_nothing() -> None:
    """As the unit's user does, whose folder is in /etc."""
    with tempfile.TemporaryDirectory(prefix="hedgerow-first-") as made:
        Path(made).chmod(0o755)
        folder = Path(made) / "etc"
        folder.mkdir()
        os.chown(folder, 65534, 65534)

        def child(steps: int) -> int:
            call = [sys.executable, "-c", _KILLED_AT_A_STEP, str(folder), str(steps)]
            return subprocess.run(call, check=False, timeout=LIMIT_S).returncode

        for steps in range(4):  # the note, and two files; the third is the configuration
            assert child(steps) == 9
            assert not (folder / "hedgerow.toml").exists()
            assert child(-1) == 0
            assert list(folder.iterdir()) == []
        assert child(99) == 0
        assert sorted(one.name for one in folder.iterdir()) == ["a", "b", "hedgerow.toml"]
        assert list(Path(made).iterdir()) == [folder]
