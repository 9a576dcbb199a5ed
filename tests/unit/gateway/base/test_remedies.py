"""Goal: what the system refuses a command is told with what somebody may do about it."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from dtls.errors import HandshakeFailedError, HandshakeTimeoutError
from gateway.base.remedies import is_denied, remedy
from gateway.base.toml.toml_file import ConfigError, Fault, hold
from gateway.tools.commands.errors import FailedError


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "make room on its disk"),
        (errno.EDQUOT, "make room on its disk"),
        (errno.EROFS, "mounted to be read only"),
        (errno.ECONNREFUSED, "nobody listens there"),
        (errno.EADDRINUSE, "another program listens there"),
        (errno.EADDRNOTAVAIL, "this machine has no such address"),
    ],
)
def test_an_error_of_the_system_has_its_remedy_through_what_was_raised_from_it(
    number: int, told: str
) -> None:
    assert told in remedy(raised_from(OSError(number, os.strerror(number))))


def test_a_file_of_somebody_else_is_told_with_its_owner(tmp_path: Path) -> None:
    missing = OSError(errno.EACCES, "Permission denied", str(tmp_path / "none" / "x"))
    assert remedy(raised_from(missing)).startswith(f"it is {tmp_path.owner()}'s: ")


def test_an_unknown_host_is_asked_for_its_name() -> None:
    assert "is the name right" in remedy(raised_from(socket.gaierror(-2, "Name not known")))


def test_a_fault_of_a_configuration_keeps_the_error_that_it_was_found_by() -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "/x/key")

    def of_a_section() -> Fault:
        try:
            raise ConfigError("tree.key_file", "/x/key: Permission denied") from denied
        except ConfigError as error:
            return error.faults[0]

    with pytest.raises(ConfigError) as held:
        hold([Fault("mqtt.port", "no port"), of_a_section()])
    assert [fault.cause for fault in held.value.faults] == [None, denied]
    with pytest.raises(ConfigError) as held:
        hold([of_a_section()])
    assert remedy(held.value).endswith("repeat this as that user, or with sudo")


def test_silence_and_another_key_are_told_apart() -> None:
    for silent in (TimeoutError(), HandshakeTimeoutError(1.0, answered=False)):
        assert "is that machine on" in remedy(raised_from(silent))
    for refused in (HandshakeFailedError("alert"), HandshakeTimeoutError(1.0, answered=True)):
        assert "coap.psk_file" in remedy(raised_from(refused))


@pytest.mark.parametrize("error", [ValueError("x"), OSError("no number"), OSError(2, "None")])
def test_where_nothing_is_known_nothing_is_said(error: Exception) -> None:
    assert remedy(raised_from(error)) == ""


def raised_from(error: Exception) -> FailedError:
    try:
        raise FailedError("it did not work out") from error
    except FailedError as failed:
        return failed


def test_a_file_of_a_number_that_no_user_has_is_told_with_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def owner(_path: Path, **_: bool) -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(Path, "owner", owner)
    denied = PermissionError(errno.EACCES, "Permission denied", str(tmp_path))
    told = f"it is user {os.getuid()}'s: repeat this as that user, or with sudo"
    assert remedy(raised_from(denied)) == told


def test_what_was_denied_is_known_through_all_that_was_raised_from_it() -> None:
    assert is_denied(raised_from(PermissionError(errno.EACCES, "Permission denied")))
    assert is_denied(PermissionError())
    assert not is_denied(raised_from(OSError(errno.ENOENT, "No such file")))
    assert not is_denied(None)
