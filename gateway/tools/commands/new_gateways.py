"""`hedgerow init`: its questions, what it writes, and what it says in the end."""

from __future__ import annotations

import argparse
import re
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.tools.commands import new_files, next_steps, output
from gateway.tools.commands.errors import WrongUseError
from gateway.tools.commands.init import COLLECTOR, FLEET_FOLDER, LOOPBACK

if TYPE_CHECKING:
    from gateway.tools.provisioning.plan import GatewayPlan
    from gateway.tools.provisioning.secret import Secrets


def run(options: argparse.Namespace) -> int:
    """Do what the arguments say.

    Raises:
        WrongUseError: an argument or an answer is wrong, or something is there already.
        KeyboardInterrupt: Ctrl-C; nothing is written then.

    """
    try:
        if options.collector:
            return _collector(options)
        if options.add:
            return _added(options)
        return _fleet(options) if options.fleet else _one(options)
    except KeyboardInterrupt:
        output.complain("\nhedgerow: init: interrupted, and nothing is written")
        raise


# -- one gateway and several -----------------------------------------------------------------------


def _one(options: argparse.Namespace) -> int:
    from gateway.tools.provisioning import files, plan  # noqa: PLC0415  # the others need no certificates

    folder = new_files.absolute(options.folder or new_files.own_folder())
    secrets = _secrets(options)
    new_files.refuse_taken(folder, [files.CONFIGURATION])  # before any question
    name, place, address = _answers(options)
    [one] = _planned(lambda: plan.fleet([(name, address)], place, options.port))
    new_files.refuse_taken(folder, files.names_of_one(one, secrets))
    fill = partial(
        files.write_one, folder=folder, plan=one, secrets=secrets, machine=new_files.machine()
    )
    new_files.make(folder, fill)
    next_steps.of_one(folder, one, secrets)
    return 0


def _fleet(options: argparse.Namespace) -> int:
    from gateway.tools.provisioning import files, plan  # noqa: PLC0415

    for option in ("name", "address"):
        if getattr(options, option) is not None:
            raise WrongUseError(f"--{option}: of no use with --fleet, which has NAME=ADDRESS")
    if len({bool(address) for _, address in options.fleet}) > 1:
        lacking = next(name for name, address in options.fleet if not address)
        raise WrongUseError(f"--fleet: {lacking}: no address, and others have one")
    folder = new_files.absolute(options.folder or FLEET_FOLDER)
    secrets = _secrets(options)
    members = [(name, address or LOOPBACK) for name, address in options.fleet]
    plans = _planned(lambda: plan.fleet(members, options.place or "", options.port))
    for one in plans:
        if one.id in (files.AUTHORITY, secrets.password_name):
            raise WrongUseError(f"--fleet: {one.id!r} is the name of another file there")
        if one.is_local and any(not other.is_local for other in plans):
            raise WrongUseError(f"--fleet: {one.id}: other machines do not reach {one.address}")
    new_files.refuse_taken(folder, files.names_of_fleet(plans, secrets))
    fill = partial(
        files.write_fleet, folder=folder, plans=plans, secrets=secrets, machine=new_files.machine()
    )
    new_files.make(folder, fill)
    next_steps.of_fleet(folder, plans, secrets)
    return 0


def _added(options: argparse.Namespace) -> int:
    from gateway.tools.provisioning.grown import AuthorityError, GrownFleet  # noqa: PLC0415
    from gateway.tools.provisioning.plan import PlanError  # noqa: PLC0415

    for option in ("name", "address", "fleet"):
        if getattr(options, option) is not None:
            raise WrongUseError(f"--{option}: of no use with --add, which has NAME=ADDRESS")
    folder = new_files.absolute(options.folder or FLEET_FOLDER)

    added: list[GatewayPlan] = []

    def work() -> None:
        name, address = options.add
        grown = GrownFleet(folder, name, address, options.place, options.port)
        grown.add(new_files.machine())
        added.append(grown.plan)

    try:
        new_files.written(work, folder)
    except (PlanError, AuthorityError) as error:
        raise WrongUseError(str(error)) from error
    for plan in added:
        next_steps.of_added(folder, plan)
    return 0


def _collector(options: argparse.Namespace) -> int:
    from gateway.tools.provisioning.collecting import NewCollector  # noqa: PLC0415
    from gateway.tools.provisioning.plan import PlanError  # noqa: PLC0415
    from gateway.trust.certificates.authority import AuthorityError  # noqa: PLC0415

    for option in ("address", "place", "port", "add"):
        if getattr(options, option) is not None:
            raise WrongUseError(f"--{option}: of no use with --collector, which listens nowhere")
    [(fleet, address), *more] = options.fleet or [(str(FLEET_FOLDER), "")]
    if more or address:
        raise WrongUseError("--fleet: with --collector it is the folder of a fleet that is there")
    folder = None if options.folder is None else new_files.absolute(options.folder)
    made: list[NewCollector] = []

    def work() -> None:
        made.append(
            NewCollector(new_files.absolute(Path(fleet)), options.name or COLLECTOR, folder)
        )
        made[0].add(new_files.machine())

    try:
        new_files.written(work, folder or Path(fleet))
    except (PlanError, AuthorityError) as error:
        where = "" if options.fleet else " (--fleet DIR says where it is)"
        raise WrongUseError(f"{error}{where}") from error
    next_steps.of_collector(made[0].folder, made[0].plan)
    return 0


def _secrets(options: argparse.Namespace) -> Secrets:
    from gateway.tools.provisioning import plan  # noqa: PLC0415
    from gateway.tools.provisioning.secret import Secrets  # noqa: PLC0415

    try:
        plan.check_user(options.user)
    except plan.PlanError as error:
        raise WrongUseError(f"--{error}") from error
    return Secrets(options.user)


def _planned(work: Callable[[], list[GatewayPlan]]) -> list[GatewayPlan]:
    from gateway.tools.provisioning.plan import PlanError  # noqa: PLC0415

    try:
        return work()
    except PlanError as error:
        raise WrongUseError(str(error)) from error


# -- questions -------------------------------------------------------------------------------------


def _answers(options: argparse.Namespace) -> tuple[str, str, str]:
    from gateway.tools.provisioning import plan  # noqa: PLC0415

    asks = not options.yes and sys.stdin is not None and sys.stdin.isatty()

    def answer(given: str | None, question: str, default: str, check: Callable[[str], None]) -> str:
        if given is not None:
            return given
        return _ask(question, default, check) if asks else default

    return (
        answer(options.name, "Name of this gateway", host_name(), plan.check_name),
        answer(options.place, "Place, as DOMAIN or DOMAIN/GROUP", "", plan.check_place),
        answer(options.address, "Address where others reach it", LOOPBACK, plan.check_address),
    )


_MEANINGS: Mapping[str, str] = {"": "the top", LOOPBACK: f"{LOOPBACK}: this machine alone"}


def _ask(question: str, default: str, check: Callable[[str], None]) -> str:
    from gateway.tools.provisioning.plan import PlanError  # noqa: PLC0415

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


def host_name() -> str:
    """Return what a gateway of this machine is called, if nobody says otherwise."""
    name = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower())
    return name.strip("-")[:63].rstrip("-") or "gateway"
