"""The dashboard in a browser: what people see, by mouse and keyboard, and what strangers can't do.

With HEDGEROW_PICTURES=DIR a picture of each page is left there.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from chromium import NEEDED, Page
from dashboard_server import complete, dashboard
from synthetic_tables import ALERTS, NOW, TELEMETRY, Fleet, put, rows, write_readings

from cloud_ingest.dashboard.export import export
from cloud_ingest.dashboard.map_tiles import MapTiles
from cloud_ingest.query.lake import Lake

pytestmark = [NEEDED, pytest.mark.slow, pytest.mark.drawn(6)]

HOSTILE = "<img src=x onerror=alert(1)>\"'&lt;/script><script>alert(2)</script>"
READY = {
    "fleet": "document.querySelectorAll('.fleet .vt-inside .vt-row').length > 5",
    "tree": "document.querySelector('.tree-canvas canvas') && window.hedgerowGraph?.nodes().length",
    "map": "document.querySelectorAll('.map-mark').length",
    "gateway/gw-root": "document.querySelectorAll('.columns section').length === 3",
    "sensors": "document.querySelector('.uplot canvas')",
    "alerts": "document.querySelector('.alert')",
    "loss": "document.querySelectorAll('.uplot canvas').length === 4",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    Fleet(1000).write(folder, changes=60)
    write_readings(folder, "gw-root", ["hall/a", "hall/b"], 6, 300)
    return folder


async def picture(browser: Page, name: str) -> None:
    folder = os.environ.get("HEDGEROW_PICTURES")
    if folder:
        await browser.picture(Path(folder) / f"{name.replace('/', '-')}.png")


async def is_in_width(browser: Page) -> Any:
    return await browser.run("document.documentElement.scrollWidth <= innerWidth")


async def test_every_page_is_shown_light_and_dark_wide_and_on_a_phone(
    browser: Page, tables: Path
) -> None:
    async with dashboard(tables) as served:
        await complete(served)
        for width, height, theme in ((1280, 800, "light"), (360, 740, "dark")):
            await browser.look(width, height, theme)
            for name, is_ready in READY.items():
                await browser.go(f"{served.base}/#/{name}")
                await browser.until(is_ready)
                assert await is_in_width(browser), (name, width)
                await picture(browser, f"{name}-{width}-{theme}")
        assert browser.complaints == []


async def test_a_thousand_gateways_are_searched_filtered_and_sorted(
    browser: Page, tables: Path
) -> None:
    async with dashboard(tables) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/fleet")
        await browser.until("document.querySelector('.told')?.textContent === '1000 gateways'")
        shown = await browser.run("document.querySelectorAll('.vt-inside .vt-row').length")
        assert shown < 60
        await browser.run("document.querySelector('[data-health=silent]').click()")
        await browser.until("document.querySelector('.told').textContent.startsWith('11 of')")
        await browser.run("document.querySelector('[data-health=\"\"]').click()")
        await browser.run("document.querySelector('input[type=search]').focus()")
        await browser.write("mill line-2")
        names = "[...document.querySelectorAll('.vt-inside .c-place')].map(e => e.textContent)"
        await browser.until(f"[...new Set({names})].join() === 'mill / line-2'")
        assert not await browser.run(
            "document.querySelector('.told').textContent.startsWith('1000 ')"
        )
        await browser.run("document.querySelector('.vt-head .c-rate button').click()")
        await browser.run("document.querySelector('.vt-head .c-rate button').click()")
        sorted_by = "document.querySelector('.vt-head .c-rate').getAttribute('aria-sort')"
        await browser.until(f"{sorted_by} === 'descending'")


async def test_the_fleet_is_walked_through_by_keyboard(browser: Page, tables: Path) -> None:
    async with dashboard(tables) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/fleet")
        await browser.until("document.querySelectorAll('.vt-inside a').length > 5")
        await browser.run("document.querySelector('.vt-inside a').focus()")
        first = await browser.run("document.activeElement.textContent")
        for _ in range(40):
            await browser.press("ArrowDown")
        name = await browser.run("document.activeElement.textContent")
        assert name != first
        await browser.press("Enter")
        await browser.until(f"document.querySelector('h1')?.textContent === {name!r}")


async def test_the_tree_is_replayed_and_told_as_a_list(browser: Page, tables: Path) -> None:
    async with dashboard(tables) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/tree")
        await browser.until(READY["tree"])
        assert await browser.run("hedgerowGraph.nodes().length") == 1000
        now = await browser.run("document.querySelector('.tree-told').textContent")
        await browser.run("document.querySelector('[aria-label=\"The change before\"]').click()")
        await browser.until(f"document.querySelector('.tree-told').textContent !== {now!r}")
        await browser.until("hedgerowGraph.nodes('.moved').length > 0")
        await browser.run("document.querySelector('.tools [aria-pressed]').click()")
        await browser.until("document.querySelector('.outline a')?.textContent === 'gw-root'")
        count = "document.querySelector('.outline').getAttribute('aria-rowcount')"
        await browser.until(f"{count} === '1001'")
        assert browser.complaints == []


async def test_tree_and_map_are_walked_and_zoomed_by_keyboard(browser: Page, tables: Path) -> None:
    async with dashboard(tables) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/tree")
        await browser.until(READY["tree"])
        await browser.run("document.querySelector('.tree-canvas').focus()")
        await browser.press("ArrowDown")
        await browser.until("hedgerowGraph.nodes(':selected')[0]?.id() === 'gw-root'")
        await browser.press("ArrowDown")
        child = "hedgerowGraph.edges('[source=\"gw-root\"][!standby]').target().id()"
        await browser.until(f"hedgerowGraph.nodes(':selected')[0]?.id() === {child}")
        before = await browser.run("hedgerowGraph.zoom()")
        for _ in range(6):
            await browser.press("+")
        await browser.until(f"hedgerowGraph.zoom() > {before * 5}")
        said = await browser.run("hedgerowGraph.edges('[!standby]')[0].style('label')")
        assert said.startswith("root ") and said.endswith("ms")
        await browser.press("Enter")
        await browser.until("location.hash.startsWith('#/gateway/')")
        await browser.go(f"{served.base}/#/map")
        await browser.until(READY["map"])
        bar = "document.querySelector('.map-bar text').textContent"
        before = await browser.run(bar)
        await browser.run("document.querySelector('.map-stage').focus()")
        for _ in range(6):
            await browser.press("+")
        await browser.until(f"{bar} !== {before!r}")
        await browser.press("0")
        await browser.until(f"{bar} === {before!r}")
        assert browser.complaints == []


async def test_what_is_zoomed_into_is_fetched_finer(browser: Page, tables: Path) -> None:
    async with dashboard(tables) as served:
        await complete(served)
        said = "document.querySelector('section .soft').textContent"
        await browser.go(f"{served.base}/#/sensors/gw-root/hall%2Fa")
        await browser.until("document.querySelector('.uplot canvas')")
        await browser.until(f"{said}.includes('of each')")
        await browser.run("document.querySelector('[aria-label=\"Last: 6 h\"]').click()")
        await browser.until(f"{said}.includes('each reading as it is')")


async def numbers_are_written_in_one_way(browser: Page) -> None:
    said = await browser.run(
        "import('./words.js').then(w => [w.number(0.1 + 0.2), w.number(-1234567.8), "
        "w.number(1e-9), w.measured(21.345, 'Cel'), w.bytes(1234567), w.number(NaN), "
        "w.measured(1, '__proto__'), w.count(1000), w.ticks([0, 0.1, 0.1 + 0.2], 0.1), "
        "w.ticks([0, 2.5, 5], 2.5), w.ticks([-10000, 0], 10000)])"
    )
    thin = "\u202f"
    assert said[:3] == ["0.3", f"−1{thin}234{thin}568", f"1{thin}×{thin}10^-9"]
    assert said[3:6] == [f"21.3{thin}°C", f"1.23{thin}MB", "–"]
    assert said[6:8] == [f"1{thin}__proto__", "1000"]
    assert said[8:] == [["0.0", "0.1", "0.3"], ["0.0", "2.5", "5.0"], [f"−10{thin}000", "0"]]


async def lines_are_broken_where_a_value_is_missing_for_a_while(browser: Page) -> None:
    """A null breaks a line, and a value that is undefined (left out, in JSON) does not."""
    values = [1, None, 2, *[None] * 8, 3, None, 4]
    said = await browser.run(
        f"import('./charts.js').then(c => c.bridged({list(range(0, 14_000, 1000))}, "
        f"[{json.dumps(values)}], 1)[0].map(v => v === undefined ? 'bridged' : v))"
    )
    assert said == [1, "bridged", 2, *[None] * 8, 3, "bridged", 4]


async def test_a_gateway_shows_history_sensors_and_place_with_numbers_written_in_one_way(
    browser: Page, tmp_path: Path
) -> None:
    fleet = Fleet(30)
    fleet.write(tmp_path)
    put(tmp_path, "telemetry", fleet.statuses("gw-root", hours=30, every_minutes=15))
    write_readings(tmp_path, "gw-root", ["hall/a", "hall/b"], 2, 3600)
    async with dashboard(tmp_path) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/gateway/gw-root")
        await browser.until("document.querySelectorAll('.uplot canvas').length === 9")
        titles = "[...document.querySelectorAll('.charts h3')].map(e => e.textContent)"
        for title in ("Temperature", "Load", "Memory", "Disk in use", "Round trip to neighbours"):
            await browser.until(f"{titles}.includes({title!r})")
        await browser.until("document.querySelectorAll('.sparkline path').length === 2")
        said = "document.querySelector('.wide tbody tr').innerText"
        await browser.until(f"{said}.includes('°C')")
        children = "[...document.querySelectorAll('.place .inline a')].map(e => e.textContent)"
        named = sorted(name for name, parent in fleet.parents.items() if parent == "gw-root")
        await browser.until(f"{children}.sort().join() === {','.join(named)!r}")
        await browser.run("document.querySelector('.spans a:nth-child(3)').click()")
        await browser.until("location.hash === '#/gateway/gw-root/168'")
        await browser.until(
            "document.querySelector('.spans [aria-current]').textContent === 'Week'"
        )
        await numbers_are_written_in_one_way(browser)
        await lines_are_broken_where_a_value_is_missing_for_a_while(browser)
        assert browser.complaints == []


async def test_sensors_are_compared_and_the_address_has_what_is_shown(
    browser: Page, tables: Path
) -> None:
    async with dashboard(tables) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/sensors/gw-root/hall%2Fa")
        await browser.until("document.querySelectorAll('.compared tbody tr').length === 1")
        await browser.run("document.querySelector('[aria-label=\"Last: Day\"]').click()")
        other = "document.querySelector('.compare:not([disabled])')"
        await browser.until(other)
        await browser.run(f"{other}.click()")
        await browser.until("document.querySelectorAll('.compared tbody tr').length === 2")
        await browser.until("location.href.includes('hall%2Fb?from=')")
        address = await browser.run("location.href")
        await browser.go(address)
        await browser.until("document.querySelectorAll('.compared tbody tr').length === 2")
        await browser.until(f"location.href === {address!r}")
        link = await browser.run("document.querySelector('.give a').href")
        answer = await browser.run(f"fetch({link!r}).then(a => a.text())")
        assert answer.startswith('"time","gateway","sensor"')
        assert '"hall/a"' in answer
        assert '"hall/b"' in answer
        assert browser.complaints == []


@asynccontextmanager
async def tile_server() -> AsyncIterator[tuple[str, list[str]]]:
    """A server of map tiles: its address, and the paths that it was asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        green = """<svg xmlns="http://www.w3.org/2000/svg" width="256" height="256">
            <rect width="256" height="256" fill="#cfe3c6" stroke="#88a"/></svg>"""
        return web.Response(text=green, content_type="image/svg+xml")

    app = web.Application()
    app.router.add_get("/{z}/{x}/{y}.svg", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


async def test_the_map_lies_on_tiles_where_a_server_of_them_is_set(
    browser: Page, tmp_path: Path
) -> None:
    Fleet(30).write(tmp_path)
    async with tile_server() as (base, asked):
        tiles = MapTiles.parse(f"{base}/{{z}}/{{x}}/{{y}}.svg", "Maps <b>by</b> nobody")
        async with dashboard(tmp_path, tiles=tiles) as served:
            await complete(served)
            await browser.go(f"{served.base}/#/map")
            await browser.until("document.querySelectorAll('.map-tiles image').length >= 6")
            credit = "document.querySelector('.map-credit').textContent"
            assert await browser.run(credit) == "Maps <b>by</b> nobody"
            assert not await browser.run("document.querySelector('.map-lines')")
            while len(asked) < 6:
                await asyncio.sleep(0.02)
            # Amsterdam, of which anybody's map says which tile it is, in the window's middle.
            found = await browser.run(
                "import('./map_plane.js').then(p => p.tilesIn(p.placed([{latitude: 52.379, "
                "longitude: 4.9}]), {scale: 256 * 1024 / (2 * Math.PI * 6378137) / "
                "Math.cos(52.379 * Math.PI / 180), x: 0, y: 0}, 2, 2))"
            )
            assert [(tile["z"], tile["x"], tile["y"]) for tile in found] == [(10, 525, 336)]
            await picture(browser, "map-tiles")
            assert browser.complaints == []


async def test_names_that_are_markup_stay_text(browser: Page, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    fleet = Fleet(8)
    old = fleet.names[1]
    fleet.names[1] = HOSTILE
    fleet.places[HOSTILE] = (HOSTILE, HOSTILE)
    fleet.parents = {
        HOSTILE if name == old else name: HOSTILE if parent == old else parent
        for name, parent in fleet.parents.items()
    }
    fleet.write(tables, changes=2)
    alert = {"alert": HOSTILE, "kind": "hot", "gateway": HOSTILE, "sensor": HOSTILE}
    put(
        tables,
        "alerts",
        rows(ALERTS, [alert | {"opened": NOW, "message": HOSTILE}]),
        "overwrite",
    )
    reading = {"origin": HOSTILE, "sensor": HOSTILE, "unit": HOSTILE, "domain": "x"}
    put(
        tables,
        "telemetry",
        rows(TELEMETRY, [reading | {"value": 1.0, "origin_time": NOW, "day": NOW.date()}]),
    )
    async with dashboard(tables) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/fleet")
        at = f"encodeURIComponent({HOSTILE!r})"
        for name in ("fleet", "tree", "sensors", "alerts", "gateway"):
            address = f"'{served.base}/#/{name}'"
            found = await browser.run(f"{address} + ({name == 'gateway':d} ? '/' + {at} : '')")
            await browser.go(found)
            await browser.until(f"document.body.textContent.includes({HOSTILE!r})")
            made = "document.querySelectorAll('main img, main script').length"
            assert await browser.run(made) == 0
        assert browser.complaints == []


async def test_an_operator_acknowledges_in_the_page_and_a_reader_is_not_asked(
    browser: Page, tmp_path: Path
) -> None:
    tables = tmp_path / "tables"
    Fleet(60).write(tables)
    async with dashboard(tables, has_users=True) as served:
        await complete(served)
        for user, may in (("rita", False), ("olga", True)):
            await browser.go(f"{served.base}/#/alerts")
            await browser.until("document.activeElement.id === 'user'")
            await picture(browser, "login")
            await browser.write(user)
            await browser.press("Tab")
            await browser.write(user)
            await browser.press("Enter")
            await browser.until("document.querySelector('.alert')")
            if may:
                await browser.until("document.querySelector('.opener')")
            else:
                assert not await browser.run("document.querySelectorAll('.opener').length")
                await browser.run("document.querySelector('.bar button:last-child').click()")
                await browser.until("document.getElementById('user')")
        await browser.run("document.querySelector('.opener').click()")
        await browser.until("document.activeElement.matches('input, textarea')")
        await browser.write("fan <b>replaced</b>")
        await browser.press("Tab")
        await browser.press("Enter")
        await browser.until(
            "document.querySelector('.said')?.textContent.includes('fan <b>replaced</b>')"
        )
        await picture(browser, "acknowledged")
        await browser.call("Network.clearBrowserCookies")  # as if the session had ended
        await browser.run("location.hash = '#/loss'")
        await browser.until("document.getElementById('user')")
        assert [each for each in browser.complaints if " 401 " not in each] == []


async def test_a_copy_is_opened_from_its_folder(browser: Page, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    Fleet(20).write(tables)
    write_readings(tables, "gw-root", ["hall/a"], 3, 600)
    export(Lake(tables), tmp_path / "copy", int(NOW.timestamp() * 1000))
    for name, is_ready in READY.items():
        await browser.go(f"file://{tmp_path}/copy/index.html#/{name}")
        await browser.until(is_ready)
        assert "Copy of 2026-11-20" in await browser.run("document.body.innerText")
    assert browser.complaints == []


async def test_fifty_sensors_are_drawn_in_one_chart_and_pointed_at_in_its_list(
    browser: Page, tmp_path: Path
) -> None:
    sensors = [f"hall/temperature-{number:02d}" for number in range(50)]
    write_readings(tmp_path, "gw-root", [*sensors, "yard"], 3, 3600)
    async with dashboard(tmp_path) as served:
        await complete(served)
        await browser.go(f"{served.base}/#/sensors/gw-root/yard")
        await browser.until("document.querySelector('.uplot canvas')")
        await browser.run("document.querySelector('.explorer input').focus()")
        await browser.write("hall")
        all_of_them = "document.querySelector('.compare-all')"
        await browser.until(f"{all_of_them}.textContent.includes('these 50')")
        await browser.run(f"{all_of_them}.click()")
        await browser.until("document.querySelectorAll('.compared tbody tr').length === 50")
        await browser.until("document.querySelectorAll('.compared .swatch').length === 50")
        drawn = "performance.getEntriesByType('resource').filter(e => e.name.includes('together'))"
        assert await browser.run(f"{drawn}.length") == 1
        await picture(browser, "sensors-fifty")
        await browser.look(360, 480)
        await browser.go(await browser.run("location.href"))
        await browser.until("document.querySelectorAll('.compared tbody tr').length === 50")
        assert await browser.run("scrollY") == 0
        await browser.look(1280, 800)
        row = "document.querySelectorAll('.compared tbody tr')[7]"
        await browser.run(f"{row}.dispatchEvent(new MouseEvent('mouseover', {{bubbles: true}}))")
        assert browser.complaints == []
