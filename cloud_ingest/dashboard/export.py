"""A copy of the dashboard that a browser opens from a folder, without a server.

A page that is opened from a folder may neither fetch files nor load modules, so the modules become
one script and the data another. What a server would work out for any question is worked out for
those that the page asks at first: the tree at up to so many moments, sensors as a whole.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from cloud_ingest.dashboard import fleet_view, loss_view, sensors_view
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.sensors_view import window
from cloud_ingest.dashboard.server import static_files
from cloud_ingest.query.lake import Lake

TREES_MAX: Final = 200
PLACES_MAX: Final = 100_000
"""Of gateways in all trees together."""
SENSORS_MAX: Final = 100
HISTORIES_MAX: Final = 200
"""Gateways whose statuses and sensors are in it; that of no name is what others show: nothing."""
POINTS: Final = 1_000
HOURS: Final = 24
DATA: Final = "data.js"
SCRIPT: Final = "dashboard.js"

_IMPORT: Final = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|const) (\w+))", re.MULTILINE)


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
    kept = kept_answers(models, int(time.time() * 1000) if made_ms is None else made_ms)
    (folder / "vendor").mkdir(parents=True, exist_ok=True)
    files = static_files()
    modules = {name: body.decode() for name, body in files.items() if _is_module(name)}
    for name, body in files.items():
        if name not in modules and name != "index.html":
            (folder / name).write_bytes(body)
    (folder / "index.html").write_text(_page(files["index.html"].decode()))
    (folder / SCRIPT).write_text(bundled(modules, "app.js"))
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


def bundled(modules: dict[str, str], first: str) -> str:
    """Return modules as one script: each runs once, before those that import from it.

    Args:
        modules: sources by name; they import names, a line each, and export functions and
            constants.
        first: the one that runs last.

    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        source = modules[name]
        done[name] = ""
        for needed in _IMPORT.findall(source):
            add(needed[1])
        exported = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(r'const { \1 } = modules["\2"];\n', source))
        del done[name]
        done[name] = f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n'

    add(first)
    return '"use strict";\nconst modules = {};\n' + "\n".join(done.values())


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


def _is_module(name: str) -> bool:
    return name.endswith(".js") and "/" not in name and name != "theme.js"


def _page(index: str) -> str:
    policy = (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "script-src 'self' file:; style-src 'self' file:; img-src 'self' file:\">"
    )
    own = '<script src="app.js" type="module"></script>'
    assert own in index
    scripts = "".join(f'<script src="{name}" defer></script>\n' for name in (DATA, SCRIPT))
    return index.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}').replace(
        own, scripts.rstrip()
    )
