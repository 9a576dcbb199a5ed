"""The whole tree as its gateways tell it: asked through one of them, drawn for a terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from gateway.base.printable import printable, printable_in
from gateway.coap.concurrent_requests import ASKED_AT_ONCE
from gateway.coap_client import ClientError, Response
from gateway.process.status.links_text import without_links
from light_dataclasses import dataclass

AskForStatus = Callable[[str], Awaitable[Response]]
"""Reads a path of the gateway that is asked."""
StatusDocument = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TreeView:
    """The statuses of a tree's gateways at about one time.

    Attributes:
        gateways: status by gateway id.
        silent: why a known gateway's is missing, by id.

    """

    gateways: Mapping[str, StatusDocument]
    silent: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return what ``hedgerow tree --json`` prints."""
        return {
            "roots": self._roots(),
            "gateways": {gateway_id: dict(told) for gateway_id, told in self.gateways.items()},
            "collectors": {at: sorted(self._collectors(at)) for at in sorted(self.gateways)},
            "silent": dict(self.silent),
        }

    def as_text(self) -> str:
        """Return the tree from its root down, what stands by, who did not answer, and what has no
        link."""
        lines: list[str] = []
        for root in self._roots():
            lines += self._branch(root, "", "")
        lines += self._standing_by()
        lines += [f"no answer: {who} ({why})" for who, why in sorted(self.silent.items())]
        for at, told in sorted(self.gateways.items()):
            lines += [f"{at}: {line}" for line in without_links(told)]
        return "\n".join(lines)

    def _roots(self) -> list[str]:
        """Return those without a parent that answered: one if all is well."""
        return sorted(i for i, told in self.gateways.items() if told["parent"] not in self.gateways)

    def _branch(self, at: str, first: str, rest: str) -> Iterator[str]:
        yield first + self._line(at)
        children = sorted(i for i, told in self.gateways.items() if told["parent"] == at)
        collectors = sorted(self._collectors(at).items())
        below = len(children) + len(collectors)
        for number, child in enumerate(children, 1):
            is_last = number == below
            yield from self._branch(
                child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")
            )
        for number, (_, line) in enumerate(collectors, len(children) + 1):
            yield rest + ("└─ " if number == below else "├─ ") + line

    def _collectors(self, at: str) -> dict[str, str]:
        """Return the lines of those below a gateway that are no members: they pass nothing on.

        A gateway that has just come, and whose record has not, has a capability above 0.
        """
        return {
            below["id"]: f"{below['id']}  collector{_link(below)}"
            for below in self.gateways[at]["neighbours"]
            if below["role"] == "designated"
            and below["capability"] == 0
            and below["id"] not in self.gateways
            and below["id"] not in self.silent
        }

    def _line(self, at: str) -> str:
        told = self.gateways[at]
        above = next((n for n in told["neighbours"] if n["id"] == told["parent"]), None)
        parts = [f"{told['domain'] or '-'}/{told['group'] or '-'}"]
        if above is None:
            parts.append("root" if told["root"] == at else f"parent {told['parent']} is silent")
        else:
            rtt = "?" if above["rtt_ms"] is None else f"{above['rtt_ms']:.1f}"
            parts.append(f"cost {told['cost_ms']} ms, rtt {rtt} ms")
            if not above["forwarding"]:
                parts.append("joining")
        clients = told["mqtt_clients"]
        parts.append("1 client" if clients == 1 else f"{clients} clients")
        queued = sum(n["queued_bytes"] for n in told["neighbours"])
        if queued:
            parts.append(f"{queued} bytes queued")
        if told.get("drain") is not None:
            parts.append("draining")
        return f"{at}  {', '.join(parts)}"

    def _standing_by(self) -> Iterator[str]:
        told_of: set[frozenset[str]] = set()
        for at, told in sorted(self.gateways.items()):
            for neighbour in told["neighbours"]:
                pair = frozenset((at, neighbour["id"]))
                if neighbour["role"] == "blocked" and pair not in told_of:
                    told_of.add(pair)
                    other = self.gateways.get(neighbour["id"], {"neighbours": ()})
                    if all(n["role"] == "blocked" for n in other["neighbours"] if n["id"] == at):
                        yield f"stands by: {at} - {neighbour['id']}"


def _link(neighbour: Mapping[str, Any]) -> str:
    rtt = "?" if neighbour["rtt_ms"] is None else f"{neighbour['rtt_ms']:.1f}"
    waits = neighbour["queued_bytes"] + neighbour.get("backlog_bytes", 0)
    return f", rtt {rtt} ms" + (f", {waits} bytes behind" if waits else "")


async def collect(ask: AskForStatus) -> TreeView:
    """Ask one gateway for its status, and through it all others it knows.

    Raises:
        ClientError: the first one does not answer.

    """
    first = _status(await ask("/status"))
    gateways: dict[str, StatusDocument] = {first["id"]: first}
    silent: dict[str, str] = {}
    turn = asyncio.Semaphore(ASKED_AT_ONCE)

    async def other(gateway_id: str, place: str) -> None:
        async with turn:
            try:
                gateways[gateway_id] = _status(await ask(f"/q/{place}/{gateway_id}/status"))
            except ClientError as error:
                silent[gateway_id] = str(error)

    await asyncio.gather(
        *(other(who, place) for who, place in first["places"].items() if who != first["id"])
    )
    return TreeView(gateways, silent)


def _status(answer: Response) -> StatusDocument:
    if not answer.ok:
        why = printable(answer.payload.decode(errors="replace"))
        raise ClientError(f"{answer.code} {why}".rstrip())
    try:
        told: StatusDocument = printable_in(json.loads(answer.payload))
    except (ValueError, RecursionError) as error:
        raise ClientError("its answer is no JSON that can be read") from error
    if not isinstance(told, dict) or not isinstance(told.get("id"), str):
        raise ClientError("its answer is no status")
    if not isinstance(told.get("places"), dict):
        raise ClientError(
            "tells its place on its own machine and to those with a key (coaps) alone"
        )
    return told
