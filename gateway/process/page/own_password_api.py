"""One's own password, at the page: whoever has one changes it, with the one of before."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from gateway.broker.access.passwords import UserCheck
from gateway.process.page import user_file
from gateway.process.page.api_request import DONE, ApiRequest, Handlers
from gateway.process.page.audit_notes import WRONG_PASSWORD, AuditNotes
from gateway.process.page.user_file import UserDesk
from gateway.trust.policy.principal import CONSOLE, Principal
from gateway.web import chosen_password
from gateway.web.api_error import ApiError
from gateway.web.log_in import WebLogIn


class OwnPasswordApi:
    """Answers.

    Args:
        desk: has the users.
        door: knows whether a password is somebody's.
        notes: of wrong passwords.
        gateway_id: which nobody should have as a password.

    """

    def __init__(self, desk: UserDesk, door: WebLogIn, notes: AuditNotes, gateway_id: str) -> None:
        self._desk = desk
        self._door = door
        self._notes = notes
        self._gateway_id = gateway_id

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "own_password": self.own_password,
            "change_own_password": self.change_own_password,
        }

    async def own_password(self, asked: ApiRequest) -> Any:
        """Tell whether who asks can change its password here."""
        _check_has_one(asked.visitor)
        return (await user_file.other_way(self._desk.file)).as_json()

    async def change_own_password(self, asked: ApiRequest) -> Any:
        """Have another password, of who knows the one of now."""
        visitor, old, new = asked.visitor, asked.body["old"], asked.body["new"]
        _check_has_one(visitor)
        if new == old:
            raise ApiError(HTTPStatus.BAD_REQUEST, "new: is the old one")
        if why := chosen_password.why_unfit(new, visitor.name, self._gateway_id):
            raise ApiError(HTTPStatus.BAD_REQUEST, f"new: {why}")
        await self._prove(visitor, old, asked.host)

        async def begin() -> UserCheck:
            asked.check_still_in()
            return user_file.has_one(visitor.name)

        await user_file.change(self._desk, visitor, visitor.name, new, begin)
        return DONE

    async def _prove(self, visitor: Principal, old: str, host: str) -> None:
        """Refuse who does not know the password; a guess counts as at the log-in."""
        refused = await self._door.why_unproved(visitor.name, old.encode(), host)
        if refused == "later":
            why = "too many attempts; wait ten seconds"
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, why)
        if refused:
            kind = "own password: wrong"
            self._notes.refused(kind, str(visitor), host, WRONG_PASSWORD)
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "old: is not your password")


def _check_has_one(visitor: Principal) -> None:
    if visitor.kind != CONSOLE:
        raise ApiError(HTTPStatus.CONFLICT, f"{visitor} has not logged in with a password")
