"""`hedgerow run` is parsed by a parser of its own: it takes and refuses what that of all does."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway.base import event_loop
from gateway.base.event_log import lines
from gateway.process import running
from gateway.process.running import restart
from gateway.tools import cli
from gateway.tools.commands import serving

LINES = (
    [],
    ["--config", "x.toml"],
    ["--log-level", "debug", "--log-file"],
    ["--log-file", "here", "--config", "x.toml"],
    ["--help"],
    ["--version"],
    ["--confg", "x.toml"],
    ["--log-level", "loud"],
    ["--config"],
    ["more"],
)


def outcome(
    parser: Callable[[], argparse.ArgumentParser],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
) -> tuple[object, str, str]:
    """Return the arguments or the exit code of a parser, and its two outputs."""
    try:
        result: object = vars(parser().parse_args(words))
    except SystemExit as end:
        result = end.code
    told = capsys.readouterr()
    return result, told.out, told.err


def replace_service(serve: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another service served than a gateway's, which brings all that it has."""
    module: Any = ModuleType("service")
    module.serve = serve
    monkeypatch.setitem(sys.modules, "gateway.process.running.service", module)
    monkeypatch.setattr(running, "service", module, raising=False)  # who has imported it before


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_run_alone_is_parsed_as_among_all_commands(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = [serving.NAME, *words]
    assert outcome(serving.command_line, line, capsys) == outcome(cli.command_line, line, capsys)


def test_a_configuration_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.toml"
    codes = [main([serving.NAME, "--config", str(missing)]) for main in (serving.main, cli.main)]
    first, second = capsys.readouterr().err.splitlines()
    assert (codes[0], first) == (codes[1], second)
    assert str(missing) in first


def test_a_file_for_the_log_that_can_not_be_written_is_named_with_its_option(
    tmp_path: Path,
) -> None:
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "tree.key").chmod(0o600)
    file = tmp_path / "gw.toml"
    gateway = '[gateway]\nid = "gw"\nstate_dir = "state"\n'
    file.write_text(f'{gateway}[tree]\nkey_file = "tree.key"\ntls = "off"\ndiscovery = false\n')
    words = ["run", "--config", str(file), "--log-file", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"hedgerow: --log-file: {tmp_path}: Is a directory\n"


def test_an_event_loop_that_is_not_there_is_a_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree.key").touch(mode=0o600)
    (tmp_path / "tree.key").write_text("ab" * 32)
    file = tmp_path / "gw.toml"
    gateway = '[gateway]\nid = "gw"\nstate_dir = "state"\n'
    file.write_text(f'{gateway}[tree]\nkey_file = "tree.key"\ntls = "off"\ndiscovery = false\n')

    async def serve(*_: object) -> bool:
        return False

    def run(work: Coroutine[object, object, bool]) -> bool:
        work.close()
        raise event_loop.EventLoopError("HEDGEROW_EVENT_LOOP: 'x' is none")

    replace_service(serve, monkeypatch)
    monkeypatch.setattr(event_loop, "run", run)
    monkeypatch.setattr(lines, "begin", lambda _: None)
    assert serving.main(["run", "--config", str(file)]) == 2
    assert capsys.readouterr().err == "hedgerow: HEDGEROW_EVENT_LOOP: 'x' is none\n"


@pytest.mark.parametrize("wishes", [True, False])
def test_a_gateway_that_wishes_to_start_again_is_started_in_the_place_of_this_process(
    wishes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree.key").touch(mode=0o600)
    (tmp_path / "tree.key").write_text("ab" * 32)
    file = tmp_path / "gw.toml"
    gateway = '[gateway]\nid = "gw"\nstate_dir = "state"\n'
    file.write_text(f'{gateway}[tree]\nkey_file = "tree.key"\ntls = "off"\ndiscovery = false\n')
    served, restarted = list[str](), list[bool]()

    async def serve(settings: Any, _: object) -> bool:
        served.append(settings.gateway.id)
        return wishes

    replace_service(serve, monkeypatch)
    monkeypatch.setattr(restart, "in_place", lambda: restarted.append(True))
    monkeypatch.setattr(lines, "begin", lambda _: None)
    assert serving.main(["run", "--config", str(file)]) == 0
    assert (served, restarted) == (["gw"], [True] * wishes)


@pytest.mark.parametrize(
    ("words", "log"),
    [([], None), (["--log-file"], "state/gateway.log"), (["--log-file", "{}/own"], "own")],
)
def test_the_log_goes_to_a_file_too_where_one_is_wished(
    words: list[str], log: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree.key").touch(mode=0o600)
    (tmp_path / "tree.key").write_text("ab" * 32)
    file = tmp_path / "gw.toml"
    gateway = f'[gateway]\nid = "gw"\nstate_dir = "{tmp_path}/state"\n'
    file.write_text(f'{gateway}[tree]\nkey_file = "tree.key"\ntls = "off"\ndiscovery = false\n')
    written, levels = list[Path](), list[str]()

    async def serve(*_: object) -> bool:
        return False

    replace_service(serve, monkeypatch)
    monkeypatch.setattr(lines, "begin", levels.append)
    monkeypatch.setattr(lines, "also_to", written.append)
    line = ["run", "--config", str(file), *(word.format(tmp_path) for word in words)]
    assert serving.main(line) == 0
    assert written == ([] if log is None else [tmp_path / log])
    assert levels == ["INFO"]
