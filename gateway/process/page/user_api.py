"""Users of a gateway, for those who may change them: who has a password; added, set, removed.

The password file has them, which `hedgerow passwd` changes too. Where the gateway may not write the
file, or where something else writes it anew and would undo the change, the page says what does it.
Nobody makes itself more than it is, and somebody who may change users always stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gateway.base.event_log.audit import AuditTrail
from gateway.base.in_turns import in_turns
from gateway.broker.access import password_lines
from gateway.broker.access.password_lines import PasswordLineError
from gateway.broker.access.passwords import Passwords, UserCheck
from gateway.process.page import user_file
from gateway.process.page.administration import Administration
from gateway.process.page.api_request import DONE, ApiRequest, Handlers
from gateway.process.page.user_file import FIELD, UserDesk, has_one, short
from gateway.process.page.user_roles import (
    WHAT,
    UserRolesSeen,
    administrators,
    named_by,
)
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from gateway.web.chosen_password import why_unfit

USERS_MAX: Final = 1_000
"""That a page makes."""
_LAST: Final = "is the last one who may change users"
_CHANGED: Final = f"{FIELD} changed"
"""As the audit trail has it (`gateway.process.access.changes`)."""


class UserApi:
    """Answers.

    Args:
        desk: has the users.
        administration: says who may change them.
        policies: decide; asked each time.
        trail: tells when passwords were set.
        gateway_id: which nobody should have as a password.

    """

    def __init__(
        self,
        desk: UserDesk,
        administration: Administration,
        policies: Callable[[], Policies],
        trail: AuditTrail,
        gateway_id: str,
    ) -> None:
        self._desk = desk
        self._administration = administration
        self._policies = policies
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
        }

    # -- who there is ------------------------------------------------------------------------------

    async def users(self, asked: ApiRequest) -> Any:
        """List who has a password, and whom the policy names, by the policy of now."""
        self._administration.check(asked.visitor, WHAT)
        file = self._desk.file
        otherwise = await user_file.other_way(file)
        try:
            set_s = await asyncio.to_thread(_set_s, self._trail)
        except OSError:  # who has a password is to be seen all the same
            set_s = {}
        policies, names = self._policies(), self._desk.names
        passwords, roles = frozenset(names), UserRolesSeen(policies, asked.visitor)
        may_change = await administrators(names, policies.others, self._administration)
        told: list[msgspec.Raw] = []
        everybody = sorted(passwords | named_by(policies.others))
        async for name in in_turns(everybody):
            has_password, its = name in passwords, roles.of(name)
            row = {
                "name": name,
                "has_password": has_password,
                "roles": its.console,
                "mqtt_roles": its.mqtt,
                "changed_s": set_s.get(name) if has_password else None,
                "may_change": not its.beyond,
                "why_not": _LAST if may_change == {name} else "",
            }
            told.append(msgspec.Raw(msgspec.json.encode(row)))
        return {"file": file and str(file), **otherwise.as_json(), "users": told}

    # -- changes -----------------------------------------------------------------------------------

    async def add(self, asked: ApiRequest) -> Any:
        """Let one more user in."""
        user = asked.body["user"]
        self._administration.check(asked.visitor, WHAT)
        try:
            password_lines.check_new_name(user)
        except PasswordLineError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"user: {error}") from error

        def check(now: Passwords) -> None:
            if user in now:
                why = f"{short(user)} has a password: set another, or remove the user"
                raise ApiError(HTTPStatus.CONFLICT, f"user: {why}")
            if len(now) >= USERS_MAX:
                why = f"{len(now)} users are as many as this page makes"
                raise ApiError(HTTPStatus.CONFLICT, f"user: {why}")

        return await self._give(asked, user, check)

    async def set_password(self, asked: ApiRequest) -> Any:
        """Give a user another password."""
        self._administration.check(asked.visitor, WHAT)
        user = asked.names["user"]
        return await self._give(asked, user, has_one(user))

    async def _give(self, asked: ApiRequest, user: str, check: UserCheck) -> dict[str, Any]:
        self._check_roles(asked.visitor, user)
        chosen = asked.body.get("password")
        if chosen is not None and (why := why_unfit(chosen, user, self._gateway_id)):
            raise ApiError(HTTPStatus.BAD_REQUEST, f"password: {why}")
        drawn = None if chosen is not None else password_lines.drawn()

        async def begin() -> UserCheck:
            self._check_again(asked, user)
            return check

        await user_file.change(self._desk, asked.visitor, user, chosen or drawn, begin)
        return {"user": user, "password": drawn}

    async def remove(self, asked: ApiRequest) -> Any:
        """Let a user in no more."""
        user = asked.names["user"]
        self._administration.check(asked.visitor, WHAT)
        self._check_roles(asked.visitor, user)

        async def begin() -> UserCheck:
            self._check_again(asked, user)
            names, policy = self._desk.names, self._policies().others
            may_change = await administrators(names, policy, self._administration)

            def check(now: Passwords) -> None:  # in a thread: a policy is the event loop's
                has_one(user)(now)
                if user in may_change and not (may_change - {user}).intersection(now.names):
                    raise ApiError(HTTPStatus.CONFLICT, f"user: {short(user)} {_LAST}")

            return check

        await user_file.change(self._desk, asked.visitor, user, None, begin)
        return DONE

    def _check_again(self, asked: ApiRequest, user: str) -> None:
        """Check what was checked when it was asked: its turn may come much later."""
        self._administration.check_again(asked, WHAT)
        self._check_roles(asked.visitor, user)

    def _check_roles(self, visitor: Principal, user: str) -> None:
        if more := UserRolesSeen(self._policies(), visitor).of(user).beyond:
            why = f"{short(user)} is {', '.join(sorted(more))}, and {visitor} is not"
            raise ApiError(HTTPStatus.FORBIDDEN, f"user: {why}")


def _set_s(trail: AuditTrail) -> dict[str, float]:
    """Return when each user's password was set, as far as the trail tells; it waits for files."""
    found: dict[str, float] = {}
    for one in trail.changes_of(_CHANGED):
        for how in ("added", "replaced"):
            names = one.of.get(how)
            for name in names if isinstance(names, list) else ():
                found[name] = one.time_s
    return found
