"""Arguments of `hedgerow query` and `hedgerow dashboard`; loads neither."""

from __future__ import annotations

import argparse
from pathlib import Path

LISTEN = "127.0.0.1:8080"


def add_query(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a query."""
    parser.add_argument("statement", metavar="SQL", help="for instance 'SELECT * FROM gateways'")
    _add_tables(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a list of rows")
    form.add_argument("--csv", action="store_true", help="a line a row, the columns' names first")


def add_dashboard(parser: argparse.ArgumentParser) -> None:
    """Add the dashboard's arguments."""
    _add_tables(parser)
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="HOST:PORT",
        help=f"default {LISTEN}; 0 takes a free port. Off this machine it needs --passwords, "
        "--certificate and --key",
    )
    parser.add_argument(
        "--access", type=Path, metavar="FILE", help="the policy: who may read, who acknowledge"
    )
    parser.add_argument(
        "--passwords",
        type=Path,
        metavar="FILE",
        help="users, as `hedgerow passwd` writes it; without it who is on this machine reads, "
        "and nobody acknowledges",
    )
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="PEM, for HTTPS")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its private key, PEM")
    parser.add_argument(
        "--tiles",
        metavar="URL",
        help="draw the map on tiles of this server, as https://tiles.example.org/{z}/{x}/{y}.png; "
        "the browsers of those who look fetch them. Without it the map is a plane with a grid, "
        "and fetches nothing",
    )
    parser.add_argument(
        "--tiles-credit", metavar="TEXT", help="credit for the tiles, shown on the map"
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve /metrics for Prometheus there, an address of this machine alone "
        "(docs/monitoring.md)",
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="DIR",
        help="leave a copy that a browser opens from the folder, and listen nowhere",
    )


def _add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tables",
        default="tables",
        metavar="DIR|URI",
        help="folder or URI to which the job writes its tables (default: tables)",
    )
    parser.add_argument(
        "--storage",
        type=_pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the object store, as the job has it; again for each more. Secrets come "
        "from the environment (AWS_SECRET_ACCESS_KEY and the like)",
    )


def _pair(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        # Its value may be a secret.
        raise argparse.ArgumentTypeError(f"{key!r} is not KEY=VALUE")
    return key, value
