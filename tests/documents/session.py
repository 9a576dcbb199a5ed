"""A page read as one session: its blocks run in their order, in one folder."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from machine import Done, Machine, until
from pages import Block, PageError, blocks

SECRET = "a text of one's own"
"""Of the DTLS identity `operator`; pages that need its text say "$SECRET"."""
_STATE = ".state"
_NUMBER = re.compile(r"-?\d+(?:\\\.\d+)*")

Surrounding = Callable[["Session"], None]


class Session:
    """One reader's session on one machine.

    Args:
        machine: which runs.
        surroundings: by their names in comments.
        parts: the sections of a whole configuration, for blocks that show some of it.

    """

    def __init__(
        self, machine: Machine, surroundings: Mapping[str, Surrounding], parts: Mapping[str, str]
    ) -> None:
        self.machine = machine
        self.folder = machine.home
        self._surroundings = surroundings
        self._parts = parts
        self._there: set[str] = set()
        self._going_on: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    # -- what surroundings are made of -------------------------------------------------------------

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        """Put a file into the folder, or under the machine's /etc."""
        path = Path(name)
        path = (
            self.machine.etc / path.relative_to("/etc")
            if path.is_absolute()
            else self.folder / path
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def program(self, name: str, script: str) -> None:
        """Put a command onto the machine."""
        file = self.machine.programs / name
        file.write_text(f"#!/bin/bash\n{script}\n")
        file.chmod(0o755)

    def do(self, script: str, *, typed: str = "") -> str:
        """Run commands that must succeed; what they print."""
        done = self._run(script, typed)
        assert done.code == 0, f"{script}: {done.output}"
        return done.output

    def begin(self, line: str, ready: str = "") -> Path:
        """Start what goes on, and wait for a text of its output; the file of its output."""
        output = self.folder.parent / f"output-{len(self._going_on)}"
        process = self.machine.begin(line, where=self.folder, output=output, more=self._variables())
        self._going_on.append((line, process, output))

        def is_ready() -> bool:
            assert process.poll() in (None, 0), f"{line}: {output.read_text()}"
            return ready in output.read_text(errors="replace")

        until(is_ready, f"{line}: {ready!r}")
        return output

    def end_all(self) -> None:
        """End what goes on."""
        self.do("kill -TERM $(pgrep -x hedgerow) $(pgrep -f '[b]in/hedgerow') || true")
        until(lambda: all(one.poll() is not None for _, one, _ in self._going_on), "ends")
        self._going_on.clear()

    def wait_for(self, script: str) -> None:
        """Run commands again and again until they succeed."""
        until(lambda: self._run(script, "").code == 0, script)

    def have(self, *names: str) -> None:
        """Make these surroundings, if they are not there yet."""
        for name in names:
            if name not in self._there:
                self._there.add(name)
                self._surroundings[name](self)

    # -- blocks ------------------------------------------------------------------------------------

    def read_page(self, page: Path) -> None:
        """Do what a page says, and see that nothing failed that goes on.

        Raises:
            AssertionError: something is not as the page says; where, and what was printed.

        """
        for block in blocks(page):
            self.read(block)
        for line, process, output in self._going_on:
            assert process.poll() in (None, 0), f"{line}: {output.read_text(errors='replace')}"

    def read(self, block: Block) -> None:
        """Do what a block says."""
        if block.is_left_out:
            return
        names = (block.one("run with") or "").split(",")
        self.have(*(name.strip() for name in names if name.strip()))
        file = block.one("saved as")
        if file is not None:
            self.write(file, block.text)
        elif block.is_shell:
            self._type(block)
        elif block.language == "toml":
            self._check(block)
        elif block.language == "python":
            self._judge(block, self._run_python(block))

    def _type(self, block: Block) -> None:
        typed = (block.one("typed") or "").replace("\\n", "\n")
        going_on = block.said.get("goes on", [])
        outputs, printed, code = list[Path](), "", 0
        for script in scripts(block, going_on):
            if any(text in script for text in going_on):
                outputs.append(self._begin_typed(script))
                continue
            done = self._run(script, typed)
            printed, code = printed + done.output, done.code
            assert code == 0 or "exits with" in block.said, f"{block.place}: {code}: {printed}"

        def all_printed() -> str:
            return printed + "".join(path.read_text(errors="replace") for path in outputs)

        for text in block.said.get("shows", []):
            until(
                lambda text=text: text in all_printed(), f"{block.place}: {text!r}: {all_printed()}"
            )
        self._judge(block, Done(code, all_printed()))

    def _begin_typed(self, line: str) -> Path:
        if re.search(r"\bhedgerow run\b", line):
            return self.begin(line, " is up: ")
        if re.search(r"\b(mosquitto_sub|hedgerow sub)\b", line):
            host = re.search(r"-h(?:ost)? (\S+)", line)
            config = re.search(r"--config \S+", line)
            where = host[1] if host else config[0] if config else ""
            before = self._subscriptions(where)
            output = self.begin(line)

            def is_there() -> bool:
                # A broker that is kept waiting checks a password for longer than the command waits.
                if self._going_on[-1][1].poll():
                    self._going_on.pop()
                    self.begin(line)
                return self._subscriptions(where) > before

            until(is_there, line)
            return output
        return self.begin(line)

    def _subscriptions(self, where: str) -> int:
        # Who asks from elsewhere is told of a gateway's status by its key alone.
        key = "" if "--config" in where else next(map(str, self.folder.rglob("psk")), "")
        option = f"--psk-file {key} " if key else ""
        told = json.loads(self.do(f"hedgerow status --json {option}{where}"))
        return int(told["broker"]["subscriptions"])

    def _run_python(self, block: Block) -> Done:
        self.write(".block.py", block.text)
        return self._run("python .block.py", "")

    def _judge(self, block: Block, done: Done) -> None:
        expected = int(block.one("exits with") or 0)
        assert done.code == expected, f"{block.place}: {done.code}: {done.output}"
        if block.is_transcript:
            lines = [line for line in block.text.splitlines() if not line.startswith("$ ")]
            missing = first_missing(lines, done.output.splitlines())
            assert missing is None, f"{block.place}: {missing!r} is not in\n{done.output}"

    def _check(self, block: Block) -> None:
        """Have `hedgerow check` read a configuration, or a part of one, or a policy."""
        keys = tomllib.loads(block.text).keys()
        text = block.text
        if keys & {"version", "default", "users", "roles"}:
            self.write("access.toml", text)
            text = f'{_without(self._parts, "access")}[access]\npolicy_file = "access.toml"\n'
        elif "gateway" not in keys:
            text = _without(self._parts, *re.findall(r"^\[{1,2}(\w+)\]", text, re.M)) + text
        self.write(".block.toml", text)
        done = self._run("hedgerow check --config .block.toml", "")
        assert done.code == 0, f"{block.place}: {done.output}"

    def _run(self, script: str, typed: str) -> Done:
        state = self.folder.parent / _STATE
        where = Path(state.read_text()) if state.exists() else self.folder
        kept = f"trap 'pwd | tr -d \"\\n\" >{state}' EXIT\n"
        return self.machine.run(kept + script, where=where, typed=typed, more=self._variables())

    def _variables(self) -> dict[str, str]:
        return {"SECRET": SECRET}


def first_missing(expected: list[str], printed: list[str]) -> str | None:
    """The first line that does not come where it should; digits and the width of gaps may differ.

    Args:
        expected: lines of a page; "..." stands for anything.
        printed: lines of a program.

    """
    rest = iter(printed)
    for line in filter(str.strip, expected):
        pattern = _pattern(line)
        if not any(pattern.fullmatch(one.strip()) for one in rest):
            return line
    return None


def _pattern(line: str) -> re.Pattern[str]:
    text = re.escape(line.strip()).replace(r"\.\.\.", ".*")
    text = _NUMBER.sub(r"-?[\\d.]+", text)
    return re.compile(re.sub(r"(\\ )+", r"\\s+", text))


def _without(parts: Mapping[str, str], *names: str) -> str:
    return "".join(f"{text}\n" for name, text in parts.items() if name not in names)


def scripts(block: Block, going_on: list[str]) -> Iterator[str]:
    """The lines that go on, each by itself, and what is between them."""
    lines = block.text.splitlines()
    if block.is_transcript:
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for text in going_on:
        if not any(text in line for line in lines):
            raise PageError(f"{block.place}: no line has {text!r}, which goes on")
    together: list[str] = []
    for line in lines:
        if any(text in line for text in going_on):
            if together:
                yield "\n".join(together)
            yield line
            together = []
        else:
            together.append(line)
    if any(map(str.strip, together)):
        yield "\n".join(together)
