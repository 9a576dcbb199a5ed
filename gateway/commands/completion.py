"""`hedgerow completion`: what makes bash, zsh and fish complete commands, options and files.

Everything is taken from the parser of the commands, so that a new option is completed as soon as
it is there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "hedgerow"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command.

    Attributes:
        names: as they are typed, dashes included.
        text: what it is for.
        takes: ``""`` nothing, ``"file"``, ``"choice"`` or ``"value"``.
        choices: of its value.
        metavar: of its value.

    """

    names: Sequence[str]
    text: str
    takes: str = ""
    choices: Sequence[str] = ()
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class CommandForm:
    """One command.

    Attributes:
        text: what it is for.
        options: in the order of its help.
        arguments: what may stand beside the options.

    """

    text: str
    options: Sequence[Option]
    arguments: Sequence[Option]


def add(commands: Any, parser: argparse.ArgumentParser) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        parser: of all commands.

    """
    completion = commands.add_parser(
        "completion",
        help="make a shell complete these commands",
        description="Print what a shell reads to complete commands, options and files: "
        "source <(hedgerow completion bash); source <(hedgerow completion zsh); "
        "hedgerow completion fish | source.",
    )
    completion.add_argument("shell", choices=sorted(_SHELLS), help="which shell")

    def run(options: argparse.Namespace) -> int:
        sys.stdout.write(script(options.shell, parser))
        return 0

    completion.set_defaults(command=run)


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """What a shell reads.

    Args:
        shell: ``bash``, ``zsh`` or ``fish``.
        parser: of all commands.

    """
    return "\n".join(_SHELLS[shell](forms(parser))) + "\n"


def forms(parser: argparse.ArgumentParser) -> dict[str, CommandForm]:
    """The commands of a parser, by name."""
    found: dict[str, CommandForm] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {one.dest: one.help or "" for one in action._choices_actions}
            for name, command in action.choices.items():
                options = list(_options(command))
                found[name] = CommandForm(
                    texts.get(name, ""),
                    [one for one in options if one.names],
                    [one for one in options if not one.names],
                )
    return found


def _options(command: argparse.ArgumentParser) -> Iterator[Option]:
    """All of a command; where it has actions, their names and what any of them takes."""
    seen: set[str] = set()
    for action in command._actions:
        yield _option(action)
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                for option in _options(each):
                    if option.names and not seen.intersection(option.names):
                        seen.update(option.names)
                        yield option


def _option(action: argparse.Action) -> Option:
    takes, choices = "value", [str(one) for one in action.choices or ()]
    if action.nargs == 0:
        takes = ""
    elif choices:
        takes = "choice"
    elif action.type is Path:
        takes = "file"
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    return Option(action.option_strings, action.help or "", takes, choices, metavar)


def _bash(commands: Mapping[str, CommandForm]) -> Iterator[str]:
    yield f"_{NAME}() {{"
    yield '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"'
    yield "  COMPREPLY=()"
    yield "  if (( COMP_CWORD == 1 )); then"
    yield _bash_words("    ", [*commands, "--help", "--version"])
    yield "    return"
    yield "  fi"
    yield '  case "${COMP_WORDS[1]} $prev" in'
    for command, form in commands.items():
        for option in form.options:
            if option.takes:
                names = "|".join(f'"{command} {name}"' for name in option.names)
                yield f"    {names})"
                if option.takes == "file":
                    yield "      compopt -o default"
                elif option.choices:
                    yield _bash_words("      ", option.choices)
                yield "      return ;;"
    yield "  esac"
    yield '  case "${COMP_WORDS[1]}" in'
    for command, form in commands.items():
        words = [name for option in form.options for name in option.names]
        words += [choice for argument in form.arguments for choice in argument.choices]
        yield f"    {command})"
        yield _bash_words("      ", words) + " ;;"
    yield "  esac"
    yield "}"
    yield f"complete -F _{NAME} {NAME}"


def _bash_words(indent: str, words: Sequence[str]) -> str:
    return f'{indent}COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$cur"))'


def _zsh(commands: Mapping[str, CommandForm]) -> Iterator[str]:
    yield f"#compdef {NAME}"
    yield f"_{NAME}() {{"
    yield "  local -a commands"
    yield "  commands=("
    for command, form in commands.items():
        yield f"    '{command}:{_plain(form.text)}'"
    yield "  )"
    yield "  if (( CURRENT == 2 )); then"
    yield "    _describe command commands"
    yield "    return"
    yield "  fi"
    yield "  shift words"
    yield "  (( CURRENT-- ))"
    yield '  case "$words[1]" in'
    for command, form in commands.items():
        yield f"    {command})"
        specs = [spec for option in form.options for spec in _zsh_specs(option)]
        specs += [f"'*:{_plain(one.metavar)}:{_zsh_values(one)}'" for one in form.arguments[:1]]
        yield "      _arguments " + " ".join(specs) + " ;;"
    yield "  esac"
    yield "}"
    yield f'if [[ "$funcstack[1]" == _{NAME} ]]; then'
    yield f'  _{NAME} "$@"'
    yield "else"
    yield f"  compdef _{NAME} {NAME}"
    yield "fi"


def _zsh_specs(option: Option) -> Iterator[str]:
    value = f":{_plain(option.metavar)}:{_zsh_values(option)}" if option.takes else ""
    for name in option.names:
        yield f"'{name}[{_plain(option.text)}]{value}'"


def _zsh_values(option: Option) -> str:
    if option.choices:
        return f"({' '.join(option.choices)})"
    return "_files" if option.takes == "file" else " "


def _fish(commands: Mapping[str, CommandForm]) -> Iterator[str]:
    yield f"complete -c {NAME} -f"
    for command, form in commands.items():
        yield f"complete -c {NAME} -n __fish_use_subcommand -a {command} -d '{_plain(form.text)}'"
    for command, form in commands.items():
        seen = f"complete -c {NAME} -n '__fish_seen_subcommand_from {command}'"
        for argument in form.arguments:
            if argument.choices:
                yield f"{seen} -a '{' '.join(argument.choices)}'"
        for option in form.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            value = {"": "", "file": " -r -F", "value": " -x"}.get(option.takes)
            if value is None:
                value = f" -x -a '{' '.join(option.choices)}'"
            yield f"{seen} {names}{value} -d '{_plain(option.text)}'"


def _plain(text: str) -> str:
    """Without what any of the shells would take for its own."""
    text = text.replace("%%", "%").replace("'", "’").replace(":", " -")
    return re.sub(r"[^\w ,.;()/=’-]", "", text).strip()


_SHELLS: dict[str, Callable[[Mapping[str, CommandForm]], Iterator[str]]] = {
    "bash": _bash,
    "fish": _fish,
    "zsh": _zsh,
}
