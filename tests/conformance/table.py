"""A table of the tests that cover each normative statement: it makes `docs/conformance.md`.

Run as ``python tests/conformance/table.py`` to write the table. The markers are read from the
tests' source, so that nothing has to run.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "conformance.md"
BOTH = "test_mqtt_*.py"
"""Tests of what both versions ask; a marker of theirs that names a version is of that one."""
VERSIONS = {
    "3.1.1": ("statements_3_1_1.txt", "test_mqtt311_*.py"),
    "5.0": ("statements_5_0.txt", "test_mqtt5_*.py"),
}
INTRODUCTION = """\
# MQTT conformance

Made by `python tests/conformance/table.py` from the tests' markers; a test fails if it is out of
date. Each normative statement of the standards that binds a server has a row: its number, what it
asks in short (the standards hold the wording), and the tests that cover it. The tests speak to the
broker over sockets with a client of their own:

<!-- not run: these are tests themselves -->
```sh
pytest tests/conformance                                # this project's gateway
pytest tests/conformance --broker=127.0.0.1:1883        # any other broker that takes everybody
pytest tests/conformance --broker=127.0.0.1:1883 --broker-name=mosquitto-2.0
pytest tests/conformance --broker=127.0.0.1:1883 --websocket=127.0.0.1:9001
```

The third expects what that broker is known to do otherwise; see the end.

A silent end is no refusal in 5.0: where section 4.13 says that a server should name a reason, a
DISCONNECT with one that the standard gives must come first. A refused CONNECT is answered by a
CONNACK; another broker may leave that out, as the standard lets it.

## Pointing a public suite at a gateway

Suites such as Eclipse Paho's interoperability tests bring client identifiers and topics of their
own, want everybody let in, and one topic that nobody may subscribe to. This is all they need;
`hedgerow run --config gateway.toml` starts it:

<!-- run with: files -->
```toml
# gateway.toml
[gateway]
id = "gw"
state_dir = "state"

[mqtt]
host = "127.0.0.1"
port = 1883

[coap]
port = 0

[tree]
key_file = "tree.key"                   # made by: umask 077; openssl rand -hex 32 > tree.key
discovery = false

[access]
anonymous = true
policy_file = "access.toml"
```

```toml
# access.toml
[default]
publish = ["#"]
subscribe = ["#", "$SYS/#"]
conceal = ["nosubscribe", "test/nosubscribe"]
```

What such suites ask for, and the standards leave to a server: a 5.0 client that asks for a keep
alive of more than 60 s is told 60; topic aliases are taken and given; one message comes for
overlapping subscriptions, with all their identifiers; messages of QoS 0 do not wait for a client
that is away; a refused subscription is answered 0x80; a message to a topic that begins with `$`
is acknowledged and dropped, in 5.0 with reason 0x87. A suite can be run again without a restart.

## Malformed input

`tests/conformance/test_malformed_input.py` is a table of broken packets: each must end its own
connection, with a reason in 5.0, and nobody else's. `make soak` fuzzes the packet parser and a
whole connection, guided by coverage (x86_64 only, where atheris has wheels), and a few seconds of
it run with the unit tests. An input that breaks something is printed as a command:

<!-- not run: needs an input that breaks something -->
```sh
.venv/bin/python tests/fuzz connection --replay 041f10...
```
"""


@dataclass(frozen=True)
class Statement:
    """A normative statement."""

    number: str
    binds: str
    asks: str
    untested: str = ""


@dataclass(frozen=True)
class Marked:
    """A test with what its markers say."""

    module: str
    name: str
    statements: frozenset[str]
    departures: frozenset[tuple[str, str]]


def statements(version: str) -> list[Statement]:
    """The statements of a version, in the standard's order."""
    lines = (HERE / VERSIONS[version][0]).read_text().splitlines()
    return [Statement(*line.split(" | ")) for line in lines if not line.startswith("#")]


def marked_tests(version: str) -> Iterator[Marked]:
    """The tests of a version."""
    own = version.replace(".", "_")
    for path in sorted([*HERE.glob(VERSIONS[version][1]), *HERE.glob(BOTH)]):
        tree = ast.parse(path.read_text())
        named = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                calls = [call for item in node.decorator_list for call in _calls(item, named)]
                yield Marked(
                    path.stem,
                    node.name,
                    frozenset(n for call in calls for n in _texts(call, "statement", own)),
                    frozenset(
                        (texts[0], texts[1])
                        for call in calls
                        if (texts := _texts(call, "departs", own))
                    ),
                )


def table() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(_version(version) for version in VERSIONS), _departures()])


def _version(version: str) -> str:
    covering: dict[str, list[str]] = defaultdict(list)
    for test in marked_tests(version):
        for number in test.statements:
            covering[number].append(f"`{_sentence(test)}`")
    bound = [s for s in statements(version) if s.binds != "client"]
    tested = sum(s.number in covering for s in bound)
    clients = ", ".join(s.number for s in statements(version) if s.binds == "client")
    rows = [
        f"| {s.number} | {s.asks} | {'<br>'.join(covering[s.number]) or 'none: ' + s.untested} |"
        for s in bound
    ]
    return "\n".join(
        [
            f"## MQTT {version}",
            "",
            f"{tested} of the {len(bound)} statements that bind a server have a test.",
            f"Only clients are bound by {clients}.",
            "",
            "| Statement | What it asks | Tests |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _departures() -> str:
    rows = sorted(
        {
            f"| {broker} | {version} | {how} | `{_sentence(test)}` |"
            for version in VERSIONS
            for test in marked_tests(version)
            for broker, how in test.departures
        }
    )
    return "\n".join(
        [
            "## What other brokers do otherwise",
            "",
            "| Broker | MQTT | What it does | Test |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _sentence(test: Marked) -> str:
    return f"{test.module.removeprefix('test_')}: {test.name[5:].replace('_', ' ')}"


def _calls(node: ast.AST, named: dict[str, ast.expr]) -> Iterator[ast.Call]:
    """The calls in a decorator, also in what it names from the module."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            yield inner
        elif isinstance(inner, ast.Name) and inner.id in named:
            yield from _calls(named[inner.id], {})


def _texts(call: ast.Call, marker: str, version: str) -> list[str]:
    """The strings that a marker is called with, if it is this marker, of all or of this version."""
    if not isinstance(call.func, ast.Attribute):
        return []
    if call.func.attr not in (marker, f"{marker}_{version}"):
        return []
    constants = (c for argument in call.args for c in ast.walk(argument))
    return [c.value for c in constants if isinstance(c, ast.Constant) and isinstance(c.value, str)]


if __name__ == "__main__":
    TABLE.write_text(table())
    sys.stdout.write(f"{TABLE}\n")
