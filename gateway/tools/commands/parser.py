"""The parser of all commands: one line for what is wrong, with the near word."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from gateway.base import build, exit_codes
from gateway.base.near_words import near

_NO_TERMINAL: Final = 80
"""Characters in a line where nothing tells."""


def word_or_file(text: str) -> str:
    """Return a word as it stands: it may name a file, so that it need be no text.

    It is the type of an argument that may be something else than a file, too.
    """
    return text


def is_text(word: str) -> bool:
    """Return False if a word of the command line has bytes that are no text in this locale."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


class Parser(argparse.ArgumentParser):
    """The parser of argparse with errors that say what to do."""

    _is_among_words = False

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; an option that is unknown is told with the nearest one."""
        given = sys.argv[1:] if args is None else list(args)
        options, unknown = self.parse_known_args(given, namespace)
        if unknown:
            parser = _parser_of(self, given)
            known = [name for action in actions(parser) for name in action.option_strings]
            words = (near(word.partition("=")[0], known) for word in unknown if word[:1] == "-")
            right = next(filter(None, words), None)
            hint = f", did you mean {right}?" if right else ""
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Convert an argument; one that is no text is refused, unless it names a file."""
        try:
            value = super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if (why := _why_no_number(error.__context__)) is None:
                raise
            raise argparse.ArgumentError(action, f"{arg_string!r} {why}") from error
        names_file = isinstance(value, os.PathLike) or action.type is word_or_file
        # The words of a command below come by here as well; its own parser looks at them.
        if action.nargs != argparse.PARSER and not names_file and not is_text(arg_string):
            raise argparse.ArgumentError(action, f"{arg_string!a} is no text here")
        return value

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else list(map(str, action.choices))
        if choices is not None and str(value) not in choices:
            right = near(str(value), choices)
            hint = f"did you mean {right!r}?" if right else f"there are {', '.join(choices)}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}, {hint}")
        super()._check_value(action, value)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the known arguments; options may stand between a word and any number of others.

        It would take the number for none there, and refuse `sensors add --psk-file FILE NAME=...`.
        """
        words = self._get_positional_actions()
        if self._is_among_words or len(words) < 2 or words[-1].nargs != "*":
            return super().parse_known_args(args, namespace)
        self._is_among_words = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_among_words = False

    def _parse_optional(self, arg_string: str) -> Any:
        """Take ``-/-/gw-north/pump`` for a topic, and no option."""
        return None if arg_string.startswith("-/") else super()._parse_optional(arg_string)

    def _get_formatter(self) -> argparse.HelpFormatter:
        """As argparse does, which asks `shutil` for the width: with compressors, eight modules."""
        return argparse.HelpFormatter(self.prog, width=_columns() - 2)

    def error(self, message: str) -> NoReturn:
        """Print one line, where argparse would print its usage as well."""
        self.exit(exit_codes.WRONG_USE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _why_no_number(error: BaseException | None) -> str | None:
    """Return why a word is no number, if that is it: argparse names a function of ours."""
    if isinstance(error, argparse.ArgumentTypeError) or not isinstance(error, ValueError):
        return None
    said = str(error)
    if "float" in said:
        return "is no number"
    return "is no whole number" if "int" in said else None


class VersionAction(argparse.Action):
    """Prints which version and build this is, and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        about = "show program's version number and exit"
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=about)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print the version and the build, and exit."""
        sys.stdout.write(f"{parser.prog} {build.VERSION} ({build.running()})\n")
        parser.exit()


def actions(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return all that a command takes, in the order in which it was added.

    Its help, what is hidden, and the word that names a command below it are among them.

    Args:
        command: its parser.

    """
    return list(command._actions)


def subcommands(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands right below a command, by the word that names each.

    Args:
        command: its parser.

    """
    found: dict[str, argparse.ArgumentParser] = {}
    for action in actions(command):
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def _columns() -> int:
    """Return how wide the terminal is, in characters, as `shutil.get_terminal_size` tells it."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    if sys.__stdout__ is None:
        return _NO_TERMINAL
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _NO_TERMINAL
    except (ValueError, OSError):  # closed, or no terminal
        return _NO_TERMINAL


def _parser_of(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that words name, as far as they name one."""
    for word in given:
        parser = subcommands(parser).get(word, parser)
    return parser
