"""The dashboard's command: arguments that do not go together are told in one line, and end it."""

from __future__ import annotations

from pathlib import Path

import pytest
from authority import Authority

from gateway.base import exit_codes
from gateway.tools import cli

TILES = "http://tiles.example.org/{z}/{x}/{y}.png"


def told(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    given = ["dashboard", "--tables", str(folder), "--listen", "localhost:0", *arguments]
    assert cli.main(given) == exit_codes.WRONG_USE
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--tiles-credit", "Maps"], "--tiles-credit: says whose tiles they are; --tiles says"),
        (["--tiles", "tiles"], "--tiles: "),
        (["--certificate", "a.pem"], "--certificate, --key: one is not given without the other"),
        (["--key", "a.pem"], "--certificate, --key: one is not given without the other"),
        (["--metrics", "x"], "--metrics: "),
        (["--listen", "x"], "--listen: 'x' is not HOST:PORT"),
        (["--listen", ":80"], "--listen: ':80' is not HOST:PORT"),
        (["--listen", "localhost:65536"], "--listen: 'localhost:65536' is not HOST:PORT"),
        (["--listen", "0.0.0.0:80"], "--listen: 0.0.0.0 is reached from elsewhere: it needs"),
    ],
)
def test_arguments_that_do_not_go_together_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    assert f"dashboard: {why}" in told(tmp_path, capsys, *arguments)


def test_a_page_over_https_takes_no_pictures_over_http(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Authority(tmp_path).issue("dashboard", is_server=True)
    tls = ["--certificate", str(own.certificate), "--key", str(own.key)]
    why = "dashboard: --tiles: a page over HTTPS shows tiles from https://... alone"
    assert why in told(tmp_path, capsys, *tls, "--tiles", TILES)
    missing = str(tmp_path / "none")
    assert f"{missing}: no such folder" in told(
        tmp_path, capsys, *tls, "--tiles", TILES.replace("http:", "https:"), "--tables", missing
    )
