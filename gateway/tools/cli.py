"""The `hedgerow` command: its arguments, and what they call."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from gateway.base import exit_codes
from gateway.process.configuration import place as config_place
from gateway.tools.commands import (
    alerts,
    backup,
    bench,
    clients,
    cloud,
    completion,
    configuration,
    directory,
    doctor,
    first_start,
    flash,
    init,
    join,
    keys,
    logs,
    members,
    messages,
    place,
    policy_arguments,
    resource_arguments,
    sensors,
    serving,
    shell,
    simulating,
    system,
    top,
)
from gateway.tools.commands.carrying_out import Command, carry_out
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.gateway_arguments import (
    add_at,
    add_config,
    add_gateway,
    add_host,
    add_own_gateway,
    config_file,
)
from gateway.tools.commands.output import WAITING
from gateway.tools.commands.parser import Parser, VersionAction


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    return carry_out(command_line, arguments)


# -- check, doctor, sensors, config ----------------------------------------------------------------


def _check(options: argparse.Namespace) -> int:
    from gateway.tools.commands import check  # noqa: PLC0415  # the others need no sensors

    return check.run(config_file(options), as_json=options.json)


def _doctor(options: argparse.Namespace) -> int:
    return doctor.run(options, config_file(options))


def _init(options: argparse.Namespace) -> int:
    from gateway.tools.commands import new_gateways  # noqa: PLC0415  # the others write no gateways

    return new_gateways.run(options)


def _place(options: argparse.Namespace) -> int:
    from gateway.tools.commands import placing  # noqa: PLC0415  # the others write no configuration

    return placing.run(options, config_file(options))


def _about_sensors(options: argparse.Namespace) -> int:
    sensors.check_options(options)
    if options.action not in sensors.HERE and not options.in_file:
        return _asks("sensors")(options)
    from gateway.tools.commands import sensing  # noqa: PLC0415  # drivers, and what is configured

    if options.action in sensors.HERE:
        return sensing.here(options, options.config or config_place.find_readable())
    return sensing.in_file(options, config_file(options))


def _about_configuration(name: str) -> Command:
    def command(options: argparse.Namespace) -> int:
        from gateway.tools.commands import configuring  # noqa: PLC0415  # checks all that is configured

        does: Callable[[argparse.Namespace, Path], int] = getattr(configuring, name)
        return does(options, config_file(options))

    return command


# -- get, status, tree, drain ----------------------------------------------------------------------


def _asks(name: str) -> Command:
    def command(options: argparse.Namespace) -> int:
        from gateway.tools.commands import asking  # noqa: PLC0415  # `hedgerow run` asks nobody

        asks: Command = getattr(asking, name)
        return asks(options)

    return command


def _asks_of_clients(name: str) -> Command:
    def command(options: argparse.Namespace) -> int:
        from gateway.tools.commands import asking_of_clients  # noqa: PLC0415  # as above

        asks: Command = getattr(asking_of_clients, name)
        return asks(options)

    return command


def _asks_of_alerts(options: argparse.Namespace) -> int:
    from gateway.tools.commands import asking_of_alerts  # noqa: PLC0415  # as above

    return asking_of_alerts.run(options)


def _looks(options: argparse.Namespace) -> int:
    from gateway.tools.commands import looking  # noqa: PLC0415  # as above

    return looking.run(options)


def _about_resources(name: str) -> Command:
    def command(options: argparse.Namespace) -> int:
        if name == "discover":
            from gateway.tools.commands import finding  # noqa: PLC0415  # as above

            return finding.discover(options)
        from gateway.tools.commands import resources  # noqa: PLC0415  # as above

        does: Command = getattr(resources, name)
        return does(options)

    return command


# -- passwd ----------------------------------------------------------------------------------------


def _passwd(options: argparse.Namespace) -> int:
    from gateway.tools.commands import passwd  # noqa: PLC0415  # argon2 is of use here alone

    return passwd.run(options)


# -- demo ------------------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> int:
    import asyncio  # noqa: PLC0415  # `hedgerow --help` waits for nobody

    from gateway.tools.demo import story  # noqa: PLC0415
    from gateway.tools.demo.fleet import FleetError  # noqa: PLC0415

    if options.json is not None:  # it takes minutes until it is written
        try:
            options.json.open("a").close()
        except OSError as error:
            raise WrongUseError(f"--json: {options.json}: {error.strerror}") from error
    # A client of a gateway that is killed on purpose has nothing new to say about it.
    logging.getLogger("gmqtt").setLevel(logging.CRITICAL)
    try:
        result = asyncio.run(story.tell(options.report, quick=options.quick))
    except FleetError as error:
        raise FailedError(str(error)) from error
    if options.json is not None:
        try:
            options.json.write_text(json.dumps(result.as_json(), indent=1) + "\n")
        except OSError as error:
            raise WrongUseError(f"--json: {options.json}: {error.strerror}") from error
    return 0 if result.kept_its_promises else exit_codes.FAILED


# -- arguments -------------------------------------------------------------------------------------


_Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def command_line() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = Parser(
        prog="hedgerow",
        description="An edge gateway for fleets of Raspberry Pis: MQTT, CoAP over DTLS, and a "
        "tree of brokers that heals itself.",
        epilog=f"Exit codes: {exit_codes.told()}.",
    )
    parser.add_argument("--version", action=VersionAction)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    adders = (
        partial(init.add, command=_init),
        join.add,
        first_start.add,
        serving.add,
        _add_check,
        _add_status,
        _add_tree,
        _add_hierarchy,
        _add_drain,
        _add_passwd,
        _add_demo,
    )
    for add in (*adders, simulating.add_to):
        add(commands)
    place.add(
        commands,
        add_config,
        _place,
    )
    configuration.add(commands, add_config, _about_configuration)
    policy_arguments.add(commands, add_config)
    doctor.add(commands, add_own_gateway, _doctor)
    bench.add(commands, add_config)
    _add_asking(commands)
    messages.add(commands)
    keys.add(commands)
    shell.add(commands)
    flash.add(commands)
    system.add(commands)
    backup.add(commands)
    cloud.add(commands)
    completion.add(commands, parser)
    return parser


def _add_asking(commands: _Commands) -> None:
    """Add what asks gateways that run."""
    top.add(commands, _add_gateway_at, _looks)
    logs.add(commands, add_config)
    alerts.add(commands, _add_host_at, _asks_of_alerts)
    clients.add(commands, _add_host_at, _asks_of_clients("clients"))
    resource_arguments.add(commands, add_host, _about_resources)
    members.add(commands, _add_host_at, _asks_of_clients("members"))
    directory.add(commands, _add_host_at, _asks("rd"))
    sensors.add(commands, _add_host_at, _about_sensors)


def _add_host_at(command: argparse.ArgumentParser) -> None:
    add_host(command)
    add_at(command)


def _add_gateway_at(command: argparse.ArgumentParser, *, timeout_s: float) -> None:
    add_gateway(command, timeout_s=timeout_s)
    add_at(command)


def _add_check(commands: _Commands) -> None:
    check = commands.add_parser(
        "check",
        help="say all that is wrong with a configuration",
        description="Read a configuration and the files that it names, and print each thing that "
        "is wrong, with its line and what is allowed. Exits with 2 if there is any. Nothing is "
        "listened on, so that the gateway may run meanwhile; sensors are made, and not read.",
    )
    add_config(check)
    check.add_argument("--json", action="store_true", help="for scripts")
    check.set_defaults(command=_check, goes_on="making its sensors")


def _add_status(commands: _Commands) -> None:
    status = commands.add_parser(
        "status",
        help="show a gateway's neighbours, roles and counters",
        description="Show what a running gateway says of itself and its neighbours.",
    )
    add_gateway(status)
    add_at(status)
    clients.add_watch(status)
    status.set_defaults(command=_asks("status"), goes_on=WAITING)


def _add_tree(commands: _Commands) -> None:
    tree = commands.add_parser(
        "tree",
        help="show the whole tree from its root down",
        description="Ask a running gateway, and through it all others it knows, and draw the "
        "tree: parents and children, the links that stand by, and who does not answer.",
    )
    add_gateway(tree)
    clients.add_watch(tree)
    tree.set_defaults(command=_asks("tree"), goes_on=WAITING)


def _add_hierarchy(commands: _Commands) -> None:
    hierarchy = commands.add_parser(
        "hierarchy",
        help="show domains, groups and who heads them",
        description="Ask a running gateway who heads the fleet, its domains and its groups, and "
        "draw it from the root down: whose child each gateway is, whose it would be next, and who "
        "is out of reach.",
    )
    add_gateway(hierarchy)
    add_at(hierarchy)
    clients.add_watch(hierarchy)
    hierarchy.set_defaults(command=_asks("hierarchy"), goes_on=WAITING)


def _add_drain(commands: _Commands) -> None:
    drain = commands.add_parser(
        "drain",
        help="take a gateway out without losing a message",
        description="Send a gateway's clients elsewhere and wait until its neighbours have "
        "all its messages; then it ends. Needs the right to write (--psk-file).",
    )
    add_gateway(drain, timeout_s=60.0)
    add_at(drain)
    drain.set_defaults(command=_asks("drain"), goes_on="waiting for others to have all it holds")


def _add_passwd(commands: _Commands) -> None:
    passwd = commands.add_parser(
        "passwd",
        help="make or change a user's line of the password file",
        description="Read a password twice from the terminal, or once from standard input, and "
        "print the user's line or put it into the password file.",
    )
    passwd.add_argument("user", metavar="USER", help="as MQTT clients name themselves")
    passwd.add_argument(
        "--file", type=Path, metavar="FILE", help="the password file (default: print the line)"
    )
    passwd.add_argument("--delete", action="store_true", help="take the user out of the file")
    passwd.set_defaults(command=_passwd)


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="run a small fleet on this machine and show what it does",
        description="Start three gateways and a collector, publish real readings, kill the root, "
        "and count with Spark what arrived.",
    )
    demo.add_argument("--quick", action="store_true", help="publish for a shorter time")
    demo.add_argument("--json", type=Path, metavar="FILE", help="write the result to a file")
    demo.add_argument(
        "--report",
        type=Path,
        default=Path("demo-report"),
        metavar="DIR",
        help="folder for the report and the page (default demo-report)",
    )
    demo.set_defaults(command=_demo)


if __name__ == "__main__":
    sys.exit(main())
