"""`hedgerow first-start` ends with a line where it can't serve its page."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from gateway.base import exit_codes
from gateway.tools import cli
from gateway.tools.first_start import setup_certificate


def test_a_disk_without_room_for_its_certificate_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/key")

    monkeypatch.setattr(setup_certificate, "tls", full)
    assert cli.main(["first-start", str(tmp_path / "etc")]) == exit_codes.FAILED
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("hedgerow: first-start: ")
    assert "No space left on device" in line
