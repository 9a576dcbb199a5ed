"""The REST API of a gateway's page: each answer is what its document and the policy say."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from page_answers import checked
from page_gateway import LIMIT_S, Looker, PageGateway, looker, page_gateway

from gateway.process.page.openapi import SCHEMAS, document
from gateway.process.page.routes import ROUTES


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    async with page_gateway(tmp_path) as made:
        yield made


async def good(at: Looker, operation: str, path: str = "", **query: Any) -> Any:
    status, told = await at.get(path or operation, **query)
    assert status == 200, told
    return checked(operation, told)


def test_the_document_is_one_of_openapi_and_tells_each_route() -> None:
    spec = pytest.importorskip("openapi_spec_validator")
    spec.validate(json.loads(json.dumps(document())))
    told = {
        (path, method.upper())
        for path, methods in document()["paths"].items()
        for method in methods
    }
    assert told == {(route.path, route.method) for route in ROUTES}
    assert {r.answer for r in ROUTES if "/" not in r.answer} | {"Error"} == set(SCHEMAS)


async def test_an_operator_reads_all_of_it(gateway: PageGateway) -> None:
    client = await gateway.client("meter-1")
    await client.subscribe("load/#")
    async with looker(gateway, "olga") as olga:
        me = await good(olga, "me")
        assert (me["who"], me["gateway"], me["roles"]) == (
            "console:olga",
            "gw",
            ["operator", "reader"],
        )
        assert me["may"]["clients"] and not me["may"]["disconnect"]
        told = await good(olga, "overview")
        assert told["status"]["id"] == "gw" and told["machine"]["disk_free_bytes"] > 0
        assert (await good(olga, "status"))["mqtt_clients"] == 1
        assert (await good(olga, "tree"))["roots"] == ["gw"]
        assert [one["id"] for one in (await good(olga, "members"))["members"]] == ["gw"]
        assert [one["id"] for one in (await good(olga, "clients"))["clients"]] == ["meter-1"]
        one = await good(olga, "client", "clients/meter-1")
        assert one["filters"][0]["filter"] == "load/#"
        sensors = {s["name"]: s for s in (await good(olga, "sensors"))["sensors"]}
        assert sensors["valve"]["is_actuator"] and sensors["valve"]["may_set"]
        assert not sensors["host/load1"]["is_actuator"]
        assert (await good(olga, "endpoints", "directory/endpoints"))["links"]
        assert (
            await good(olga, "resources", "directory/resources", search="rt=hedgerow*")
        ) is not None
        await good(olga, "alerts")
        logging.getLogger("gateway.test").warning("a line")
        assert [one["text"] for one in (await good(olga, "log", text="a line"))["lines"]]
        assert any(
            one["what"] == "logged in to the page" for one in (await good(olga, "audit"))["changes"]
        )
        assert "console:vera" in (await good(olga, "policy"))["assigned"]
        why = await good(
            olga, "explain", "policy/explain", who="console:vera", action="PUT /sensors/valve"
        )
        assert not why["allowed"]
        assert (await olga.get("openapi.json"))[1]["openapi"] == "3.1.0"


async def test_an_actuator_is_set_a_message_published_and_an_alert_silenced_and_all_is_audited(
    gateway: PageGateway,
) -> None:
    listening = await gateway.client("ear")
    await listening.subscribe("bell/#")
    async with looker(gateway, "olga") as olga:
        assert await olga.ask("PUT", "sensors/valve", {"value": "1"}) == (200, {})
        async with asyncio.timeout(LIMIT_S):
            while True:
                found = {s["name"]: s for s in (await good(olga, "sensors"))["sensors"]}
                if found["valve"]["values"] and found["valve"]["values"][0]["value"] == 1:
                    break
                await asyncio.sleep(0.05)
        rang = {"topic": "bell/door", "payload": "ding", "retain": True}
        assert await olga.ask("POST", "messages", rang) == (200, {})
        message: Any = await listening.next()
        assert (message.topic, bytes(message.payload)) == ("bell/door", b"ding")
        silence = {"do": "silence", "for_s": 60, "match": {"rule": "disk*"}}
        status, told = await olga.ask("POST", "alerts", silence)
        assert status == 200, told
        assert (await good(olga, "alerts"))["silences"][0]["number"] == told["number"]
    changes = {one["what"]: one for one in gateway.audit}
    for what in ("actuator set", "message published", "order about alerts"):
        assert changes[what]["who"] == "console:olga", what
        assert changes[what]["outcome"] == "done"
    assert changes["message published"]["topic"] == "bell/door"
    assert "ding" not in json.dumps(gateway.audit)


async def test_a_client_is_disconnected_by_who_has_that_right_alone(gateway: PageGateway) -> None:
    client = await gateway.client("meter-1")
    async with looker(gateway, "olga") as olga, looker(gateway, "anna") as anna:
        status, told = await olga.ask("POST", "clients/meter-1/disconnect", {})
        assert status == 403 and "may not POST" in told["error"]
        await client.nothing_came()
        status, told = await anna.ask("POST", "clients/meter-1/disconnect", {"forget": True})
        assert (status, told) == (200, {"was_connected": True, "is_forgotten": True})
        assert (await anna.get("clients/meter-1"))[0] == 404
    found = [one for one in gateway.audit if one["what"] == "client disconnected"]
    assert [(one["who"], one["outcome"]) for one in found] == [("console:anna", "done")]
    refused = [one for one in gateway.audit if one["what"] == "refused at the page"]
    assert [(one["who"], one["why"]) for one in refused] == [
        ("console:olga", "forbidden: disconnect")
    ]


async def test_the_gateways_own_registration_stays_and_what_is_not_there_is_said(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        (own,) = (await good(anna, "endpoints", "directory/endpoints"))["links"]
        path = f"directory/registrations/{own['href'].removeprefix('/rd/')}"
        assert (await anna.ask("DELETE", path))[0] == 409
        assert (await olga.ask("DELETE", path))[0] == 403
        assert (await anna.ask("DELETE", "directory/registrations/nothing"))[0] == 404
        assert not (await good(olga, "me"))["may"]["directory"]


async def test_a_viewer_changes_nothing_and_each_try_is_counted_and_audited(
    gateway: PageGateway,
) -> None:
    await gateway.client("meter-1")
    async with looker(gateway, "vera") as vera:
        for method, path, body in (
            ("PUT", "sensors/valve", {"value": "1"}),
            ("POST", "messages", {"topic": "a", "payload": ""}),
            ("POST", "clients/meter-1/disconnect", {}),
            ("POST", "alerts", {"do": "test"}),
            ("DELETE", "directory/registrations/1", None),
            ("DELETE", "members/gw", None),
        ):
            status, told = await vera.ask(method, path, body)
            assert status == 403, (path, told)
            assert set(told) == {"error"}
        for path in ("clients", "log", "audit", "policy", "support", "clients/meter-1"):
            assert (await vera.get(path))[0] == 403, path
        assert (await vera.get("policy/explain", who="user:x", action="GET /status"))[0] == 403
        own = await good(vera, "explain", "policy/explain", action="GET /status")
        assert own["principal"] == "console:vera" and own["allowed"]
    counted = gateway.process.status()["broker"]["refusals"]
    assert sum(many for kind, many in counted.items() if kind.startswith("page: forbidden")) >= 12
    refused = [one for one in gateway.audit if one["what"] == "refused at the page"]
    assert {one["who"] for one in refused} == {"console:vera"}


async def test_a_viewer_sees_only_topics_that_it_may_read(gateway: PageGateway) -> None:
    client = await gateway.client("pen")
    await client.publish("private/diary", b"secret", retain=True)
    await client.publish("open/board", b"hello", retain=True)
    async with looker(gateway, "vera") as vera, looker(gateway, "olga") as olga:
        topics = [one["topic"] for one in (await good(vera, "retained", filter="#"))["messages"]]
        assert "open/board" in topics and "private/diary" not in topics
        topics = [one["topic"] for one in (await good(olga, "retained", filter="#"))["messages"]]
        assert {"open/board", "private/diary"} <= set(topics)
        assert (await vera.get("retained", filter="private/#"))[0] == 403
        for topic_filter, status in (
            ("$share/g/a", 400),
            ("a/#/b", 400),
            ("$coap/#", 403),
            ("", 400),
        ):
            assert (await olga.get("retained", filter=topic_filter))[0] == status, topic_filter
        after = (await good(vera, "messages", filter="#"))["after"]
        waiting = asyncio.create_task(vera.get("messages", filter="#", after=after, wait_s=20))
        await asyncio.sleep(0)
        seen: list[Any] = []
        await client.publish("private/diary", b"again")
        await client.publish("open/board", b"\xff\x00")
        async with asyncio.timeout(LIMIT_S):
            while not any(one["topic"] == "open/board" for one in seen):
                status, told = await waiting
                assert status == 200, told
                seen += checked("messages", told)["messages"]
                again = vera.get("messages", filter="#", after=told["after"], wait_s=20)
                waiting = asyncio.create_task(again)
        waiting.cancel()
        began_s = asyncio.get_running_loop().time()
        await good(vera, "messages", filter="nobody/says", after=0, wait_s=0.2)
        assert asyncio.get_running_loop().time() - began_s >= 0.2
        board = next(one for one in seen if one["topic"] == "open/board")
        assert (board["form"], board["payload"]) == ("hex", "ff00")
        assert not any(one["topic"].startswith("private/") for one in seen)


async def test_a_script_gets_a_token_which_needs_no_word_of_the_page(gateway: PageGateway) -> None:
    async with looker(gateway) as script:
        status, told = await script.ask("POST", "tokens", {"user": "olga", "password": "olga"})
        assert status == 200
        checked("make_token", told)
        script.headers["Authorization"] = f"Bearer {told['token']}"
        assert (await script.get("status"))[0] == 200
        assert await script.ask("PUT", "sensors/valve", {"value": "0"}) == (200, {})
        assert (await script.ask("POST", "logout", {}))[0] == 200
        assert (await script.get("status"))[0] == 401


async def test_the_log_is_followed(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        after = (await good(anna, "log"))["after"]
        waiting = asyncio.create_task(
            anna.get("log", after=after, wait_s=20, level="WARNING", text="OWL")
        )
        await asyncio.sleep(0.05)
        logging.getLogger("gateway.test").warning("the owl has\nlanded")
        async with asyncio.timeout(LIMIT_S):
            status, told = await waiting
        assert status == 200
        if not told["lines"]:  # another line came first, and it waited for any
            told = (await anna.get("log", after=after, text="owl"))[1]
        assert [one["text"] for one in told["lines"]] == ["the owl has\\nlanded"]


async def test_a_page_that_has_followed_the_life_before_is_told_the_log_from_its_beginning(
    gateway: PageGateway,
) -> None:
    async with looker(gateway, "anna") as anna:
        logging.getLogger("gateway.test").warning("the first owl")
        after = (await good(anna, "log"))["after"]
        of_this_life = await good(anna, "log", after=after, text="owl")
        of_the_one_before = await good(anna, "log", after=after + 1_000, text="owl")
        assert of_this_life["lines"] == []
        assert [one["text"] for one in of_the_one_before["lines"]] == ["the first owl"]


async def test_a_support_bundle_holds_no_secret(gateway: PageGateway) -> None:
    file = gateway.folder / "gateway.toml"
    file.write_text(
        file.read_text()
        + '[alerts.webhook.pager]\nurl = "https://me:hunter2@x.test/?t=abc123"\n'
        + 'secret = "swordfish"\n'
    )
    async with looker(gateway, "anna") as anna:
        status, data = await anna.get("support")
        assert status == 200
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            names = {Path(one.name).name for one in archive.getmembers()}
            held = b"".join(archive.extractfile(one).read() for one in archive.getmembers())  # type: ignore[union-attr]
        assert {
            "status.json",
            "log.txt",
            "audit.jsonl",
            "configuration.json",
            "policy.json",
        } <= names
        for secret in (b"hunter2", b"swordfish", b"abc123", b"argon2", b"ab" * 32):
            assert secret not in held
        assert b"x.test" in held


@pytest.mark.parametrize(
    ("path", "query", "why"),
    [
        ("clients", {"aftr": "x"}, "aftr: is not known"),
        ("messages", {}, "filter: is missing"),
        ("messages", {"filter": "#", "wait_s": "26"}, "wait_s: 26.0 is not 0 to 25"),
        ("messages", {"filter": "#", "wait_s": "nan"}, "wait_s: nan is not 0 to 25"),
        ("messages", {"filter": "#", "after": "x"}, "after: is no integer"),
        ("log", {"level": "LOUD"}, "level: is none of DEBUG, INFO, WARNING, ERROR"),
        ("directory/endpoints", {"search": "nonsense"}, "search: 'nonsense' is no NAME=VALUE"),
        ("policy/explain", {"action": "dance"}, "action: 'dance' begins with none of"),
        ("policy/explain", {"who": "x", "action": "drain"}, "who: 'x' is none of"),
    ],
)
async def test_what_a_query_says_wrong_is_named(
    gateway: PageGateway, path: str, query: dict[str, str], why: str
) -> None:
    async with looker(gateway, "anna") as anna:
        status, told = await anna.get(path, **query)
        assert status == 400
        assert why in told["error"]


async def test_without_passwords_who_is_on_this_machine_looks_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async with page_gateway(tmp_path, users=False) as made, looker(made) as here:
        me = await good(here, "me")
        assert (me["asks"], me["is_in"]) == (False, True)
        assert (await here.get("status"))[0] == 200


async def test_pages_of_files_have_a_tag_and_come_packed(gateway: PageGateway) -> None:
    async with looker(gateway) as at, at.session.get(f"{gateway.base}/") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/html"
        policy = answer.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy
        tag = answer.headers["ETag"]
        async with at.session.get(f"{gateway.base}/", headers={"If-None-Match": tag}) as again:
            assert again.status == 304
        async with at.session.get(f"{gateway.base}/page.js") as script:
            assert script.headers["Content-Encoding"] == "gzip"
            assert "modules" in await script.text()
