"""The parser of all commands, made once: that takes longer than what most tests ask of it."""

from __future__ import annotations

import argparse
import functools

from gateway.tools.cli import command_line
from gateway.tools.commands.carrying_out import carry_out


@functools.cache
def parser() -> argparse.ArgumentParser:
    return command_line()


def hedgerow(*words: object) -> int:
    """Carry out a command as `gateway.tools.cli.main` does, and return its exit code."""
    return carry_out(parser, [str(word) for word in words])
