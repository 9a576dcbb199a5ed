"""A command starts with what it needs: on a Pi each module is felt."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from gateway import cli
cli.command_line()
print(*sorted(sys.modules))
"""
DEAR = ("msgspec", "cryptography", "gateway.configuration.config", "gateway.broker", "gateway.coap")


def test_the_command_line_is_read_without_what_only_some_commands_need() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "gateway.cli" in loaded
    assert [name for name in DEAR if name in loaded] == []
