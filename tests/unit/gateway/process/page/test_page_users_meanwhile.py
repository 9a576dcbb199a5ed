"""Changes of users stay right beside those of other administrators, editors and failing disks."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from page_gateway import CHEAP, POLICY, Looker, PageGateway, looker, page_gateway

from gateway.base import replaced_file
from gateway.base.event_log.audit import AuditTrail
from gateway.broker.access import password_lines
from gateway.broker.access.passwords import Passwords
from gateway.process.console.pages import HttpRequest
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.audit_notes import AuditNotes
from gateway.process.page.face import PageFace, PageOwner, may_enter
from gateway.trust.policy import policy_file
from gateway.trust.policy.policy import Policy
from gateway.web.log_in import Token, WebLogIn

NEW = "correct horse battery"
TWO_ADMINS = POLICY.replace('"console:nina" = []', '"console:nina" = ["admin"]')
PROMOTED = POLICY.replace('"console:olga" = ["operator"]', '"console:olga" = ["admin"]')
CHANGE = "change of access"
"""The name of the task of one."""


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_lines, "PasswordHasher", partial(PasswordHasher, 1, 64, 1))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    async with page_gateway(tmp_path, policy=TWO_ADMINS) as made:
        yield made


def lines(gateway: PageGateway) -> str:
    return (gateway.folder / "passwords").read_text()


async def waited_for(seen: Any) -> None:
    async with asyncio.timeout(60):
        while not seen():
            await asyncio.sleep(0.02)


def under_way() -> int:
    return sum(one.get_name() == CHANGE for one in asyncio.all_tasks())


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have the first change wait, in its thread, until what is given is set."""
    go, real = threading.Event(), password_lines.change

    def waiting(*given: Any, **more: Any) -> Any:
        assert go.wait(60)
        return real(*given, **more)

    monkeypatch.setattr(password_lines, "change", waiting)
    try:
        yield go
    finally:
        go.set()


async def queued(first: Any, *then: Any) -> list[asyncio.Task[Any]]:
    """Have changes asked for, of which the first one is under way and the others wait."""
    tasks = []
    for number, one in enumerate((first, *then), 1):
        tasks.append(asyncio.create_task(one))
        await waited_for(lambda number=number: under_way() == number)
    return tasks


# -- who asks is somebody else by the time of its turn ---------------------------------------------


async def test_who_is_removed_has_nothing_done_that_still_waits_for_its_turn(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looker(gateway, "anna") as anna, looker(gateway, "nina") as nina:
        with held(monkeypatch) as go:
            asked = await queued(
                anna.ask("DELETE", "users/nina"),
                nina.ask("POST", "users", {"user": "mine", "password": NEW}),
                nina.ask("PUT", "users/anna/password", {"password": NEW}),
                nina.ask("DELETE", "users/olga"),
                nina.ask("POST", "me/password", {"old": "nina", "new": NEW}),
            )
            go.set()
            answers = [status for status, _ in await asyncio.gather(*asked)]
        assert answers == [200, 401, 401, 401, 401]
        assert (await anna.get("status"))[0] == 200
    assert [line.partition(":")[0] for line in lines(gateway).splitlines()] == [
        "vera",
        "olga",
        "anna",
    ]
    done = [(one["who"], one["what"]) for one in gateway.audit if one.get("outcome") == "done"]
    assert done == [("console:anna", "user removed")]


async def test_whose_right_a_new_policy_takes_away_has_nothing_done_that_waits(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looker(gateway, "anna") as anna, looker(gateway, "nina") as nina:
        with held(monkeypatch) as go:
            asked = await queued(
                anna.ask("POST", "users", {"user": "paul"}),
                nina.ask("POST", "users", {"user": "mine", "password": NEW}),
            )
            (gateway.folder / "access.toml").write_text(POLICY)
            assert await gateway.process.reload() == ""
            go.set()
            answers = [status for status, _ in await asyncio.gather(*asked)]
        assert answers == [200, 403]
    assert "paul:" in lines(gateway) and "mine:" not in lines(gateway)


async def test_the_last_who_may_change_users_is_who_it_is_at_the_time_of_the_change(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looker(gateway, "anna") as anna, looker(gateway, "nina") as nina:
        with held(monkeypatch) as go:
            asked = await queued(
                anna.ask("POST", "users", {"user": "paul"}), nina.ask("DELETE", "users/nina")
            )
            only_nina = TWO_ADMINS.replace('"console:anna" = ["admin"]', '"console:anna" = []')
            (gateway.folder / "access.toml").write_text(only_nina)
            assert await gateway.process.reload() == ""
            go.set()
            (added, _), (removed, told) = await asyncio.gather(*asked)
        assert (added, removed) == (200, 409), told
    assert "nina:" in lines(gateway)


# -- the file is somebody else's, too --------------------------------------------------------------


async def test_who_is_not_in_the_file_any_more_is_out_by_whatever_is_asked(
    gateway: PageGateway,
) -> None:
    """An editor has taken the line out, and nobody has had the gateway read the file."""
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        password_lines.change(gateway.folder / "passwords", "olga", None)
        assert (await olga.get("status"))[0] == 200
        assert (await anna.ask("DELETE", "users/olga"))[0] == 404
        assert (await olga.get("status"))[0] == 401
    assert "olga" in str([one for one in gateway.audit if "password_file" in one["what"]])


async def test_a_disk_that_fails_behind_the_change_keeps_nobody_in(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has its new content, and it is not known to outlast a power cut."""

    def failing(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))

    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        with monkeypatch.context() as patched:
            patched.setattr(replaced_file, "sync_folder", failing)
            assert (await anna.ask("DELETE", "users/olga"))[0] == 507
        assert "olga:" not in lines(gateway)
        assert (await olga.get("status"))[0] == 401
        assert not (await _users(anna))["olga"]["has_password"]


async def test_an_editor_that_breaks_the_file_behind_a_change_keeps_nobody_in(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, real = gateway.folder / "passwords", password_lines.change

    def broken(*given: Any, **more: Any) -> Any:
        found = real(*given, **more)
        file.write_text("half of a li")
        return found

    monkeypatch.setattr(password_lines, "change", broken)
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        assert (await anna.ask("DELETE", "users/olga"))[0] == 200
        assert (await olga.get("status"))[0] == 401
        assert (await anna.get("status"))[0] == 200


@pytest.mark.parametrize("target", ["passwords", "x" * 300], ids=["a circle", "too long"])
async def test_a_link_that_leads_nowhere_is_told_and_changes_nothing(
    gateway: PageGateway, target: str
) -> None:
    file = gateway.folder / "passwords"
    async with looker(gateway, "anna") as anna:
        file.unlink()
        file.symlink_to(target)
        assert (await anna.get("users"))[0] == 200
        assert (await anna.get("me/password"))[0] == 200
        status, told = await anna.ask("DELETE", "users/olga")
        assert status in (409, 507) and "access.password_file" in told["error"]
        assert file.is_symlink()
        assert (await _users(anna))["olga"]["has_password"]


async def test_a_file_that_an_editor_has_marked_as_utf_8_has_the_same_users(
    gateway: PageGateway,
) -> None:
    file = gateway.folder / "passwords"
    olga = next(line for line in lines(gateway).splitlines() if line.startswith("olga:"))
    rest = lines(gateway).replace(f"{olga}\n", "")
    file.write_text(f"{olga}\n{rest}", encoding="utf-8-sig")
    assert await gateway.process.reload() == ""
    async with looker(gateway, "olga"), looker(gateway, "anna") as anna:
        assert (await anna.ask("PUT", "users/olga/password", {"password": NEW}))[0] == 200
    assert lines(gateway).count("olga") == 1
    (changed,) = (one for one in gateway.audit if one["what"] == "access.password_file changed")
    assert changed["replaced"] == ["olga"] and not {"added", "removed"} & set(changed)
    file.write_text("# managed by: a robot\n" + lines(gateway), encoding="utf-8-sig")
    async with looker(gateway, "anna") as anna:
        status, told = await anna.ask("DELETE", "users/olga")
        assert status == 409 and "a robot writes it" in told["error"]


@pytest.mark.parametrize(
    "text",
    [
        "# staff\r\n{olga}\r\n{anna}\r\n{nina}\r\n",
        "\n\n# olga:was here\n{olga}\n#{olga}\n\n{anna}\n{nina}",
        "  {olga}  \n\t{anna}\n{nina}\n# end",
    ],
    ids=["CRLF", "no end of line", "blanks"],
)
async def test_all_but_the_line_of_who_is_removed_stays_as_it_was_written(
    gateway: PageGateway, text: str
) -> None:
    file = gateway.folder / "passwords"
    kept = {line.partition(":")[0]: line for line in lines(gateway).splitlines()}
    file.write_bytes(text.format(**kept).encode())
    before = file.read_bytes().split(b"\n")
    async with looker(gateway, "anna") as anna:
        assert (await anna.ask("DELETE", "users/olga"))[0] == 200
        assert not (await _users(anna)).get("olga", {}).get("has_password")
    gone = [line for line in before if line.strip() == kept["olga"].encode()]
    assert len(gone) == 1
    before.remove(gone[0])
    assert file.read_bytes().removesuffix(b"\n") == b"\n".join(before).removesuffix(b"\n")


# -- answers that take long ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "is_user", "status"),
    [(POLICY, True, 200), (POLICY, False, 401), (PROMOTED, True, 403)],
    ids=["stays", "is removed", "is somebody else"],
)
async def test_who_waits_for_an_answer_gets_it_as_who_it_is_when_it_comes(
    tmp_path: Path, policy: str, is_user: bool, status: int
) -> None:
    """A log that is followed, and messages: the page asks, and is answered half a minute later."""
    asked, may_go = asyncio.Event(), asyncio.Event()

    async def slow(_asked: ApiRequest) -> dict[str, str]:
        asked.set()
        await may_go.wait()
        return {"secret": "line"}

    def rules(text: str) -> Policy:
        return Policy(policy_file.parse(text, "access.toml", frozenset()))

    passwords = Passwords({"olga": CHEAP.hash("olga")})
    door = WebLogIn(rules(POLICY), passwords, may_enter)
    notes = AuditNotes(AuditTrail(tmp_path / "audit.jsonl"), lambda _kind, _who: None)
    owner = PageOwner("gw", is_secure=False, names=frozenset())
    face = PageFace(owner, door, {"log": slow}, notes, lambda _visitor: {})
    token = await door.log_in("olga", b"olga", "127.0.0.1")
    assert isinstance(token, Token)
    answer = face.answer(
        HttpRequest("GET", "/api/v1/log", f"Bearer {token.text}", "gw"), "127.0.0.1"
    )
    assert isinstance(answer, Awaitable)
    waiting = asyncio.ensure_future(answer)
    await asked.wait()
    face.follow(rules(policy), passwords if is_user else Passwords({}))
    may_go.set()
    page = await waiting
    assert page.status == status
    assert (b"secret" in page.body) == (status == 200)


async def _users(at: Looker) -> dict[str, dict[str, Any]]:
    status, told = await at.get("users")
    assert status == 200, told
    return {one["name"]: one for one in told["users"]}


async def test_an_edit_by_hand_between_read_and_write_stays_and_the_page_says_so(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = password_lines.replaced

    def edited_meanwhile(text: str, user: str, new: str | None) -> str:
        file = gateway.folder / "passwords"
        file.write_text(f"{file.read_text()}# by hand\n")
        return real(text, user, new)

    monkeypatch.setattr(password_lines, "replaced", edited_meanwhile)
    async with looker(gateway, "anna") as anna:
        status, told = await anna.ask("POST", "users", {"user": "nils", "password": NEW})
    assert status == 409
    assert "changed it meanwhile" in told["error"]
    assert lines(gateway).endswith("# by hand\n")
    assert "nils" not in lines(gateway)
