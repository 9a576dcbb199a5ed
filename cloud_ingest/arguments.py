"""Arguments of the collector and the job; loads neither gateway nor Spark."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from cloud_ingest.ledger_limits import LedgerLimits

MASTER = "local[*]"
"""The place where Spark runs unless it is told otherwise."""
_MASTER = re.compile(
    r"local(\[(\*|[1-9]\d*)(,[1-9]\d*)?\])?|local-cluster\[.+\]|(spark|k8s)://\S+|yarn"
)
"""The forms of a master that Spark knows (its SparkContext)."""


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
        "--spool",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder a collector fills; again for each more. Without one, the tables are only "
        "looked after (--again, --compact, --keep-days, --forget-gateway)",
    )
    parser.add_argument(
        "--tables",
        required=True,
        metavar="DIR",
        help="folder of tables to write, or a URI: s3://, abfss://, gs://, hdfs://",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="file to write the fleet and its totals to"
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on until SIGTERM or SIGINT, as data comes"
    )
    parser.add_argument(
        "--trigger-s",
        type=float,
        default=1.0,
        metavar="S",
        help="with --follow, look for data so often (default 1)",
    )
    parser.add_argument(
        "--alerts",
        type=Path,
        metavar="FILE",
        help="TOML file that says when alerts are raised (docs/monitoring.md)",
    )
    parser.add_argument(
        "--mappings",
        type=Path,
        metavar="FILE",
        help="TOML file that says how messages of other makes are read (docs/cloud.md)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve /metrics for Prometheus there, an address of this machine alone "
        "(docs/monitoring.md)",
    )
    _add_limits(parser)
    _add_signatures(parser)
    _add_spark(parser)
    _add_upkeep(parser)


def _add_signatures(parser: argparse.ArgumentParser) -> None:
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


def _add_limits(parser: argparse.ArgumentParser) -> None:
    limits = LedgerLimits()
    parser.add_argument(
        "--gateway-gaps",
        type=int,
        default=limits.gaps,
        metavar="N",
        help="gaps in the numbers of one gateway that are looked for, over all its lives; of more "
        f"the oldest are given up (default {limits.gaps})",
    )
    parser.add_argument(
        "--gateway-lives",
        type=int,
        default=limits.lives,
        metavar="N",
        help="lives of one gateway whose numbers are known; of more the oldest are closed "
        f"(default {limits.lives})",
    )
    parser.add_argument(
        "--total-gaps",
        type=int,
        default=limits.total_gaps,
        metavar="N",
        help=f"as --gateway-gaps, of all gateways together (default {limits.total_gaps})",
    )


def _master(text: str) -> str:
    """Spark would answer with a page of its own for what it does not know."""
    if _MASTER.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not local[N], spark://, k8s:// or yarn")
    return text


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        type=_master,
        default=MASTER,
        metavar="MASTER",
        help=f"Spark master: local[N], spark://, k8s://, yarn (default {MASTER})",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; again for each more",
    )
    parser.add_argument(
        "--storage",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the object store; again for each more. Secrets come from the "
        "environment (AWS_SECRET_ACCESS_KEY and the like)",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="folder for what Spark remembers between runs (default: beside the tables, or for a "
        "URI in the first spool's folder); deleted, the spool is read again and nothing is doubled",
    )
    parser.add_argument(
        "--name",
        default="ingest",
        metavar="NAME",
        help="of this job, where several read one spool (default ingest)",
    )
    parser.add_argument(
        "--max-bytes",
        type=int,
        default=256 << 20,
        metavar="BYTES",
        help="of the spool, read at once (default 256 MiB)",
    )


def _add_upkeep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compact",
        action="store_true",
        help="make few large files of many small ones, at the end; with --follow every "
        "--compact-every commits",
    )
    parser.add_argument(
        "--compact-every", type=int, default=300, metavar="N", help="see --compact (default 300)"
    )
    parser.add_argument(
        "--keep-days", type=int, metavar="N", help="delete telemetry of days before as many"
    )
    parser.add_argument(
        "--vacuum-hours",
        type=int,
        default=168,
        metavar="N",
        help="when looking after the tables, delete files that have been no part of them for so "
        "long (default 168); readers of an old version need theirs so long",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="first read again what is in quarantine, by --mappings and --certificates as they "
        "are now: what can be read goes to telemetry",
    )
    parser.add_argument(
        "--forget-gateway",
        action="append",
        default=[],
        metavar="ID",
        help="leave nothing of a gateway in the tables, and end; what was read before does not "
        "come back; with --vacuum-hours 0 nothing in their logs either, which takes all earlier "
        "versions: only when nobody reads or writes them",
    )
