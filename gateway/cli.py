"""The `hedgerow` command.

Exit codes: 0 done; 1 it did not work out (no answer, a violated invariant, a lost message); 2 a
wrong argument or configuration, or an output that takes nothing, in one line that names it; 130
after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, TypeAlias

from gateway import build
from gateway.commands import output
from gateway.commands.errors import FailedError, WrongUseError

EXIT_FAILED = 1
EXIT_WRONG_USE = 2

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        with output.arriving():
            options = _parser().parse_args(arguments)
            command: Command = options.command
            return command(options)
    except WrongUseError as error:
        output.complain(f"hedgerow: {error}")
        return EXIT_WRONG_USE
    except FailedError as error:
        output.complain(f"hedgerow: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130


# -- run -------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    from gateway import config, event_loop, service  # noqa: PLC0415  # `hedgerow get` needs no broker

    logging.basicConfig(
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    # These report every connection, packet and refused request; our own lines say what matters.
    for noisy in ("amqtt", "transitions", "websockets", "coap-server"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    try:
        read = partial(config.load, options.config, config.GatewaySettings)
        event_loop.run(service.serve(read(), read))
    except (config.ConfigError, event_loop.EventLoopError) as error:
        raise WrongUseError(str(error)) from error
    return 0


# -- get, status, tree, drain ----------------------------------------------------------------------


def _asks(name: str) -> Command:
    def command(options: argparse.Namespace) -> int:
        from gateway.commands import asking  # noqa: PLC0415  # `hedgerow run` asks nobody

        asks: Command = getattr(asking, name)
        return asks(options)

    return command


# -- passwd ----------------------------------------------------------------------------------------


def _passwd(options: argparse.Namespace) -> int:
    from gateway.commands import passwd  # noqa: PLC0415  # argon2 is of use here alone

    return passwd.run(options)


# -- demo, simulate --------------------------------------------------------------------------------


def _demo(options: argparse.Namespace) -> int:
    from gateway.demo import story  # noqa: PLC0415
    from gateway.demo.fleet import FleetError  # noqa: PLC0415

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
    return 0 if result.kept_its_promises else EXIT_FAILED


def _simulate(options: argparse.Namespace) -> int:
    from gateway import simulate  # noqa: PLC0415

    held = True
    if options.exhaustive is not None:
        held = simulate.explore(options.exhaustive, options.states, as_json=options.json)
    elif options.growth is not None:
        simulate.grow(options.growth, options.seed, as_json=options.json)
    elif options.timing:
        simulate.time_faults(options.runs, options.seed, as_json=options.json)
    else:
        fewest, most = options.gateways, options.gateways_to or options.gateways
        if most < fewest:
            raise WrongUseError(f"--gateways-to: {most} is fewer than {fewest}")
        held = simulate.draw(
            options.runs,
            fewest,
            most,
            options.seed,
            subject=options.subject,
            as_json=options.json,
        )
    return 0 if held else EXIT_FAILED


# -- arguments -------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, where argparse would print its usage as well."""
        self.exit(EXIT_WRONG_USE, f"{self.prog}: {message} (see {self.prog} --help)\n")


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hedgerow",
        description="An edge gateway for fleets of Raspberry Pis: MQTT, CoAP over DTLS, and a "
        "tree of brokers that heals itself.",
        epilog="Exit codes: 0 done, 1 it did not work out, 2 a wrong argument or configuration, or "
        "an output that takes nothing.",
    )
    version_line = f"hedgerow {version('hedgerow')} ({build.running()})"
    parser.add_argument("--version", action="version", version=version_line)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    adders = (_add_run, _add_status, _add_tree, _add_drain, _add_get, _add_passwd, _add_demo)
    for add in (*adders, _add_simulate):
        add(commands)
    return parser


def _add_run(commands: _Commands) -> None:
    run = commands.add_parser(
        "run", help="run a gateway", description="Run a gateway until SIGTERM or SIGINT."
    )
    run.add_argument("--config", type=Path, required=True, metavar="FILE", help="TOML file")
    run.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning"], help="default: info"
    )
    run.set_defaults(command=_run)


def _add_status(commands: _Commands) -> None:
    status = commands.add_parser(
        "status",
        help="show a gateway's neighbours, roles and counters",
        description="Show what a running gateway says of itself and its neighbours.",
    )
    _add_gateway(status)
    status.set_defaults(command=_asks("status"))


def _add_tree(commands: _Commands) -> None:
    tree = commands.add_parser(
        "tree",
        help="show the whole tree from its root down",
        description="Ask a running gateway, and through it all others it knows, and draw the "
        "tree: parents and children, the links that stand by, and who does not answer.",
    )
    _add_gateway(tree)
    tree.set_defaults(command=_asks("tree"))


def _add_drain(commands: _Commands) -> None:
    drain = commands.add_parser(
        "drain",
        help="take a gateway out without losing a message",
        description="Send a gateway's clients elsewhere and wait until its neighbours have "
        "all its messages; then it ends. Needs the right to write (--psk-file).",
    )
    _add_gateway(drain, timeout_s=60.0)
    drain.set_defaults(command=_asks("drain"))


def _add_get(commands: _Commands) -> None:
    get = commands.add_parser(
        "get",
        help="read a resource over CoAP",
        description="Read a resource: a gateway's own (/sensors/...) or, through it, another "
        "one's (/q/DOMAIN/GROUP/GATEWAY/sensors/..., with - for no domain or group).",
    )
    get.add_argument("uri", metavar="URI", help="coap://HOST[:PORT]/PATH or coaps://...")
    _add_client_options(get)
    get.set_defaults(command=_asks("get"))


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
        help="where to leave the report and the page (default demo-report)",
    )
    demo.set_defaults(command=_demo)


def _add_simulate(commands: _Commands) -> None:
    simulate = commands.add_parser(
        "simulate",
        help="run gateways in a simulated network and check their invariants",
        description="Drive the production cores in virtual time through crashes and cuts. A "
        "violated invariant is printed with the command that replays it, and exits with 1.",
    )
    simulate.add_argument("--runs", type=_at_least(1), default=100, metavar="N")
    simulate.add_argument(
        "--gateways", type=_at_least(2), default=8, metavar="N", help="in each network: 2 or more"
    )
    simulate.add_argument(
        "--gateways-to",
        type=_at_least(2),
        metavar="N",
        help="draw the size of each network between --gateways and this",
    )
    simulate.add_argument("--seed", type=int, default=1, metavar="N", help="of the first run")
    simulate.add_argument(
        "--subject",
        default="tree",
        choices=["tree", "routed", "topic", "overlays", "retained"],
        help="the tree with what it floods (default), routed or topic mode, topic overlays alone, "
        "retained messages",
    )
    instead = simulate.add_mutually_exclusive_group()
    instead.add_argument(
        "--exhaustive",
        type=int,
        choices=[2, 3, 4],
        metavar="N",
        help="all orders of events of networks of N gateways instead (2 to 4)",
    )
    instead.add_argument(
        "--growth",
        type=_at_least(10),
        nargs="?",
        const=1000,
        metavar="N",
        help="a table of networks of 10 to N gateways instead (default 1000)",
    )
    instead.add_argument(
        "--timing", action="store_true", help="how fast five in full mesh mend themselves instead"
    )
    simulate.add_argument(
        "--states",
        type=_at_least(1),
        default=10**9,
        metavar="N",
        help="stop an exhaustive search at so many",
    )
    simulate.add_argument("--json", action="store_true", help="for scripts")
    simulate.set_defaults(command=_simulate)


def _add_gateway(command: argparse.ArgumentParser, *, timeout_s: float = 10.0) -> None:
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "gateway",
        nargs="?",
        metavar="HOST[:PORT]",
        help="its CoAP address (default: this machine's)",
    )
    which.add_argument("--config", type=Path, metavar="FILE", help="the gateway's TOML file")
    _add_client_options(command, timeout_s)


def _add_client_options(command: argparse.ArgumentParser, timeout_s: float = 10.0) -> None:
    command.add_argument(
        "--psk-file", type=Path, metavar="FILE", help="IDENTITY:HEXKEY lines, for coaps"
    )
    command.add_argument(
        "--psk-identity", metavar="ID", help="which identity of the file (default: the first)"
    )
    command.add_argument(
        "--timeout",
        type=_seconds,
        default=timeout_s,
        metavar="S",
        help=f"how long to wait, in seconds (default: {timeout_s:g})",
    )
    command.add_argument("--json", action="store_true", help="for scripts")


def _at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        try:
            number = int(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from error
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} is not {least} or more")
        return number

    return whole


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time in seconds")
    return number


if __name__ == "__main__":
    sys.exit(main())
