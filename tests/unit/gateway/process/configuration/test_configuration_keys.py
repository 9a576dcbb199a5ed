"""Goal: what a key of the configuration is for stands once, and every key has it."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.broker import limits
from gateway.process.configuration import keys
from gateway.tools.handbook.configuration_page import with_reference

PAGE = Path(__file__).parents[5] / "docs/configuration.md"


def test_every_key_says_what_it_is_for() -> None:
    # Sections that may be left out as a whole have their lines on a page of their own.
    lacking = [key.path for key in keys.all_keys() if key.path not in keys.texts()]
    assert lacking == []


def test_the_reference_names_no_key_that_there_is_not() -> None:
    assert set(keys.texts()) == {key.path for key in keys.all_keys()}


def test_the_reference_is_a_configuration() -> None:
    assert tomllib.loads(keys.reference())["gateway"]["id"] == "gw-north"


def test_the_page_on_the_configuration_shows_the_reference() -> None:
    page = PAGE.read_text()
    command = "python -m gateway.tools.handbook.configuration_page docs/configuration.md"
    assert with_reference(page) == page, command


def test_a_page_without_the_block_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[gateway\]"):
        with_reference("# Configuration\n")


def test_a_key_knows_whether_a_reload_takes_it_over() -> None:
    found = {key.path: key for key in keys.all_keys()}
    assert found["tree.neighbours"].is_reloaded
    assert found["sensors"].is_reloaded
    assert not found["mqtt.port"].is_reloaded


def test_a_key_says_its_kind_in_words() -> None:
    found = {key.path: key.kind_in_words for key in keys.all_keys()}
    assert found["mqtt.port"] == "port"
    assert found["tree.neighbours"] == "list"
    assert found["tree.key_file"] == "path"
    assert found["alerts.mail"] == "table"
    assert found["gateway.status_interval_s"] == "number"


def test_a_key_knows_its_default_and_whether_a_file_has_to_have_it() -> None:
    found = {key.path: key for key in keys.all_keys()}
    assert found["mqtt.port"].default == 1883
    assert found["tree.neighbours"].default == []
    assert found["sensors"].default == []
    assert found["gateway.domain"].default == ""
    assert [path for path, key in found.items() if key.is_needed] == [
        "gateway.id",
        "gateway.state_dir",
        "tree.key_file",
    ]


def test_a_key_knows_its_bounds_and_what_it_may_be() -> None:
    found = {key.path: key for key in keys.all_keys()}
    bounds = {path: key.bounds for path, key in found.items() if key.table == "limits"}
    assert bounds == {
        f"limits.{one.name}": limits.RANGES.get(one.name) for one in fields(limits.Limits)
    }
    assert found["gateway.latitude"].bounds == (-90, 90)
    assert found["gateway.id"].bounds is None
    assert found["log.durability"].choices == ("write", "sync")
