"""Users of a gateway and their passwords: who has one; added, set, removed; one's own changed.

The password file has them, which `hedgerow passwd` changes too. Where the gateway may not write the
file, or where something else writes it anew and would undo the change, the page says what does it.
Nobody makes itself more than it is, and somebody who may change users always stays.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

from gateway.base.event_log.audit import AuditTrail
from gateway.base.in_turns import in_turns
from gateway.broker.access import password_lines
from gateway.broker.access.password_lines import PasswordLineError, UserCheck
from gateway.broker.access.passwords import Passwords
from gateway.process.page import writable_files
from gateway.process.page.administration import Administration, roles_beyond
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.process.page.audit_notes import WRONG_PASSWORD, AuditNotes
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.faults import AccessFileError, read_access_file
from gateway.trust.policy.policy import Policy
from gateway.trust.policy.principal import CONSOLE, USER, Principal
from gateway.trust.policy.rule import ANY_NAME
from gateway.web import chosen_password
from gateway.web.api_error import ApiError
from gateway.web.log_in import WebLogIn
from light_dataclasses import dataclass

USERS_MAX: Final = 1_000
"""That a page makes."""
USERS_PER_TURN: Final = 20
"""Then others have a turn: there may be a thousand."""
SHOWN_CHARACTERS: Final = 64
"""Of a name in an error."""
DONE: Final[dict[str, Any]] = {}
_WHAT: Final = "users"
_LAST: Final = "is the last one who may change users"
_FIELD: Final = "access.password_file"
_CHANGED: Final = f"{_FIELD} changed"
"""As the audit trail has it (`gateway.process.access.changes`)."""

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
class _Otherwise:
    """The way to change users that are not changed here.

    Attributes:
        why_not: why they are not; empty if they are.
        command: does it.

    """

    why_not: str = ""
    command: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"why_not": self.why_not, "command": self.command}


class UserApi:
    """Answers.

    Args:
        desk: has the users.
        administration: says who may change them.
        policies: decide; asked each time.
        door: knows whether a password is somebody's.
        notes: of wrong passwords.
        trail: tells when passwords were set.
        gateway_id: which nobody should have as a password.

    """

    def __init__(
        self,
        desk: UserDesk,
        administration: Administration,
        policies: Callable[[], Policies],
        door: WebLogIn,
        notes: AuditNotes,
        trail: AuditTrail,
        gateway_id: str,
    ) -> None:
        self._desk = desk
        self._administration = administration
        self._policies = policies
        self._door = door
        self._notes = notes
        self._trail = trail
        self._gateway_id = gateway_id

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "users": self.users,
            "add_user": self.add,
            "set_password": self.set_password,
            "remove_user": self.remove,
            "own_password": self.own_password,
            "change_own_password": self.change_own_password,
        }

    # -- who there is ------------------------------------------------------------------------------

    async def users(self, asked: ApiRequest) -> Any:
        """List who has a password, and whom the policy names."""
        self._administration.check(asked.visitor, _WHAT)
        otherwise = await asyncio.to_thread(self._otherwise)
        try:
            set_s = await asyncio.to_thread(_set_s, self._trail)
        except OSError:  # who has a password is to be seen all the same
            set_s = {}
        passwords = frozenset(self._desk.names)
        administrators = await self._administrators()
        told: list[dict[str, Any]] = []
        async for name in in_turns(sorted(passwords | self._named_by_policy()), USERS_PER_TURN):
            has_password = name in passwords
            told.append(
                {
                    "name": name,
                    "has_password": has_password,
                    "roles": sorted(self._roles(self._policies().others, CONSOLE, name)),
                    "mqtt_roles": sorted(self._roles(self._policies().topics, USER, name)),
                    "changed_s": set_s.get(name) if has_password else None,
                    "may_change": not self._beyond(asked.visitor, name),
                    "why_not": _LAST if administrators == {name} else "",
                }
            )
        file = self._desk.file
        return {"file": file and str(file), **otherwise.as_json(), "users": told}

    def _named_by_policy(self) -> frozenset[str]:
        kinds = (CONSOLE, USER)
        found = (who.partition(":") for who in self._policies().others.told.assigned)
        return frozenset(name for kind, _, name in found if kind in kinds and name != ANY_NAME)

    def _roles(self, policy: Policy, kind: str, name: str) -> frozenset[str]:
        return policy.all_roles(policy.principal(kind, name).roles)

    def _beyond(self, visitor: Principal, name: str) -> frozenset[str]:
        policies = self._policies()
        roles = self._roles(policies.others, CONSOLE, name)
        roles |= self._roles(policies.topics, USER, name)
        return roles_beyond(policies.others, visitor, roles)

    async def _administrators(self) -> frozenset[str]:
        """Return who has a password and may change users."""
        found: list[str] = []
        async for name in in_turns(self._desk.names, USERS_PER_TURN):
            principal = self._policies().others.principal(CONSOLE, name)
            if self._administration.may(principal, _WHAT):
                found.append(name)
        return frozenset(found)

    # -- changes -----------------------------------------------------------------------------------

    async def add(self, asked: ApiRequest) -> Any:
        """Let one more user in."""
        user = asked.body["user"]
        self._administration.check(asked.visitor, _WHAT)
        try:
            password_lines.check_name(user)
        except PasswordLineError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"user: {error}") from error

        def check(now: Passwords) -> None:
            if user in now:
                why = f"{_short(user)} has a password: set another, or remove the user"
                raise ApiError(HTTPStatus.CONFLICT, f"user: {why}")
            if len(now) >= USERS_MAX:
                why = f"{len(now)} users are as many as this page makes"
                raise ApiError(HTTPStatus.CONFLICT, f"user: {why}")

        return await self._give(asked, user, check)

    async def set_password(self, asked: ApiRequest) -> Any:
        """Give a user another password."""
        self._administration.check(asked.visitor, _WHAT)
        user = asked.names["user"]
        return await self._give(asked, user, _has_one(user))

    async def _give(self, asked: ApiRequest, user: str, check: UserCheck) -> dict[str, Any]:
        self._check_roles(asked.visitor, user)
        chosen = asked.body.get("password")
        if chosen is not None:
            self._check_fit("password", chosen, user)
        drawn = None if chosen is not None else password_lines.drawn()

        async def begin() -> UserCheck:
            self._check_again(asked, user)
            return check

        await self._change(asked.visitor, user, chosen or drawn, begin)
        return {"user": user, "password": drawn}

    async def remove(self, asked: ApiRequest) -> Any:
        """Let a user in no more."""
        user = asked.names["user"]
        self._administration.check(asked.visitor, _WHAT)
        self._check_roles(asked.visitor, user)

        async def begin() -> UserCheck:
            self._check_again(asked, user)
            administrators = await self._administrators()

            def check(now: Passwords) -> None:  # in a thread: a policy is the event loop's
                _has_one(user)(now)
                if user in administrators and not (administrators - {user}).intersection(now.names):
                    raise ApiError(HTTPStatus.CONFLICT, f"user: {_short(user)} {_LAST}")

            return check

        await self._change(asked.visitor, user, None, begin)
        return DONE

    async def own_password(self, asked: ApiRequest) -> Any:
        """Tell whether who asks can change its password here."""
        _check_has_one(asked.visitor)
        return (await asyncio.to_thread(self._otherwise)).as_json()

    async def change_own_password(self, asked: ApiRequest) -> Any:
        """Have another password, of who knows the one of now."""
        visitor, old, new = asked.visitor, asked.body["old"], asked.body["new"]
        _check_has_one(visitor)
        if new == old:
            raise ApiError(HTTPStatus.BAD_REQUEST, "new: is the old one")
        self._check_fit("new", new, visitor.name)
        refused = await self._door.why_unproved(visitor.name, old.encode(), asked.host)
        if refused == "later":
            why = "too many attempts; wait ten seconds"
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, why)
        if refused:
            kind = "own password: wrong"
            self._notes.refused(kind, str(visitor), asked.host, WRONG_PASSWORD)
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "old: is not your password")

        async def begin() -> UserCheck:
            asked.check_still_in()
            return _has_one(visitor.name)

        await self._change(visitor, visitor.name, new, begin)
        return DONE

    def _check_again(self, asked: ApiRequest, user: str) -> None:
        """Check what was checked when it was asked: its turn may come much later."""
        asked.check_still_in()
        self._administration.check(asked.visitor, _WHAT)
        self._check_roles(asked.visitor, user)

    def _check_roles(self, visitor: Principal, user: str) -> None:
        if more := self._beyond(visitor, user):
            why = f"{_short(user)} is {', '.join(sorted(more))}, and {visitor} is not"
            raise ApiError(HTTPStatus.FORBIDDEN, f"user: {why}")

    def _check_fit(self, field: str, password: str, user: str) -> None:
        if why := chosen_password.why_unfit(password, user, self._gateway_id):
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{field}: {why}")

    async def _change(
        self, visitor: Principal, user: str, password: str | None, begin: BeginChange
    ) -> None:
        """Have it done.

        Raises:
            ApiError: it can't be; but for a status from 500 on nothing has changed.

        """
        otherwise = await asyncio.to_thread(self._otherwise)
        if otherwise.why_not:
            why = f"{otherwise.why_not}; `{otherwise.command}` does it on the machine"
            raise ApiError(HTTPStatus.CONFLICT, why if otherwise.command else otherwise.why_not)
        given = None if password is None else password.encode()
        try:
            await self._desk.change(user, given, begin, str(visitor))
        except AccessFileError as error:
            raise ApiError(HTTPStatus.CONFLICT, f"{_FIELD}: {error}") from error
        except BlockingIOError as error:
            why = f"{_FIELD}: another program changes it; try again in a moment"
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, why) from error
        except OSError as error:
            why = f"{_FIELD}: it can't be written: {error.strerror or error}"
            raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, why) from error

    def _otherwise(self) -> _Otherwise:
        """Look at the file; it waits for the disk."""
        file = self._desk.file
        if file is None:
            return _Otherwise(f"{_FIELD}: the configuration names none, so nobody logs in")
        try:
            managed_by = password_lines.managed_by(read_access_file(file))
        except AccessFileError:  # the change says what is wrong with it
            managed_by = ""
        if managed_by:
            why = f"{file}: {managed_by} writes it, and would undo a change that is made here"
            return _Otherwise(why, "hedgerow passwd NAME")
        if why_not := writable_files.why_not([file]):
            command = f"sudo hedgerow passwd --file {shlex.quote(str(file))} NAME"
            return _Otherwise(why_not, f"{command} && sudo systemctl reload hedgerow")
        return _Otherwise()


def _has_one(user: str) -> UserCheck:
    """Return what refuses a change of a user who has no password."""

    def check(now: Passwords) -> None:
        if user not in now:
            raise ApiError(HTTPStatus.NOT_FOUND, f"user: {_short(user)} has no password")

    return check


def _check_has_one(visitor: Principal) -> None:
    if visitor.kind != CONSOLE:
        raise ApiError(HTTPStatus.CONFLICT, f"{visitor} has not logged in with a password")


def _set_s(trail: AuditTrail) -> dict[str, float]:
    """Return when each user's password was set, as far as the trail tells; it waits for files."""
    found: dict[str, float] = {}
    for one in trail.changes():
        if one.what == _CHANGED:
            for how in ("added", "replaced"):
                names = one.of.get(how)
                for name in names if isinstance(names, list) else ():
                    found[name] = one.time_s
    return found


def _short(name: str) -> str:
    return repr(name if len(name) <= SHOWN_CHARACTERS else f"{name[:SHOWN_CHARACTERS]}…")
