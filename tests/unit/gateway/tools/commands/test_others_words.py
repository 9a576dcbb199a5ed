"""Words that strangers and other gateways chose break no line of the log, and move no cursor."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.base.event_log.lines import LineFormatter
from gateway.base.printable import printable_in
from gateway.coap_client import Response
from gateway.tools.commands import asking, members
from gateway.tools.commands.errors import FailedError
from tree_handler.members.listed import ListedMember

BAD = "gw\nERROR gateway: forged\x1b[2J\r\u202e\u2028"


def logged(say: Callable[[logging.Logger], None]) -> list[str]:
    """The lines that a record makes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    log = logging.Logger("test")  # nobody else's
    log.addHandler(handler)
    say(log)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    "say",
    [
        lambda log: log.warning("%s from %s", BAD, BAD),
        lambda log: log.error(BAD),
        lambda log: log.info("%s", ValueError(BAD)),
    ],
)
def test_a_record_is_one_line_that_can_be_printed_whatever_is_in_it(
    say: Callable[[logging.Logger], None],
) -> None:
    (line,) = logged(say)
    assert line.isprintable()
    assert "forged" in line


def test_no_line_of_a_traceback_can_be_taken_for_a_record() -> None:
    def fail(log: logging.Logger) -> None:
        try:
            raise ValueError(BAD)
        except ValueError:
            log.error("failed", exc_info=sys.exc_info())

    first, *others = logged(fail)
    assert first.endswith("failed")
    assert others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_what_a_gateway_tells_reaches_a_terminal_with_nothing_that_it_obeys() -> None:
    told = printable_in({"id": BAD, BAD: [BAD, 1, None, {"why": BAD}], "f": 0.5, "t": True})
    texts = [told["id"], *told, told[next(k for k in told if "forged" in k)][0]]
    assert all(text.isprintable() for text in texts)
    assert (told["f"], told["t"]) == (0.5, True)
    with pytest.raises(FailedError) as refused:
        asking.good(Response("4.03", BAD.encode(), None))
    assert str(refused.value).isprintable()


def test_a_member_that_is_none_is_complained_of_and_the_others_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = {"id": "gw-a", "domain": "-", "group": "-", "address": "10.0.0.1", "is_present": True}
    told = [good, good | {"address": BAD}, good | {"id": BAD}, good | {"domain": "x" * 300}, BAD]
    found = list(members.read({"members": told}))
    assert [one.id for one in found] == ["gw-a"]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(told) - 1
    assert all(line.isprintable() and "is left out" in line for line in lines)
    assert members.as_table(found).splitlines()[1].split() == [
        "gw-a",
        "-/-",
        "10.0.0.1",
        "in",
        "the",
        "tree",
    ]


@pytest.mark.parametrize("told", [None, [], {}, {"members": None}, {"members": {}}])
def test_what_is_no_list_of_members_is_a_failure(told: object) -> None:
    with pytest.raises(FailedError, match="no list of members"):
        list(members.read(told))


def test_a_member_that_is_drained_or_away_says_so() -> None:
    one = ListedMember.of(
        {"id": "gw-a", "domain": "c", "group": "d", "address": "::1", "is_present": True}
    )
    table = members.as_table(
        [
            replace(one, is_present=is_present, is_draining=is_draining)
            for is_present in (True, False)
            for is_draining in (True, False)
        ]
    )
    states = [line.split("::1")[1].strip() for line in table.splitlines()[1:]]
    assert states == ["in the tree, draining", "in the tree", "away, draining", "away"]
