"""Options of a command stand before its words, behind them or among them."""

from __future__ import annotations

import itertools

import pytest

from gateway.tools.cli import command_line

OPTION = ["--psk-file", "psk"]


@pytest.mark.parametrize(
    ("command", "action", "words"),
    [
        ("sensors", "add", ["type=switch", "name=pump"]),
        ("sensors", "remove", ["pump"]),
        ("rd", "search", ["rt=light", "d=campus"]),
    ],
)
def test_an_option_may_stand_anywhere(command: str, action: str, words: list[str]) -> None:
    whole = [action, *words]
    for at in range(len(whole) + 1):
        line = [command, *whole[:at], *OPTION, *whole[at:]]
        options = vars(command_line().parse_args(line))
        assert options["action"] == action
        assert words in options.values()
        assert str(options["psk_file"]) == "psk"


def test_a_policy_is_explained_wherever_its_file_is_named() -> None:
    words = ["explain", "psk:pump", "PUT", "/sensors/valve"]
    for at, more in itertools.product(range(5), (["--file", "a.toml"], ["--via", "gw-b"])):
        options = command_line().parse_args(["policy", *words[:at], *more, *words[at:]])
        assert (options.action, options.what) == (words[0], words[1:])


@pytest.mark.parametrize(
    "line",
    [["sensors"], ["sensors", "ad", "x"], ["sensors", "add", "--unknown", "x"], ["rd", "-x"]],
)
def test_what_is_no_command_is_refused_all_the_same(line: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(line)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (["get", "-/-/gw-north/pump"], "target"),
        (["pub", "-m", "1", "-t", "-/-/gw-north/pump"], "topic"),
        (["sub", "--topic", "-/-/gw-north/pump"], "topic"),
    ],
)
def test_what_a_gateway_without_a_place_publishes_is_named_as_any_topic(
    line: list[str], field: str
) -> None:
    assert "-/-/gw-north/pump" in str(vars(command_line().parse_args(line))[field])
