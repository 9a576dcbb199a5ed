"""A copy of the dashboard that a browser opens from a folder, without a server.

A page that is opened from a folder may neither fetch files nor load modules, so the modules become
one script and the data another. What a server would work out for any question is worked out for
those that the page asks at first: the tree at up to so many moments, sensors as a whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from cloud_ingest.dashboard import fleet_view, loss_view, sensors_view
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.page_files import SCRIPT, static_files
from cloud_ingest.dashboard.sensors_view import window
from cloud_ingest.query.lake import Lake
from gateway.base import wall_clock
from gateway.web.page_files import bundled, is_module, with_scripts

TREES_MAX: Final = 200
PLACES_MAX: Final = 100_000
"""Of gateways in all trees together."""
SENSORS_MAX: Final = 100
HISTORIES_MAX: Final = 200
"""Gateways whose statuses and sensors are in it; that of no name is what others show: nothing."""
POINTS: Final = 1_000
HOURS: Final = 24
DATA: Final = "data.js"


def export(lake: Lake, folder: Path, made_ms: int | None = None) -> None:
    """Write the copy.

    Args:
        lake: the tables.
        folder: made where there is none; files of an older copy are replaced.
        made_ms: what it says the time is, milliseconds since 1970; None for now.

    Raises:
        OSError: the folder can't be written.

    """
    models = Models(lake)
    models.refresh_all()
    kept = kept_answers(models, wall_clock.now_ms() if made_ms is None else made_ms)
    (folder / "vendor").mkdir(parents=True, exist_ok=True)
    files = static_files()
    for name, body in files.items():
        if not is_module(name) and name != "index.html":
            (folder / name).write_bytes(body)
    (folder / "index.html").write_text(_page(files["index.html"].decode()))
    (folder / SCRIPT).write_text(bundled(files))
    document = msgspec.json.encode(kept)
    (folder / "data.json").write_bytes(document)
    (folder / DATA).write_bytes(b"window.hedgerowCopy = " + document + b";\n")


def kept_answers(models: Models, made_ms: int) -> dict[str, Any]:
    """Return all that the page may ask of a copy."""
    ready = ("fleet", "alerts", "gaps", "sensors", "moments")
    names = [] if models.gateways is None else models.gateways["gateway"].to_pylist()
    readings: dict[str, dict[str, Any]] = {}
    for series in list(models.series.values())[:SENSORS_MAX]:
        told = window(models.rollups, series, series.first_us, series.last_us + 1, POINTS)
        readings.setdefault(series.gateway, {})[series.sensor] = told
    return {
        "made_ms": made_ms,
        "answers": {
            **{name: msgspec.Raw(models.answers[name].body) for name in ready},
            "tiles": {"tiles": None},
            "slowest": loss_view.slowest(models.rollups, HOURS),
            "tables": {
                "versions": models.versions,
                "problems": {},
                "is_complete": True,
                "standing": models.standing(made_ms),
                "attention": models.attention,
            },
        },
        "gateways": {name: fleet_view.gateway(models.gateways, name) for name in names},
        "trees": [models.tree.at(at_ms) for at_ms in _moments(models, len(names))],
        "history": {name: models.history.of(name, HOURS) for name in ("", *names[:HISTORIES_MAX])},
        "current": {
            name: sensors_view.current(
                models.rollups, models.latest, models.series_of.get(name, ())
            )
            for name in ("", *names[:HISTORIES_MAX])
        },
        "latency": loss_view.latency(models.rollups, HOURS),
        "latency_of": {name: loss_view.latency(models.rollups, HOURS, name) for name in names},
        "readings": readings,
    }


def _moments(models: Models, gateways: int) -> list[int]:
    span = models.tree.span_ms
    if span is None:
        return []
    count = max(2, min(TREES_MAX, PLACES_MAX // max(1, gateways)))
    changes = models.tree.moments()["changes_ms"]
    if not 0 < len(changes) <= count:
        first, last = span
        changes = [first + (last - first) * at // (count - 1) for at in range(count)]
    return sorted(changes)


def _page(index: str) -> str:
    policy = (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "script-src 'self' file:; style-src 'self' file:; img-src 'self' file:\">"
    )
    scripts = (DATA, SCRIPT)
    return with_scripts(index, *scripts).replace(
        '<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}'
    )
