"""The broker that the conformance tests are run against.

By default a gateway of this project in a thread of the test run; with ``--broker=HOST:PORT`` any
other. ``--broker-name`` names a broker whose known departures are then expected to fail.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# The suite's own modules, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from raw_client import Address, Broker
from raw_websocket import WebSocketClient

from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess

START_S = 30.0
VERSIONS = {4: "3.1.1", 5: "5.0"}
"""Of the protocol, by the level that a CONNECT says."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", help="HOST:PORT of another broker to test")
    parser.addoption("--websocket", help="HOST:PORT of its listener for websockets")
    parser.addoption("--broker-name", help="whose departures are expected, such as mosquitto-2.0")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "statement(id, ...): the normative statements that a test covers"
    )
    config.addinivalue_line(
        "markers", "departs(broker, how): a broker that is known not to pass, and what it does"
    )
    for version in VERSIONS.values():
        name = version.replace(".", "_")
        config.addinivalue_line("markers", f"statement_{name}(id, ...): those of {version}")
        config.addinivalue_line("markers", f"departs_{name}(broker, how): the same, in {version}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what both versions ask in the same words once for each of them."""
    levels = getattr(metafunc.module, "LEVELS", None)
    if levels is not None and "spoken" in metafunc.fixturenames:
        ids = [VERSIONS[one] for one in levels]
        metafunc.parametrize("spoken", levels, ids=ids, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect the named broker's known departures to fail, each for as long as it does."""
    name = config.getoption("broker_name", None)
    for item in items:
        for marker in [*item.iter_markers("departs"), *_of_its_version(item)]:
            broker, how = marker.args
            if broker == name:
                item.add_marker(pytest.mark.xfail(reason=how, strict=True))


def _of_its_version(item: pytest.Item) -> Iterator[pytest.Mark]:
    """Give the marks that an item has for its version of MQTT alone."""
    called = getattr(item, "callspec", None)
    level = None if called is None else called.params.get("spoken")
    if level is not None:
        yield from item.iter_markers(f"departs_{VERSIONS[level].replace('.', '_')}")


@pytest.fixture(scope="module")
def broker_address(request: pytest.FixtureRequest) -> Address:
    """The address at which the broker under test listens."""
    given = request.config.getoption("broker", None)
    if given is not None:
        return _address(given)
    return "127.0.0.1", request.getfixturevalue("gateway_process").mqtt_port


@pytest.fixture(scope="module")
def websocket_address(request: pytest.FixtureRequest) -> Address:
    """The address at which the broker under test listens for websockets."""
    given = request.config.getoption("websocket", None)
    if given is not None:
        return _address(given)
    if request.config.getoption("broker", None) is not None:
        pytest.skip("--websocket=HOST:PORT is not given")
    return "127.0.0.1", request.getfixturevalue("gateway_process").mqtt_ports["ws"]


@pytest.fixture(scope="module")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway of this project, which ends with the module: its log is no other module's."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway")
    thread.start()
    try:
        process = GatewayProcess(_settings(tmp_path_factory.mktemp("gateway")))
        asyncio.run_coroutine_threadsafe(process.start(), loop).result(START_S)
        try:
            yield process
        finally:
            asyncio.run_coroutine_threadsafe(process.stop(), loop).result(START_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_S)
        loop.close()


@pytest.fixture
def spoken(request: pytest.FixtureRequest) -> int:
    """The protocol level that the test speaks: one of its module's `LEVELS`, or its `LEVEL`."""
    return int(getattr(request, "param", None) or request.module.LEVEL)


@pytest.fixture
def broker(
    broker_address: Address, spoken: int, request: pytest.FixtureRequest
) -> Iterator[Broker]:
    """The broker, spoken to at a protocol level."""
    is_another = request.config.getoption("broker", None) is not None
    seen = Broker(broker_address, spoken, refuses_silently=is_another)
    yield seen
    seen.close()


@pytest.fixture
def websocket(websocket_address: Address) -> Iterator[Callable[..., WebSocketClient]]:
    """Opens websockets that offer the given sub-protocols."""
    clients: list[WebSocketClient] = []

    def dial(*subprotocols: str) -> WebSocketClient:
        clients.append(WebSocketClient(websocket_address, *subprotocols))
        return clients[-1]

    yield dial
    for client in clients:
        client.close()


def _address(given: str) -> Address:
    host, _, port = given.rpartition(":")
    return host, int(port)


def _settings(folder: Path) -> config.GatewaySettings:
    (folder / "tree.key").write_text("ab" * 32)
    path = folder / "gateway.toml"
    path.write_text(
        f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
status_interval_s = 0
[mqtt]
port = 0
websocket_port = 0
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
[access]
anonymous = true
[limits]
topic_bytes = 65535
"""
    )
    return config.load(path, config.GatewaySettings)
