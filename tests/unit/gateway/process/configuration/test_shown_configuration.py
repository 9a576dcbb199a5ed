"""Goal: an operator sees of each key what it is now, and from where, before changing it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.process.configuration import keys
from gateway.process.configuration.shown import HIDDEN, ShownKey, shown
from gateway.tools import cli

TEXT = """\
[gateway]
id = "gw"
state_dir = "state"

[mqtt.plugins]
"package.Class" = { url = "x", api_key = "abc", inner = [{ password = "xyz", user = "u" }] }

[tree]
key_file = "tree.key"
hello_s = 2.0  # slow links

[alerts.webhook]
url = "https://example.org"

[[sensors]]
type = "host"

[[sensors]]
type = "own:Own"
token = "t0ken"
token_file = "t"
"""


def rows(text: str = TEXT) -> dict[str, ShownKey]:
    return {row.key.path: row for row in shown(text, tomllib.loads(text))}


def test_every_key_is_shown_once() -> None:
    assert list(rows()) == [key.path for key in keys.all_keys()]


def test_a_value_says_its_line_or_that_it_is_the_default() -> None:
    found = rows()
    assert (found["tree.hello_s"].value, found["tree.hello_s"].source) == (2.0, "file")
    assert TEXT.splitlines()[found["tree.hello_s"].line - 1].startswith("hello_s")
    assert (found["mqtt.port"].value, found["mqtt.port"].source) == (1883, "default")
    assert (found["alerts.webhook"].value, found["alerts.webhook"].source) == (
        {"url": "https://example.org"},
        "file",
    )
    assert found["gateway.id"].as_json()["is_needed"]


def test_a_file_that_systemd_hands_over_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree.key").touch()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    found = rows()["tree.key_file"]
    assert (found.value, found.source) == (str(tmp_path / "tree.key"), "environment")


def test_secrets_of_plug_ins_and_sensors_are_not_shown() -> None:
    told = json.dumps([row.as_json() for row in rows().values()])
    for secret in ("abc", "xyz", "t0ken"):
        assert f'"{secret}"' not in told
    assert rows()["sensors"].value[1] == {"type": "own:Own", "token": HIDDEN, "token_file": "t"}


def test_all_defaults_are_what_json_has() -> None:
    told = [row.as_json() for row in shown("", {})]
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("text", ["gateway = 1\n", "[mqtt]\nport = {}\n", "[[tree]]\n"])
def test_a_file_that_is_wrong_is_shown_as_it_is(text: str) -> None:
    assert rows(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "gw.toml"
    made.write_text(TEXT)
    return made


def test_one_key_is_shown_in_full(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "show", "tree.hello_s", "--config", str(file)]) == 0
    said = capsys.readouterr().out
    for part in ("tree.hello_s = 2.0", f"{file}:10", "0.01 to 60", "default: 0.5", "a restart"):
        assert part in said, said
    assert keys.texts()["tree.hello_s"] in said


def test_several_keys_are_rows_of_key_value_and_source(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["config", "show", "tree", "--config", str(file)]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert head == ["key", "value", "from"]
    assert ["tree.hello_s", "2.0"] in [row[:2] for row in rows]
    assert {row[0].partition(".")[0] for row in rows} == {"tree"}


def test_json_has_what_a_page_needs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "show", "tree", "--json", "--config", str(file)]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert len(told["digest"]) == 64
    assert not told["is_on_trial"]
    (mode,) = [one for one in told["keys"] if one["key"] == "tree.mode"]
    assert mode["choices"] == ["flood", "routed", "topic"]
    assert mode["applied_by"] == "restart"


def test_a_key_that_there_is_not_is_told_beside_the_near_one(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["config", "show", "tree.helo_s", "--config", str(file)]) == 2
    assert "did you mean tree.hello_s" in capsys.readouterr().err
