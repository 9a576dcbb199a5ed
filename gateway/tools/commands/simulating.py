"""The arguments of `hedgerow simulate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from gateway.base import build, exit_codes
from gateway.tools.commands.errors import WrongUseError


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command's parser.

    Args:
        commands: of the whole command line.

    """
    simulate = commands.add_parser(
        "simulate",
        help="run gateways in a simulated network and check their invariants",
        description="Drive the production cores in virtual time through crashes and cuts. A "
        "violated invariant is printed with the command that replays it, and exits with 1.",
    )
    simulate.add_argument(
        "--runs", type=_at_least(1), default=100, metavar="N", help="number of networks"
    )
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
    _add_subject(simulate)
    simulate.add_argument(
        "--years",
        type=_at_least(1),
        default=1,
        metavar="N",
        help="years that each run of --subject years lasts (default 1)",
    )
    _add_instead(simulate)
    simulate.add_argument(
        "--states",
        type=_at_least(1),
        default=10**9,
        metavar="N",
        help="stop an exhaustive search at so many",
    )
    simulate.add_argument("--json", action="store_true", help="for scripts")
    simulate.set_defaults(command=_run)


def _add_subject(simulate: argparse.ArgumentParser) -> None:
    subject = simulate.add_mutually_exclusive_group()
    subject.add_argument(
        "--subject",
        default="tree",
        choices=[
            *("tree", "routed", "topic", "overlays", "retained", "shared"),
            *("liar", "retained-liar", "directory", "years"),
        ],
        help="the tree with what it floods (default), routed or topic mode, topic overlays alone, "
        "retained messages, shared subscriptions, a tree in which one gateway lies (or one about "
        "what is retained), directories and requests of a fleet (with --growth: what look-ups "
        "cost), years of a fleet in hours",
    )
    subject.add_argument(
        "--liar",
        dest="subject",
        action="store_const",
        const="liar",
        help="one gateway lies about the others, and forges their messages: --subject liar",
    )


def _add_instead(simulate: argparse.ArgumentParser) -> None:
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
        "--timing",
        action="store_true",
        help="measure how fast five in full mesh mend themselves instead",
    )


def _run(options: argparse.Namespace) -> int:
    from gateway.tools.commands import simulate  # noqa: PLC0415  # it loads all that can be simulated

    held = True
    if options.exhaustive is not None:
        if build.running() == "compiled":  # it stores trees, which mypyc's objects are not made for
            raise WrongUseError("--exhaustive: not with the compiled build; run it interpreted")
        held = simulate.explore(options.exhaustive, options.states, as_json=options.json)
    elif options.growth is not None:
        grow = simulate.grow_directories if options.subject == "directory" else simulate.grow
        grow(options.growth, options.seed, as_json=options.json)
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
            years=options.years,
            as_json=options.json,
        )
    return 0 if held else exit_codes.FAILED


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
