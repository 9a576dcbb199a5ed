"""Faults in the arguments of ``hedgerow ingest``, found before anything begins."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from cloud_ingest.fleet import rules as fleet_rules
from cloud_ingest.fleet.rules import RulesError
from cloud_ingest.given_folder import folder_fault
from cloud_ingest.mapping import rules as mapping_rules
from cloud_ingest.mapping.rules import MappingError
from cloud_ingest.metrics_listener import MetricsAddressError, parse_address
from cloud_ingest.spool.proof import CertificatesError, read_certificates
from cloud_ingest.tables.store import TableStore

LIMITS = ("gateway_gaps", "gateway_lives", "total_gaps")
"""Options that bound the ledger (`cloud_ingest.ledger_limits.LedgerLimits`), in its order."""
_NUMBERS = (
    ("trigger_s", 0, 86_400),
    ("max_bytes", 1, 1 << 40),
    ("compact_every", 1, 1_000_000_000),
    ("keep_days", 0, 100_000),
    ("vacuum_hours", 0, 1_000_000),
)
"""Options that are numbers, with the least and the most: fewer days would delete what is new."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def argument_faults(options: argparse.Namespace) -> Iterator[str]:
    """Tell what of the arguments can't be used, and why; each is one line.

    Args:
        options: as `cloud_ingest.arguments.add_ingest` reads them.

    """
    for spool in options.spool:
        if fault := folder_fault(spool):
            yield f"--spool: {spool}: {fault}"
    given = [spool.resolve() for spool in options.spool]
    for spool in dict.fromkeys(one for one in given if given.count(one) > 1):
        yield f"--spool: {spool}: it is named {given.count(spool)} times"
    folder = TableStore(options.tables).folder
    if folder is not None and folder.exists() and (fault := folder_fault(folder)):
        yield f"--tables: {folder}: {fault}"
    if options.json and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
        yield f"--json: not a file in an existing folder: {options.json}"
    for name in ("conf", "storage"):
        for pair in getattr(options, name):
            if "=" not in pair:
                yield f"--{name}: not KEY=VALUE: {pair.partition('=')[0]}"
    if not _NAME.fullmatch(options.name):
        yield f"--name: not up to 60 letters, digits, - and _: {options.name[:60]!r}"
    for name in LIMITS:
        if getattr(options, name) < 1:
            yield f"--{name.replace('_', '-')}: less than 1: {getattr(options, name)}"
    yield from _wrong_numbers(options)
    yield from _wrong_files(options)
    dated = options.keep_days is not None
    looks_after = options.again or options.compact or dated or options.forget_gateway
    if not options.spool and not looks_after:
        yield "--spool: missing"


def _wrong_numbers(options: argparse.Namespace) -> Iterator[str]:
    for name, least, most in _NUMBERS:
        given = getattr(options, name)
        if given is not None and not least <= given <= most:
            yield f"--{name.replace('_', '-')}: {given} is not {least:g} to {most:.0f}"


def _wrong_files(options: argparse.Namespace) -> Iterator[str]:
    if options.metrics is not None:
        try:
            parse_address(options.metrics)
        except MetricsAddressError as error:
            yield f"--metrics: {error}"
    if options.certificates is not None:
        try:
            read_certificates(options.certificates)
        except CertificatesError as error:
            yield f"--certificates: {error}"
    if options.alerts is not None:
        try:
            fleet_rules.read(options.alerts.read_text())
        except (OSError, UnicodeDecodeError, RulesError) as error:
            yield f"--alerts: {options.alerts}: {_why(error)}"
    if options.mappings is not None:
        try:
            mapping_rules.read(options.mappings.read_text())
        except (OSError, UnicodeDecodeError, MappingError) as error:
            yield f"--mappings: {options.mappings}: {_why(error)}"


def _why(error: Exception) -> str:
    """Return what is wrong with a file whose name stands before."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
