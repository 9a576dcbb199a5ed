"""Each page of the dashboard as it looks with few gateways and with many, on a desk and in a hand.

It is for people to look at: with HEDGEROW_PICTURES=DIR the pictures stay there. What a program can
see is held too: nothing is wider than the screen, and no page complains.
"""

import datetime
import os
from pathlib import Path

import pytest
from chromium import NEEDED, Page
from dashboard_server import complete, dashboard
from synthetic_tables import Fleet, put, readings

pytestmark = [NEEDED, pytest.mark.soak]

SIZES = {"desk": (1440, 900), "hand": (360, 740)}
PAGES = {
    "fleet": "document.querySelectorAll('.fleet .vt-inside .vt-row').length > 1",
    "tree": "window.hedgerowGraph?.nodes().length",
    "map": "document.querySelectorAll('.map-mark').length",
    "gateway/gw-root": "document.querySelectorAll('.uplot canvas').length > 1",
    "sensors": "document.querySelector('.uplot canvas')",
    "sensors/gw-root/hall%2Ftemperature/gw-root/yard%2Ftemperature/gw-root/roof%2Ftemperature": (
        "document.querySelectorAll('.compared tbody tr').length === 3"
    ),
    "alerts": "document.querySelector('.alerts li')",
    "loss": "document.querySelectorAll('.uplot canvas').length === 4",
}


@pytest.mark.parametrize("count", [2, 30, 1000])
async def test_pages_of_a_fleet_of_any_size_fit_a_desk_and_a_hand_in_both_themes(
    browser: Page, tmp_path: Path, count: int
) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    tables = tmp_path / "tables"
    fleet = Fleet(count, now=now)
    fleet.write(tables, changes=min(60, 2 * count))
    put(tables, "telemetry", fleet.statuses("gw-root", hours=30, every_minutes=15))
    sensors = [f"{place}/temperature" for place in ("hall", "yard", "roof", "cellar", "kiln")]
    for table in readings("gw-root", sensors, 4, 300, now):
        put(tables, "telemetry", table)
    kept = os.environ.get("HEDGEROW_PICTURES")
    folder = Path(kept) if kept else tmp_path / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    async with dashboard(tables) as served:
        await complete(served)
        for size, (width, height) in SIZES.items():
            for theme in ("light", "dark"):
                await browser.look(width, height, theme)
                for name, is_ready in PAGES.items():
                    await browser.go(f"{served.base}/#/{name}")
                    await browser.until(is_ready)
                    is_in_width = "document.documentElement.scrollWidth <= innerWidth"
                    assert await browser.run(is_in_width), (name, size)
                    page_name = "compared" if "yard" in name else name.partition("/")[0]
                    shown = f"{page_name}-{count}-{size}-{theme}.png"
                    await browser.picture(folder / shown)
        assert browser.complaints == []
