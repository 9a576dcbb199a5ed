"""Command lines of ours that stand in scripts, units and texts, as words.

What is known only where a line runs, as the value of a variable, is `UNKNOWN`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

HEDGEROW = "hedgerow"
"""The program; a module that is started with ``-m`` is named as it is there."""
UNKNOWN = "UNKNOWN"
_PACKAGES = (
    *("alerts", "backups", "benchmarks", "cloud_ingest", "coap_engine", "dtls", "gateway"),
    *("releases", "resource_directory", "tree_handler"),
)
_OURS = re.compile(rf"-m\s+(?:{'|'.join(_PACKAGES)})\b|(?<![\w.-])hedgerow\s|interpreter\.sh run ")
_BEFORE = {"sudo", "exec", "time", "nice", "then", "do", "if", "while", "!", "env", "else", "set"}
"""Words behind which a command of the shell begins."""
_HANDLES_FILES = {"ln", "test", "[", "chmod", "chown", "ls", "install", "cat", "rm", "cp", "mv"}
"""Commands that have the program as a file."""
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_ENDS = ("|", "||", "&", "&&", ";", "(", ")", ";;")
_SCRIPTS = {"hedgerow-backup.py": "gateway.backups.making"}
"""Modules that run as a file, by the name of the file."""
_INTERPRETER = ("interpreter.sh", "run")
"""It runs the program of the folder that is named behind (gateway/tools/provisioning)."""
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SHELLS = ("", "sh", "bash", "shell", "console")
_MENTION = re.compile(r"`+(?:sudo )?(?:[\w./-]*/)?hedgerow ([^`]+)`")
_BETWEEN_STRINGS = re.compile(r'"\s*\n\s*f?"')
"""In sources of Python, of one text over two lines."""
_AND_MORE = re.compile(r"\s*(?:\.\.\.|\u2026).*", re.DOTALL)


@dataclass(frozen=True)
class CommandLine:
    """A line that somebody runs.

    Attributes:
        place: the file that it stands in.
        program: `HEDGEROW`, or the module behind ``-m``.
        words: what follows it.
        is_whole: it runs as it stands; else it is spoken of, and may lack what such a line needs.

    """

    place: str
    program: str
    words: tuple[str, ...]
    is_whole: bool = True

    def __str__(self) -> str:
        return f"{self.place}: {' '.join((self.program, *self.words))}"


def of_words(place: str, words: Iterable[str]) -> Iterator[CommandLine]:
    """Return our command in the words of one command of a shell, if it is ours.

    Args:
        place: where it stands.
        words: the first is what is run, with what stands before it.

    """
    found = list(words)
    for number, word in enumerate(found):
        before = found[:number]
        rest = tuple(found[number + 1 :])
        if word == "-m" and rest and rest[0].partition(".")[0] in _PACKAGES:
            yield CommandLine(place, rest[0], rest[1:])
            return
        name = word.rpartition("/")[2]
        if name in _SCRIPTS:
            yield CommandLine(place, _SCRIPTS[name], rest)
            return
        if (name, *rest[:1]) == _INTERPRETER:
            yield CommandLine(place, HEDGEROW, rest[2:])
            return
        if name != HEDGEROW:
            continue
        is_first = bool(rest) and all(one in _BEFORE or "=" in one for one in before)
        is_path = "/bin/" in word and not {*before} & _HANDLES_FILES
        if is_first or is_path:
            yield CommandLine(place, HEDGEROW, rest)
            return


def of_shell(place: str, text: str) -> Iterator[CommandLine]:
    """Return our commands in the text of a shell, of a unit or of a fenced block.

    Args:
        place: where it stands.
        text: of any number of lines.

    Raises:
        ValueError: a line with one of them can't be read.

    """
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        if _OURS.search(f"{line} ") is None:
            continue
        whole = line
        while (commands := _commands(whole)) is None:
            more = next(lines, None)
            if more is None:
                raise ValueError(f"{place}: no end of a quotation: {line}")
            whole += f"\n{more}"
        for words in commands:
            more = "$@" in words  # the arguments of the script
            for found in of_words(place, [word for word in words if word != "$@"]):
                yield replace(found, is_whole=not more)


def _commands(line: str) -> list[list[str]] | None:
    """Return the words of each command of a line; None where a quotation has no end."""
    inner = [found for one in _SUBSTITUTION.findall(line) for found in _commands(one) or ()]
    reader = shlex.shlex(_SUBSTITUTION.sub(UNKNOWN, line), posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    commands: list[list[str]] = [[]]
    is_target = False
    try:
        for word in reader:
            if word in _ENDS:
                commands.append([])
            elif set(word) <= {"<", ">", "&"} and word:
                is_target = True
            elif is_target:
                is_target = False
            else:
                commands[-1].append(word)
    except ValueError:
        return None
    return inner + [_without_descriptor(words) for words in commands if words]


def _without_descriptor(words: list[str]) -> list[str]:
    """Take away the ``2`` of ``2>FILE``, which is no word of the command."""
    return words[:-1] if words[-1] == "2" else words


def of_unit(place: str, text: str) -> Iterator[CommandLine]:
    """Return our commands in a unit of systemd.

    Args:
        place: where it stands.
        text: of the unit.

    """
    for value in re.findall(r"(?m)^Exec\w*=[-+@!:]*(.*)$", text.replace("\\\n", " ")):
        yield from of_shell(place, value)


def of_page(place: str, text: str) -> Iterator[CommandLine]:
    """Return our commands in the fenced blocks of a page, and those that it speaks of.

    Args:
        place: where it stands.
        text: Markdown.

    """
    for language, block in _FENCE.findall(text):
        if language not in _SHELLS:
            continue
        typed = [line for line in block.splitlines() if line.startswith("$ ")]
        yield from of_shell(place, "\n".join(line[2:] for line in typed) if typed else block)
    yield from mentions(place, _FENCE.sub("", text))


def mentions(place: str, text: str) -> Iterator[CommandLine]:
    """Return our commands that a text speaks of, between back quotes.

    Args:
        place: where it stands.
        text: any.

    """
    for said in _MENTION.findall(_BETWEEN_STRINGS.sub("", text)):
        words = _AND_MORE.sub("", " ".join(said.split()))
        for found in of_shell(place, f"{HEDGEROW} {words}"):
            yield replace(found, is_whole=False)
