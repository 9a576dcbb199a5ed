"""Changes users and their passwords, and has a running gateway go by that at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.broker.access.passwords import Passwords
from gateway.process.access import files as access_files
from gateway.process.access.whole_change import WholeChanges
from gateway.process.configuration.config import ConfigError
from gateway.process.running.access_in_use import AccessInUse

if TYPE_CHECKING:
    from gateway.broker.access.password_lines import UserCheck
    from gateway.process.page.user_file import BeginChange


class UsersInUse:
    """Has the deeds: what `hedgerow passwd` writes, and what a reload has the gateway go by.

    Args:
        access: by which the gateway goes.

    """

    def __init__(self, access: AccessInUse) -> None:
        self._access = access
        self._changes = WholeChanges()
        self._changing = asyncio.Lock()

    @property
    def file(self) -> Path | None:
        """Return the file that has them; None where nobody has a password."""
        return self._access.password_file

    @property
    def names(self) -> Sequence[str]:
        """Return who has a password that counts."""
        passwords = self._access.files.broker.passwords
        return () if passwords is None else passwords.names

    async def change(self, user: str, password: bytes | None, begin: BeginChange, who: str) -> None:
        """Give a user a password, or take the user out; sessions and connections by the old end.

        Whatever becomes of it, the gateway goes by what the file says then: who is not in it is
        out, even if somebody else has taken the line out, or the disk takes it and fails after.

        Args:
            user: whose password.
            password: in clear; None to take the user out.
            begin: asked when the change has its turn, with nobody else's under way. It raises what
                keeps this from being done, as does what it returns, which is shown who has a
                password then.
            who: does it, for the audit trail.

        Raises:
            PasswordLineError: no line can hold the name or the password.
            AccessFileError: the file can't be read, or one of its lines is wrong.
            OSError: it can't be written, or another program changes it.

        """
        await self._changes.carry_out(self._change(user, password, begin, who))

    async def _change(
        self, user: str, password: bytes | None, begin: BeginChange, who: str
    ) -> None:
        if (file := self.file) is None:
            raise RuntimeError("no password file: ask for `file` before you change a user")
        async with self._changing:
            check = await begin()
            failure: Exception | None = None
            found: Passwords | None = None
            try:
                found = await asyncio.to_thread(_written, file, user, password, check)
            except Exception as error:
                failure = error
            if failure is not None:  # not in the `except` block: see `TreeNode._served`
                found = await asyncio.to_thread(_as_it_stands, file)
            goes = found is not None and not self._goes_by(found)
            if found is not None and goes:
                self._access.go_by_passwords(found)
        if goes:
            await self._access.note(who)
        if failure is not None:
            raise failure

    def _goes_by(self, found: Passwords) -> bool:
        now = self._access.files.broker.passwords
        return (
            now is not None
            and now.names == found.names
            and all(now.agrees(found, user) for user in found.names)
        )


def _written(file: Path, user: str, password: bytes | None, check: UserCheck) -> Passwords:
    from gateway.broker.access import password_lines  # noqa: PLC0415  # argon2 is for who makes hashes

    line = None if password is None else password_lines.line(user, password)
    _, now = password_lines.change(file, user, line, check, is_patient=False)
    return now


def _as_it_stands(file: Path) -> Passwords | None:
    """Return who has a password by the file; None if that can't be told."""
    try:
        return access_files.passwords(file)
    except ConfigError:
        return None
