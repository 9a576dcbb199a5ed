"""What the collector and the job take on the command line; loads neither gateway nor Spark."""

from __future__ import annotations

import argparse
from pathlib import Path

MASTER = "local[2]"
"""Where Spark runs unless it is told otherwise."""


def add_collector(parser: argparse.ArgumentParser) -> None:
    """Add the collector's arguments."""
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="the collector's TOML file"
    )
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning"], help="default: info"
    )


def add_ingest(parser: argparse.ArgumentParser) -> None:
    """Add the job's arguments."""
    parser.add_argument(
        "--spool", type=Path, required=True, metavar="DIR", help="folder the collector fills"
    )
    parser.add_argument(
        "--tables", type=Path, required=True, metavar="DIR", help="folder of tables to write"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="file to write the fleet and its totals to"
    )
    parser.add_argument(
        "--certificates",
        type=Path,
        metavar="FILE",
        help="check each batch's signature by these certificates of gateways, as a collector "
        "keeps them in its spool folder",
    )
    parser.add_argument(
        "--tree", default="hedgerow", metavar="NAME", help="of the tree, for --certificates"
    )
    parser.add_argument(
        "--master", default=MASTER, metavar="MASTER", help=f"Spark master (default {MASTER})"
    )
