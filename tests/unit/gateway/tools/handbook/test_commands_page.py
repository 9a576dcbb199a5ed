"""Goal: `docs/commands.md` has every command, argument and exit code, as they are."""

from __future__ import annotations

from pathlib import Path

from gateway.base import exit_codes
from gateway.tools import cli
from gateway.tools.handbook import reference

PAGE = Path(__file__).parents[5] / "docs" / "commands.md"


def test_the_page_is_current() -> None:
    made = reference.page(cli.command_line(), exit_codes.MEANINGS)
    assert PAGE.read_text() == made, (
        "run: .venv/bin/python -m gateway.tools.handbook.reference > docs/commands.md"
    )


def test_it_has_what_a_command_takes() -> None:
    text = PAGE.read_text()
    for row in (
        "| 2 | a wrong argument or configuration, or an output that takes nothing; ",
        "## hedgerow check\n",
        "| `WHAT` | a URI (coap://HOST[:PORT]/PATH), a path (/sensors/valve), or a name: valve, ",
        "| `[HOST[:PORT]]` | as --host |",
        "| `--timeout S` | time to wait, in seconds (default: 60) |",
        "| `--log-level debug\\|info\\|warning` | default: info |",
        "| `--runs N` | number of networks (default: 100) |",
        "| `--growth [N]` | a table of networks of 10 to N gateways instead (default 1000) |",
    ):
        assert row in text, row
