"""Quotas of identities in a directory: nobody fills it alone.

Those whom nobody knows share what there is: they are told apart by nothing that could be believed.
"""

from __future__ import annotations

from resource_directory.errors import DirectoryFullError
from resource_directory.registration import Registration


class OwnerShares:
    """Counts registrations and their size by owner.

    Args:
        registrations: that one owner may have.
        size: that they may have together, bytes of memory, about.

    """

    def __init__(self, registrations: int, size: int) -> None:
        self._registrations = registrations
        self._size = size
        self._used: dict[str, tuple[int, int]] = {}

    def used(self, owner: str) -> tuple[int, int]:
        """Return how many registrations an owner has, and their size."""
        return self._used.get(owner, (0, 0))

    def check(self, old: Registration | None, new: Registration) -> None:
        """Check that a registration has room, where it replaces another of its owner's.

        Raises:
            DirectoryFullError: its owner has its share already.

        """
        if new.owner is None:
            return
        count, size = self.used(new.owner)
        if old is None and count >= self._registrations:
            raise DirectoryFullError(f"{self._registrations} registrations of one peer")
        if size - (0 if old is None else old.held) + new.held > self._size:
            raise DirectoryFullError(f"full at a size of {self._size} of one peer")

    def add(self, registration: Registration) -> None:
        """A registration stands."""
        if registration.owner is not None:
            count, size = self.used(registration.owner)
            self._used[registration.owner] = (count + 1, size + registration.held)

    def remove(self, registration: Registration) -> None:
        """It stands no more."""
        if registration.owner is not None:
            count, size = self.used(registration.owner)
            if count == 1:
                del self._used[registration.owner]
            else:
                self._used[registration.owner] = (count - 1, size - registration.held)
