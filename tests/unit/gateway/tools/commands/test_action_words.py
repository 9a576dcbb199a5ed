"""Words say the action of a command, and the options of earlier releases still work."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from gateway.tools.cli import command_line
from gateway.tools.commands.action_words import do_words
from gateway.tools.commands.errors import WrongUseError

CLIENTS = {"show": "id", "kick": "kick"}
ASKING = ("status", "hierarchy", "top", "clients", "members", "drain", "alerts")
"""Commands that ask a gateway, without another word that they need."""


def meant(*words: str) -> argparse.Namespace:
    options = command_line().parse_args(["clients", *words])
    do_words(options, CLIENTS)
    return options


@pytest.mark.parametrize(
    ("words", "of"),
    [
        ((), {}),
        (("list",), {}),
        (("show", "meter"), {"id": "meter"}),
        (("kick", "meter"), {"kick": "meter"}),
        (("kick", "meter", "--forget"), {"kick": "meter"}),
        (("--id", "meter"), {"id": "meter"}),
        (("--kick", "list"), {"kick": "list"}),
        (("10.0.0.2:5683",), {"gateway": "10.0.0.2:5683"}),
        (("10.0.0.2", "--kick", "meter"), {"gateway": "10.0.0.2", "kick": "meter"}),
        (("list", "--host", "10.0.0.2"), {"gateway": "10.0.0.2"}),
        (("--psk-file", "psk", "list", "--json"), {}),
    ],
)
def test_words_mean_what_options_did(words: tuple[str, ...], of: dict[str, Any]) -> None:
    options = meant(*words)
    for name in ("id", "kick", "gateway"):
        assert getattr(options, name) == of.get(name)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("lst",), "invalid choice: 'lst', did you mean 'list'?"),
        (("kik", "meter"), "invalid choice: 'kik', did you mean 'kick'?"),
        (("10.0.0.2", "kick"), "invalid choice: '10.0.0.2', there are list, show, kick"),
        (("kick",), "kick: needs one word behind it, not 0"),
        (("show", "a", "b"), "show: needs one word behind it, not 2"),
        (("list", "meter"), "list: takes no word behind it, not 1"),
        (("10.0.0.2", "--host", "x"), "'10.0.0.2': not allowed with --host or --config"),
        (("kick", "a", "--id", "b"), "kick: not with an option that does the same or another"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_what_would_be_right(
    words: tuple[str, ...], why: str
) -> None:
    with pytest.raises(WrongUseError) as refused:
        meant(*words)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize("command", ASKING)
def test_every_command_that_asks_a_gateway_names_it_in_the_same_ways(command: str) -> None:
    parse = command_line().parse_args
    assert parse([command, "--host", "10.0.0.2"]).gateway == "10.0.0.2"
    assert parse([command]).gateway is None
    assert str(parse([command, "--config", "gw.toml"]).config) == "gw.toml"
    assert parse([command, "--at", "gw-south"]).at == "gw-south"


@pytest.mark.parametrize("command", ["status", "hierarchy", "top", "drain", "tree"])
def test_an_address_may_still_stand_alone(command: str) -> None:
    assert command_line().parse_args([command, "10.0.0.2"]).gateway == "10.0.0.2"
