"""Faults that keep a gateway from its start, or a part from its work, are told with their field."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from unreadable_files import Unopened

from alerts.ack_link import KEY_BYTES, PATH, AckLinks
from alerts.desk import AlertNotFoundError, trial
from gateway.base import machine_memory
from gateway.base.toml.toml_file import ConfigError
from gateway.log.errors import LogError
from gateway.process.configuration.config import GatewaySection, GatewaySettings, TreeSection
from gateway.process.console.pages import HttpRequest
from gateway.process.fleet_status import machine
from gateway.process.fleet_status.own_release import REBOOT_REQUIRED, ReleaseFiles
from gateway.process.running import (
    alerts_part,
    configuration_faults,
    freed_memory,
    gateway_process,
    sd_notify,
    state,
    store_limits,
)
from gateway.process.running.ack_pages import AckPages
from gateway.process.running.alert_sources import MachineEyes, MachineLook
from gateway.process.running.alert_watch import AlertWatch
from gateway.process.running.gateway_process import GatewayProcess
from gateway.process.running.page_part import PagePart
from gateway.process.running.users_in_use import UsersInUse
from gateway.sensors.stock import NAME as ADDED


def settings(folder: Path, **more: Any) -> GatewaySettings:
    own = GatewaySection("gw", folder, address="127.0.0.1", **more)
    return GatewaySettings(own, TreeSection(folder / "key", tls="off", discovery=False))


def fails(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def why(work: Callable[[], object], field: str = "gateway.state_dir") -> str:
    with pytest.raises(ConfigError) as raised:
        work()
    assert raised.value.where == field
    return raised.value.why


IO_ERROR = OSError(errno.EIO, "Input/output error", "/x/state")


def test_a_folder_that_can_not_be_looked_at_is_named_unless_the_service_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = settings(tmp_path).gateway
    monkeypatch.setattr(state, "why_no_folder", fails(IO_ERROR))
    assert why(lambda: state.check_state_dir(own)) == "/x/state: Input/output error"
    monkeypatch.setattr(state, "why_no_folder", fails(PermissionError(13, "Permission denied")))
    state.check_state_dir(own)
    monkeypatch.setattr(state, "why_no_folder", lambda _: "a file, not a folder")
    assert why(lambda: state.check_state_dir(own)) == "a file, not a folder"


def test_a_folder_of_sensors_that_can_not_be_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.check_sensors_dir(settings(tmp_path).gateway)
    own = settings(tmp_path, sensors_dir=tmp_path / "own").gateway
    field = "gateway.sensors_dir"
    assert why(lambda: state.check_sensors_dir(own), field).startswith(f"{tmp_path}/own: ")
    monkeypatch.setattr(state, "why_missing_folder", fails(IO_ERROR))
    assert why(lambda: state.check_sensors_dir(own), field) == f"{tmp_path}/own: Input/output error"


def test_what_can_not_be_read_or_counted_at_a_start_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, members = SimpleNamespace(have=[]), SimpleNamespace(known={})

    (tmp_path / "file").touch()
    below = settings(tmp_path / "file" / "state").gateway

    def count() -> object:
        return state.count_start(below, cast(Any, log), cast(Any, members))

    told = why(count)
    assert told.startswith(f"{tmp_path}/file/state")
    assert told.endswith(": Not a directory")

    def read() -> None:
        with state.being_read():
            raise IO_ERROR

    assert why(read) == "/x/state: Input/output error"
    with_links = SimpleNamespace(alerts=SimpleNamespace(ack_url="https://gw"), gateway=below)
    told = why(lambda: alerts_part.links_of(cast(Any, with_links)))
    assert told.endswith(": Not a directory")
    assert alerts_part.links_of(settings(tmp_path)) is None
    (tmp_path / ADDED).touch()
    Unopened(monkeypatch, ADDED)
    told = why(lambda: state.readings(settings(tmp_path), *cast(Any, [fails(IO_ERROR)] * 3)))
    assert told == f"{tmp_path / ADDED}: Too many open files"


def test_a_gateway_that_has_not_started_has_no_parts(tmp_path: Path) -> None:
    process = GatewayProcess(settings(tmp_path))
    with pytest.raises(RuntimeError, match="start it before you ask for them"):
        _ = process.parts


async def test_a_log_that_can_not_go_on_ends_the_start_with_its_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = list[str]()
    error: Exception = LogError("/x/log: no room")

    async def build(around: Any) -> Any:
        around.stack.callback(lambda: ended.append("stopped"))
        raise error

    monkeypatch.setattr(gateway_process.building, "build", build)
    with pytest.raises(ConfigError) as raised:
        await GatewayProcess(settings(tmp_path)).start()
    assert (raised.value.where, raised.value.why) == ("gateway.state_dir", "/x/log: no room")
    error = ValueError("another")
    with pytest.raises(ValueError, match="another"):
        await GatewayProcess(settings(tmp_path)).start()
    assert ended == ["stopped"] * 2


async def test_without_a_password_file_no_user_is_changed() -> None:
    users = UsersInUse(cast(Any, SimpleNamespace(password_file=None)))
    assert users.file is None

    async def begin() -> Any:
        raise AssertionError

    with pytest.raises(RuntimeError, match="no password file"):
        await users.change("anna", b"secret", begin, "anna")


def test_where_the_machine_bounds_no_memory_the_configuration_counts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine_memory, "bound", lambda: None)
    own = settings(tmp_path)
    limits = store_limits.of(own)
    assert (limits.broker, limits.directory) == (own.limits, own.coap.directory.limits)
    assert not caplog.records


async def test_another_library_of_c_than_glibc_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for library in (lambda _name: object(), fails(OSError("no library"))):
        monkeypatch.setattr(freed_memory.ctypes, "CDLL", library)
        assert not freed_memory.keep_what_is_freed()
        await freed_memory.give_back(0.0)
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda *_, **__: object())
    assert machine.kernel_clock_offset_ms() is None


def test_a_service_manager_is_told_at_an_abstract_address_and_one_that_is_gone_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"hedgerow-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    sd_notify.notify("READY=1")  # nobody is there
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.setblocking(False)
        sd_notify.notify("STOPPING=1")
        assert manager.recv(100) == b"STOPPING=1"
        monkeypatch.delenv("WATCHDOG_USEC", raising=False)
        sd_notify.tell_ready()
        assert manager.recv(100) == b"READY=1"
        monkeypatch.setenv("WATCHDOG_USEC", "3000000")
        for pid, heard in ((str(os.getpid()), b"\nWATCHDOG_USEC=3000000"), ("1", b"")):
            monkeypatch.setenv("WATCHDOG_PID", pid)
            sd_notify.tell_ready()
            assert manager.recv(100) == b"READY=1" + heard
            assert sd_notify.watchdog_interval_s() == (1.5 if heard else None)
    monkeypatch.delenv("NOTIFY_SOCKET")
    sd_notify.notify("READY=1")


TORN = """[gateway]
id = "gw"
[tree]
key_file = = "k"
tls = "off"
[mqtt]
port = 70000
"""


def test_what_is_missing_is_not_told_where_it_may_be_in_a_line_that_can_not_be_read(
    tmp_path: Path,
) -> None:
    file = tmp_path / "gw.toml"
    torn = configuration_faults.in_words(TORN.encode(), file)
    assert [("not TOML" in line, "mqtt.port" in line) for line in torn] == [
        *((True, False), (False, True))
    ]
    whole = configuration_faults.in_words(TORN.replace("= =", "=").encode(), file)
    assert any("gateway.state_dir: missing" in line for line in whole)
    deep = configuration_faults.faults_of(b"a = " + b"[" * 100_000, file)
    assert [(one.line, one.why.partition(":")[0]) for one in deep] == [(0, "not TOML")]


async def test_an_alert_that_ends_while_somebody_takes_it_on_is_gone() -> None:
    raised, _ = trial("gw-a", "campus/north", 1_700_000_000_000_000)
    links = AckLinks(b"k" * KEY_BYTES, "https://gw")

    class Ended:
        def of_link(self, _links: AckLinks, _token: str) -> Any:
            return SimpleNamespace(taken_on=None, raised=raised)

        async def order(self, data: bytes, who: str) -> Any:
            assert json.loads(data) == {"do": "ack", "alert": raised.alert}
            assert who == "link in a mail"
            raise AlertNotFoundError("there is no such alert")

    pages = AckPages(links, cast(AlertWatch, Ended()))
    shown = await pages.page(HttpRequest("GET", f"{PATH}x"))
    assert shown.status == HTTPStatus.OK
    page = await pages.page(HttpRequest("POST", f"{PATH}x"))
    assert page.status == HTTPStatus.GONE
    assert b"There is no such alert." in page.body


def test_a_machine_whose_disk_does_not_answer_is_not_seen(tmp_path: Path) -> None:
    assert MachineEyes(tmp_path / "none").look() == MachineLook.unseen()


def test_nobody_looks_at_a_page_that_is_not_there(tmp_path: Path) -> None:
    off = SimpleNamespace(console=SimpleNamespace(enabled=False, web=True))
    part = PagePart(cast(Any, off))
    part.hear([("a", 0, b"x")])
    assert (part.is_listening, part.reads_unlogged()) == (False, False)


def test_whether_a_reboot_is_due_is_known_where_the_system_notes_it(tmp_path: Path) -> None:
    def due() -> bool | None:
        return ReleaseFiles(tmp_path / "env", tmp_path).read().reboot_due

    assert due() is None
    noted = tmp_path / REBOOT_REQUIRED
    noted.parent.parent.mkdir(parents=True, exist_ok=True)
    noted.parent.touch()
    assert due() is None
    noted.parent.unlink()
    noted.parent.mkdir()
    assert due() is False
    noted.touch()
    assert due() is True
