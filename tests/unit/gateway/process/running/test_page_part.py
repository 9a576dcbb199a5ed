"""The page of a gateway hears messages while somebody looks, and says which it wants."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.process.page import opening
from gateway.process.page.topic_tap import KEPT_S, TopicTap
from gateway.process.running.page_part import PagePart
from tree_handler.batch import Flags, Header

HEADER = Header("far", 1, 1, 1, Flags.LOGGED, 0, 0, 0)


class Opened:
    """A part whose page is a stand-in; what the page would be made of is kept."""

    def __init__(self, folder: Path) -> None:
        self.calls: list[object] = []
        self.face = object()
        settings: Any = SimpleNamespace(
            console=SimpleNamespace(enabled=True, web=True),
            gateway=SimpleNamespace(state_dir=folder),
        )
        self.part = PagePart(settings)
        self.tap = TopicTap()

    def make(self, sources: Any, _check: object) -> Any:
        self.tap = sources.tap
        return SimpleNamespace(
            face=self.face,
            follow=self.calls.append,
            stop=lambda: self.calls.append("stopped"),
        )

    def open(self) -> object:
        given: Any = SimpleNamespace(sampler=None, device_keys=None, users=None)
        return self.part.open(given, given, given, given, given)


@pytest.fixture
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Opened(tmp_path)
    monkeypatch.setattr(opening, "open_page", made.make)
    yield made
    made.part.close()


@pytest.fixture(autouse=True)
def same_handlers() -> Iterator[None]:
    """Nothing hears lines of the log any more when a page is closed."""
    before = list(logging.getLogger().handlers)
    yield
    assert logging.getLogger().handlers == before


async def test_a_page_hears_messages_from_the_first_look_to_the_last(opened: Opened) -> None:
    assert opened.open() is opened.face
    part, wished = opened.part, list[str]()
    demand: Any = SimpleNamespace(
        subscribed=lambda topic: wished.append(f"+{topic}"),
        unsubscribed=lambda topic: wished.append(f"-{topic}"),
    )
    part.wish(None)
    part.wish(demand)
    assert (part.is_listening, part.reads_unlogged(), wished) == (False, False, [])
    look = opened.tap.look("anna", "a/+", lambda _: True, lambda: None, 0.0)
    assert look is not None
    assert (part.is_listening, part.reads_unlogged(), wished) == (True, True, ["+a/+"])
    part.take([("a/1", 0, b"x"), ("b/1", 0, b"x")], HEADER)
    part.hear([("a/2", 0, b"y")])
    assert [one["topic"] for one in look.after(0)] == ["a/1", "a/2"]
    assert all(one["time_ms"] > 1_700_000_000_000 for one in look.after(0))
    opened.tap.expire(KEPT_S + 1)
    assert (part.is_listening, wished) == (False, ["+a/+", "-a/+"])


async def test_a_page_overhears_the_gateways_own_clients_and_goes_by_new_files(
    opened: Opened,
) -> None:
    heard, files = list[object](), SimpleNamespace()
    origin: Any = SimpleNamespace(overheard_by=heard.append)
    opened.part.overhear(origin)
    assert heard == [opened.part]
    given: Any = files
    opened.part.follow(given)  # there is no page yet
    opened.open()
    opened.part.follow(given)
    opened.part.close()
    assert opened.calls == [files, "stopped"]


@pytest.mark.parametrize(("enabled", "web"), [(False, True), (True, False)])
async def test_without_a_page_nothing_is_heard_and_nothing_wanted(
    *, enabled: bool, web: bool
) -> None:
    settings: Any = SimpleNamespace(console=SimpleNamespace(enabled=enabled, web=web))
    part, nobody = PagePart(settings), SimpleNamespace()
    given: Any = nobody
    assert part.open(given, given, given, given, given) is None
    part.overhear(given)
    part.wish(given)
    part.follow(given)
    part.hear([("a", 0, b"x")])
    part.close()
    assert (part.is_listening, part.reads_unlogged()) == (False, False)
