"""Errors with which a command ends."""

from __future__ import annotations

from gateway.base import exit_codes


class WrongUseError(Exception):
    """An argument or configuration is wrong; the message names it."""


class FailedError(Exception):
    """The command did not work out; the message says why.

    Attributes:
        exit_code: what the process ends with.

    """

    def __init__(self, message: str, exit_code: int = exit_codes.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
