"""Changes users and their passwords, and has a running gateway go by that at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.broker.access.passwords import Passwords
from gateway.process.access import files as access_files
from gateway.process.access.whole_change import WholeChanges
from gateway.process.running.access_in_use import AccessInUse


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

    async def change(
        self, user: str, password: bytes | None, check: Callable[[Passwords], None], who: str
    ) -> None:
        """Give a user a password, or take the user out; sessions and connections by the old end.

        Args:
            user: whose password.
            password: in clear; None to take the user out.
            check: is shown who has a password now; it raises what keeps this from being done.
            who: does it, for the audit trail.

        Raises:
            PasswordLineError: no line can hold the name or the password.
            AccessFileError: the file can't be read, or one of its lines is wrong.
            ConfigError: likewise, after it was written.
            OSError: it can't be written, or another program changes it.

        """
        await self._changes.carry_out(self._change(user, password, check, who))

    async def _change(
        self, user: str, password: bytes | None, check: Callable[[Passwords], None], who: str
    ) -> None:
        if (file := self.file) is None:
            raise RuntimeError("no password file: ask for `file` before you change a user")
        async with self._changing:
            found = await asyncio.to_thread(_written, file, user, password, check)
            self._access.go_by_passwords(found)
        await self._access.note(who)


def _written(
    file: Path, user: str, password: bytes | None, check: Callable[[Passwords], None]
) -> Passwords:
    from gateway.broker.access import password_lines  # noqa: PLC0415  # argon2 is for who makes hashes

    line = None if password is None else password_lines.line(user, password)
    password_lines.change(file, user, line, check, is_patient=False)
    return access_files.passwords(file)
