"""A shell is offered names that it takes for a word, and those that came before the limit."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.tools.commands import finding, offered_names
from gateway.tools.commands.errors import FailedError, WrongUseError
from resource_directory.link_format import WebLink

OPTIONS = argparse.Namespace()


def link(name: str, gateway: str = "gw-b") -> WebLink:
    return WebLink(f"/q/-/-/{gateway}/sensors/{name}", (("gw", gateway),))


def found(monkeypatch: pytest.MonkeyPatch, *pages: list[WebLink] | Exception | None) -> None:
    """Have these pages come; None is one that never does."""

    async def come(_: argparse.Namespace) -> AsyncIterator[tuple[list[WebLink], object]]:
        for page in pages:
            if isinstance(page, Exception):
                raise page
            if page is None:
                await asyncio.Event().wait()
            yield page or [], None

    monkeypatch.setattr(finding, "pages", come)


def test_the_names_of_all_pages_are_offered_in_the_order_of_the_alphabet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found(monkeypatch, [link("valve"), link("pump", "gw-a")], [link("air"), link("valve")])
    assert offered_names.ask("sensors", OPTIONS) == ["gw-a/pump", "gw-b/air", "gw-b/valve"]
    assert offered_names.ask("gateways", OPTIONS) == ["gw-a", "gw-b"]


@pytest.mark.parametrize("end", [None, FailedError("gone"), WrongUseError("no configuration")])
def test_what_came_until_a_gateway_is_late_or_gone_is_offered(
    end: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offered_names, "LIMIT_S", 0.01)
    found(monkeypatch, [link("valve")], end, [link("pump")])
    assert offered_names.ask("sensors", OPTIONS) == ["gw-b/valve"]


@pytest.mark.parametrize(
    "name", ["a b", "$(reboot)", "`x`", "a;b", "a'b", "", "-rf", "~root", "a\nb", "a*", "\u00e4"]
)
def test_a_name_that_a_shell_would_not_take_for_a_word_is_not_offered(name: str) -> None:
    assert offered_names.plain("gateways", [WebLink("/x", (("gw", name),))]) == set()


def test_a_link_without_a_gateway_offers_none() -> None:
    assert offered_names.plain("gateways", [WebLink("/x"), link("valve", "gw_1.a~")]) == {"gw_1.a~"}
