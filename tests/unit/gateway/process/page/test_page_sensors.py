"""Sensors added, changed, tried and removed by the page: by whom, and what a driver can't do."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import installed_package
import pytest
from driver_children import driver_children
from page_answers import checked
from page_gateway import LIMIT_S, Looker, PageGateway, looker, page_gateway

from gateway.sensors import bounded_calls, drivers

HOSTILE = """
import threading
import time

from gateway.sensors.sensor import Sensor

let_go = threading.Event()


class Hostile(Sensor):
    '''A driver that does as it likes.

    Args:
        does: what.
    '''

    def __init__(self, name: str, *, does: str = "read", **options: object) -> None:
        super().__init__(name, **options)
        self.does = does
        if does == "hang at once":
            let_go.wait(60)
        if does == "raise at once":
            raise RuntimeError("no chip at 0x44")

    def read(self):
        match self.does:
            case "hang":
                let_go.wait(60)
            case "raise":
                raise OSError("no answer on the bus")
            case "shout":
                raise OSError("<b>" + "x" * 1_000_000)
            case "huge":
                return "y" * 1_000_000
            case "many":
                return {f"v{number}": float(number) for number in range(500)}
        return 21.5
"""
SWITCH: dict[str, Any] = {"type": "switch", "name": "pump", "options": {"interval_s": 5}}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    async with page_gateway(tmp_path) as made:
        yield made


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Drivers of an installed package, for this process and for those that it starts."""
    folder = tmp_path / "installed"
    points = {
        "hostile": "hostile_page_driver:Hostile",
        "missing": "no_such_module:Class",
        "stuck": "hangs_on_import:Class",
    }
    installed_package.write(folder, "hostile-driver", drivers.ENTRY_POINTS, points)
    (folder / "hostile_page_driver.py").write_text(HOSTILE)
    (folder / "hangs_on_import.py").write_text("import time\ntime.sleep(3600)\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield
    sys.modules.pop("hostile_page_driver", None)


async def done(at: Looker, operation: str, method: str, path: str, body: Any = None) -> Any:
    status, told = await at.ask(method, path, body)
    assert status == 200, told
    return checked(operation, told)


async def names(at: Looker) -> dict[str, bool]:
    """Sensors that are listed, and whether each was added."""
    told = await done(at, "sensors", "GET", "sensors")
    return {one["name"]: one["is_added"] for one in told["sensors"]}


async def test_an_operator_adds_changes_and_removes_a_sensor_and_all_is_audited(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "olga") as olga:
        assert (await olga.get("me"))[1]["may"]["sensors"]
        assert await done(olga, "add_sensor", "POST", "sensors", SWITCH) == {"names": ["pump"]}
        assert (await names(olga))["pump"] is True
        told = await done(olga, "sensor_table", "GET", "sensors/pump/table")
        assert told == {"table": {"type": "switch", "name": "pump", "interval_s": 5}}
        other = {"type": "switch", "name": "cellar/well", "options": {"retain": True}}
        told = await done(olga, "change_sensor", "PUT", "sensors/pump/table", other)
        assert told == {"names": ["cellar/well"]}
        told = await done(olga, "sensor_table", "GET", "sensors/cellar%2Fwell/table")
        assert told == {"table": {"type": "switch", "name": "cellar/well", "retain": True}}
        told = await done(olga, "remove_sensor", "DELETE", "sensors/cellar%2Fwell")
        assert told == {"names": ["cellar/well"]}
        assert "cellar/well" not in await names(olga)
    changes = [one for one in gateway.audit if one["what"].startswith("sensor ")]
    assert [(one["who"], one["what"], one["name"], one["outcome"]) for one in changes] == [
        ("console:olga", "sensor added", "pump", "done"),
        ("console:olga", "sensor changed", "pump", "done"),
        ("console:olga", "sensor removed", "cellar/well", "done"),
    ]
    assert changes[0]["type"] == "switch"


async def test_what_is_added_is_there_after_a_restart(tmp_path: Path) -> None:
    async with page_gateway(tmp_path) as gateway, looker(gateway, "olga") as olga:
        await done(olga, "add_sensor", "POST", "sensors", SWITCH)
    async with page_gateway(tmp_path) as gateway, looker(gateway, "olga") as olga:
        assert (await names(olga))["pump"] is True


async def test_a_form_is_made_of_what_the_driver_takes(gateway: PageGateway) -> None:
    async with looker(gateway, "olga") as olga:
        told = await done(olga, "drivers", "GET", "drivers")
        types = [one["type"] for one in told["drivers"]]
        assert {"switch", "gpio-in", "coap", "replay", "host"} <= set(types)
        for kind in types:
            driver = await done(olga, "driver", "GET", f"drivers/{kind}")
            assert "interval_s" in {one["name"] for one in driver["parameters"]}
        pin = next(
            one
            for one in (await olga.get("drivers/gpio-in"))[1]["parameters"]
            if one["name"] == "pin"
        )
        assert (pin["kind"], pin["is_needed"], pin["range"]) == ("whole", True, [0, 27])


async def test_a_sensor_is_tried_before_it_is_saved(gateway: PageGateway) -> None:
    async with looker(gateway, "olga") as olga:
        table = {"type": "switch"}
        (found,) = (await done(olga, "try_sensor", "POST", "sensor-trials", table))["values"]
        assert (found["name"], found["value"], found["quality"]) == ("try", 0, "good")
        told = await done(olga, "try_sensor", "POST", "sensor-trials", {"type": "host"})
        assert {"host/load1", "host/memory"} <= {one["name"] for one in told["values"]}
        before = await names(olga)
        status, told = await olga.ask(
            "POST", "sensor-trials", {"type": "gpio-in", "options": {"pin": 99}}
        )
        assert (status, told["error"]) == (400, "pin: 99 is not 0 to 27")
        assert await names(olga) == before
    (first, *_) = [one for one in gateway.audit if one["what"] == "sensor tried"]
    assert (first["who"], first["type"]) == ("console:olga", "switch")


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"type": "os:system", "name": "a"}, 400, "only the configuration may name a class"),
        ({"type": "soil.py:Soil", "name": "a"}, 400, "only the configuration may name a class"),
        ({"type": "nothing", "name": "a"}, 400, "none of"),
        (
            {"type": "replay", "name": "a", "options": {"series": "/etc/passwd"}},
            400,
            "only the configuration may name a file",
        ),
        ({"type": "host", "options": {"disk": "/root"}}, 400, "only the configuration may say"),
        (
            {"type": "coap", "name": "a", "options": {"uri": "coaps://x/y", "psk_file": "/k"}},
            400,
            "only the configuration may say",
        ),
        ({"type": "switch", "name": "a", "options": {"speed": 1}}, 400, "speed: unknown key"),
        ({"type": "switch", "name": "a", "options": {"name": "b"}}, 400, "options: name stands"),
        ({"type": "switch", "name": "Bad Name"}, 400, "name"),
        ({"type": "switch", "name": "valve"}, 409, "there is a sensor named 'valve'"),
        ({"type": "switch", "name": "a", "options": {"attributes": {"p": "x" * 9_000}}}, 413, ""),
        ({"type": "switch", "name": "a" * 257}, 400, "name: 257 characters"),
        ({"type": 5}, 400, "type: is no string"),
        ({"name": "a"}, 400, "type: is missing"),
        ({"type": "switch", "module": "os"}, 400, "module: is not known"),
    ],
)
async def test_what_a_browser_may_not_say_is_refused_with_the_key(
    gateway: PageGateway, body: dict[str, Any], status: int, why: str
) -> None:
    async with looker(gateway, "anna") as anna:
        before = await names(anna)
        for path in ("sensors", "sensor-trials"):
            if path == "sensor-trials" and status == 409:
                continue
            got, told = await anna.ask("POST", path, body)
            assert got in (status, 409), (path, told)
            assert why in told["error"], path
        assert await names(anna) == before


async def test_a_sensor_of_the_configuration_stays_as_it_is(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        for method, path, body in (
            ("GET", "sensors/valve/table", None),
            ("PUT", "sensors/valve/table", {"type": "switch", "name": "valve"}),
            ("DELETE", "sensors/valve", None),
        ):
            status, told = await anna.ask(method, path, body)
            assert status == 409 and "stands in the configuration" in told["error"]
            status, told = await anna.ask(method, path.replace("valve", "none"), body)
            assert status == 404, told
        assert (await names(anna))["valve"] is False


async def test_a_viewer_neither_changes_nor_tries_a_sensor(gateway: PageGateway) -> None:
    async with looker(gateway, "olga") as olga, looker(gateway, "vera") as vera:
        await done(olga, "add_sensor", "POST", "sensors", SWITCH)
        assert not (await vera.get("me"))[1]["may"]["sensors"]
        for method, path, body in (
            ("GET", "drivers", None),
            ("GET", "drivers/switch", None),
            ("GET", "sensors/pump/table", None),
            ("POST", "sensor-trials", SWITCH),
            ("POST", "sensors", {**SWITCH, "name": "other"}),
            ("PUT", "sensors/pump/table", SWITCH),
            ("PUT", "sensors/none/table", SWITCH),
            ("DELETE", "sensors/pump", None),
        ):
            status, told = await vera.ask(method, path, body)
            assert status == 403, (method, path, told)
        assert (await names(olga)).keys() == (await names(vera)).keys()
    refused = {one["who"] for one in gateway.audit if one["what"] == "refused at the page"}
    assert refused == {"console:vera"}


async def test_another_site_adds_no_sensor(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        for headers in (
            {"X-Hedgerow-CSRF": ""},
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            for method, path in (
                ("POST", "sensors"),
                ("POST", "sensor-trials"),
                ("PUT", "sensors/valve/table"),
                ("DELETE", "sensors/valve"),
            ):
                assert (await anna.ask(method, path, SWITCH, headers))[0] == 403, (method, path)
        status, _ = await anna.ask("POST", "sensors", SWITCH, {"Content-Type": "text/plain"})
        assert status == 415
        assert "pump" not in await names(anna)


# -- drivers that do as they like ------------------------------------------------------------------


async def answers_meanwhile(gateway: PageGateway, waiting: asyncio.Task[Any]) -> None:
    """Others are answered, several times, while a request is under way."""
    async with looker(gateway, "vera") as vera:
        for _ in range(3):
            assert (await vera.get("status"))[0] == 200
        assert not waiting.done()


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("raise", "OSError: no answer on the bus"),
        ("shout", "OSError: "),
    ],
)
async def test_a_driver_that_raises_is_told_in_words(
    gateway: PageGateway, does: str, why: str
) -> None:
    async with looker(gateway, "olga") as olga:
        table = {"type": "hostile", "name": "h", "options": {"does": does}}
        (found,) = (await done(olga, "try_sensor", "POST", "sensor-trials", table))["values"]
        assert found["value"] is None
        assert found["why"].startswith(why) and len(found["why"]) <= 200


@pytest.mark.usefixtures("hostile")
async def test_one_that_raises_when_it_is_made_is_told_in_words(gateway: PageGateway) -> None:
    async with looker(gateway, "olga") as olga:
        table = {"type": "hostile", "name": "h", "options": {"does": "raise at once"}}
        for path in ("sensors", "sensor-trials"):
            status, told = await olga.ask("POST", path, table)
            assert status == 400 and "no chip at 0x44" in told["error"]


@pytest.mark.usefixtures("hostile")
async def test_of_a_huge_answer_a_part_is_told(gateway: PageGateway) -> None:
    async with looker(gateway, "olga") as olga:
        for does in ("huge", "many"):
            table = {"type": "hostile", "name": "h", "options": {"does": does}}
            told = await done(olga, "try_sensor", "POST", "sensor-trials", table)
            assert len(json.dumps(told)) < 16_384


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
async def test_one_that_never_answers_is_killed_others_are_answered_and_the_next_is_tried(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "olga") as olga:
        for does in ("hang", "hang at once", "hang"):
            table = {"type": "hostile", "name": "h", "options": {"does": does}}
            trial = asyncio.create_task(olga.ask("POST", "sensor-trials", table))
            await answers_meanwhile(gateway, trial)
            async with asyncio.timeout(LIMIT_S):
                status, told = await trial
            assert (status, told["error"]) == (
                504,
                "sensor: the driver has not come back within 10 s",
            )
        status, told = await olga.ask("GET", "drivers/stuck")
        assert (status, told["error"]) == (504, "type: the driver has not come back within 10 s")
        assert (await olga.ask("POST", "sensor-trials", {"type": "switch"}))[0] == 200
        assert not driver_children()


@pytest.mark.slow
@pytest.mark.usefixtures("hostile")
async def test_one_that_hangs_when_it_is_added_holds_neither_the_gateway_nor_other_sensors(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "olga") as olga:
        table = {"type": "hostile", "name": "h", "options": {"does": "hang at once"}}
        adding = asyncio.create_task(olga.ask("POST", "sensors", table))
        await answers_meanwhile(gateway, adding)
        async with asyncio.timeout(LIMIT_S):
            status, told = await adding
        assert status == 409 and "has not come back" in told["error"]
        assert not any(one.name == "driver made" for one in threading.enumerate())
        assert await done(olga, "add_sensor", "POST", "sensors", SWITCH) == {"names": ["pump"]}
        assert "h" not in await names(olga)


@pytest.mark.usefixtures("hostile")
async def test_installed_drivers_are_listed_and_one_that_can_not_be_had_says_why(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "olga") as olga:
        told = await done(olga, "drivers", "GET", "drivers")
        found = {one["type"]: one["is_installed"] for one in told["drivers"]}
        assert found["hostile"] and found["missing"] and not found["switch"]
        driver = await done(olga, "driver", "GET", "drivers/hostile")
        does = next(one for one in driver["parameters"] if one["name"] == "does")
        assert (does["kind"], does["text"]) == ("text", "what.")
        status, told = await olga.ask("GET", "drivers/missing")
        assert status == 409 and "no_such_module" in told["error"]
        for name in ("os:system", "..%2Fsoil.py:Soil", "%3Cb%3E"):
            status, told = await olga.ask("GET", f"drivers/{name}")
            assert status == 409 and "is none of" in told["error"], told


def test_calls_that_hang_are_few_and_told_of() -> None:
    let_go = threading.Event()

    calls = bounded_calls.BoundedCalls(limit_s=0.05, most=2)
    said = []
    for _ in range(3):
        try:
            calls.come_of(lambda: let_go.wait(60))
        except bounded_calls.CallHangsError as error:
            said.append(str(error))
    let_go.set()
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        try:
            assert calls.come_of(lambda: 5) == 5
            break
        except bounded_calls.CallHangsError:
            time.sleep(0.01)
    assert said == [
        *["the driver has not come back within 0.05 s"] * 2,
        "other drivers are called, or hang: repeat this later",
    ]


@pytest.mark.parametrize(
    "options",
    [
        b'{"attributes": ' + b'{"a": ' * 900 + b"1" + b"}" * 900 + b"}",
        b'{"attributes": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"interval_s": ' + b"9" * 400 + b"}",
        b'{"interval_s": 1e999}',
        b'{"interval_s": NaN}',
        b'{"attributes": {"\\ud800": "\\udfff"}}',
        b'{"": ""}',
        b"[]",
        b'{"interval_s": 5, "interval_s": 6}',
    ],
)
async def test_a_hostile_body_is_no_error_of_the_gateway(
    gateway: PageGateway, options: bytes
) -> None:
    async with looker(gateway, "olga") as olga:
        body = b'{"type": "switch", "name": "pump", "options": ' + options + b"}"
        headers = {"X-Hedgerow-CSRF": olga.csrf, "Content-Type": "application/json"}
        for path in ("sensor-trials", "sensors"):
            answer = await olga.session.post(
                f"{olga.base}/api/v1/{path}", data=body, headers=headers
            )
            assert answer.status in (200, 400), await answer.text()


# -- who asked is somebody else when the change has its turn ---------------------------------------


@pytest.mark.parametrize("how", ["log-out", "removed"])
async def test_who_may_no_more_has_no_sensor_changed_that_waits_for_its_turn(
    gateway: PageGateway, how: str
) -> None:
    async with looker(gateway, "olga") as olga, looker(gateway, "anna") as anna:
        assert (await anna.ask("POST", "sensors", SWITCH))[0] == 200
        async with gateway.process.parts.readings.changing([]):
            waiting = [
                asyncio.create_task(olga.ask("POST", "sensors", {**SWITCH, "name": "other"})),
                asyncio.create_task(olga.ask("DELETE", "sensors/pump")),
            ]
            async with asyncio.timeout(LIMIT_S):
                while len(gateway.process.parts.site.turns) < 2:  # resources that are written to
                    await asyncio.sleep(0.02)
            if how == "log-out":
                assert (await olga.ask("POST", "logout", {}))[0] == 200
            else:
                assert (await anna.ask("DELETE", "users/olga"))[0] == 200
        answers = [status for status, _ in await asyncio.gather(*waiting)]
        assert answers == [403, 403]
        names = [one["name"] for one in (await anna.get("sensors"))[1]["sensors"]]
        assert "pump" in names and "other" not in names
