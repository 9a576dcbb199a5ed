"""A table of what each option does on each way to a resource: it makes `docs/coap-options.md`.

Run as ``python tests/conformance/coap_options_table.py`` to write the page. `test_coap_options.py`
has a test of each cell, with every method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "coap-options.md"
WAYS = ("local", "/q", "proxy", "OSCORE", "$coap")
NO_MEANS = "–"
AS_BEFORE = "″"
INTRODUCTION = """\
# What each option of CoAP does

Made by `python tests/conformance/coap_options_table.py`; `tests/conformance/test_coap_options.py`
tries each cell with all methods (GET, FETCH, PUT, POST, PATCH, iPATCH, DELETE), and fails if the
engine knows an option that is not here. These are the options that a request may have. A critical
one (an odd number) that is not here, has a wrong length or stands too often is refused with 4.02;
an elective one is ignored (RFC 7252, section 5.4).

The ways: to a resource of the gateway that is asked (local), to one of another gateway by its long
path (`/q`) or with a gateway as proxy, inside of a request under OSCORE, and as a topic below
`$coap`. A gateway's own resources by their long path are as `/q`. ″ is the same as to its left, and
– what that way has no means to say.

ETSI's plugtests of CoAP (CORE, LINK, BLOCK and OBS) are gone through step by step, by their names,
in `tests/conformance/test_coap_plugtests.py`, and with a gateway as reverse proxy in
`test_coap_plugtests_proxy.py`.
"""


@dataclass(frozen=True)
class Row:
    """One option.

    Attributes:
        name: as the RFCs call it.
        methods: on which it has this effect; on others it has none.
        cells: what it does, by way.

    """

    name: str
    methods: str
    cells: Mapping[str, str]


def _row(name: str, methods: str, *cells: str) -> Row:
    """A row of a cell for each way, or of one for all."""
    return Row(name, methods, dict(zip(WAYS, cells * 5 if len(cells) == 1 else cells, strict=True)))


def _sent(name: str, methods: str, cell: str, inside: str = "") -> Row:
    """A row of what is in datagrams, and not in topics."""
    return _row(name, methods, cell, cell, cell, inside or cell, NO_MEANS)


_INSIDE = "4.02"

ROWS: Mapping[int, Row] = {
    1: _row("If-Match", "all", "4.12 if the resource has none of these ETags, judged where it is"),
    3: _row(
        "Uri-Host",
        "all",
        "names another gateway, which is asked; else no effect",
        "no effect; 4.00 if it names another gateway",
        "the gateway that is asked; 5.05 if none",
        _INSIDE,
        "the gateway in the topic; 4.04 if there is none",
    ),
    4: _row("ETag", "GET, FETCH", "2.03 if that is what would be told"),
    5: _row("If-None-Match", "all", "4.12 if the resource exists, judged where it is"),
    6: _row(
        "Observe",
        "GET, FETCH",
        "changes are told",
        "changes are told",
        "changes are told",
        "changes are told",
        "changes are told, as a subscription to `$coap/observe/...` (GET)",
    ),
    7: _row(
        "Uri-Port",
        "all",
        "no effect",
        "no effect",
        "5.05 if the gateway has another port",
        _INSIDE,
        NO_MEANS,
    ),
    9: _row(
        "OSCORE",
        "all",
        "the request is inside; 4.01 if nobody knows the key",
        "the request is inside, and the path with it",
        "5.05",
        _INSIDE,
        NO_MEANS,
    ),
    11: _row("Uri-Path", "all", "names the resource; 4.04 if there is none"),
    12: _row("Content-Format", "those with a body", "4.15 if the resource does not take it"),
    15: _row("Uri-Query", "all", "comes to the resource"),
    16: _row(
        "Hop-Limit",
        "all",
        "4.00 if it is 0, else no effect",
        "4.00 if it is 0; 5.08 if too low",
        "4.00 if it is 0; 5.08 if too low",
        "no effect",
        NO_MEANS,
    ),
    17: _row("Accept", "GET, FETCH", "the format of the answer; 4.06 if there is none such"),
    23: _sent("Block2", "GET, FETCH", "the block of the answer that is told"),
    27: _sent("Block1", "those with a body", "the body is put together; 4.08 if one is missing"),
    28: _sent("Size2", "GET, FETCH", "the block that is asked for says how long the whole is"),
    35: _row(
        "Proxy-Uri",
        "all",
        "the gateway that it names is asked; 5.05 if it is none",
        "4.02, for it has a path itself",
        "4.02, for it has a host itself",
        _INSIDE,
        NO_MEANS,
    ),
    39: _row(
        "Proxy-Scheme",
        "all",
        "no effect if it is coap or coaps, else 5.05",
        "no effect if it is coap or coaps, else 5.05",
        "5.05 if it is not coap or coaps",
        _INSIDE,
        NO_MEANS,
    ),
    60: _sent("Size1", "those with a body", "4.13 before the body comes, if it is too long"),
    252: _sent(
        "Echo",
        "all but GET and FETCH",
        "shows that a stranger's request is new; 4.01 with one to repeat if it is missing or wrong",
        "shows, after a start of the gateway, that the first request is new (all methods)",
    ),
    258: _sent(
        "No-Response",
        "all",
        "the classes of answers that are not sent",
    ),
    292: _sent("Request-Tag", "those with a body", "tells apart bodies that come at the same time"),
    65_001: _sent(
        "Request-Id",
        "all but GET and FETCH (4.02)",
        "the request is carried out once, however often it is asked ([queries](queries.md))",
    ),
}
"""By number."""


def page() -> str:
    """The page, as it is to be."""
    lines = [INTRODUCTION, f"| Option | Methods | {' | '.join(_code(way) for way in WAYS)} |"]
    lines.append(f"|{' --- |' * (2 + len(WAYS))}")
    for number, row in ROWS.items():
        kind = "critical" if number & 1 else "elective"
        cells = " | ".join(_each(row))
        lines.append(f"| {row.name} ({number}, {kind}) | {row.methods} | {cells} |")
    return "\n".join(lines) + "\n"


def _each(row: Row) -> Iterator[str]:
    before = ""
    for way in WAYS:
        cell = row.cells[way]
        yield AS_BEFORE if cell == before and cell != NO_MEANS else cell
        before = cell


def _code(way: str) -> str:
    return way if way.isalpha() else f"`{way}`"


if __name__ == "__main__":
    PAGE.write_text(page())
