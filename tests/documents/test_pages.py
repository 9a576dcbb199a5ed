"""Every command of README and the documents is run on an installed package, or says why not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from machine import Machine
from pages import PAGES, PROJECT, Block, blocks
from session import Session, first_missing
from surroundings_of_pages import PARTS, SURROUNDINGS

WITH_SPARK = PROJECT / "docs" / "cloud.md"
"""Has a test of its own, beside no other Spark."""


def is_run(block: Block) -> bool:
    return not block.is_left_out and (
        block.is_shell or block.language in ("toml", "python") or "saved as" in block.said
    )


ALL = [block for page in PAGES for block in blocks(page)]
RUN = [page for page in PAGES if page != WITH_SPARK and any(map(is_run, blocks(page)))]


def name(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.peer("mosquitto_pub", "mosquitto-clients")
@pytest.mark.peer("gcc", "gcc")
@pytest.mark.peer("coap-client-openssl", "libcoap3-bin")
@pytest.mark.drawn(4)
@pytest.mark.parametrize("page", RUN, ids=name)
def test_what_a_page_says_works_as_it_stands(
    page: Path, installation: Path, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, installation)
    with machine.running():
        Session(machine, SURROUNDINGS, PARTS).read_page(page)


@pytest.mark.parametrize("block", [one for one in ALL if one.is_shell], ids=lambda one: one.place)
def test_commands_are_run_or_say_why_not(block: Block) -> None:
    why = block.one("not run")
    assert why is None or len(why.split()) > 1
    for surrounding in (block.one("run with") or "").split(","):
        assert surrounding.strip() in (*SURROUNDINGS, "")


@pytest.mark.parametrize(
    "test",
    sorted({test for block in ALL for test in block.said.get("tried by", [])}),
)
def test_the_test_that_tries_what_a_page_says_is_there(test: str) -> None:
    path, _, function = test.partition("::")
    text = (PROJECT / path).read_text()
    if function:
        nodes = ast.walk(ast.parse(text))
        assert function in {getattr(node, "name", "") for node in nodes}


def test_output_is_compared_but_for_numbers_and_gaps() -> None:
    page = ["gw-a  root, rtt 0.4 ms", "...", "└─ gw-b  cost 12 ms"]
    assert first_missing(page, ["gw-a  root, rtt 11.25 ms", "└─ gw-b    cost 1 ms"]) is not None
    printed = ["gw-a  root, rtt 11.25 ms", "x", "└─ gw-b    cost 1 ms"]
    assert first_missing(page, printed) is None
    assert first_missing(page, printed[1:]) == page[0]
    assert first_missing(["gw-a"], ["gw-a is late"]) == "gw-a"
