"""Words that say what a command is to do: ``clients list``, ``clients kick ID``.

Commands that had options for that alone keep them, and an address that stands in the place of the
words, as in ``hedgerow clients HOST[:PORT]``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from gateway.base.near_words import near
from gateway.tools.commands.errors import WrongUseError

LIST: Final = "list"


def do_words(options: argparse.Namespace, actions: Mapping[str, str]) -> None:
    """Have words mean what options do.

    Args:
        options: with ``words``; one of them is set for an action, or the address of a gateway.
        actions: the option that each action sets to the word behind it.

    Raises:
        WrongUseError: the words are no action, or not what it needs.

    """
    words: list[str] = options.words
    if not words or words == [LIST]:
        return
    action, *rest = words
    known = (LIST, *actions)
    if action not in known:
        _is_address(options, words, known)
        return
    name = actions.get(action)
    if name is None or len(rest) != 1:
        needed = "takes no word behind it" if name is None else "needs one word behind it"
        raise WrongUseError(f"{action}: {needed}, not {len(rest)}")
    if any(getattr(options, other) for other in actions.values()):
        raise WrongUseError(f"{action}: not with an option that does the same or another thing")
    setattr(options, name, rest[0])


def _is_address(options: argparse.Namespace, words: list[str], known: tuple[str, ...]) -> None:
    """Take a word that is no action for the address of the gateway that is asked."""
    right = near(words[0], known)
    if right is not None or len(words) > 1:
        hint = f"did you mean {right!r}?" if right else f"there are {', '.join(known)}"
        raise WrongUseError(f"invalid choice: {words[0]!r}, {hint}")
    if options.gateway is not None or options.config is not None:
        raise WrongUseError(f"{words[0]!r}: not allowed with --host or --config")
    options.gateway = words[0]
