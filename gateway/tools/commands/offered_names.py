"""The names that a shell offers: of sensors, and of gateways, asked from this machine's gateway."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
from collections.abc import Iterable
from typing import Final

from gateway.tools.commands import finding, resources
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.resource_names import name_of
from resource_directory.link_format import WebLink

LIMIT_S: Final = 1.0
"""The longest that a user waits for the shell, beside the start of Python."""
_PLAIN = re.compile(r"[A-Za-z0-9_.~/@+,-]+")
"""Text that a shell takes for a word, and for nothing else.

Names are words of other machines: one that a shell would run, or take for more than one word, is
not offered.
"""


def ask(kind: str, options: argparse.Namespace) -> list[str]:
    """Return the names in the order of the alphabet; none where no gateway answers.

    What came within `LIMIT_S` is returned, of a large fleet a part.

    Args:
        kind: a value of `completion.NAMES`.
        options: of `hedgerow discover`.

    """
    found = set[str]()

    async def collect() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIMIT_S):
                async for links, _ in finding.pages(options):
                    found.update(plain(kind, links))

    with contextlib.suppress(FailedError, WrongUseError):
        resources.run(collect())
    return sorted(found)


def plain(kind: str, links: Iterable[WebLink]) -> set[str]:
    """Return the names that a shell may be given.

    Args:
        kind: a value of `completion.NAMES`.
        links: what was found.

    """
    if kind == "gateways":
        names = {link.get("gw") or "" for link in links}
    else:
        names = {name_of(link.href, link.get("gw")) for link in links}
    return {name for name in names if _PLAIN.fullmatch(name) and name[0] not in "-~"}
