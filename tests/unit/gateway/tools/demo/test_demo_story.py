"""The demo waits for each event of its story, and dates an event by the time of the question."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.tools.commands.progress_bar import GoingOn
from gateway.tools.demo import story
from gateway.tools.demo.device import Device
from gateway.tools.demo.fleet import Fleet
from gateway.tools.demo.one_tree import forwards_to, is_one_tree
from gateway.tools.demo.timeline import Timeline

ROOT, NORTH, SOUTH = "gw-root", "gw-north", "gw-south"
TREE = {ROOT: {NORTH: True, SOUTH: True}, NORTH: {ROOT: True, SOUTH: False}}


def told(south: dict[str, bool]) -> dict[str, dict[str, Any]]:
    """Return the statuses of three gateways, of which `south` gives the links of gw-south.

    A link that is True carries messages.
    """
    return {
        name: {
            "root": ROOT,
            "neighbours": [{"id": one, "forwarding": does} for one, does in links.items()],
        }
        for name, links in (TREE | {SOUTH: south}).items()
    }


@pytest.mark.parametrize(
    ("south", "is_one"),
    [
        ({ROOT: True, NORTH: False}, True),
        ({ROOT: True, NORTH: True}, False),  # the link that stands by: one end says that it carries
        ({ROOT: False, NORTH: False}, False),
        ({ROOT: False, NORTH: True}, False),
        ({ROOT: True}, False),
    ],
)
def test_a_tree_is_one_when_both_ends_of_each_link_say_the_same(
    south: dict[str, bool], is_one: bool
) -> None:
    assert is_one_tree(told(south), ROOT, gateways=3) is is_one


def test_the_collector_is_in_the_tree_when_a_gateway_forwards_to_it() -> None:
    statuses = told({ROOT: True, NORTH: False, "collector": False})
    assert not forwards_to(statuses, "collector")
    fed = told({ROOT: True, NORTH: False, "collector": True})
    assert forwards_to(fed, "collector")


async def test_an_answer_counts_for_when_it_was_asked_for_though_it_is_read_after_a_kill() -> None:
    asked, is_read = asyncio.Event(), asyncio.Event()

    async def status(_: str) -> dict[str, Any]:
        asked.set()
        await is_read.wait()
        return {"root": ROOT}

    fleet = cast(Fleet, SimpleNamespace(members={ROOT: SimpleNamespace(process=1)}, status=status))
    timeline = Timeline()
    listening = asyncio.create_task(timeline.listen(fleet))
    await asked.wait()
    timeline.mark("killed_s")
    is_read.set()
    while not (answers := timeline.told[ROOT]):
        await asyncio.sleep(0)
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
    assert answers[0][1] == ROOT
    assert answers[0][0] <= timeline.moments["killed_s"]


class Silent:
    """A device of which nothing is acknowledged for a while."""

    def __init__(self, acknowledges: Callable[[], list[int]]) -> None:
        self._acknowledges = acknowledges

    @property
    def notes(self) -> Any:
        return SimpleNamespace(acknowledged=self._acknowledges())


async def test_the_demo_goes_on_when_each_device_has_published_whatever_time_that_takes(
    tmp_path: Path,
) -> None:
    seen = list[int]()

    def acknowledged() -> list[int]:
        seen.append(len(seen))
        return [] if len(seen) < 5 else list(range(100))

    made = story._Story(tmp_path, 0.01, GoingOn())
    quick = Silent(lambda: list(range(len(seen) * 100)))
    made._devices = cast(dict[str, Device], {"slow": Silent(acknowledged), "quick": quick})
    await made._let_devices_publish()
    assert len(seen) >= 5
