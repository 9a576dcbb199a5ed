"""Tiles of the dashboard's map: which addresses are taken, and what a page may fetch then."""

from pathlib import Path

import pytest
from dashboard_server import dashboard, visitor

from cloud_ingest.dashboard.map_tiles import CREDIT_MAX, URL_MAX, MapTiles, TilesError

URL = "https://tiles.example.org:8443/base/{z}/{x}/{y}.png?key=1"


@pytest.mark.parametrize(
    ("url", "source"),
    [
        (URL, "https://tiles.example.org:8443"),
        ("http://10.0.0.2/{z}/{x}/{y}", "http://10.0.0.2"),
        ("https://[2001:db8::1]/?l={z}&c={x}&r={y}", "https://[2001:db8::1]"),
    ],
)
def test_pictures_may_come_from_the_server_of_the_tiles(url: str, source: str) -> None:
    assert MapTiles.parse(url).source == source


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("tiles/{z}/{x}/{y}.png", "https://"),
        ("ftp://tiles.example.org/{z}/{x}/{y}.png", "https://"),
        ("https:///{z}/{x}/{y}.png", "https://"),
        ("https://tiles.example.org/{z}/{x}.png", "{y}"),
        ("https://tiles.example.org/{z}/{x}/{y}/{y}.png", "{y}"),
        ("https://{z}.example.org/{x}/{y}.png", "https://"),
        ("https://me:secret@tiles.example.org/{z}/{x}/{y}.png", "https://"),
        ("https://a; script-src b/{z}/{x}/{y}.png", "https://"),
        ("https://tiles.example.org/{z}/{x}/{y}.png\nX: y", "https://"),
        ("https://[::1/{z}/{x}/{y}.png", "no address"),
        (f"https://tiles.example.org/{{z}}/{{x}}/{{y}}{'a' * URL_MAX}", str(URL_MAX)),
    ],
)
def test_what_is_no_address_of_tiles_is_told_how_one_looks(url: str, named: str) -> None:
    with pytest.raises(TilesError, match="tiles") as told:
        MapTiles.parse(url)
    assert named in str(told.value)


def test_what_names_the_makers_has_a_bound() -> None:
    with pytest.raises(TilesError, match=str(CREDIT_MAX)):
        MapTiles.parse(URL, "a" * (CREDIT_MAX + 1))


async def test_a_page_may_fetch_pictures_of_others_only_where_tiles_are_set(tmp_path: Path) -> None:
    for tiles, images in (
        (None, "img-src 'self';"),
        (MapTiles.parse(URL, "Maps"), "img-src 'self' https://tiles.example.org:8443;"),
    ):
        async with dashboard(tmp_path, tiles=tiles) as served, visitor(served) as someone:
            expected = None if tiles is None else {"url": URL, "credit": "Maps"}
            assert await someone.get("tiles") == (200, {"tiles": expected})
            async with someone.session.get(served.base) as answer:
                assert images in answer.headers["Content-Security-Policy"]
