"""`hedgerow init`: its arguments and questions, and what it says in the end."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway import config_place
from gateway.commands import output
from gateway.commands.errors import WrongUseError

if TYPE_CHECKING:
    from gateway.provisioning.files import Machine
    from gateway.provisioning.plan import GatewayPlan
    from gateway.provisioning.secret import Secrets

FLEET_FOLDER = Path("hedgerow-fleet")
LOOPBACK = "127.0.0.1"
USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""It names a file, too."""


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    init = commands.add_parser(
        "init",
        help="write what a new gateway needs, or a fleet of them",
        description="Write a configuration, an access policy, keys, passwords, certificates where "
        "other machines or gateways are reached, and a unit for systemd. On a terminal it asks "
        "for name, place and address, unless they are given; each question has a default, which "
        "is taken without a terminal. What is there is never written over: exit code 2 names it.",
    )
    init.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="where to write; stands before --fleet (default: where every command looks for a "
        f"configuration, /etc/hedgerow for root, else ~/.config/hedgerow; of a fleet "
        f"{FLEET_FOLDER})",
    )
    init.add_argument("--name", metavar="NAME", help="the gateway's id (default: the host's name)")
    init.add_argument(
        "--place",
        metavar="DOMAIN[/GROUP]",
        help="where in the hierarchy; of a fleet all gateways' (default: its top)",
    )
    init.add_argument(
        "--address",
        metavar="ADDRESS",
        help="where it listens and others reach it: any but this machine's own over TLS alone "
        f"(default: {LOOPBACK})",
    )
    init.add_argument(
        "--user",
        default="operator",
        metavar="USER",
        help="who may write, over MQTT and over CoAP (default: operator)",
    )
    init.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help="the first of four in a row for each gateway: MQTT, MQTT over TLS, CoAP, CoAP over "
        "DTLS (default: 1883, 8883, 5683, 5684, and the next ones for a machine's further ones)",
    )
    init.add_argument(
        "--fleet",
        nargs="+",
        type=_member,
        metavar="NAME[=ADDRESS]",
        help="a folder for each of these gateways, linked in TLS, and their authority; without "
        "addresses they are all on this machine",
    )
    init.add_argument("-y", "--yes", action="store_true", help="ask nothing")
    init.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Do what the arguments say.

    Raises:
        WrongUseError: an argument or an answer is wrong, or something is there already.
        KeyboardInterrupt: Ctrl-C; nothing is written then.

    """
    try:
        return _fleet(options) if options.fleet else _one(options)
    except KeyboardInterrupt:
        output.complain("\nhedgerow: init: interrupted, and nothing is written")
        raise


# -- one gateway and several -----------------------------------------------------------------------


def _one(options: argparse.Namespace) -> int:
    from gateway.provisioning import files, plan  # noqa: PLC0415  # the others need no certificates

    folder = _absolute(options.folder or _own_folder())
    secrets = _secrets(options)
    _written(lambda: _refuse_taken(folder, [files.CONFIGURATION]), folder)  # before any question
    name, place, address = _answers(options)
    [one] = _planned(lambda: plan.fleet([(name, address)], place, options.port))
    _written(lambda: _refuse_taken(folder, files.names_of_one(one, secrets)), folder)
    fill = partial(files.write_one, folder=folder, plan=one, secrets=secrets, machine=_machine())
    _make(folder, fill)
    _say_of_one(folder, one, secrets)
    return 0


def _fleet(options: argparse.Namespace) -> int:
    from gateway.provisioning import files, plan  # noqa: PLC0415

    for option in ("name", "address"):
        if getattr(options, option) is not None:
            raise WrongUseError(f"--{option}: of no use with --fleet, which has NAME=ADDRESS")
    if len({bool(address) for _, address in options.fleet}) > 1:
        lacking = next(name for name, address in options.fleet if not address)
        raise WrongUseError(f"--fleet: {lacking}: no address, and others have one")
    folder = _absolute(options.folder or FLEET_FOLDER)
    secrets = _secrets(options)
    members = [(name, address or LOOPBACK) for name, address in options.fleet]
    plans = _planned(lambda: plan.fleet(members, options.place or "", options.port))
    for one in plans:
        if one.id in (files.AUTHORITY, secrets.password_name):
            raise WrongUseError(f"--fleet: {one.id!r} is the name of another file there")
        if one.is_local and any(not other.is_local for other in plans):
            raise WrongUseError(f"--fleet: {one.id}: other machines do not reach {one.address}")
    _written(lambda: _refuse_taken(folder, files.names_of_fleet(plans, secrets)), folder)
    fill = partial(
        files.write_fleet, folder=folder, plans=plans, secrets=secrets, machine=_machine()
    )
    _make(folder, fill)
    _say_of_fleet(folder, plans, secrets)
    return 0


def _secrets(options: argparse.Namespace) -> Secrets:
    from gateway.provisioning.secret import Secrets  # noqa: PLC0415

    if not USER.fullmatch(options.user):
        raise WrongUseError(
            f"--user: {options.user!r} is not 1 to 64 letters, digits, '.', '_', '-' and '@'"
        )
    return Secrets(options.user)


def _machine() -> Machine:
    from gateway.provisioning.files import Machine  # noqa: PLC0415

    beside = Path(sys.executable).with_name("hedgerow")  # not resolved: a venv's is a link
    program = str(beside) if beside.exists() else shutil.which("hedgerow")
    command = (program,) if program else (sys.executable, "-m", "gateway.cli")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number that no user has, as in a container
        user = str(os.getuid())
    return Machine(command, user)


def _own_folder() -> Path:
    if os.geteuid() == 0:
        return config_place.SYSTEM.parent
    return config_place.own().parent


def _absolute(folder: Path) -> Path:
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise WrongUseError(f"{folder}: {getattr(error, 'strerror', None) or error}") from error


def _refuse_taken(folder: Path, names: Sequence[str]) -> None:
    from gateway.provisioning import new_folder  # noqa: PLC0415

    if folder.exists() and not folder.is_dir():
        raise WrongUseError(f"{folder} is no folder")
    new_folder.refuse_taken(folder, names)


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    from gateway.provisioning import new_folder  # noqa: PLC0415

    _written(lambda: new_folder.make(folder, fill), folder)


def _written(work: Callable[[], None], folder: Path) -> None:
    from gateway.provisioning.new_folder import TakenError  # noqa: PLC0415

    try:
        work()
    except TakenError as error:
        raise WrongUseError(str(error)) from error
    except OSError as error:
        why = f"{error.filename or folder}: {error.strerror or error}"
        raise WrongUseError(f"{why}; nothing is written") from error


def _planned(work: Callable[[], list[GatewayPlan]]) -> list[GatewayPlan]:
    from gateway.provisioning.plan import PlanError  # noqa: PLC0415

    try:
        return work()
    except PlanError as error:
        raise WrongUseError(str(error)) from error


# -- questions -------------------------------------------------------------------------------------


def _answers(options: argparse.Namespace) -> tuple[str, str, str]:
    from gateway.provisioning import plan  # noqa: PLC0415

    asks = not options.yes and sys.stdin is not None and sys.stdin.isatty()

    def answer(given: str | None, question: str, default: str, check: Callable[[str], None]) -> str:
        if given is not None:
            return given
        return _ask(question, default, check) if asks else default

    return (
        answer(options.name, "Name of this gateway", _host_name(), plan.check_name),
        answer(options.place, "Place, as DOMAIN or DOMAIN/GROUP", "", plan.check_place),
        answer(options.address, "Address where others reach it", LOOPBACK, plan.check_address),
    )


_MEANINGS: Mapping[str, str] = {"": "the top", LOOPBACK: f"{LOOPBACK}: this machine alone"}


def _ask(question: str, default: str, check: Callable[[str], None]) -> str:
    from gateway.provisioning.plan import PlanError  # noqa: PLC0415

    while True:
        sys.stderr.write(f"{question} [{_MEANINGS.get(default, default)}]: ")
        sys.stderr.flush()
        try:
            line = sys.stdin.readline()
        except UnicodeError:
            line = "\N{REPLACEMENT CHARACTER}\n"
        if not line:
            sys.stderr.write("\n")  # the question's line is still open
            raise WrongUseError("init: the input has ended, and nothing is written")
        answer = line.strip() or default
        try:
            check(answer)
        except PlanError as error:
            sys.stderr.write(f"  {error}\n")
        else:
            return answer


def _host_name() -> str:
    name = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower())
    return name.strip("-")[:63].rstrip("-") or "gateway"


# -- what to do next -------------------------------------------------------------------------------


def _say_of_one(folder: Path, plan: GatewayPlan, secrets: Secrets) -> None:
    password = folder / secrets.password_name
    config = _config_option(folder)
    sys.stdout.write(
        f"{plan.id} is written to {folder}; the password of {secrets.user} is in {password}\n"
    )
    if plan.has_tls:
        sys.stdout.write(f"Clients trust {folder}/tls/ca.pem (--cafile)\n")
    if folder == config_place.SYSTEM.parent:
        sys.stdout.write(
            "\nLet systemd run it, as a user of its own:\n"
            "  useradd --system --no-create-home --shell /usr/sbin/nologin hedgerow\n"
            f"  chown -R hedgerow: {folder}\n"
            f"  systemctl enable --now {folder}/hedgerow.service\n"
        )
    else:
        sys.stdout.write(
            f"\nRun it (or: sudo systemctl enable --now {_shell(folder / 'hedgerow.service')}):\n"
            f"  hedgerow run{config}\n"
        )
    _say_first_reading(config, plan, secrets, password)


def _say_of_fleet(folder: Path, plans: Sequence[GatewayPlan], secrets: Secrets) -> None:
    from gateway.provisioning.files import AUTHORITY  # noqa: PLC0415

    password, first = folder / secrets.password_name, plans[0]
    sys.stdout.write(
        f"{len(plans)} gateways are written to {folder}; the password of {secrets.user} is in "
        f"{password}\n{folder / AUTHORITY}/ca.key.pem makes gateways: keep it where none is\n"
    )
    config = f" --config {_shell(folder / first.id / 'hedgerow.toml')}"
    if first.is_local:
        sys.stdout.write("\nRun each:\n")
        for one in plans:
            path = _shell(folder / one.id / "hedgerow.toml")
            sys.stdout.write(f"  hedgerow run --config {path}\n")
    else:
        sys.stdout.write("\nCopy each to its machine's /etc/hedgerow, as root:\n")
        for one in plans:
            target = f"[{one.address}]" if ":" in one.address else one.address
            source = _shell(folder / one.id)
            sys.stdout.write(f"  scp -rp {source} root@{target}:/etc/hedgerow\n")
        sys.stdout.write(
            "And there:\n"
            "  useradd --system --no-create-home --shell /usr/sbin/nologin hedgerow\n"
            "  chown -R hedgerow: /etc/hedgerow\n"
            "  systemctl enable --now /etc/hedgerow/hedgerow.service\n"
        )
        cafile = _shell(folder / AUTHORITY / "ca.pem")
        config = f" --host {first.address} --port {first.ports.mqtts} --cafile {cafile}"
    _say_first_reading(config, first, secrets, password)
    if first.is_local:
        sys.stdout.write(f"See the tree:\n  hedgerow tree{config}\n")
    else:
        sys.stdout.write(f"See the tree:\n  hedgerow tree {first.at(first.ports.coap)}\n")


def _say_first_reading(config: str, plan: GatewayPlan, secrets: Secrets, password: Path) -> None:
    uri = f"coap://{plan.at(plan.ports.coap)}/sensors/host/load1"
    if plan.ports.coap == 5683:
        uri = uri.replace(":5683/", "/")
    sys.stdout.write(
        f"Subscribe:\n  hedgerow sub{config} -t '#' --user {secrets.user} "
        f"--password-file {_shell(password)}\n"
        f"Read a sensor:\n  hedgerow get {_shell(uri) if '[' in uri else uri}\n"
    )


def _config_option(folder: Path) -> str:
    is_default = folder in (config_place.SYSTEM.parent, config_place.own().parent.resolve())
    return "" if is_default else f" --config {_shell(folder / 'hedgerow.toml')}"


def _shell(path: Path | str) -> str:
    return shlex.quote(str(path))


# -- arguments -------------------------------------------------------------------------------------


def _member(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if equals and not address:
        raise argparse.ArgumentTypeError(f"{text!r}: no address behind '='")
    return name, address


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)
