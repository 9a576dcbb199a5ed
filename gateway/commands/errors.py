"""How a command ends other than well."""

from __future__ import annotations


class WrongUseError(Exception):
    """An argument or configuration is wrong; the message names it."""


class FailedError(Exception):
    """The command did not work out; the message says why."""
