"""`hedgerow first-start` ends with a line where it can't serve its page."""

from __future__ import annotations

import errno
import io
import ipaddress
import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from one_parser import hedgerow

from gateway.base import exit_codes
from gateway.base.event_log import lines
from gateway.base.event_log.audit import AuditTrail
from gateway.process.configuration.config import ConfigError
from gateway.tools import cli
from gateway.tools.commands import first_starting, joining
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.first_starting import FirstDeeds
from gateway.tools.first_start import own_links, setup_certificate
from gateway.tools.first_start.near_links import NearLinks, OwnAddress
from gateway.tools.first_start.new_owner import DeviceLogin, GatewayHome, OwnedGateway
from gateway.tools.first_start.owner_wish import OwnerWish
from gateway.tools.first_start.setup_door import SetupDoor, SetupStage
from gateway.tools.provisioning import new_folder
from gateway.tools.provisioning.files import Machine
from gateway.tools.provisioning.new_folder import TakenError
from gateway.trust.enrolment.tokens import EnrolmentToken
from gateway.web.api_error import ApiError

HOST = "10.1.2.3"
LINKS = NearLinks((OwnAddress(ipaddress.ip_interface(f"{HOST}/24"), 2),), frozenset())
WISH = {"name": "gw-a", "address": HOST, "user": "olga", "password": "barn owl at night"}
TOKEN = EnrolmentToken("gw-b", "192.0.2.1:8890", b"f" * 32, b"s" * 16).as_text()


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


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "No such file or directory"),
        (b"\xff", "is not UTF-8"),
        (b"code", 'is not TOML, such as: code = "..."'),
        (b"code = 5", "code: is no text"),
        (
            b'code = "0123"',
            "code: is not 12 letters and digits or more: leave it out, and the gateway shows one "
            "on its screen",
        ),
        (b'key = "x"', "certificate and key: there is one of them alone"),
        (b"#" * 16_385, "more than 16384 bytes"),
    ],
)
def test_a_card_that_can_not_be_used_is_told(
    data: bytes | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "card.toml"
    if data is not None:
        card.write_bytes(data)
    assert hedgerow("first-start", tmp_path / "etc", "--card", card) == exit_codes.WRONG_USE
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"hedgerow: --card: {card}: {why}\n")


def test_a_certificate_of_a_card_that_is_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "card.toml"
    card.write_text('certificate = "none"\nkey = "none"\n')
    assert hedgerow("first-start", tmp_path / "etc", "--card", card) == exit_codes.WRONG_USE
    assert capsys.readouterr().err.startswith("hedgerow: --card: certificate: ")


def test_a_folder_that_can_not_be_looked_into_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ("x" * 256)
    assert hedgerow("first-start", folder) == exit_codes.FAILED
    said = capsys.readouterr().err
    assert said == f"hedgerow: first-start: {folder}: File name too long\n"


def test_a_gateway_that_has_an_owner_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tree.key").touch()
    assert hedgerow("first-start", tmp_path) == exit_codes.DONE
    said = capsys.readouterr().out
    assert said == f"this gateway has an owner: {tmp_path / 'tree.key'} is there\n"
    assert [one.name for one in tmp_path.iterdir()] == ["tree.key"]


def test_a_card_is_written_once_and_its_code_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(new_folder, "write", full)
        assert hedgerow("first-start", "--write-card", tmp_path) == exit_codes.FAILED
    why = f"hedgerow: --write-card: {tmp_path}: Input/output error\n"
    assert capsys.readouterr().err == why
    assert hedgerow("first-start", "--write-card", tmp_path) == exit_codes.DONE
    code, fingerprint = capsys.readouterr().out.splitlines()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    shown = code.removeprefix("setup code ")
    assert re.fullmatch(r"([0-9A-HJKMNP-TV-Z]{4}-){2}[0-9A-HJKMNP-TV-Z]{4}", shown)
    assert f'code = "{shown}"' in file.read_text()
    assert fingerprint.startswith("certificate ")
    assert fingerprint.endswith(" (SHA-256)")
    assert hedgerow("first-start", "--write-card", tmp_path) == exit_codes.WRONG_USE
    assert capsys.readouterr().err == f"hedgerow: --write-card: {file} is there already\n"
    none = tmp_path / "none"
    assert hedgerow("first-start", "--write-card", none) == exit_codes.WRONG_USE
    assert capsys.readouterr().err == f"hedgerow: --write-card: {none}: no such folder\n"


def test_a_machine_without_a_link_is_told_that_its_page_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    levels, folder = list[int](), tmp_path / "home/config/etc"
    monkeypatch.setattr(lines, "begin", levels.append)
    monkeypatch.setattr(own_links, "ask", lambda: NearLinks((), frozenset()))
    for _ in range(2):  # the folder is made, and then is there
        assert hedgerow("first-start", folder, "--page-port", "9999") == exit_codes.FAILED
        said = capsys.readouterr()
        why = "hedgerow: --page-port: 9999: no address can be listened on\n"
        assert said.err == why
        firsts = [line.partition(" ")[0] for line in said.out.splitlines()]
        assert firsts == ["setup", "certificate"]
    assert levels == [logging.INFO] * 2
    (trail,) = folder.iterdir()
    assert [one.what for one in AuditTrail(trail).changes()] == ["first start opened"] * 2


def test_a_code_that_nobody_can_read_opens_nothing_but_that_of_a_card_need_not_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone(io.StringIO):
        """A terminal that was taken away (vhangup(2))."""

        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    card = tmp_path / "card.toml"
    card.write_text('code = "0123-4567-89AB"')
    monkeypatch.setattr(own_links, "ask", lambda: NearLinks((), frozenset()))
    words = ("first-start", tmp_path / "etc", "--page-port", "9999")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Gone())
        hedgerow(*words)
        unseen = capsys.readouterr().err
        hedgerow(*words, "--card", card)
    assert "first-start: the setup code can't be shown: nobody reads what is printed" in unseen
    assert "--page-port: 9999: no address can be listened on" in capsys.readouterr().err
    hedgerow(*words, "--card", card)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("certificate ")


def test_the_page_stays_for_a_while_after_all_is_done_though_the_links_are_not_known(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class DoneDoor(SetupDoor):
        """A door through which the owner has gone."""

        def __init__(self, code: str, token: Callable[[], str]) -> None:
            super().__init__(code, token)
            self.stage = SetupStage.DONE

    followed, stopped = list[NearLinks](), list[str]()

    class Following:
        """Notes which links it listens on."""

        def __init__(self, *_: object) -> None:
            pass

        def __len__(self) -> int:
            return 1

        async def follow(self, links: NearLinks) -> None:
            followed.append(links)

        async def stop(self) -> None:
            stopped.append("all")

    answers = [LINKS]

    def ask() -> NearLinks:
        if not answers:
            raise OSError(errno.ENOBUFS, "No buffer space available")
        return answers.pop()

    monkeypatch.setattr(own_links, "ask", ask)
    monkeypatch.setattr(first_starting, "SetupDoor", DoneDoor)
    monkeypatch.setattr(first_starting, "NearListeners", Following)
    monkeypatch.setattr(first_starting, "LOOK_S", 2**-7)
    monkeypatch.setattr(first_starting, "DONE_S", 2**-6)
    with caplog.at_level(logging.WARNING):
        assert hedgerow("first-start", tmp_path / "etc") == exit_codes.DONE
    assert followed == [LINKS] * 3
    assert stopped == ["all"]
    said = "first start: [Errno 105] No buffer space available"
    assert [one.getMessage() for one in caplog.records] == [said] * 3


# -- what the page has done ------------------------------------------------------------------------


class RefusingHome(GatewayHome):
    """A gateway's folder that takes nothing."""

    why: Exception

    def write(self, asked: OwnerWish, machine: Machine) -> DeviceLogin:
        raise RefusingHome.why

    def owned(self, device: DeviceLogin | None = None) -> OwnedGateway:
        return OwnedGateway("gw-b", HOST, 8883, 9641, "ab" * 32, b"", device)


@pytest.fixture
def deeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FirstDeeds:
    monkeypatch.setattr(own_links, "ask", lambda: LINKS)
    return FirstDeeds(RefusingHome(tmp_path / "etc"), None, AuditTrail(tmp_path / "audit"))


def noted(tmp_path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    return [(one.what, one.of) for one in AuditTrail(tmp_path / "audit").changes()]


@pytest.mark.parametrize(
    ("why", "status", "said"),
    [
        (TakenError(Path("/etc/x")), HTTPStatus.CONFLICT, "/etc/x"),
        (ConfigError("mqtt.port", "is none"), HTTPStatus.INTERNAL_SERVER_ERROR, "mqtt.port"),
        (OSError(5, "Input/output error"), HTTPStatus.INTERNAL_SERVER_ERROR, "Input/output error"),
    ],
)
async def test_a_gateway_that_can_not_be_written_is_told_to_the_page(
    why: Exception, status: HTTPStatus, said: str, deeds: FirstDeeds, tmp_path: Path
) -> None:
    RefusingHome.why = why
    with pytest.raises(ApiError) as refused:
        await deeds.own(WISH, "10.1.2.9")
    assert refused.value.status is status
    assert said in refused.value.why
    assert [what for what, _ in noted(tmp_path)] == ["first start writes a gateway"]


@pytest.mark.parametrize(
    ("why", "status", "said"),
    [
        (WrongUseError("x is there"), HTTPStatus.CONFLICT, "x is there"),
        (FailedError("no answer"), HTTPStatus.CONFLICT, "no answer"),
        (ConfigError("mqtt.port", "is none"), HTTPStatus.INTERNAL_SERVER_ERROR, "mqtt.port"),
        (OSError(5, "Input/output error"), HTTPStatus.INTERNAL_SERVER_ERROR, "Input/output error"),
        (ValueError("no PEM"), HTTPStatus.INTERNAL_SERVER_ERROR, "no PEM"),
    ],
)
async def test_a_fleet_that_can_not_be_joined_is_told_to_the_page(
    why: Exception,
    status: HTTPStatus,
    said: str,
    deeds: FirstDeeds,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> Path:
        raise why

    monkeypatch.setattr(joining, "written", refused)
    with pytest.raises(ApiError) as ended:
        await deeds.join(TOKEN, "10.1.2.9")
    assert ended.value.status is status
    assert said in ended.value.why
    assert [what for what, _ in noted(tmp_path)] == ["first start joins a fleet"]


async def test_what_is_wrong_with_what_was_typed_is_the_askers_fault_and_nothing_is_noted(
    deeds: FirstDeeds, tmp_path: Path
) -> None:
    with pytest.raises(ApiError) as refused:
        await deeds.own({**WISH, "user": ""}, "10.1.2.9")
    assert (refused.value.status, refused.value.why) == (400, "user: is missing")
    with pytest.raises(ApiError) as refused:
        await deeds.join("none", "10.1.2.9")
    assert refused.value.status is HTTPStatus.BAD_REQUEST
    assert refused.value.why.startswith("token: no token")
    assert noted(tmp_path) == []


async def test_who_joined_from_where_is_noted_before_and_after_it(
    deeds: FirstDeeds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[object]()
    monkeypatch.setattr(joining, "written", lambda token, folder: done.append((token, folder)))
    monkeypatch.setattr(joining, "forget_key", done.append)
    owned = await deeds.join(TOKEN, "10.1.2.9")
    folder = tmp_path / "etc"
    assert (owned.id, done) == ("gw-b", [(EnrolmentToken.parse(TOKEN), folder), folder])
    of = {"address": "10.1.2.9", "name": "gw-b"}
    assert [(what, {**of_it}) for what, of_it in noted(tmp_path)] == [
        ("first start joins a fleet", of),
        ("gateway has an owner", of),
    ]
    assert {json.loads(line)["who"] for line in (tmp_path / "audit").read_text().splitlines()} == {
        "owner"
    }
