"""The page shows a configuration and changes values of it, for administrators alone."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import tomllib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from page_answers import checked
from page_gateway import LIMIT_S, Looker, PageGateway, configuration, looker, page_gateway

from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.trial import ConfigTrial, TrialNote, confirmed
from gateway.process.config_trials.trial_files import TrialFiles
from gateway.process.page import configuration_api, editable_keys
from gateway.process.page.administration import Administration
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.configuration_api import ConfigPlace, ConfigurationApi
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.web.api_error import ApiError

SECRET = "tk_hush"
MORE = f"""[alerts]
enabled = true
[alerts.webhook]
url = "https://hooks.example/x?{SECRET}"
"""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    async with page_gateway(tmp_path, more=MORE) as made:
        yield made


async def shown(at: Looker) -> dict[str, Any]:
    status, told = await at.get("configuration")
    assert status == 200, told
    found: dict[str, Any] = checked("configuration", told)
    return found


async def changed(at: Looker, *pairs: str, unset: tuple[str, ...] = (), **more: Any) -> Any:
    digest = (await shown(at))["digest"]
    body = {"set": list(pairs), "unset": list(unset), "if_unchanged": digest, **more}
    return await at.ask("POST", "configuration", body)


def file_of(gateway: PageGateway) -> Path:
    return gateway.folder / "gateway.toml"


async def test_each_key_has_a_value_a_source_and_a_text_and_no_secret_is_shown(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "anna") as anna:
        told = await shown(anna)
        keys = {one["key"]: one for one in told["keys"]}
        domain = keys["gateway.domain"]
        assert (domain["value"], domain["source"]) == ("campus", "file")
        assert keys["tree.hello_s"]["source"] == "default" and keys["tree.hello_s"]["text"]
        assert keys["tree.hello_s"]["may_change"] and told["may_write"]
        assert SECRET not in json.dumps(told)
        assert "hooks.example" in json.dumps(keys["alerts.webhook"]["value"])


async def test_a_change_is_checked_and_nothing_is_written(gateway: PageGateway) -> None:
    before = file_of(gateway).read_bytes()
    async with looker(gateway, "anna") as anna:
        body = {"set": ["tree.hello_s=1.5"], "unset": ["gateway.group"]}
        status, told = await anna.ask("POST", "configuration/checks", body)
        assert status == 200, told
        checked("check_configuration", told)
        assert [(one["key"], one["before"], one["after"]) for one in told["changes"]] == [
            ("gateway.group", "north", ""),
            ("tree.hello_s", 0.5, 1.5),
        ]
        assert told["faults"] == [] and "tree.hello_s=1.5" in told["command"]
        wrong = {"set": ["tree.hello_s=-1"]}
        status, told = await anna.ask("POST", "configuration/checks", wrong)
        assert status == 200 and "tree.hello_s" in told["faults"][0]
        assert (await changed(anna, "tree.hello_s=-1"))[0] == 422
    assert file_of(gateway).read_bytes() == before


async def test_a_change_is_written_on_trial_the_gateway_told_and_it_is_audited(
    gateway: PageGateway, heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration_api, "ANSWERED_S", 0.01)
    async with looker(gateway, "anna") as anna:
        status, told = await changed(anna, 'tree.replicate=["load/#"]', within_s=30)
        assert status == 200, told
        checked("change_configuration", told)
        assert (told["outcome"], told["restarts_for"]) == ("on trial", [])
        async with asyncio.timeout(LIMIT_S):
            while not heard:
                await asyncio.sleep(0.01)
        assert heard == [signal.SIGHUP]
        document = tomllib.loads(file_of(gateway).read_text())
        assert document["tree"]["replicate"] == ["load/#"]
        trial = (await anna.get("configuration/trial"))[1]
        checked("configuration_trial", trial)
        assert trial["trial"]["state"] == "waiting"
        # Nobody has judged it: who comes next waits.
        assert (await changed(anna, "tree.hello_s=1.5"))[0] == 409
        files = TrialFiles(file_of(gateway))
        open_trial = files.open_trial()
        assert isinstance(open_trial, ConfigTrial)
        files.write_note(open_trial, confirmed(TrialNote(open_trial.id)))
        files.end_trial()
        trial = (await anna.get("configuration/trial"))[1]["trial"]
        assert (trial["id"], trial["state"]) == (told["trial"]["id"], "confirmed")
        status, told = await changed(anna, "tree.hello_s=1.5")
        assert (status, told["restarts_for"]) == (200, ["tree.hello_s"])
        async with asyncio.timeout(LIMIT_S):
            while len(heard) < 2:
                await asyncio.sleep(0.01)
        assert heard[1] == signal.SIGUSR2
    (first, *_) = [o for o in gateway.audit if o["what"] == "configuration changed on trial"]
    assert (first["who"], first["set"]) == ("console:anna", ['tree.replicate=["load/#"]'])


class Running:
    """A gateway that is told to go by its configuration."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    def reload(self) -> None:
        self.told.set()

    def restart(self) -> None:
        self.told.set()


class Held:
    """A check of a configuration that goes on until the test lets it end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = threading.Event()
        self.begun = asyncio.Event()

    def __call__(self, _data: bytes, _file: Path) -> Sequence[str]:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self._end.wait(LIMIT_S)
        return ()

    def let_go(self) -> None:
        self._end.set()


Change = Callable[[], "asyncio.Task[Any]"]


def change_of(folder: Path, held: Held, running: Running) -> tuple[ConfigurationApi, Change]:
    """The API of a configuration, and what asks it for a change as an administrator does."""
    file = configuration(folder)
    (folder / "state").mkdir()
    policies = Policies(Policy(PolicyRules()), Policy(PolicyRules()))
    place = ConfigPlace(file, folder / "state")
    api = ConfigurationApi(place, Administration(lambda: policies), held, lambda _: running)
    anna = policies.others.principal("console", "anna", frozenset({"admin"}))

    def change() -> asyncio.Task[Any]:
        unchanged = trials.digest(file.read_bytes())
        body = {"set": ["tree.hello_s=1.5"], "if_unchanged": unchanged}
        return asyncio.create_task(api.change(ApiRequest(anna, "", {}, {}, body)))

    return api, change


async def test_a_gateway_goes_by_a_change_whose_browser_went_while_it_was_written(
    tmp_path: Path,
) -> None:
    held, running = Held(), Running()
    _, change = change_of(tmp_path, held, running)
    asking = change()
    await held.begun.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    with pytest.raises(ApiError, match="another change is being checked"):
        await change()  # it is not written beside the one that goes on
    held.let_go()
    async with asyncio.timeout(LIMIT_S):
        await running.told.wait()


async def test_a_gateway_that_has_stopped_is_told_of_no_change_that_was_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration_api, "ANSWERED_S", 0.0)
    held, running = Held(), Running()
    api, change = change_of(tmp_path, held, running)
    asking = change()
    await held.begun.wait()
    api.stop()
    held.let_go()
    assert (await asking)["outcome"] == "on trial"
    for _ in range(3):
        await asyncio.sleep(0)
    assert not running.told.is_set()


async def test_without_a_service_that_hears_a_change_waits_for_the_next_start(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "anna") as anna:
        status, told = await changed(anna, "tree.hello_s=1.5")
        assert (status, told["outcome"]) == (200, "written")


async def test_who_saw_an_older_file_changes_nothing(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        body = {"set": ["tree.hello_s=1.5"], "if_unchanged": "0" * 64}
        status, told = await anna.ask("POST", "configuration", body)
        assert status == 409 and "meanwhile" in told["error"]


@pytest.mark.parametrize(
    "pair",
    [
        'gateway.sensors_dir="/tmp/x"',
        'gateway.state_dir="/tmp/x"',
        'mqtt.plugins={"os.system" = {}}',
        'tree.key_file="/etc/shadow"',
        'keys.password_file="/etc/shadow"',
        'access.policy_file="/tmp/mine.toml"',
        'gateway.id="other"',
    ],
)
async def test_what_names_files_or_what_runs_is_not_changed_over_the_page(
    gateway: PageGateway, pair: str
) -> None:
    before = file_of(gateway).read_bytes()
    async with looker(gateway, "anna") as anna:
        assert (await changed(anna, pair))[0] == 403
        status, _ = await anna.ask("POST", "configuration/checks", {"set": [pair]})
        assert status == 403
        assert (await changed(anna, unset=(pair.partition("=")[0],)))[0] == 403
    assert file_of(gateway).read_bytes() == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"set": []},
        {"set": ["no pair"]},
        {"set": ["tree=1"]},
        {"set": ['mqtt.plugins."a.B".x=1']},
        {"set": ['"tree.hello_s"=1']},
        {"set": ['"gateway.sensors_dir"="/tmp/x"']},
        {"set": ["alerts.webhook.url=x"]},
        {"set": ["sensors=[]"]},
        {"set": ["tree.hello_s={a=1}"]},
        {"set": ["tree.hello_s=1", "tree.hello_s=2"]},
        {"set": [1]},
        {"set": ["tree.hello_s=1"] * 65},
        {"unset": ["[x]\ny"]},
        {"unset": [None]},
    ],
)
async def test_what_is_no_change_is_refused(gateway: PageGateway, body: Any) -> None:
    before = file_of(gateway).read_bytes()
    async with looker(gateway, "anna") as anna:
        assert (await anna.ask("POST", "configuration/checks", body))[0] == 400
        body = {**body, "if_unchanged": "0" * 64}
        assert (await anna.ask("POST", "configuration", body))[0] == 400
    assert file_of(gateway).read_bytes() == before


async def test_a_value_is_a_value_and_never_a_line_of_the_file(gateway: PageGateway) -> None:
    evil = 'gateway.domain=a"\n[gateway]\nsensors_dir = "/tmp/x'
    async with looker(gateway, "anna") as anna:
        status, _ = await changed(anna, evil)
        assert status == 422
    assert "sensors_dir" not in file_of(gateway).read_text()


@pytest.mark.parametrize("user", ["vera", "olga"])
async def test_a_viewer_and_an_operator_see_and_change_nothing(
    gateway: PageGateway, user: str
) -> None:
    before = file_of(gateway).read_bytes()
    body: dict[str, Any] = {"set": ["tree.hello_s=1.5"], "if_unchanged": "0" * 64}
    async with looker(gateway, user) as visitor:
        assert not (await visitor.get("me"))[1]["may"]["configuration"]
        for path in ("configuration", "configuration/trial"):
            assert (await visitor.get(path))[0] == 403
        for path in ("configuration", "configuration/checks"):
            if path.endswith("checks"):
                del body["if_unchanged"]
            status, _ = await visitor.ask("POST", path, body)
            assert status == 403
    assert file_of(gateway).read_bytes() == before
    refused = gateway.process.status()["broker"]["refusals"]
    assert refused["page: forbidden: change_configuration"] == 1
    assert any(one["what"] == "refused at the page" for one in gateway.audit)


async def test_who_is_on_the_machine_of_an_open_gateway_changes_nothing(tmp_path: Path) -> None:
    async with page_gateway(tmp_path, users=False) as gateway, looker(gateway) as local:
        assert (await local.get("configuration"))[0] == 403


async def test_another_site_changes_no_configuration(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        body = {"set": ["tree.hello_s=1.5"], "if_unchanged": (await shown(anna))["digest"]}
        for headers in ({"X-Hedgerow-CSRF": ""}, {"Origin": "https://evil.example"}):
            assert (await anna.ask("POST", "configuration", body, headers))[0] == 403
    assert "hello_s" not in file_of(gateway).read_text()


async def test_who_logs_out_before_a_change_has_its_turn_writes_nothing(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, began, gone = editable_keys.by_path, asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow() -> Any:
        loop.call_soon_threadsafe(began.set)
        asyncio.run_coroutine_threadsafe(gone.wait(), loop).result(60)
        return real()

    async with looker(gateway, "anna") as anna:
        digest = (await shown(anna))["digest"]
        monkeypatch.setattr(editable_keys, "by_path", slow)
        body = {"set": ["tree.hello_s=1.5"], "if_unchanged": digest}
        asking = asyncio.create_task(anna.ask("POST", "configuration", body))
        await began.wait()
        assert (await anna.ask("POST", "logout", {}))[0] == 200
        gone.set()
        status, _ = await asking
    assert status == 401
    assert "hello_s" not in file_of(gateway).read_text()


PATHS = sorted(editable_keys.by_path())
SPELLINGS = st.sampled_from(["{}", " {} ", '"{}"', "'{}'", "{}.x", "x.{}", '{}."a.b"'])
VALUES = st.sampled_from(["1", '"x"', "[]", "{a = 1}", "x\ny = 2", "", '"""\nx"""'])


@example([("tree.key_file", "{}", '"x"')])
@given(
    st.lists(
        st.tuples(st.sampled_from(PATHS) | st.text(max_size=20), SPELLINGS, VALUES), max_size=4
    )
)
def test_however_a_key_is_written_only_those_that_hold_values_are_changed(
    written: list[tuple[str, str, str]],
) -> None:
    keys = [spelling.replace("{}", path) for path, spelling, _ in written]
    pairs = [f"{key}={value}" for key, (_, _, value) in zip(keys, written, strict=True)]
    for body in ({"set": pairs}, {"unset": keys}):
        try:
            changes = configuration_api.changes_of(body)
        except ApiError:
            continue
        for change in changes:
            key = editable_keys.by_path()[".".join(change.path)]
            assert not editable_keys.why_not(key)
            assert len(change.path) == len(key.path.split("."))


def test_every_key_that_is_a_path_or_holds_tables_stays_the_machines() -> None:
    for path, key in editable_keys.by_path().items():
        if not editable_keys.why_not(key):
            assert key.kind in (str, int, float, bool, list[str]), path
            assert not path.endswith(("_file", "_dir", "plugins")), path
