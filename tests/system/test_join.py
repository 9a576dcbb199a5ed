"""Goal: a new machine is a gateway of a fleet by one command, with a token and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import os
import pwd
import stat
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fleet_keys
import pytest
from loopback_wire import LOOPBACK, Wire, wire_to
from ports import free_port

from gateway.base import exit_codes
from gateway.tools import cli
from gateway.tools.commands import joining
from gateway.tools.provisioning.grown import GrownFleet
from gateway.tools.provisioning.plan import PlanError
from gateway.tools.provisioning.welcome import BYTES_MAX, Welcome
from gateway.trust.certificates import private_keys, token_book
from gateway.trust.certificates.authority import Authority
from gateway.trust.enrolment import requests
from gateway.trust.enrolment.desk import Asker, EnrolmentDesk
from gateway.trust.enrolment.requests import EnrolmentAnswer
from gateway.trust.enrolment.service import EnrolmentService

pytestmark = pytest.mark.usefixtures("cheap_passwords")

LIMIT_S = 60.0
SECRET_FILES = ("passwords", "psk", "tree.key", "tls/gateway.key.pem")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    said = hedgerow("init", folder, "--fleet", "gw-a", "gw-b", "--port", free_port(), "--yes")
    assert said[0] == 0, said
    return folder


def hedgerow(*words: object) -> tuple[int, str, str]:
    """Run a command here: exit code, output and complaints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


class Desk(EnrolmentDesk):
    """One whose time stands, and over whose wire the answer to who is enrolled may be lost."""

    def __init__(self, authority: Authority, wire: Wire | None) -> None:
        super().__init__(authority, lambda: 0.0)
        self._wire = wire

    def answer(self, method: str, path: str, body: bytes, asker: Asker) -> EnrolmentAnswer:
        found = super().answer(method, path, body, asker)
        if self._wire is not None and path == requests.ENROL:
            self._wire.loses_answers = True
        return found


@asynccontextmanager
async def service(fleet: Path, wire: Wire | None = None) -> AsyncIterator[str]:
    """The service, at the other end of a wire if there is one."""
    authority = Authority(fleet / "authority")
    made = EnrolmentService(authority, Desk(authority, wire))
    port = await made.start(LOOPBACK, 0)
    if wire is not None:
        wire.to, port = port, wire.port
    try:
        yield f"{LOOPBACK}:{port}"
    finally:
        await made.stop()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are made at the time that the service has."""
    monkeypatch.setattr("gateway.tools.commands.enrolling.time.time", lambda: 0.0)


def token(fleet: Path, at: str, *options: object) -> str:
    """A token for the gateway gw-c."""
    code, out, err = hedgerow(
        *("keys", "token", "gw-c", "--fleet", fleet, "--service", at, "--json", *options)
    )
    assert code == 0, err
    return str(json.loads(out)["token"])


async def joined(*words: object) -> tuple[int, str, str]:
    return await asyncio.to_thread(hedgerow, "join", *words)


async def test_a_machine_with_a_token_is_a_gateway_that_others_reach(
    fleet: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    async with service(fleet) as at:
        code, out, err = await joined(token(fleet, at, "--place", "campus/north"), folder)
    assert code == 0, err
    assert out.splitlines()[-1] == f"  hedgerow run --config {folder / 'hedgerow.toml'}"
    assert hedgerow("check", "--config", folder / "hedgerow.toml")[0] == 0
    for name in SECRET_FILES:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    for name in ("access.toml", "passwords", "psk", "tree.key"):
        assert (folder / name).read_bytes() == (fleet / "gw-a" / name).read_bytes()
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]
    gateways = [fleet / "gw-a" / "hedgerow.toml", folder / "hedgerow.toml"]
    async with contextlib.AsyncExitStack() as stack:
        for one in gateways:
            await stack.enter_async_context(running(one))
        async with asyncio.timeout(LIMIT_S):
            while not (status := await status_of(folder))["neighbours"]:
                await asyncio.sleep(0.1)
        assert [one["id"] for one in status["neighbours"]] == ["gw-a"]
        assert status["domain"] == "campus"


async def status_of(folder: Path) -> dict[str, Any]:
    code, out, err = await asyncio.to_thread(
        hedgerow, "status", "--config", folder / "hedgerow.toml", "--json"
    )
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@asynccontextmanager
async def running(configuration: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *fleet_keys.HEDGEROW,
        *("run", "--config", str(configuration)),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            while b" is up: " not in (line := await process.stderr.readline()):
                assert line, "it has ended"
        reading = asyncio.create_task(process.stderr.read())
        yield
    finally:
        process.terminate()
        await process.wait()
    await reading


async def test_a_gateway_that_has_its_folder_there_gets_all_that_is_in_it(
    fleet: Path, tmp_path: Path
) -> None:
    async with service(fleet) as at:
        code, out, err = hedgerow(
            *("keys", "token", "gw-b", "--fleet", fleet, "--service", at, "--json")
        )
        assert code == 0, err
        assert (await joined(json.loads(out)["token"], tmp_path / "new"))[0] == 0
    for name in ("hedgerow.toml", "access.toml", "passwords", "psk", "tree.key", "tls/ca.pem"):
        assert (tmp_path / "new" / name).read_bytes() == (fleet / "gw-b" / name).read_bytes()
    other = ("keys", "token", "gw-b", "--fleet", fleet, "--service", at, "--place", "campus")
    code, _, err = hedgerow(*other)
    assert (code, "give its name alone" in err) == (exit_codes.WRONG_USE, True)


async def test_who_did_not_hear_the_answer_repeats_it_and_nobody_else_can(
    fleet: Path, tmp_path: Path
) -> None:
    with wire_to(0) as wire:
        async with service(fleet, wire) as at:
            text = token(fleet, at)
            assert (await joined(text, tmp_path / "new"))[0] == exit_codes.FAILED
            assert wire.loses_answers
            assert not (tmp_path / "new").exists()
        async with service(fleet) as at:
            wire.loses_answers, wire.to = False, int(at.rpartition(":")[2])
            code, _, err = await joined(text, tmp_path / "other")
            assert (code, "the token has been used" in err) == (exit_codes.FAILED, True)
            assert (await joined(text, tmp_path / "new"))[0] == 0


async def test_who_is_stopped_when_all_is_written_repeats_it_and_is_told_how_to_go_on(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, kept = tmp_path / "new", tmp_path / ".new.key.pem"
    async with service(fleet) as at:
        text = token(fleet, at)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", failing_for(folder))
            code, _, err = await joined(text, folder)
            assert (code, f"all is written, but {folder}: " in err) == (exit_codes.FAILED, True)
    code, out, err = await joined(text, folder)  # nobody is asked
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"  hedgerow run --config {folder / 'hedgerow.toml'}"
    assert not kept.exists()
    code, _, err = await joined(text, folder)
    assert (code, "is there already" in err) == (exit_codes.WRONG_USE, True)


def failing_for(path: Path) -> Callable[[int], None]:
    """Return a sync that fails for what has this name then."""
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    return fsync


async def test_what_is_there_stays_and_the_token_is_still_good(fleet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "hedgerow.toml").write_text("mine")
    async with service(fleet) as at:
        text = token(fleet, at)
        code, _, err = await joined(text, folder)
        assert code == exit_codes.WRONG_USE
        assert err == f"hedgerow: {folder}/hedgerow.toml is there already, and stays as it is\n"
        assert (folder / "hedgerow.toml").read_text() == "mine"
        assert (await joined(text, tmp_path / "other"))[0] == 0


async def test_an_address_of_another_machine_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = tmp_path / "fleet"
    assert hedgerow("init", fleet, "--fleet", "gw-a=192.0.2.1", "--yes")[0] == 0
    async with service(fleet) as at:
        code, out, err = hedgerow(
            *("keys", "token", "gw-c=192.0.2.7", "--fleet", fleet, "--service", at, "--json")
        )
        assert code == 0, err
        code, _, err = await joined(json.loads(out)["token"], tmp_path / "new")
    assert code == exit_codes.FAILED
    assert err.startswith("hedgerow: join: 192.0.2.7, which the token names, is no address of this")
    assert not (tmp_path / "new").exists()


async def test_a_token_for_a_certificate_alone_says_how_to_go_on(
    fleet: Path, tmp_path: Path
) -> None:
    async with service(fleet) as at:
        code, out, err = hedgerow(
            *("keys", "token", "gw-c", "--ca", fleet / "authority", "--service", at, "--json")
        )
        assert code == 0, err
        code, _, err = await joined(json.loads(out)["token"], tmp_path / "new")
    assert code == exit_codes.FAILED
    assert "hedgerow keys token --fleet DIR" in err
    assert err.count("\n") == 1


def test_a_token_is_no_word_of_a_fleet_that_is_none(tmp_path: Path) -> None:
    code, _, err = hedgerow(
        *("keys", "token", "gw-c", "--fleet", tmp_path, "--service", "127.0.0.1:1")
    )
    assert (code, err.count("\n")) == (exit_codes.WRONG_USE, 1)


def test_what_a_token_brings_goes_with_it(fleet: Path) -> None:
    token(fleet, "127.0.0.1:1")
    book = fleet / "authority" / token_book.BOOK
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    key = (fleet / "gw-a" / "tree.key").read_text().strip()
    assert key in book.read_text()
    assert hedgerow("keys", "token", "gw-c", "--ca", fleet / "authority", "--take-back")[0] == 0
    assert key not in book.read_text()


async def test_a_fleet_whose_keys_begin_with_a_comment_gets_one_more(
    fleet: Path, tmp_path: Path
) -> None:
    keys = fleet / "gw-a" / "psk"
    keys.write_text(f"# one for each device\n\n{keys.read_text()}")
    async with service(fleet) as at:
        code, _, err = await joined(token(fleet, at), tmp_path / "new")
    assert code == 0, err
    assert "# operator's key\n" in (tmp_path / "new" / "hedgerow.toml").read_text()


async def test_the_key_of_an_attempt_before_stays_until_the_disk_has_all_that_is_new(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, kept, on_disk = tmp_path / "new", tmp_path / ".new.key.pem", list[Path]()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        if kept.exists():
            on_disk.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    async with service(fleet) as at:
        text = token(fleet, at)
        monkeypatch.setattr(os, "fsync", noted)
        code, _, err = await joined(text, folder)
    assert code == 0, err
    assert not kept.exists()
    for path in folder.rglob("*"):
        assert path.name in {one.name for one in on_disk}
    assert on_disk[-2:] == [folder, tmp_path]


def test_a_key_that_somebody_else_put_there_is_not_taken(tmp_path: Path) -> None:
    text = f"hedgerow-enrol://gw-c@127.0.0.1:1/{'A' * 43}/{'A' * 22}"
    theirs, kept = tmp_path / "theirs.pem", tmp_path / ".new.key.pem"
    theirs.write_bytes(private_keys.as_pem(private_keys.make(private_keys.KINDS[0])))
    theirs.chmod(0o600)
    kept.symlink_to(theirs)
    code, _, err = hedgerow("join", text, tmp_path / "new")
    assert (code, err) == (
        exit_codes.FAILED,
        f"hedgerow: join: {kept}: no file of this user's: remove it, and repeat this\n",
    )
    kept.unlink()
    theirs.rename(kept)
    kept.chmod(0o622)
    code, _, err = hedgerow("join", text, tmp_path / "new")
    assert (code, "lets others in" in err) == (exit_codes.WRONG_USE, True)


def test_a_folder_is_given_to_the_service_s_user_but_not_what_links_in_it_lead_to(
    tmp_path: Path,
) -> None:
    folder, outside = tmp_path / "hedgerow", tmp_path / "outside"
    (folder / "tls").mkdir(parents=True)
    (folder / "tls" / "key").touch()
    outside.mkdir()
    (outside / "shadow").touch()
    (folder / "a-file").symlink_to(outside / "shadow")
    (folder / "a-folder").symlink_to(outside)
    (folder / "nowhere").symlink_to(tmp_path / "missing")
    before = os.getuid(), os.getgid()
    given = (65_534, 65_534) if os.geteuid() == 0 else before
    joining.hand_over(folder, *given)
    for path in (folder, *folder.rglob("*")):
        assert (path.lstat().st_uid, path.lstat().st_gid) == given
    for path in (outside, *outside.iterdir()):
        assert (path.stat().st_uid, path.stat().st_gid) == before


def test_a_program_is_tried_as_the_service_will_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with its group: what root's group may read, the service may not."""
    tried: dict[str, Any] = {}

    def run(_: object, **given: Any) -> subprocess.CompletedProcess[bytes]:
        tried.update(given)
        return subprocess.CompletedProcess([], 0)

    monkeypatch.setattr(subprocess, "run", run)
    account = pwd.struct_passwd(("hedgerow", "x", 971, 972, "", "/", "/bin/false"))
    joining.check_program(account, tmp_path)
    assert (tried["user"], tried["group"], tried["extra_groups"]) == (971, 972, ())


# -- what a service hands on -----------------------------------------------------------------------


def hostile() -> Iterator[tuple[str, object]]:
    yield "name", "../gw"
    yield "name", 7
    yield "place", "a/b/c"
    yield "address", "{{ lookup('pipe', 'id') }}"
    yield "address", "0.0.0.0"
    yield "ports", [1, 2, 3]
    yield "ports", [1883, 8883, 5683, 70_000]
    yield "ports", [True, 8883, 5683, 5684]
    yield "neighbours", ['10.0.0.1:8883",\n]\n[access]\nanonymous = true\n#']
    yield "neighbours", ["10.0.0.1:8883"] * 1_001
    yield "shared", {"access.toml": "", "passwords": "", "psk": ""}
    yield (
        "shared",
        dict.fromkeys(("access.toml", "passwords", "psk", "tree.key"), "x" * BYTES_MAX),
    )
    yield "shared", []
    yield (
        "shared",
        dict.fromkeys(("access.toml", "passwords", "tree.key"), "")
        | {"psk": "# \u00fc".ljust(BYTES_MAX // 4, "\u00fc")},
    )
    yield "user", None
    yield "user", "operator\n[access]\nanonymous = true\n#"


@pytest.mark.parametrize(("key", "value"), list(hostile()))
def test_what_can_be_no_gateways_is_refused(fleet: Path, key: str, value: object) -> None:
    good = GrownFleet(fleet, "gw-c", "", None, None).welcome().as_json()
    assert Welcome.parse(json.loads(json.dumps(good))).as_json() == good
    with pytest.raises(PlanError):
        Welcome.parse(good | {key: value})
    with pytest.raises(PlanError):
        Welcome.parse({name: each for name, each in good.items() if name != key})
