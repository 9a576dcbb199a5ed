"""`hedgerow demo` tells at once where its result can't be written, and ends by what it found."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from gateway.tools import cli
from gateway.tools.demo import story
from gateway.tools.demo.fleet import FleetError


class Result:
    """Stands for what was counted."""

    def __init__(self, *, kept: bool) -> None:
        self.kept_its_promises = kept

    def as_json(self) -> dict[str, bool]:
        return {"kept": self.kept_its_promises}


def tells(monkeypatch: pytest.MonkeyPatch, came: Result | FleetError) -> list[tuple[Path, bool]]:
    """Have the demo end so; return what it is asked for."""
    asked: list[tuple[Path, bool]] = []

    async def tell(report: Path, *, quick: bool) -> Result:
        asked.append((report, quick))
        if isinstance(came, FleetError):
            raise came
        return came

    monkeypatch.setattr(story, "tell", tell)
    monkeypatch.setattr(logging.getLogger("gmqtt"), "level", logging.NOTSET)  # as it is afterwards
    return asked


@pytest.mark.parametrize("kept", [True, False])
def test_the_result_is_a_document_and_a_broken_promise_a_failure(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tells(monkeypatch, Result(kept=kept))
    file = tmp_path / "result.json"
    assert cli.main(["demo", "--json", str(file), "--quick"]) == (0 if kept else 1)
    assert json.loads(file.read_text()) == {"kept": kept}
    assert asked == [(Path("demo-report"), True)]


def test_a_file_that_can_not_be_written_is_told_before_the_minutes_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = tells(monkeypatch, Result(kept=True))
    assert cli.main(["demo", "--json", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"hedgerow: --json: {tmp_path}: Is a directory\n"
    assert asked == []


def test_a_file_that_can_not_be_written_any_more_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"

    class TakenAway(Result):
        def as_json(self) -> dict[str, bool]:
            file.unlink()
            file.mkdir()
            return super().as_json()

    tells(monkeypatch, TakenAway(kept=True))
    assert cli.main(["demo", "--json", str(file)]) == 2
    assert capsys.readouterr().err == f"hedgerow: --json: {file}: Is a directory\n"


def test_a_fleet_that_does_not_come_up_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = tells(monkeypatch, FleetError("gw-a has not come up"))
    assert cli.main(["demo", "--report", "here"]) == 1
    assert capsys.readouterr().err == "hedgerow: gw-a has not come up\n"
    assert asked == [(Path("here"), False)]
