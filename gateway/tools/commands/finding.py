"""`hedgerow discover`: find resources in the directories of all gateways."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

from gateway.base.columns import columns
from gateway.base.printable import printable
from gateway.coap.fleet_directory.partial import MissingGateways
from gateway.tools.commands import asking, directory
from gateway.tools.commands.errors import FailedError
from gateway.tools.commands.output import print_json
from gateway.tools.commands.resource_names import name_of
from gateway.tools.commands.resources import run, told
from resource_directory.link_format import LinkFormatError, WebLink, parse
from resource_directory.service import RESOURCES

_COLUMNS = ("name", "type", "unit", "gateway", "")


def discover(options: argparse.Namespace) -> int:
    """Find resources in the directories of all gateways."""
    found, missing = run(_found(options))
    if options.json:
        print_json(found_document(found, missing))
    else:
        sys.stdout.write(found_table(found, missing) + "\n")
    return 0


async def _found(options: argparse.Namespace) -> tuple[list[WebLink], MissingGateways]:
    found, missing = list[WebLink](), MissingGateways()
    async for links, without in pages(options):
        found += links
        missing = missing.joined(without)
    return found, missing


async def pages(
    options: argparse.Namespace,
) -> AsyncIterator[tuple[list[WebLink], MissingGateways]]:
    """Find resources, and yield them as they come, with what is not known beside them.

    Args:
        options: of `hedgerow discover`.

    Raises:
        WrongUseError, FailedError, ClientError: as `asking` and `CoapClient` do.

    """
    places = {"rt": options.rt, "d": options.domain, "gp": options.group, "gw": options.at}
    criteria = [*options.criteria, *(f"{k}={v}" for k, v in places.items() if v is not None)]
    query = directory.query(criteria)
    uri = f"{asking.gateway_uri(options)}/{'/'.join(RESOURCES)}"
    page = 0
    async with asking.client_for(options, uri) as asker:
        while True:
            part = f"count={directory.PAGE_LINKS}&page={page}"
            asked = f"{uri}?scope={options.scope}&{part}&{query}".rstrip("&")
            answer = await asker.request("GET", asked, timeout_s=options.timeout)
            told(uri, answer)
            try:
                links = parse(answer.payload)
            except LinkFormatError as error:
                raise FailedError(f"{uri}: {error}") from error
            missing = MissingGateways.taken_out(RESOURCES, links)
            is_last = len(links) < directory.PAGE_LINKS
            yield links, missing
            if is_last:
                return
            page += 1


def found_table(links: Sequence[WebLink], missing: MissingGateways) -> str:
    """Return lines for a terminal, one for each resource, and below them what is not known."""
    rows = [
        (
            printable(name_of(link.href, link.get("gw"))),
            *(printable(link.get(name) or "-") for name in ("rt", "unit", "gw")),
            f"as of {link.get('stale')} s ago" if link.get("stale") else "",
        )
        for link in links
    ]
    lines = [*columns([_COLUMNS, *rows]), f"{len(rows)} found"]
    if missing.count:
        some = printable(", ".join(missing.named))
        more = ", ..." if missing.count > len(missing.named) else ""
        plural = "s" if missing.count > 1 else ""
        lines.append(
            f"not whole: nothing is known of {missing.count} gateway{plural}: {some}{more}"
        )
    return "\n".join(lines)


def found_document(links: Sequence[WebLink], missing: MissingGateways) -> dict[str, Any]:
    """Return what was found, for scripts."""
    return {
        "resources": [
            {"name": name_of(link.href, link.get("gw")), **directory.as_json(link)}
            for link in links
        ],
        "missing": {"count": missing.count, "gateways": list(missing.named)},
    }
