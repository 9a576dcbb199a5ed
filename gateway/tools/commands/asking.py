"""Commands that ask running gateways over CoAP: status, tree, clients, rd and others."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from dtls import keystore
from dtls.datagrams import join_host_port
from dtls.errors import KeystoreError
from gateway import coap_client as client
from gateway.base.near_words import near
from gateway.base.printable import printable, printable_in
from gateway.coap_client import CoapClient, Response
from gateway.process.configuration import place as config_place
from gateway.tools.commands import draining
from gateway.tools.commands.errors import FailedError, WrongUseError, reading_an_answer
from gateway.tools.commands.output import complain, print_json
from gateway.tools.commands.own_gateway import OwnGateway, with_own_key
from gateway.tools.commands.resource_names import QUERY
from resource_directory.link_format import LinkFormatError, WebLink, parse

POLL_S = 0.3
"""The interval between questions to a drain how far it is."""
LOOK_S = 5.0
"""The last look has so long for its answer, which says what is left to do."""

_JSON = 50
"""The content format application/json (RFC 7252, section 12.3)."""

_UNAUTHORIZED = "4.01"
NEEDS = {
    _UNAUTHORIZED: ": --psk-file names a file with one",
    "4.03": ": `hedgerow policy explain` says who may; --psk-identity takes another key",
}
"""The remedy for a refusal, by its code."""
_CLEAR = "\x1b[H\x1b[2J"
"""Empties a terminal (ECMA-48: CUP and ED)."""

T = TypeVar("T")


def status(options: argparse.Namespace) -> int:
    """Show what a gateway says of itself."""
    find_way(options)
    from gateway.process.status.text import as_text  # noqa: PLC0415  # `hedgerow get` shows no table

    async def ask() -> dict[str, Any]:
        return told_in(await ask_once(options, "GET", gateway_uri(options) + "/status"))

    return show(options, ask, as_text, lambda told: told)


def tree(options: argparse.Namespace) -> int:
    """Show the whole tree, as its gateways tell it."""
    from gateway.process.status.tree_view import TreeView, collect  # noqa: PLC0415

    async def ask_all() -> TreeView:
        uri = gateway_uri(options)
        async with client_for(options, uri) as asker:

            async def one(path: str) -> Response:
                return await asker.request("GET", uri + path, timeout_s=options.timeout)

            return await collect(one)

    return show(options, ask_all, TreeView.as_text, TreeView.as_json)


def hierarchy(options: argparse.Namespace) -> int:
    """Show who heads what, as one gateway sees it."""
    find_way(options)
    from gateway.process.status.hierarchy_view import DrawnHierarchy  # noqa: PLC0415

    async def ask() -> dict[str, Any]:
        return told_in(await ask_once(options, "GET", gateway_uri(options) + "/hierarchy"))

    return show(options, ask, lambda told: DrawnHierarchy(told).as_text(), lambda told: told)


def rd(options: argparse.Namespace) -> int:
    """Look into a gateway's Resource Directory, or take an endpoint out of it."""
    from gateway.tools.commands import directory as form  # noqa: PLC0415  # as above

    query = form.query(options.criteria)
    is_removal = options.action == "remove"
    if is_removal and not query:
        raise WrongUseError("remove: which endpoint, as in ep=meter-7, is needed")
    find_way(options, writes=is_removal)
    if options.action == "watch":
        return _watch_endpoints(options, query)
    if is_removal:
        return _remove_endpoint(options, query)
    is_list = options.action == "list"
    found = run(_links(options, "ep" if is_list else "res", query), options)
    if options.json:
        print_json([form.as_json(link) for link in found])
    else:
        table = form.endpoints_table if is_list else form.resources_table
        sys.stdout.write(table(found) + "\n")
    return 0


def _watch_endpoints(options: argparse.Namespace, query: str) -> int:
    from gateway.tools.commands import directory as form  # noqa: PLC0415

    before: dict[str, WebLink] = {}
    while True:
        try:
            found = run(_links(options, "ep", query), options)
        except FailedError as error:
            complain(f"hedgerow: {error}")
        else:
            now = {link.href: link for link in found}
            for sign, link in form.differences(before, now):
                told = json.dumps({"change": sign, **form.as_json(link)})
                sys.stdout.write((told if options.json else form.line(sign, link)) + "\n")
            sys.stdout.flush()
            before = now
        time.sleep(options.every)


def _remove_endpoint(options: argparse.Namespace, query: str) -> int:
    async def remove() -> WebLink:
        found = await _links(options, "ep", query)
        if len(found) != 1:
            raise FailedError(f"{' '.join(options.criteria)}: {len(found)} endpoints, not one")
        uri = gateway_uri(options) + found[0].href
        answer = await ask_once(options, "DELETE", uri)
        if answer.code == _UNAUTHORIZED:
            raise FailedError(f"{uri}: {answer.code} removing needs --psk-file")
        good(answer)
        return found[0]

    removed = run(remove(), options)
    if options.json:
        print_json({"removed": removed.href, "ep": removed.get("ep")})
    else:
        sys.stdout.write(f"{printable(removed.get('ep') or '')} is removed\n")
    return 0


async def _links(options: argparse.Namespace, kind: str, query: str) -> list[WebLink]:
    """Return all links of a look-up, page by page."""
    from gateway.tools.commands.directory import PAGE_LINKS  # noqa: PLC0415

    uri, found = f"{gateway_uri(options)}/rd-lookup/{kind}", list[WebLink]()
    async with client_for(options, uri) as asker:
        while True:
            page = f"{uri}?count={PAGE_LINKS}&page={len(found) // PAGE_LINKS}&{query}".rstrip("&")
            answer = await asker.request("GET", page, timeout_s=options.timeout)
            try:
                links = parse(good(answer))
            except LinkFormatError as error:
                raise FailedError(f"{uri}: {error}") from error
            found += links
            if len(links) < PAGE_LINKS:
                return found


@reading_an_answer()
def sensors(options: argparse.Namespace) -> int:
    """List a gateway's sensors, add one, change one, or remove one."""
    from gateway.tools.commands import sensors as form  # noqa: PLC0415  # as above

    find_way(options, writes=options.action != "list")
    uri = f"{gateway_uri(options)}/sensors"
    if options.action == "list":
        answer = run(ask_once(options, "GET", uri, accept=_JSON), options)
        told = json_in(answer)["sensors"]
        if options.json:
            print_json(told)
        else:
            sys.stdout.write(form.as_table(told) + "\n")
        return 0
    if options.action in ("add", "change"):
        query = ""
        if options.action == "add":
            table = form.table(options.what)
        else:
            name, pairs = form.named(options.what, "change")
            query, table = f"?change={quote(name, safe='/')}", form.changes(pairs)
        body = json.dumps(table).encode()
        asking = ask_once(options, "POST", uri + query, payload=body, content_format=_JSON)
    else:
        asking = ask_once(options, "DELETE", gateway_uri(options) + form.path(options.what))
    answer = run(asking, options)
    if (why := form.WHY.get(answer.code)) is not None:
        raise FailedError(f"{uri}: {answer.code} {why}")
    names = json_in(answer)["names"]
    if options.json:
        print_json({"names": names})
    else:
        done = {"add": "added", "change": "changed", "remove": "removed"}[options.action]
        sys.stdout.write("".join(f"{printable(name)} is {done}\n" for name in names))
    return 0


@reading_an_answer()
def drain(options: argparse.Namespace) -> int:
    """Take a gateway out, and wait until nothing is there alone."""
    find_way(options, writes=True)

    async def ask_and_wait() -> dict[str, Any]:
        uri = gateway_uri(options)
        deadline_s = asyncio.get_running_loop().time() + options.timeout
        async with client_for(options, uri) as asker:
            good(await asker.request("POST", f"{uri}/drain", timeout_s=options.timeout))
            while True:
                left_s = deadline_s - asyncio.get_running_loop().time()
                answer = await asker.request("GET", f"{uri}/status", timeout_s=max(LOOK_S, left_s))
                told = told_in(answer)
                if told["drain"]["is_over"] or left_s < POLL_S:
                    return told
                await asyncio.sleep(POLL_S)

    told = run(ask_and_wait(), options)
    if options.json:
        print_json({"id": told["id"], **told["drain"]})
    if not told["drain"]["is_over"]:
        raise FailedError(f"{told['id']} is not drained: {draining.what_is_left(told)}")
    if not options.json:
        neighbours = ", ".join(sorted(told["drain"]["lacking"]))
        kept = "".join(f"; {what} stay on its disk" for what in draining.what_stays(told["drain"]))
        sys.stdout.write(f"{told['id']} is drained: all it had is at {neighbours}{kept}\n")
    return 0


# -- showing ---------------------------------------------------------------------------------------


def show(
    options: argparse.Namespace,
    ask: Callable[[], Coroutine[Any, Any, T]],
    as_text: Callable[[T], str],
    as_json: Callable[[T], Any],
) -> int:
    """Print what is told: once, or with ``--watch`` until Ctrl-C, whatever goes wrong meanwhile."""

    @reading_an_answer()
    def found() -> str:
        told = run(ask(), options)
        if not options.json:
            return as_text(told)
        return json.dumps(as_json(told), indent=1 if options.watch is None else None)

    if options.watch is None:
        sys.stdout.write(found() + "\n")
        return 0
    while True:
        try:
            text = found()
        except FailedError as error:
            text = json.dumps({"error": str(error)}) if options.json else str(error)
        sys.stdout.write(_CLEAR * (sys.stdout.isatty() and not options.json) + text + "\n")
        sys.stdout.flush()
        time.sleep(options.watch)


# -- asking ----------------------------------------------------------------------------------------


def run(asking: Coroutine[Any, Any, T], options: argparse.Namespace) -> T:
    """Have it done, with errors that commands end with."""
    try:
        return asyncio.run(asking)
    except client.BadUriError as error:
        raise WrongUseError(str(error)) from error
    except client.ClientError as error:
        raise FailedError(str(error)) from error


async def ask_once(options: argparse.Namespace, method: str, uri: str, **more: Any) -> Response:
    """Ask a gateway one thing, by a client of its own."""
    async with client_for(options, uri) as asker:
        return await asker.request(method, uri, timeout_s=options.timeout, **more)


def client_for(options: argparse.Namespace, uri: str) -> CoapClient:
    """Return a client with the key that the options name."""
    if options.psk_file is None:
        if uri.startswith("coaps:"):
            raise WrongUseError(f"--psk-file: needed for {uri}")
        return CoapClient()
    try:
        keys = keystore.load(options.psk_file)
    except KeystoreError as error:
        raise WrongUseError(f"--psk-file: {error}") from error
    identity = options.psk_identity or next(iter(keys.identities()), None)
    key = keys.key_of(identity.encode()) if identity else None
    if key is None:
        raise WrongUseError(f"--psk-identity: {identity!r} is not in {options.psk_file}")
    return CoapClient(psk_identity=identity, psk_key=key)


def good(answer: Response) -> bytes:
    """Return the payload of an answer that is no error."""
    if not answer.ok:
        why = printable(answer.payload.decode(errors="replace"))
        raise FailedError(f"{answer.code} {why}".rstrip() + NEEDS.get(answer.code, ""))
    return answer.payload


def told_in(answer: Response) -> dict[str, Any]:
    """Return what a gateway told as JSON, in which texts may be other machines' words."""
    told: dict[str, Any] = printable_in(json_in(answer))
    return told


def json_in(answer: Response) -> Any:
    """Return what a gateway told as JSON.

    Raises:
        FailedError: the answer is an error, or no JSON.

    """
    try:
        return json.loads(good(answer))
    except (ValueError, RecursionError) as error:
        raise FailedError("its answer is no JSON that can be read: is that a gateway?") from error


@reading_an_answer()
def find_way(options: argparse.Namespace, *, writes: bool = False) -> None:
    """Find the gateway that ``--at`` names, where it does: behind the one that is asked.

    What changes something, or asks another gateway, takes the key of this machine's gateway, if
    none is given: to be on its machine counts at no other one.

    Args:
        options: of the command.
        writes: whether it changes something.

    Raises:
        FailedError: no gateway of the fleet has this id.

    """
    if writes or options.at is not None:
        with_own_key(options)
    if options.at is None:
        return
    told = told_in(run(ask_once(options, "GET", gateway_uri(options) + "/status"), options))
    places = told.get("places")
    if not isinstance(places, dict):
        raise FailedError(f"--at: {told.get('id')} does not tell whom it knows without --psk-file")
    if options.at not in places:
        right = near(options.at, places)
        hint = f"did you mean {right}?" if right else "`hedgerow members` lists them"
        raise FailedError(f"--at: {told['id']} knows no gateway {options.at!r}, {hint}")
    if options.at != told["id"]:
        options.way = f"{QUERY}{places[options.at]}/{options.at}"


def gateway_uri(options: argparse.Namespace) -> str:
    """Return the URI of the gateway that is meant; over DTLS where a key is given."""
    return _asked_uri(options) + str(options.way)


def _asked_uri(options: argparse.Namespace) -> str:
    scheme = "coap" if options.psk_file is None else "coaps"
    config: Path | None = options.config
    if options.gateway is None and config is None:
        config = config_place.find_readable()
    if config is None:
        address: str = options.gateway or ("127.0.0.1" if scheme == "coaps" else "127.0.0.1:5683")
        return address.rstrip("/") if "://" in address else f"{scheme}://{address}"
    return f"{scheme}://{_listener(config, scheme)}"


def _listener(file: Path, scheme: str) -> str:
    own = OwnGateway.of(file)
    near = own.near(scheme)
    if near is None:
        hint = ", and over coaps this needs --psk-file" if scheme == "coap" else ""
        raise FailedError(f"{own.id} has no {scheme} listener{hint}")
    return join_host_port(*near)
