"""Goal: the tree is drawn on a gateway's page, of two gateways as of two hundred, live.

With HEDGEROW_PICTURES=DIR pictures are left there.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from chromium import NEEDED, Page
from page_gateway import PageGateway
from test_gateway_page import SIZES, log_in, picture, show, violations

pytestmark = [NEEDED, pytest.mark.slow]


def fleet(count: int) -> dict[str, Any]:
    """Return an answer of `/api/v1/tree` for so many gateways: one is silent, one link is spare."""
    drawn = random.Random(count)  # one fleet for each count
    names = ["gw", *(f"gw-{number:03}" for number in range(1, count))]
    gateways: dict[str, Any] = {}
    for number, name in enumerate(names):
        parent = None if number == 0 else names[(number - 1) // 6]
        gateways[name] = {
            "parent": parent,
            "domain": "campus",
            "group": f"hall-{number % 7}",
            "mqtt_clients": number,
            "drain": None,
            "neighbours": [],
        }
        if parent:
            rtt_ms = drawn.uniform(0.4, 40)
            for one, other, role in ((name, parent, "root"), (parent, name, "designated")):
                gateways[one]["neighbours"].append(
                    {"id": other, "role": role, "forwarding": True, "rtt_ms": rtt_ms}
                    | {"queued_bytes": 0}
                )
    if count > 3:
        for one, other, role in ((2, 3, "blocked"), (3, 2, "designated")):
            gateways[names[one]]["neighbours"].append(
                {"id": names[other], "role": role, "forwarding": False, "rtt_ms": 3.25}
                | {"queued_bytes": 0}
            )
    silent = {"gw-dark": "no answer"} if count > 2 else {}
    return {"roots": ["gw"], "gateways": gateways, "collectors": {}, "silent": silent}


async def told(browser: Page, tree: dict[str, Any]) -> None:
    """Have the page be told another tree than the gateway's own, at the next look."""
    await browser.run(
        "(() => { window.asked ??= window.fetch;"
        " window.fetch = (at, ...more) => at === 'api/v1/tree'"
        f" ? Promise.resolve(new Response({json.dumps(json.dumps(tree))}))"
        " : window.asked(at, ...more); })()"
    )
    await browser.run("location.hash = '#/overview'")
    await browser.until("document.querySelector('.figures')")
    await show(browser, "tree")


async def overlapping(browser: Page) -> int:
    """Count the pairs of words in the drawing of which one covers the other."""
    return int(
        await browser.run(
            "(() => { const all = [...document.querySelectorAll('.tree-drawing text')].map(e => "
            "e.getBoundingClientRect()); let found = 0; all.forEach((a, i) => all.slice(i + 1)"
            ".forEach(b => { if (a.left < b.right - 3 && b.left < a.right - 3"
            " && a.top < b.bottom - 3 && b.top < a.bottom - 3) found += 1; })); return found; })()"
        )
    )


MANY = 200


@pytest.mark.parametrize("count", [2, 12, MANY])
async def test_the_tree_fits_each_screen_in_both_themes_and_no_word_covers_another(
    browser: Page, gateway: PageGateway, count: int, pytestconfig: pytest.Config
) -> None:
    # Axe looks at each word for some 30 ms: of many on the smallest screen alone, unless to soak.
    looked_at = SIZES if count < MANY or pytestconfig.getoption("--soak") else SIZES[-1:]
    await log_in(browser, gateway, "anna")
    found = {}
    for width, height in SIZES:
        for theme in ("light", "dark"):
            await browser.look(width, height, theme)
            await told(browser, fleet(count))
            await browser.until("document.querySelector('.tree-drawing text.here')")
            nodes = await browser.run("document.querySelectorAll('.tree-drawing .node').length")
            assert nodes == count + (count > 2)
            lines = await browser.run("document.querySelectorAll('.tree-drawing line').length")
            assert lines == count - 1 + (count > 3)
            assert await overlapping(browser) == 0
            is_inside = await browser.run(
                "(() => { const all = document.querySelector('.tree-drawing');"
                "const b = all.getBoundingClientRect();"
                "return [...all.querySelectorAll('.node, text')].every(e => {"
                "const a = e.getBoundingClientRect(); return a.left >= b.left - 1 &&"
                "a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1; }); })()"
            )
            assert is_inside, (width, count)
            assert await browser.run("document.documentElement.scrollWidth <= innerWidth")
            await picture(browser, f"tree-of-{count}-{width}-{theme}")
            if (width, height) in looked_at and (wrong := await violations(browser)):
                found[f"{width} {theme}"] = wrong
    assert found == {}
    assert browser.complaints == []


async def test_a_link_says_its_round_trip_and_a_spare_one_its_role(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "anna")
    await told(browser, fleet(5))
    words = "[...document.querySelectorAll('.tree-drawing .rtt')].map(e => e.textContent)"
    said = await browser.run(words)
    assert any(one.startswith("blocked 3.3") for one in said), said
    assert await browser.run("document.querySelectorAll('line.standby').length") == 1
    titles = "[...document.querySelectorAll('.tree-drawing line title')].map(e => e.textContent)"
    assert "gw-002 – gw-003: blocked 3.3\u202fms" in await browser.run(titles)
    label = await browser.run("document.querySelector('.tree-drawing').getAttribute('aria-label')")
    assert "5 gateways, root gw, this one is gw" in label


async def test_it_changes_while_it_is_looked_at(browser: Page, gateway: PageGateway) -> None:
    await log_in(browser, gateway, "anna")
    await show(browser, "tree")
    await browser.until("document.querySelectorAll('.tree-drawing .node').length === 1")
    await told(browser, fleet(3))
    await browser.until("document.querySelectorAll('.tree-drawing .node').length === 4")
    tree = fleet(4)
    await browser.run(
        "(() => { window.fetch = (at, ...more) => at === 'api/v1/tree'"
        f" ? Promise.resolve(new Response({json.dumps(json.dumps(tree))}))"
        " : window.asked(at, ...more); })()"
    )
    await browser.until("document.querySelectorAll('.tree-drawing .node').length === 5")
