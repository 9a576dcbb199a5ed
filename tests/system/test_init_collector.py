"""A collector for a fleet by one command: its files, and what they do as they stand."""

from __future__ import annotations

import asyncio
import contextlib
import io
import stat
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ports import free_port

from cloud_ingest.collector.settings import CollectorSettings
from cloud_ingest.spool.segments import read_mark, segments
from gateway.base import exit_codes
from gateway.process.configuration import config
from gateway.tools import cli
from gateway.trust.certificates.authority_folder import listed

pytestmark = pytest.mark.usefixtures("cheap_passwords")

HEDGEROW = [sys.executable, "-m", "gateway.tools.cli"]
LIMIT_S = 60.0


def init(*arguments: str | Path) -> tuple[int, str, str]:
    """Run it without a terminal: exit code, output and complaints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(["init", "-y", *map(str, arguments)])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    assert init(folder, "--fleet", "gw-a", "gw-b", "--port", str(free_port()))[0] == 0
    return folder


@pytest.fixture
def far_fleet(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    assert init(folder, "--fleet", "gw-a=10.0.0.1", "gw-b=10.0.0.2")[0] == 0
    return folder


@asynccontextmanager
async def running(*arguments: str | Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(*HEDGEROW, *map(str, arguments))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def test_what_is_written_collects_as_it_stands(fleet: Path) -> None:
    code, out, err = init("--collector", "--fleet", fleet)
    assert (code, err) == (0, "")
    made = fleet / "collector"
    assert f"hedgerow collector --config {made}/collector.toml\n" in out
    assert f"--spool {made}/spool --tables {made}/tables\n" in out
    async with (
        running("run", "--config", fleet / "gw-a" / "hedgerow.toml"),
        running("collector", "--config", made / "collector.toml"),
        asyncio.timeout(LIMIT_S),
    ):
        while not segments(made / "spool", read_mark(made / "spool")):
            await asyncio.sleep(0.1)


def test_its_certificate_receives_and_no_more_and_its_secrets_are_its_own(far_fleet: Path) -> None:
    assert init("--collector", "--name", "store-1", "--fleet", far_fleet)[0] == 0
    made = far_fleet / "store-1"
    (issued,) = [one for one in listed(far_fleet / "authority") if one.name == "store-1"]
    assert issued.roles == ("collector",)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.rglob("*")}
    assert {name for name, mode in modes.items() if mode == 0o600} == {
        *("collector.key.pem", "passwords", "tree.key"),
    }
    told = config.load(made / "collector.toml", CollectorSettings)
    assert told.collector.id == "store-1"
    assert told.tree.neighbours == ["10.0.0.1:8883", "10.0.0.2:8883"]
    told.link_tls()
    told.signing()
    for name in ("access.toml", "passwords", "tree.key"):
        assert (made / name).read_bytes() == (far_fleet / "gw-a" / name).read_bytes()


def test_units_run_all_three_on_a_server_of_its_own(far_fleet: Path) -> None:
    _, out, _ = init("--collector", "--fleet", far_fleet)
    made = far_fleet / "collector"
    for name in ("collector", "ingest", "dashboard"):
        unit = (made / f"hedgerow-{name}.service").read_text()
        assert f"ExecStart=/opt/hedgerow/bin/hedgerow {name} " in unit
        folders = " ".join(f"hedgerow-collector{inside}" for inside in ("", "/spool", "/tables"))
        assert f"StateDirectory={folders}\n" in unit
        assert ("ExecReload=" in unit) == (name != "ingest")  # which SIGHUP would end
        assert f"/etc/hedgerow-collector/hedgerow-{name}.service" in out
    # Nobody else's package of that name, and no login as root.
    assert "  sudo /opt/hedgerow/bin/pip install '.[cloud,java]'" in out.splitlines()
    assert "  sudo mv -T ~/collector /etc/hedgerow-collector" in out.splitlines()
    assert "root@" not in out
    assert str(far_fleet) not in "".join(path.read_text() for path in made.glob("*.service"))


def test_the_tree_is_that_of_the_gateways(far_fleet: Path) -> None:
    file = far_fleet / "gw-a" / "hedgerow.toml"
    file.write_text(file.read_text().replace("[tree]", '[tree]\nname = "campus"\nmode = "routed"'))
    assert init("--collector", "--fleet", far_fleet)[0] == 0
    tree = tomllib.loads((far_fleet / "collector" / "collector.toml").read_text())["tree"]
    assert (tree["name"], tree["mode"]) == ("campus", "routed")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--fleet", "nowhere"], "this is no fleet that init has written"),
        ([], "this is no fleet that init has written (--fleet DIR says where it is)"),
        (["--fleet", "a", "b"], "--fleet: with --collector it is the folder of a fleet"),
        (["--fleet", "a=10.0.0.1"], "--fleet: with --collector it is the folder of a fleet"),
        (["--address", "10.0.0.1"], "--address: of no use with --collector"),
        (["--name", "A B", "--fleet", "{fleet}"], "name: 'A B'"),
        (["--name", "gw-a", "--fleet", "{fleet}"], "is there already"),
    ],
)
def test_what_can_not_be_made_is_one_line_and_nothing_is_written(
    far_fleet: Path, arguments: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(far_fleet)
    before = sorted(far_fleet.rglob("*"))
    given = [one.format(fleet=far_fleet) for one in arguments]
    code, out, err = init("--collector", *given)
    assert (code, out) == (exit_codes.WRONG_USE, "")
    assert why in err
    assert err.count("\n") == 1
    assert sorted(far_fleet.rglob("*")) == before
