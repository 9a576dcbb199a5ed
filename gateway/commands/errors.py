"""How a command ends other than well."""

from __future__ import annotations


class WrongUseError(Exception):
    """An argument or configuration is wrong; the message names it."""


class FailedError(Exception):
    """The command did not work out; the message says why.

    Attributes:
        exit_code: what the process ends with.

    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
