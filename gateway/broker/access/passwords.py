"""The broker's users and the hashes of their passwords.

A line is ``user:hash``, as amqtt's password file has it; empty lines and lines that start with
``#`` are skipped. Hashes of other kinds are refused when the file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

from gateway.broker.access import password_hashes
from gateway.trust.policy.faults import AccessFileError, hold


class Passwords:
    """The password hashes of users.

    Args:
        hashes: those of `password_hashes`, by user name.

    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)
        self._names = sorted(self._hashes)

    def __len__(self) -> int:
        """Return how many users there are."""
        return len(self._hashes)

    def __contains__(self, user: str) -> bool:
        """Return whether there is such a user."""
        return user in self._hashes

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the users, in order."""
        return self._names

    def __repr__(self) -> str:
        return f"Passwords({len(self)} users)"

    @classmethod
    def parse(cls, text: str, file: str) -> Passwords:
        """Read a password file.

        Args:
            text: what is in it.
            file: its name, for errors.

        Raises:
            AccessFileError: a line without a user or a known hash, or a user's second line; it
                holds them all.

        """
        hashes: dict[str, str] = {}
        faults: list[AccessFileError] = []
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            user, colon, encoded = line.partition(":")
            why = ""
            if not colon or not user:
                why = "not USER:HASH"
            elif not password_hashes.is_known(encoded):
                why = f"the hash of {user!r} is neither argon2's nor mosquitto_passwd's"
            elif user in hashes:
                why = f"{user!r} has a line already"
            if why:
                faults.append(AccessFileError(file, number, why))
            else:
                hashes[user] = encoded
        hold(faults)
        return cls(hashes)

    def agrees(self, other: Passwords, user: str) -> bool:
        """Return whether a user is in both, with the same hash."""
        return user in self._hashes and self._hashes[user] == other._hashes.get(user)

    def verify(self, user: str, password: bytes) -> bool:
        """Return whether this is the user's password.

        It computes for as long as the hash was made to take and holds as much memory (64 MiB
        by argon2's defaults): call it in a thread, and in few at a time. The result is compared
        in constant time. For an unknown user it computes with some known user's hash, so that
        it takes as long as for a known one.
        """
        encoded = self._hashes.get(user)
        if encoded is None and not self._names:
            return False
        computed = encoded or self._hashes[self._names[crc32(user.encode()) % len(self._names)]]
        return password_hashes.matches(computed, password) and encoded is not None


UserCheck = Callable[[Passwords], None]
"""Is shown who has a password, and raises what keeps a change from being made."""
