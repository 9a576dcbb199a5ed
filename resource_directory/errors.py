"""Errors of the Resource Directory: a registration or a query can't be served."""

from __future__ import annotations


class DirectoryError(ValueError):
    """A registration, an update or a look-up is refused.

    Args:
        what: the parameter, link or limit at fault.
        value: the offending value, shown shortened.

    """

    def __init__(self, what: str, value: object = None) -> None:
        shown = repr(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(what if value is None else f"{what}: {shown}")
        self.what = what
        self.value = value


class InvalidParameterError(DirectoryError):
    """A parameter or link breaks RFC 9176 or RFC 6690."""


class NotOwnerError(DirectoryError):
    """An active registration belongs to another identity (RFC 9176, section 7.5)."""


class NoSuchRegistrationError(DirectoryError):
    """There is no active registration at this location."""


class TooLargeError(DirectoryError):
    """A registration is over a limit on its own size."""


class DirectoryFullError(DirectoryError):
    """The directory holds as many registrations or bytes as it may."""


class BusyError(DirectoryError):
    """The directory waits for as many others as it may."""
