"""The cloud's side: collector, ingest, dashboard and query, loaded when they are asked for.

A gateway never loads Spark or a web framework: the modules behind these commands are imported by
name, once one of them runs.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from cloud_ingest import arguments, reading_arguments
from gateway.tools.commands import output
from gateway.tools.commands.errors import FailedError, WrongUseError

EXTRA = ("pyspark", "pyarrow", "numpy", "pandas", "deltalake", "duckdb", "aiohttp")
"""Packages that only the extra `cloud` installs."""


def add(commands: Any) -> None:
    """Add the commands to the parser.

    Args:
        commands: the parser's commands.

    """
    collector = commands.add_parser(
        "collector",
        help="collect a fleet's messages for Spark",
        description="Run a collector, a leaf of the tree whose log is the spool that `ingest` "
        "reads, until SIGTERM or SIGINT.",
    )
    arguments.add_collector(collector)
    collector.set_defaults(command=lambda options: _run("cloud_ingest.collector.command", options))
    ingest = commands.add_parser(
        "ingest",
        help="read collectors' spools into tables",
        description="Read collectors' spools with Spark into the Delta tables `telemetry` and "
        "`quarantine`, each message once. Needs the extra `cloud` (pip install 'hedgerow[cloud]'), "
        "and exits with 6 where there is no Java.",
    )
    arguments.add_ingest(ingest)
    ingest.add_argument(
        "--ways",
        type=Path,
        metavar="FILE",
        help="TOML file that says on which ways alerts leave (docs/monitoring.md)",
    )
    ingest.set_defaults(command=_ingest)
    dashboard = commands.add_parser(
        "dashboard",
        help="show a fleet's tables in a browser",
        description="Serve a web page over the tables that `ingest` writes: fleet, tree, sensors, "
        "alerts, gaps and latency, until SIGTERM or SIGINT. Needs the extra `cloud`.",
    )
    reading_arguments.add_dashboard(dashboard)
    dashboard.set_defaults(command=lambda options: _run("cloud_ingest.dashboard.command", options))
    query = commands.add_parser(
        "query",
        help="ask a fleet's tables in SQL",
        description="Run one query over the tables that `ingest` writes, with DuckDB, which may "
        "read them and nothing else. Needs the extra `cloud`.",
    )
    reading_arguments.add_query(query)
    query.set_defaults(
        command=lambda options: _run("cloud_ingest.query.command", options),
        goes_on="asking the tables",
    )


def _ingest(options: argparse.Namespace) -> int:
    if options.ways is not None:
        from gateway.alerting import fleet_ways  # noqa: PLC0415  # only where it is used
        from gateway.base.toml.toml_file import ConfigError, load  # noqa: PLC0415

        try:
            ways = fleet_ways.opened(load(options.ways, fleet_ways.FleetWaysSection))
        except ConfigError as error:
            raise WrongUseError(f"--ways: {options.ways}: {error}") from error
        options.way_out, options.way_figures = ways, ways.figures
    with output.going_on("taking out what it sent" if options.forget_gateway else ""):
        return _run("cloud_ingest.job.command", options)


def _run(module: str, options: argparse.Namespace) -> int:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in EXTRA:
            raise
        missing = f"{error.name} is not installed: pip install 'hedgerow[cloud]'"
        raise FailedError(missing) from error
    code: int = found.run_with(options, "hedgerow")
    return code
