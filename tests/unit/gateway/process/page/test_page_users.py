"""Users and passwords at the page: listed, added, set, removed; sessions by the old ones end."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yarl
from argon2 import PasswordHasher
from page_answers import checked
from page_gateway import POLICY, USERS, Looker, PageGateway, looker, page_gateway

from gateway.base.lone_change import alone
from gateway.broker.access import password_lines
from gateway.process.access import files
from gateway.process.access.files import AccessFiles
from gateway.process.page import user_api
from gateway.process.page.audit_notes import WRONG_PASSWORD

NEW = "correct horse battery"
HOSTILE = "<img src=x onerror=alert(1)>"
KEEPER = """
[roles.keeper]
includes = ["reader"]
allow = ["configure"]
"""


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_lines, "PasswordHasher", partial(PasswordHasher, 1, 64, 1))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    async with page_gateway(tmp_path) as made:
        yield made


async def users(at: Looker) -> dict[str, dict[str, Any]]:
    status, told = await at.get("users")
    assert status == 200, told
    return {one["name"]: one for one in checked("users", told)["users"]}


async def added(at: Looker, user: str, password: str | None = None) -> Any:
    body = {"user": user} | ({} if password is None else {"password": password})
    status, told = await at.ask("POST", "users", body)
    assert status == 200, told
    return checked("add_user", told)


def lines(gateway: PageGateway) -> str:
    return (gateway.folder / "passwords").read_text()


async def can_log_in(gateway: PageGateway, user: str, password: str) -> bool:
    async with looker(gateway) as one:
        return await one.log_in(user, password) == 200


async def test_users_are_listed_with_their_roles_and_no_hash(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        assert (await anna.get("me"))[1]["may"]["users"]
        found = await users(anna)
        assert set(found) == set(USERS)
        assert all(one["has_password"] and one["changed_s"] is None for one in found.values())
        assert found["anna"]["roles"] == ["admin", "operator", "reader"]
        assert found["anna"]["mqtt_roles"] == ["operator", "reader"]
        assert found["nina"]["roles"] == []
        assert found["anna"]["why_not"] == "is the last one who may change users"
        assert found["olga"]["why_not"] == ""
        assert "argon2" not in json.dumps((await anna.get("users"))[1])


async def test_whom_the_policy_alone_names_has_no_password(tmp_path: Path) -> None:
    policy = POLICY.replace('"console:nina" = []', '"console:paul" = ["reader"]')
    async with page_gateway(tmp_path, policy=policy) as gateway, looker(gateway, "anna") as anna:
        found = await users(anna)
        assert not found["paul"]["has_password"] and found["nina"]["has_password"]
        assert "*" not in found


async def test_a_user_is_added_comes_in_and_the_trail_tells_since_when(
    gateway: PageGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with looker(gateway, "anna") as anna:
        assert (await added(anna, "paul", NEW)) == {"user": "paul", "password": None}
        drawn = (await added(anna, "kurt"))["password"]
        assert len(drawn) >= 20
        assert await can_log_in(gateway, "paul", NEW)
        assert await can_log_in(gateway, "kurt", drawn)
        found = await users(anna)
        assert found["paul"]["changed_s"] > 0 and found["vera"]["changed_s"] is None
    noted = [one for one in gateway.audit if one["what"] == "user added"]
    assert [(one["who"], one["user"], one["outcome"]) for one in noted] == [
        ("console:anna", "paul", "done"),
        ("console:anna", "kurt", "done"),
    ]
    everywhere = caplog.text + json.dumps(gateway.audit) + lines(gateway)
    assert NEW not in everywhere and drawn not in everywhere


async def test_the_file_keeps_its_rights_and_its_comments(gateway: PageGateway) -> None:
    file = gateway.folder / "passwords"
    file.write_text(f"# staff\n{lines(gateway)}")
    file.chmod(0o640)
    async with looker(gateway, "anna") as anna:
        await added(anna, "paul", NEW)
    assert file.stat().st_mode & 0o777 == 0o640
    assert lines(gateway).startswith("# staff\nvera:")
    assert [one.name for one in gateway.folder.glob("passwords*")] == ["passwords"]


async def test_nobody_keeps_an_answer_with_a_password(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        answer = await anna.session.post(
            f"{anna.base}/api/v1/users",
            data=json.dumps({"user": "paul"}),
            headers={"X-Hedgerow-CSRF": anna.csrf, "Content-Type": "application/json"},
        )
        assert answer.status == 200
        assert answer.headers["Cache-Control"] == "no-store" and "ETag" not in answer.headers


async def test_another_password_ends_sessions_tokens_and_connections_at_once(
    gateway: PageGateway,
) -> None:
    client = await gateway.client("meter", "olga")
    other = await gateway.client("lamp", "vera")
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        told = {"user": "olga", "password": "olga"}
        token = (await olga.ask("POST", "tokens", told))[1]["token"]
        status, told = await anna.ask("PUT", "users/olga/password", {"password": NEW})
        assert status == 200, told
        assert checked("set_password", told) == {"user": "olga", "password": None}
        assert (await olga.get("status"))[0] == 401
        async with looker(gateway) as script:
            script.headers["Authorization"] = f"Bearer {token}"
            assert (await script.get("status"))[0] == 401
        assert (await anna.get("status"))[0] == 200
    assert await client.next() is not None  # DISCONNECT
    await other.subscribe("a/b")  # it is there as before
    assert await can_log_in(gateway, "olga", NEW) and not await can_log_in(gateway, "olga", "olga")


async def test_who_is_removed_is_out_at_once_whatever_other_files_say(
    gateway: PageGateway,
) -> None:
    (gateway.folder / "access.toml").write_text("[[[")
    assert await gateway.process.reload() != ""
    client = await gateway.client("meter", "olga")
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        assert (await anna.ask("DELETE", "users/olga"))[0] == 200
        assert (await olga.get("status"))[0] == 401
        assert await client.next() is not None  # DISCONNECT
        assert (await anna.ask("DELETE", "users/olga"))[0] == 404
        assert (await anna.ask("PUT", "users/olga/password", {}))[0] == 404
    assert "olga" not in lines(gateway)
    assert not await can_log_in(gateway, "olga", "olga")


async def test_a_reload_that_has_read_the_file_before_brings_nobody_back(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    access, file, real = gateway.process.parts.access, gateway.folder / "passwords", files.read

    def read_and_changed(*given: Any) -> AccessFiles:
        found = real(*given)
        password_lines.change(file, "olga", None)
        access.go_by_passwords(files.passwords(file))  # while the reload waits for a neighbour
        return found

    monkeypatch.setattr(files, "read", read_and_changed)
    async with looker(gateway, "anna") as anna:
        assert await gateway.process.reload() == ""
        assert not (await users(anna))["olga"]["has_password"]
    assert not await can_log_in(gateway, "olga", "olga")


async def test_the_last_who_may_change_users_stays(gateway: PageGateway, tmp_path: Path) -> None:
    async with looker(gateway, "anna") as anna:
        status, told = await anna.ask("DELETE", "users/anna")
        assert (status, told["error"]) == (
            409,
            "user: 'anna' is the last one who may change users",
        )
    policy = POLICY.replace('"console:nina" = []', '"console:nina" = ["admin"]')
    async with (
        page_gateway(tmp_path / "two", policy=policy) as two,
        looker(two, "anna") as anna,
        looker(two, "nina") as nina,
    ):
        answers = await asyncio.gather(
            anna.ask("DELETE", "users/nina"), nina.ask("DELETE", "users/anna")
        )
        assert sorted(status for status, _ in answers)[0] == 200
        assert sum(user in lines(two) for user in ("anna:", "nina:")) == 1


async def test_everybody_changes_its_own_password_with_the_old_one(gateway: PageGateway) -> None:
    client = await gateway.client("meter", "vera")
    async with looker(gateway, "vera") as vera, looker(gateway, "vera") as elsewhere:
        assert checked("own_password", (await vera.get("me/password"))[1])["why_not"] == ""
        for body, status, why in (
            ({"old": "wrong one", "new": NEW}, 422, "old: is not your password"),
            ({"old": "vera", "new": "short"}, 400, "new: is not 10 to 256 characters"),
            ({"old": "vera", "new": "vera"}, 400, "new: is the old one"),
            ({"old": "vera"}, 400, "new: is missing"),
        ):
            got, told = await vera.ask("POST", "me/password", body)
            assert (got, told["error"]) == (status, why)
        status, told = await vera.ask("POST", "me/password", {"old": "vera", "new": NEW})
        assert (status, told) == (200, {})
        assert (await elsewhere.get("status"))[0] == 401
        assert (await vera.get("status"))[0] == 401
    assert await client.next() is not None  # DISCONNECT
    assert await can_log_in(gateway, "vera", NEW)
    whats = [one["what"] for one in gateway.audit if one["who"] == "console:vera"]
    assert whats.count("own password changed") == 1 and "refused at the page" in whats


async def test_who_guesses_the_old_password_waits_as_at_the_log_in(gateway: PageGateway) -> None:
    async with looker(gateway, "vera") as vera:
        found = []
        for number in range(11):
            body = {"old": f"guess {number}", "new": NEW}
            found.append((await vera.ask("POST", "me/password", body))[0])
        assert found == [422] * 10 + [429]
        assert (await vera.ask("POST", "me/password", {"old": "vera", "new": NEW}))[0] == 429
    assert not await can_log_in(gateway, "olga", "olga")  # of the same address
    assert gateway.process.parts.broker.core.refusals.counts[WRONG_PASSWORD] == 10


CHANGES = (
    ("POST", "users", {"user": "mine", "password": NEW}),
    ("PUT", "users/anna/password", {"password": NEW}),
    ("DELETE", "users/vera", None),
)


async def test_viewers_operators_and_other_sites_neither_see_nor_change_users(
    gateway: PageGateway,
) -> None:
    before = lines(gateway)
    for user in ("vera", "olga"):
        async with looker(gateway, user) as one:
            assert not (await one.get("me"))[1]["may"]["users"]
            for method, path, body in (("GET", "users", None), *CHANGES):
                status, told = await one.ask(method, path, body)
                assert status == 403 and "configure" in told["error"], (method, told)
    async with looker(gateway, "anna") as anna:
        own = ("POST", "me/password", {"old": "anna", "new": NEW})
        for headers in ({"X-Hedgerow-CSRF": ""}, {"Origin": "https://evil.example"}):
            for method, path, body in (*CHANGES, own):
                assert (await anna.ask(method, path, body, headers))[0] == 403
    async with looker(gateway) as stranger:
        for method, path, body in (("GET", "users", None), *CHANGES, own):
            assert (await stranger.ask(method, path, body))[0] == 401
    assert lines(gateway) == before
    refused = {one["who"] for one in gateway.audit if one["what"] == "refused at the page"}
    assert {"console:vera", "console:olga", "console:anna"} <= refused


async def test_nobody_makes_itself_more_than_it_is(tmp_path: Path) -> None:
    """An administrator of users alone changes none who is more."""
    policy = POLICY.replace('"console:nina" = []', '"console:nina" = ["keeper"]') + KEEPER
    policy = policy.replace('"user:*" = ["operator"]', '"user:*" = ["reader"]')
    policy = policy.replace('"console:anna"', '"user:boss" = ["operator"]\n"console:anna"')
    async with page_gateway(tmp_path, policy=policy) as gateway, looker(gateway, "nina") as nina:
        before = lines(gateway)
        for method, path, body, more in (
            ("PUT", "users/anna/password", {}, "'anna' is admin, operator"),
            ("DELETE", "users/olga", None, "'olga' is operator"),
            ("POST", "users", {"user": "boss"}, "'boss' is operator"),
        ):
            status, told = await nina.ask(method, path, body)
            assert status == 403 and more in told["error"], told
        assert lines(gateway) == before
        assert (await nina.ask("PUT", "users/vera/password", {"password": NEW}))[0] == 200
        found = await users(nina)
        assert found["vera"]["may_change"] and not found["anna"]["may_change"]


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"user": ""}, 400, "user: '' can be no user name"),
        ({"user": "a:b"}, 400, "user: 'a:b' can be no user name"),
        ({"user": "a\nroot:x"}, 400, "user: 'a\\nroot:x' can be no user name"),
        ({"user": "a\u2028b"}, 400, "can be no user name"),
        ({"user": " a"}, 400, "can be no user name"),
        ({"user": "#a"}, 400, "can be no user name"),
        ({"user": "a\u200b"}, 400, "can be no user name"),
        ({"user": "a" * 10_240}, 400, "user: 10240 characters are more than 256"),
        ({"user": 5}, 400, "user: is no string"),
        ({}, 400, "user: is missing"),
        ({"user": "paul", "role": "admin"}, 400, "role: is not known"),
        ({"user": "paul", "password": "short"}, 400, "password: is not 10 to 256 characters"),
        ({"user": "paul", "password": ""}, 400, "password: is not 10 to 256 characters"),
        ({"user": "paul", "password": "x" * 257}, 400, "password: is not 10 to 256 characters"),
        ({"user": "paul", "password": None}, 400, "password: is no string"),
        ({"user": "administrator", "password": "Administrator"}, 400, "a name that everybody"),
        ({"user": "vera", "password": NEW}, 409, "user: 'vera' has a password: set another"),
    ],
)
async def test_what_can_be_no_user_or_password_is_refused_and_nothing_is_lost(
    gateway: PageGateway, body: dict[str, Any], status: int, why: str
) -> None:
    before = lines(gateway)
    async with looker(gateway, "anna") as anna:
        got, told = await anna.ask("POST", "users", body)
        assert got == status and why in told["error"], told
        assert len(told["error"]) < 400
    assert lines(gateway) == before


@pytest.mark.parametrize("user", [HOSTILE, "a/b", "..", "%2e", "é ü", "a?b#c", "x" * 256])
async def test_a_name_of_any_look_is_a_name(gateway: PageGateway, user: str) -> None:
    async with looker(gateway, "anna") as anna:
        await added(anna, user, NEW)
        assert user in await users(anna)
        assert await can_log_in(gateway, user, NEW)
        address = yarl.URL(f"{anna.base}/api/v1/users/{quote(user, safe='')}", encoded=True)
        headers = {"X-Hedgerow-CSRF": anna.csrf, "Content-Type": "application/json"}
        if user != "..":  # a client takes that for the folder above
            async with anna.session.delete(address, headers=headers) as answer:
                assert answer.status == 200, await answer.text()
            assert user not in await users(anna)


async def test_there_are_so_many_users_and_no_more(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_api, "USERS_MAX", 5)
    async with looker(gateway, "anna") as anna:
        answers = await asyncio.gather(
            *(anna.ask("POST", "users", {"user": f"u{n}"}) for n in range(3))
        )
        assert sorted(status for status, _ in answers) == [200, 409, 409]
        assert len(await users(anna)) == 5


async def test_a_file_that_something_else_writes_is_changed_there(gateway: PageGateway) -> None:
    file = gateway.folder / "passwords"
    before = f"# managed by: Ansible (gateway_passwords)\n{lines(gateway)}"
    file.write_text(before)
    async with looker(gateway, "anna") as anna, looker(gateway, "vera") as vera:
        told = (await anna.get("users"))[1]
        assert "Ansible (gateway_passwords) writes it, and would undo" in told["why_not"]
        assert told["command"] == "hedgerow passwd NAME"
        own = ("POST", "me/password", {"old": "vera", "new": NEW})
        for who, (method, path, body) in (*((anna, change) for change in CHANGES), (vera, own)):
            status, told = await who.ask(method, path, body)
            assert status == 409 and "Ansible" in told["error"], told
        assert (await vera.get("me/password"))[1]["why_not"]
    assert file.read_text() == before


async def test_a_file_that_the_gateway_may_not_write_is_changed_by_a_command(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.access
    monkeypatch.setattr(  # root may write anything
        os, "access", lambda path, mode: Path(path) != gateway.folder and real(path, mode)
    )
    before = lines(gateway)
    async with looker(gateway, "anna") as anna:
        told = (await anna.get("users"))[1]
        assert "the gateway may not write there" in told["why_not"]
        assert told["command"].startswith("sudo hedgerow passwd --file /")
        status, told = await anna.ask("POST", "users", {"user": "paul"})
        assert status == 409 and "sudo hedgerow passwd --file" in told["error"]
    assert lines(gateway) == before


async def test_what_can_not_be_written_is_said_and_nobody_is_out(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lines(gateway)
    opened = os.open

    def full(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if Path(path).name.startswith("passwords.") and Path(path).suffix == ".new":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", full)
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        for method, path, body in CHANGES:
            status, told = await anna.ask(method, path, body)
            assert status == 507 and "access.password_file: it can't be written" in told["error"]
        with alone(gateway.folder / "passwords"):
            monkeypatch.setattr(os, "open", opened)
            status, told = await anna.ask("POST", "users", {"user": "paul"})
            assert status == 429 and "another program changes it" in told["error"]
        (gateway.folder / "passwords").write_text(f"{before}broken line\n")
        status, told = await anna.ask("DELETE", "users/olga")
        assert status == 409 and "not USER:HASH" in told["error"]
        assert lines(gateway) == f"{before}broken line\n"
        assert (await olga.get("status"))[0] == 200


async def test_who_asks_and_goes_leaves_no_half_change(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal whose browser has gone meanwhile takes effect all the same."""
    real, began = password_lines.change, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*given: Any, **more: Any) -> Any:
        loop.call_soon_threadsafe(began.set)
        asyncio.run_coroutine_threadsafe(gone.wait(), loop).result(30)
        return real(*given, **more)

    gone = asyncio.Event()
    monkeypatch.setattr(password_lines, "change", slow)
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        asking = asyncio.create_task(anna.ask("DELETE", "users/olga"))
        await began.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        async with asyncio.timeout(30):
            while not any(one.get("outcome", "").startswith("failed") for one in gateway.audit):
                await asyncio.sleep(0.02)  # the gateway has seen that it is gone
            gone.set()
            while (await olga.get("me"))[1]["is_in"]:
                await asyncio.sleep(0.1)
    assert "olga" not in lines(gateway)


async def test_where_nobody_logs_in_there_are_no_users(tmp_path: Path) -> None:
    async with page_gateway(tmp_path, users=False) as gateway, looker(gateway) as here:
        assert (await here.get("users"))[0] == 403
        status, told = await here.ask("POST", "me/password", {"old": "x", "new": NEW})
        assert status == 409 and "has not logged in" in told["error"]
