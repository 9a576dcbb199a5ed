"""`hedgerow collector` and `hedgerow ingest`: the cloud's side, loaded when it is asked for.

A gateway never loads Spark: the modules behind these commands are imported by name, once one of
them runs.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from cloud_ingest import arguments
from gateway.commands.errors import FailedError

EXTRA = ("pyspark", "pyarrow", "deltalake")
"""Packages that only the extra `cloud` installs."""


def add(commands: Any) -> None:
    """Add both commands to the parser.

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
    collector.set_defaults(command=lambda options: _run("cloud_ingest.collector", options))
    ingest = commands.add_parser(
        "ingest",
        help="read collectors' spools into tables",
        description="Read collectors' spools with Spark into the Delta tables `telemetry` and "
        "`quarantine`, each message once. Needs the extra `cloud` (pip install 'hedgerow[cloud]'), "
        "and exits with 3 where there is no Java.",
    )
    arguments.add_ingest(ingest)
    ingest.set_defaults(command=lambda options: _run("cloud_ingest.job", options))


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
