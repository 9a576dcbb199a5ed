"""The password file as the page changes it: whether it may, and what does it otherwise."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

from gateway.base.replaced_file import OvertakenError
from gateway.broker.access import password_lines
from gateway.broker.access.password_lines import PasswordLineError
from gateway.broker.access.passwords import Passwords, UserCheck
from gateway.process.page import writable_files
from gateway.trust.policy.faults import AccessFileError, read_access_file
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from light_dataclasses import dataclass

FIELD: Final = "access.password_file"
SHOWN_CHARACTERS: Final = 64
"""Of a name in an error."""

BeginChange = Callable[[], Awaitable[UserCheck]]
"""Asks again, when a change has its turn, whether it may be made."""


class UserDesk(Protocol):
    """Users and their passwords (`gateway.process.running.users_in_use.UsersInUse`)."""

    @property
    def file(self) -> Path | None:
        """Return the file that has them; None where nobody has a password."""

    @property
    def names(self) -> Sequence[str]:
        """Return who has a password that counts."""

    async def change(self, user: str, password: bytes | None, begin: BeginChange, who: str) -> None:
        """Give a user a password, or take the user out."""


@dataclass(frozen=True, slots=True)
class OtherWay:
    """The way to change users that are not changed here.

    Attributes:
        why_not: why they are not; empty if they are.
        command: does it.

    """

    why_not: str = ""
    command: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {"why_not": self.why_not, "command": self.command}


async def other_way(file: Path | None) -> OtherWay:
    """Return how users are changed where the page can't."""
    return await asyncio.to_thread(_other_way, file)


def _other_way(file: Path | None) -> OtherWay:
    if file is None:
        return OtherWay(f"{FIELD}: the configuration names none, so nobody logs in")
    try:
        managed_by = password_lines.managed_by(read_access_file(file))
    except AccessFileError:  # the change says what is wrong with it
        managed_by = ""
    if managed_by:
        why = f"{file}: {managed_by} writes it, and would undo a change that is made here"
        return OtherWay(why, "hedgerow passwd NAME")
    if why_not := writable_files.why_not([file]):
        command = f"sudo hedgerow passwd --file {shlex.quote(str(file))} NAME"
        return OtherWay(why_not, f"{command} && sudo systemctl reload hedgerow")
    return OtherWay()


async def change(
    desk: UserDesk, visitor: Principal, user: str, password: str | None, begin: BeginChange
) -> None:
    """Give a user a password, or take the user out.

    Args:
        desk: does it.
        visitor: asks for it.
        user: whose password.
        password: None to take the user out.
        begin: is called when it has its turn; it, or what it returns, raises what keeps the change
            from being made.

    Raises:
        ApiError: it can't be; but for a status from 500 on nothing has changed.

    """
    otherwise = await other_way(desk.file)
    if otherwise.why_not:
        why = f"{otherwise.why_not}; `{otherwise.command}` does it on the machine"
        raise ApiError(HTTPStatus.CONFLICT, why if otherwise.command else otherwise.why_not)
    given = None if password is None else password.encode()
    try:
        await desk.change(user, given, begin, str(visitor))
    except PasswordLineError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"user: {error}") from error
    except AccessFileError as error:
        raise ApiError(HTTPStatus.CONFLICT, f"{FIELD}: {error}") from error
    except BlockingIOError as error:
        why = f"{FIELD}: another program changes it; try again in a moment"
        raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, why) from error
    except OvertakenError as error:
        raise ApiError(HTTPStatus.CONFLICT, f"{FIELD}: {error.strerror}") from error
    except OSError as error:
        why = f"{FIELD}: it can't be written: {error.strerror or error}"
        raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, why) from error


def has_one(user: str) -> UserCheck:
    """Return what refuses a change of a user who has no password."""

    def check(now: Passwords) -> None:
        if user not in now:
            raise ApiError(HTTPStatus.NOT_FOUND, f"user: {short(user)} has no password")

    return check


def short(name: str) -> str:
    """Return a name as an error shows it."""
    return repr(name if len(name) <= SHOWN_CHARACTERS else f"{name[:SHOWN_CHARACTERS]}…")
