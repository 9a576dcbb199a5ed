"""The page's side of the configuration where its file is missing, damaged or can't be changed."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.process.config_trials.trial import digest
from gateway.process.config_trials.trial_files import BEFORE, TrialFiles
from gateway.process.page.administration import Administration
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.configuration_api import ConfigPlace, ConfigurationApi, changes_of
from gateway.web.api_error import ApiError
from tests.policies import admins

TEXT = '[gateway]\nid = "gw"\nstate_dir = "state"\n[tree]\nkey_file = "k"\n'


def asked(**body: Any) -> ApiRequest:
    return ApiRequest(admins().principal("user", "anna"), "", {}, {}, body)


def api(file: Path | None, folder: Path, *faults: str) -> ConfigurationApi:
    def check(_after: bytes, _file: Path) -> Sequence[str]:
        return faults

    policies: Any = SimpleNamespace(others=admins())
    administration = Administration(lambda: policies)
    return ConfigurationApi(ConfigPlace(file, folder), administration, check, lambda _folder: None)


async def refused(work: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        await work
    return int(raised.value.status), raised.value.why


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "gw.toml"
    made.write_text(TEXT)
    return made


async def test_a_gateway_without_a_configuration_file_says_so(tmp_path: Path) -> None:
    none = api(None, tmp_path)
    for work in (none.configuration, none.trial, none.check, none.change):
        assert await refused(work(asked())) == (404, "this gateway has no configuration file")


async def test_a_file_that_can_not_be_read_is_named_with_the_reason(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = api(file, tmp_path)
    missing = api(tmp_path / "none", tmp_path)
    change = asked(set=["tree.hello_s=1.5"], if_unchanged="")
    told = (503, f"{tmp_path}/none: No such file or directory")
    for work in (missing.configuration(asked()), missing.check(change), missing.change(change)):
        assert await refused(work) == told
    for damage, why in ((b"\xff", "can't decode byte 0xff"), (b"a = ", "Invalid value")):
        file.write_bytes(damage)
        status, said = await refused(one.configuration(asked()))
        assert (status, said.startswith(f"{file}: ")) == (503, True)
        assert why in said
    monkeypatch.setattr(Path, "read_bytes", unread)
    monkeypatch.setattr(Path, "open", unread)
    assert (await refused(one.trial(asked())))[0] == 503


def unread(path: Path, *_: object, **__: object) -> bytes:
    raise OSError(errno.EIO, "Input/output error", str(path))


async def test_a_change_that_changes_nothing_is_not_on_trial(file: Path, tmp_path: Path) -> None:
    one = api(file, tmp_path)
    seen = digest(file.read_bytes())
    same = asked(unset=["tree.hello_s"], if_unchanged=seen)
    told = {"outcome": "unchanged", "restarts_for": [], "trial": None}
    assert await one.change(same) == told
    assert file.read_text() == TEXT
    assert not (tmp_path / f"gw.toml{BEFORE}").exists()
    assert await one.trial(asked()) == {"trial": None}


async def test_what_is_wrong_or_can_not_be_edited_is_told_and_nothing_is_written(
    file: Path, tmp_path: Path
) -> None:
    seen = digest(file.read_bytes())
    body = {"set": ["tree.hello_s=1.5"], "if_unchanged": seen}
    wrong = api(file, tmp_path, "one thing", "another")
    assert await refused(wrong.change(asked(**body))) == (422, "one thing; another")
    checked = await wrong.check(asked(**body))
    assert checked["faults"] == ["one thing", "another"]
    assert checked["digest"] == seen
    assert [one["key"] for one in checked["changes"]] == ["tree.hello_s"]
    late = asked(**{**body, "if_unchanged": "0" * 64})
    assert (await refused(api(file, tmp_path).change(late)))[0] == 409
    assert file.read_text() == TEXT
    file.write_text("tree = 3\n" + TEXT.partition("[tree]")[0])
    status, why = await refused(api(file, tmp_path).check(asked(**body)))
    assert (status, why) == (400, f"{file}: tree is no table")


async def test_a_gateway_that_went_back_shows_the_file_that_is_to_be_mended(
    file: Path, tmp_path: Path
) -> None:
    before = TrialFiles(file).before
    before.write_text(TEXT)
    for place, shown in ((file, file), (before, file)):
        assert (await api(place, tmp_path).configuration(asked()))["file"] == str(shown)


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({}, 400, "set: neither it nor unset has anything"),
        ({"set": [], "unset": []}, 400, "set: neither it nor unset has anything"),
        ({"set": [7]}, 400, "set: is no list of 64 texts at most"),
        ({"set": ["tree.hello_s=1"] * 65}, 400, "set: is no list of 64 texts at most"),
        ({"unset": ["tree.hello_s"] * 65}, 400, "unset: is no list of 64 texts at most"),
        ({"set": ["tree.hello_s=1"] * 64}, 400, "set: a key stands twice"),
        ({"set": ["tree.hello_s=1"], "unset": ["tree.hello_s"]}, 400, "set: a key stands twice"),
        ({"set": ["tree.none=1"]}, 400, "tree.none: is no key"),
        ({"set": ['tree."hello_s"=1']}, None, ""),
        ({"set": ['"tree.hello_s"=1']}, 400, "tree.hello_s: is no key"),
        ({"set": ["tree.hello_s={a=1}"]}, 400, "tree.hello_s: is a table, and has to be a value"),
    ],
)
def test_a_wrong_list_of_changes_is_told_by_its_field(
    body: dict[str, Any], status: int | None, why: str
) -> None:
    if status is None:
        assert [change.path for change in changes_of(body)] == [("tree", "hello_s")]
        return
    with pytest.raises(ApiError) as raised:
        changes_of(body)
    assert (int(raised.value.status), raised.value.why) == (status, why)
