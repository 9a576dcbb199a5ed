"""`hedgerow completion`: what makes bash, zsh and fish complete commands, options and files.

Everything is taken from the parser of the commands, so that a new option is completed as soon as
it is there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.tools.commands.parser import word_or_file
from light_dataclasses import dataclass

NAME = "hedgerow"
NAMES: Mapping[str, str] = {"GATEWAY": "gateways", "WHAT": "resources"}
"""The names that the running gateway is asked for, by the word in a help."""
_FOLDER = "DIR"
"""The word in a help for a folder, which may be a URI as well."""
_KINDS = frozenset(("file", *NAMES.values()))
"""The kinds of words that can be completed."""


@dataclass(frozen=True, slots=True)
class CompletedOption:
    """One option of a command.

    Attributes:
        names: as they are typed, dashes included.
        text: what it is for.
        takes: ``""`` nothing, ``"file"``, ``"choice"``, ``"value"``, or one of `NAMES`.
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
    options: Sequence[CompletedOption]
    arguments: Sequence[CompletedOption]


def add(commands: Any, parser: argparse.ArgumentParser) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        parser: of all commands.

    """
    completion = commands.add_parser(
        "completion",
        help="make a shell complete these commands",
        description="Print what a shell reads to complete commands, options and files, and names "
        "of sensors and gateways: source <(hedgerow completion bash); "
        "source <(hedgerow completion zsh); hedgerow completion fish | source. The shell then asks "
        "for names by `completion gateways` and `completion resources`, which wait for this "
        "machine's gateway for a second, and print nothing where none answers.",
    )
    kinds = sorted(NAMES.values())
    completion.add_argument(
        "shell", choices=[*sorted(_SHELLS), *kinds], help="the shell, or the kind of names"
    )

    def run(options: argparse.Namespace) -> int:
        if options.shell in kinds:
            from gateway.tools.commands import offered_names  # noqa: PLC0415  # a script asks nobody

            names = offered_names.ask(options.shell, parser.parse_args(["discover"]))
            sys.stdout.write("".join(f"{name}\n" for name in names))
        else:
            sys.stdout.write(script(options.shell, parser))
        return 0

    completion.set_defaults(command=run)


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return what a shell reads.

    Args:
        shell: ``bash``, ``zsh`` or ``fish``.
        parser: of all commands.

    """
    return "\n".join(_SHELLS[shell](forms(parser))) + "\n"


def forms(parser: argparse.ArgumentParser) -> dict[str, CommandForm]:
    """Return the commands of a parser, by name."""
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


def _options(command: argparse.ArgumentParser) -> Iterator[CompletedOption]:
    """Yield all of a command; where it has actions, their names and what any of them takes."""
    seen: set[str] = set()
    for action in command._actions:
        if action.help == argparse.SUPPRESS and action.option_strings:  # for tests alone
            continue
        yield _option(action)
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                for option in _options(each):
                    names = option.names or ([option.takes] if option.takes in _KINDS else [])
                    if names and not seen.intersection(names):
                        seen.update(names)
                        yield option


def _option(action: argparse.Action) -> CompletedOption:
    takes, choices = "value", [str(one) for one in action.choices or ()]
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    words = [one.strip() for one in metavar.split("|")]
    if action.nargs == 0:
        takes = ""
    elif choices:
        takes = "choice"
    elif action.type in (Path, word_or_file) or _FOLDER in words:
        takes = "file"
    if not choices and len(words) > 1:  # some of them may be typed as they stand
        choices = [one for one in words if one.isascii() and one.islower()]
    takes = next((NAMES[one] for one in words if one in NAMES), takes)
    return CompletedOption(action.option_strings, action.help or "", takes, choices, metavar)


def _bash(commands: Mapping[str, CommandForm]) -> Iterator[str]:
    # Not by compgen, which would run what stands in a name.
    yield f"_{NAME}_names() {{"
    yield "  local name"
    yield "  while IFS= read -r name; do"
    yield '    [[ "$name" == "$cur"* ]] && COMPREPLY+=("$name")'
    yield f'  done < <(command {NAME} completion "$1" 2>/dev/null)'
    yield "}"
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
                elif option.takes in NAMES.values():
                    yield f"      _{NAME}_names {option.takes}"
                yield "      return ;;"
    yield "  esac"
    yield '  case "${COMP_WORDS[1]}" in'
    for command, form in commands.items():
        yield f"    {command})"
        yield from _bash_arguments(form)
        yield "      ;;"
    yield "  esac"
    yield "}"
    yield f"complete -F _{NAME} {NAME}"


def _bash_arguments(form: CommandForm) -> Iterator[str]:
    """Yield what may stand where no option's value does; options where nothing else may, or - is.

    Behind what is to be done stands what it is done to.
    """
    options = [name for option in form.options for name in option.names]
    choices = [choice for argument in form.arguments for choice in argument.choices]
    kinds, has_files = _named(form), any(one.takes == "file" for one in form.arguments)
    if not (choices or kinds or has_files):
        yield _bash_words("      ", options)
        return
    yield '      if [[ "$cur" == -* ]]; then'
    yield _bash_words("        ", options)
    if choices:
        is_first = "(( COMP_CWORD == 2 ))" if kinds or has_files else "true"
        yield f"      elif {is_first}; then"
        yield _bash_words("        ", choices)
    if kinds or has_files:
        yield "      else"
    for kind in kinds:
        yield f"        _{NAME}_names {kind}"
    if kinds and has_files:
        yield "        local file"
        yield "        while IFS= read -r file; do"
        yield '          COMPREPLY+=("$file")'
        yield '        done < <(compgen -f -- "$cur")'
        yield "        compopt -o filenames"
    elif has_files:
        yield "        compopt -o default"
    yield "      fi"


def _named(form: CommandForm) -> list[str]:
    """Return what a command's words name, options left out."""
    return sorted({one.takes for one in form.arguments} & set(NAMES.values()))


def _bash_words(indent: str, words: Sequence[str]) -> str:
    return f'{indent}COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$cur"))'


def _zsh(commands: Mapping[str, CommandForm]) -> Iterator[str]:
    yield f"#compdef {NAME}"
    yield f"_{NAME}_names() {{"
    # The kind is the last word: _arguments puts options of compadd before it.
    yield "  local -a names"
    yield f'  names=(${{(f)"$(command {NAME} completion ${{@[-1]}} 2>/dev/null)"}})'
    yield '  compadd "${@[1,-2]}" -a names'
    yield "}"
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
        specs += _zsh_words(form)
        yield "      _arguments " + " ".join(specs) + " ;;"
    yield "  esac"
    yield "}"
    yield f'if [[ "$funcstack[1]" == _{NAME} ]]; then'
    yield f'  _{NAME} "$@"'
    yield "else"
    yield f"  compdef _{NAME} {NAME}"
    yield "fi"


def _zsh_words(form: CommandForm) -> Iterator[str]:
    """Yield what may stand where no option's value does: what is to be done, then to what."""
    chosen = [one for one in form.arguments if one.choices]
    for one in chosen[:1]:
        words = " ".join(word for each in chosen for word in each.choices)
        yield f"'1:{_plain(one.metavar)}:({words})'"
    known = [one for one in form.arguments if one.takes in _KINDS] or form.arguments[:1]
    values = dict.fromkeys(_zsh_of_kind(one.takes) for one in known)
    if known:
        action = next(iter(values)) if len(values) == 1 else f"{{{'; '.join(values)}}}"
        yield f"'*:{_plain(known[0].metavar)}:{action}'"


def _zsh_specs(option: CompletedOption) -> Iterator[str]:
    value = f":{_plain(option.metavar)}:{_zsh_values(option)}" if option.takes else ""
    for name in option.names:
        yield f"'{name}[{_plain(option.text)}]{value}'"


def _zsh_values(option: CompletedOption) -> str:
    if option.choices:
        return f"({' '.join(option.choices)})"
    return _zsh_of_kind(option.takes)


def _zsh_of_kind(kind: str) -> str:
    if kind in NAMES.values():
        return f"_{NAME}_names {kind}"
    return "_files" if kind == "file" else " "


def _fish(commands: Mapping[str, CommandForm]) -> Iterator[str]:
    yield f"complete -c {NAME} -f"
    yield f"function __{NAME}_is"  # a word further on may be the name of a command, too
    yield "  set -l words (commandline -opc)"
    yield '  test "$words[2]" = $argv[1]'
    yield "end"
    for command, form in commands.items():
        yield f"complete -c {NAME} -n __fish_use_subcommand -a {command} -d '{_plain(form.text)}'"
    for command, form in commands.items():
        seen = f"complete -c {NAME} -n '__{NAME}_is {command}'"
        for argument in form.arguments:
            if argument.choices:
                yield f"{seen} -a '{' '.join(argument.choices)}'"
        for kind in _named(form):
            yield f"{seen} -a '({_asked(kind)})'"
        if any(one.takes == "file" for one in form.arguments):
            yield f"{seen} -F"
        for option in form.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            value = {"": "", "file": " -r -F", "value": " -x"}.get(option.takes)
            if value is None:
                words = " ".join(option.choices) or f"({_asked(option.takes)})"
                value = f" -x -a '{words}'"
            yield f"{seen} {names}{value} -d '{_plain(option.text)}'"


def _asked(kind: str) -> str:
    return f"command {NAME} completion {kind} 2>/dev/null"


def _plain(text: str) -> str:
    """Return a text for a place within single quotes, without what a shell would take for its own.

    An apostrophe ends the quotes, stands escaped between them, and begins them anew.
    """
    text = text.replace("%%", "%").replace(":", " -")
    return re.sub(r"[^\w ,.;()/='-]", "", text).strip().replace("'", r"'\''")


_SHELLS: dict[str, Callable[[Mapping[str, CommandForm]], Iterator[str]]] = {
    "bash": _bash,
    "fish": _fish,
    "zsh": _zsh,
}
