"""`hedgerow dashboard`: what it may listen on, and until when."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import signal
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

from cloud_ingest.dashboard.entrance import Entrance
from cloud_ingest.dashboard.export import export
from cloud_ingest.dashboard.map_tiles import MapTiles, TilesError
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.server import Server
from cloud_ingest.metrics_listener import MetricsAddressError, parse_address, serving
from cloud_ingest.query.lake import Lake, LakeError
from gateway.base import exit_codes
from gateway.base.toml.checks import is_loopback
from gateway.broker.access.passwords import Passwords
from gateway.process.access.files import DEFAULT_ROLES
from gateway.process.configuration.passing import may_pass
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.policy import policy_file
from gateway.trust.policy.faults import AccessFileError, read_access_file
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.tls.context import Tls, TlsFiles

_PORT_MAX = 65_535


class ArgumentError(Exception):
    """An argument is wrong; the message names it."""


@dataclass(frozen=True, slots=True)
class _Opening:
    host: str
    port: int
    entrance: Entrance
    access: _AccessFiles
    tls: ssl.SSLContext | None
    tiles: MapTiles | None
    metrics: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class _AccessFiles:
    """The files of the access policy and of users: read at the start, and again at SIGHUP."""

    policy: Path | None
    passwords: Path | None

    def read(self) -> tuple[Policy, Passwords | None]:
        """Read both.

        Raises:
            AccessFileError: one is wrong.

        """
        passwords = None
        if self.passwords is not None:
            passwords = Passwords.parse(read_access_file(self.passwords), str(self.passwords))
        return Policy(_rules(self.policy)), passwords


def run_with(options: argparse.Namespace, program: str) -> int:
    """Run the dashboard until SIGTERM or SIGINT, or leave a copy of it.

    Args:
        options: of `cloud_ingest.reading_arguments.add_dashboard`.
        program: for messages.

    Returns:
        the exit code: 2 where an argument or a file that it names is wrong, 1 where a disk is full
        or an address in use.

    """
    lake = Lake(options.tables, dict(options.storage))
    try:
        if options.export is not None:
            lake.check()
            export(lake, options.export)
            sys.stdout.write(f"{options.export / 'index.html'}: open it in a browser\n")
            return 0
        opening = _opening(options)
        lake.check()
        return asyncio.run(_serve(lake, opening))
    except (ArgumentError, AccessFileError, TlsFileError, LakeError) as error:
        sys.stderr.write(f"{program}: dashboard: {error}\n")
    except OSError as error:
        where = "--listen" if options.export is None else f"--export {options.export}"
        sys.stderr.write(f"{program}: dashboard: {where}: {error.strerror or error}\n")
        if may_pass(error):
            return exit_codes.FAILED
    return exit_codes.WRONG_USE


def _opening(options: argparse.Namespace) -> _Opening:
    host, port = _listen(options.listen)
    access = _AccessFiles(options.access, options.passwords)
    policy, passwords = access.read()
    tls = _tls(options.certificate, options.key)
    if not is_loopback(host) and (tls is None or passwords is None):
        raise ArgumentError(
            f"--listen: {host} is reached from elsewhere: it needs --passwords, --certificate "
            "and --key"
        )
    tiles = _tiles(options.tiles, options.tiles_credit)
    if tls is not None and tiles is not None and not tiles.url.startswith("https:"):
        raise ArgumentError("--tiles: a page over HTTPS shows tiles from https://... alone")
    try:
        metrics = None if options.metrics is None else parse_address(options.metrics)
    except MetricsAddressError as error:
        raise ArgumentError(f"--metrics: {error}") from error
    return _Opening(host, port, Entrance(policy, passwords), access, tls, tiles, metrics)


def _tiles(url: str | None, credit: str | None) -> MapTiles | None:
    if url is None:
        if credit is not None:
            raise ArgumentError("--tiles-credit: says whose tiles they are; --tiles says which")
        return None
    try:
        return MapTiles.parse(url, credit or "")
    except TilesError as error:
        raise ArgumentError(f"--tiles: {error}") from error


def _rules(file: Path | None) -> PolicyRules:
    roles = frozenset(DEFAULT_ROLES)
    if file is None:
        return PolicyRules(default_roles=roles)
    told = policy_file.parse(read_access_file(file), str(file), roles)
    # A file of before says of MQTT alone who may do what.
    return told if told.is_versioned else PolicyRules(default_roles=roles)


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ArgumentError("--certificate, --key: one is not given without the other")
    return Tls(TlsFiles(certificate, key)).context


def _listen(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ArgumentError(f"--listen: {text!r} is not HOST:PORT")
    name = host.removeprefix("[").removesuffix("]")
    return ("127.0.0.1" if name == "localhost" else name), int(port)


async def _serve(lake: Lake, opening: _Opening) -> int:
    models = Models(lake)
    with contextlib.ExitStack() as stack:
        if opening.metrics is not None:
            from cloud_ingest.dashboard import fleet_metrics  # noqa: PLC0415  # only where asked for

            figures = functools.partial(fleet_metrics.collect, models)
            try:
                port = stack.enter_context(serving(*opening.metrics, figures))
            except OSError as error:  # what only tells of the work keeps nobody from it
                sys.stderr.write(f"--metrics: {error.strerror}; the dashboard goes on without\n")
            else:
                sys.stdout.write(f"metrics at port {port}\n")
        return await _serve_models(models, lake, opening)


async def _serve_models(models: Models, lake: Lake, opening: _Opening) -> int:
    server = Server(models, opening.entrance, opening.tls, opening.tiles)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _read_again, opening)
    port = await server.start(opening.host, opening.port)
    scheme = "http" if opening.tls is None else "https"
    host = f"[{opening.host}]" if ":" in opening.host else opening.host
    sys.stdout.write(f"dashboard of {lake.place}: {scheme}://{host}:{port}/\n")
    sys.stdout.flush()
    await ended.wait()
    await server.stop()
    return 0


def _read_again(opening: _Opening) -> None:
    """Take the files of access as they are now; if one is wrong, those of before stay."""
    try:
        opening.entrance.door.replace(*opening.access.read())
    except AccessFileError as error:
        sys.stderr.write(f"{error}; the access and passwords of before stay\n")
        sys.stderr.flush()
    else:
        sys.stdout.write("access and passwords are read again\n")
        sys.stdout.flush()
