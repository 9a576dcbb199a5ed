"""Goal: a gateway listens at all addresses and names that it is given, and knows its own."""

from __future__ import annotations

import ipaddress
import json
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.toml.checks import hosts, is_wildcard
from gateway.process.configuration import addresses, config
from gateway.process.configuration import change as config_change
from gateway.process.configuration.addresses import Addresses, reached, resolve
from gateway.process.state_folder import listeners_file

ADDRESSES = st.one_of(
    st.ip_addresses().map(str), st.sampled_from(["127.0.0.1", "::1", "0.0.0.0", "::"])
)
LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


def load(folder: Path, mqtt: str = "", coap: str = "", tree: str = "") -> config.GatewaySettings:
    (folder / "tree.key").write_text("ab" * 32)
    file = folder / "gateway.toml"
    file.write_text(
        f'[gateway]\nid = "gw"\nstate_dir = "state"\n[mqtt]\n{mqtt}\n[coap]\n{coap}\n'
        f'[tree]\nkey_file = "tree.key"\ntls = "off"\n{tree or "discovery = false"}\n'
    )
    return config.load(file, config.GatewaySettings)


def test_a_host_is_one_or_several_and_one_listener_may_have_its_own(tmp_path: Path) -> None:
    one = load(tmp_path, 'host = "10.0.0.1"\nwebsocket_port = 1', 'host = "gw-north.local"')
    assert (one.mqtt.hosts("mqtt"), one.coap.hosts("coaps")) == (["10.0.0.1"], ["gw-north.local"])
    several = load(
        tmp_path,
        'host = ["127.0.0.1", "::1"]\nwebsocket_port = 1\nwebsocket_host = "10.0.0.1"',
        'dtls_host = ["localhost", "10.0.0.2"]',
    )
    assert several.mqtt.hosts("mqtt") == ["127.0.0.1", "::1"]
    assert several.mqtt.hosts("ws") == ["10.0.0.1"]
    assert several.coap.hosts("coap") == ["127.0.0.1"]
    assert several.coap.hosts("coaps") == ["localhost", "10.0.0.2"]


@pytest.mark.parametrize(
    ("mqtt", "why"),
    [
        ("host = []", "mqtt.host: names no address"),
        ('host = "10.0.0.256"', "mqtt.host: '10.0.0.256' is neither an IP address nor a host name"),
        ('host = ["::1", "[::1]"]', "mqtt.host: '[::1]' is neither"),
        ('host = "a b"', "mqtt.host: 'a b' is neither"),
        ("host = 3", "mqtt.host: 3 is not an array"),
        ('host = ["::1", 3]', "mqtt.host[1]: 3 is not of type str"),
        ('tls_host = "::1"', "mqtt.tls_host: of no use without tls_port"),
        ('proxies = ["lb.example"]', "mqtt.proxies: 'lb.example' is neither an IP address nor a"),
        ('proxies = ["10.0.0.1/8"]', "mqtt.proxies: '10.0.0.1/8' is neither an IP address nor a"),
        (
            'proxies = ["::1"]\nproxied_ports = ["ports"]',
            "mqtt.proxied_ports: 'ports' is none of port, tls_port",
        ),
        (
            'proxies = ["::1"]\nproxied_ports = ["tls_port"]',
            "mqtt.proxied_ports: 'tls_port' is not listened on",
        ),
        ('proxied_ports = ["port"]', "mqtt.proxied_ports: of no use without proxies"),
    ],
)
def test_what_is_no_host_is_named(tmp_path: Path, mqtt: str, why: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        load(tmp_path, mqtt)
    assert why in str(caught.value)


@given(st.one_of(ADDRESSES, NAMES))
def test_each_address_and_each_name_is_a_host_unless_it_is_a_wrong_address(host: str) -> None:
    last = host.rpartition(".")[2]
    faults = list(hosts("host", [host]))
    assert not faults or (last.isdecimal() and not _is_address(host))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# -- whose address it is ---------------------------------------------------------------------------


def test_all_addresses_do_without_an_own_one_where_no_tree_asks_for_it(tmp_path: Path) -> None:
    everywhere = 'host = ["0.0.0.0", "::"]'
    load(tmp_path, everywhere)
    for tree in ("discovery = true", 'discovery = false\nneighbours = ["10.0.0.1:1883"]'):
        with pytest.raises(config.ConfigError) as caught:
            load(tmp_path, everywhere, tree=tree)
        assert "gateway.address: missing, and mqtt.host is 0.0.0.0 and ::" in str(caught.value)
        load(tmp_path, 'host = ["0.0.0.0", "10.0.0.1"]', tree=tree)


def test_a_reload_that_would_need_an_own_address_says_so(tmp_path: Path) -> None:
    before = load(tmp_path, 'host = "0.0.0.0"')
    after = load(tmp_path, 'host = "10.0.0.1"', tree="discovery = true")
    with pytest.raises(config.ConfigError, match=r"gateway\.address: missing.*takes a restart"):
        config_change.take_over(before, after)


async def test_the_own_address_is_that_of_the_listener_that_takes_links(tmp_path: Path) -> None:
    mqtt = 'host = ["127.0.0.1", "127.0.0.2"]\nwebsocket_port = 1\nwebsocket_host = "10.0.0.1"'
    found = await Addresses.of(load(tmp_path, mqtt, 'host = ["127.0.0.3", "127.0.0.4"]'))
    assert found.own == "127.0.0.1"
    assert found.uri({"coap": 5683}) == "coap://127.0.0.3:5683"
    assert found.at({"mqtt": 1, "ws": 2}) == {
        "mqtt": ["127.0.0.1:1", "127.0.0.2:1"],
        "ws": ["10.0.0.1:2"],
    }


@given(st.lists(ADDRESSES, min_size=1))
def test_others_are_given_an_address_that_means_something_to_them(addresses: list[str]) -> None:
    own = ipaddress.ip_address(reached(addresses))
    assert not own.is_unspecified
    each = [ipaddress.ip_address(one) for one in addresses if "%" not in one]
    if all(one.is_loopback for one in each) and each:
        assert own.is_loopback
    if outside := [one for one in each if not one.is_loopback and not one.is_unspecified]:
        assert own == outside[0]


# -- names -----------------------------------------------------------------------------------------


async def test_a_name_means_all_its_addresses_each_once() -> None:
    found = await resolve("mqtt.host", ["127.0.0.2", "localhost", "127.0.0.1"])
    assert found[0] == "127.0.0.2"
    assert sorted(set(found)) == sorted(found)
    assert "127.0.0.1" in found
    assert all(ipaddress.ip_address(one).is_loopback for one in found)


async def test_an_address_for_all_contains_the_others_of_its_version() -> None:
    found = await resolve("mqtt.host", ["127.0.0.1", "0.0.0.0", "::1", "localhost"])
    assert found == ("0.0.0.0", "::1")
    assert await resolve("mqtt.host", ["::", "::1", "0.0.0.0"]) == ("::", "0.0.0.0")


async def test_a_name_without_an_address_is_one_line_that_names_the_field() -> None:
    with pytest.raises(config.ConfigError, match=r"coap\.host: 'no\.such\.invalid': "):
        await resolve("coap.host", ["::1", "no.such.invalid"])


async def test_addresses_of_a_name_that_others_have_are_left_out_or_named() -> None:
    meant = ["192.0.2.7", "127.0.0.1"]

    async def known(_name: str) -> list[str]:
        return meant

    assert await resolve("mqtt.host", ["gw-north"], known) == ("127.0.0.1",)
    meant.pop()
    why = "mqtt.host: 'gw-north' is 192.0.2.7, which this machine does not have"
    with pytest.raises(config.ConfigError, match=why):
        await resolve("mqtt.host", ["gw-north"], known)


# -- listeners.json --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listened", "near"),
    [
        (["10.0.0.1:1", "[::1]:1"], ("::1", 1)),
        (["10.0.0.1:1", "0.0.0.0:1"], ("127.0.0.1", 1)),
        (["[::]:1"], ("::1", 1)),
        (["10.0.0.1:1", "10.0.0.2:1"], ("10.0.0.1", 1)),
    ],
)
def test_a_program_of_the_same_machine_goes_the_shortest_way(
    tmp_path: Path, listened: list[str], near: tuple[str, int]
) -> None:
    listeners_file.write(tmp_path, "gw", {"mqtt": listened})
    told = listeners_file.read(tmp_path)
    assert told["mqtt"] == listened[0]
    assert told["listeners"] == {"mqtt": listened}
    assert told["console"] is told["coap"] is told["coaps"] is None
    assert listeners_file.near(told, "mqtt") == near
    assert listeners_file.near(told, "coap") is None


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / listeners_file.NAME).write_text(json.dumps({"id": "gw", "mqtt": "0.0.0.0:1883"}))
    assert listeners_file.near(listeners_file.read(tmp_path), "mqtt") == ("127.0.0.1", 1883)


def test_only_the_addresses_for_all_are_wildcards() -> None:
    assert [is_wildcard(one) for one in ("0.0.0.0", "::", "::1", "localhost")] == [
        True,
        True,
        False,
        False,
    ]


# -- addresses of this machine ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        *[(["0.0.0.0"], "127.0.0.1"), (["::"], "::1"), (["127.0.0.2", "0.0.0.0"], "127.0.0.1")],
        *[([], "::1"), (["fe80::1%eth0"], "::1"), (["0.0.0.0", "10.0.0.1"], "10.0.0.1")],
        *[(["127.0.0.2", "::1"], "127.0.0.2"), (["::1", "10.0.0.2", "10.0.0.1"], "10.0.0.2")],
    ],
)
def test_a_machine_without_a_way_to_others_is_reached_at_its_loopback(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], found: str
) -> None:
    def connect(_: socket.socket, _address: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", connect)
    assert reached(addresses) == found


class FoundAddresses:
    """A loop whose look-ups find what they are told."""

    def __init__(self, *sockaddrs: tuple[object, ...]) -> None:
        self._found = [(0, 0, 0, "", one) for one in sockaddrs]

    async def getaddrinfo(self, name: str, _port: None, **_: object) -> list[tuple[object, ...]]:
        assert name == "gw-north"
        return list(self._found)


async def test_an_address_of_one_link_is_known_with_the_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = FoundAddresses(
        *[("192.0.2.7", 0), ("2001:db8::1", 0, 0, 0), ("fe80::1", 0, 0, 2)],
        ("fe80::2%eth0", 0, 0, 3),
    )
    with monkeypatch.context() as patch:
        patch.setattr(addresses.asyncio, "get_running_loop", lambda: found)
        looked_up = await addresses.look_up("gw-north")
    assert looked_up == ["192.0.2.7", "2001:db8::1", "fe80::1%2", "fe80::2%eth0"]


# -- CoAP and the log ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coap", "why"),
    [
        ("port = 5683\ndtls_port = 5683", "coap.dtls_port: 5683 is port already"),
        ('port = "off"\nmulticast = true', 'coap.multicast: of no use where port is "off"'),
        ('public = ["/a", "b"]', "coap.public: 'b' does not start with '/'"),
        ("port = 65536", "coap.port: 65536 is no port: 0 to 65535"),
        ('dtls_host = "a b"', "coap.dtls_host: 'a b' is neither"),
        ('key_file = "tree.key"', "coap.key_file: of no use without certificate_file"),
        (
            'client_crl_file = "tree.key"',
            "coap.client_crl_file: of no use without certificate_file",
        ),
        ('certificate_file = "tree.key"', "coap.key_file: missing, and certificate_file is given"),
        (
            'certificate_file = "tree.key"\nkey_file = "tree.key"',
            "coap.client_ca_file: missing, and certificate_file is given",
        ),
    ],
)
def test_what_does_not_fit_together_for_coap_is_named(tmp_path: Path, coap: str, why: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        load(tmp_path, coap=coap)
    assert why in str(caught.value)


def test_two_listeners_of_coap_may_both_have_a_port_of_the_systems_choice(tmp_path: Path) -> None:
    assert load(tmp_path, coap="port = 0\ndtls_port = 0").coap.ports == {"coap": 0}


def test_a_log_holds_two_segments_of_4096_bytes_at_least() -> None:
    least = config.LogSection(segment_bytes=4096, max_bytes=8192)
    assert least.limit_bytes == 8192 + (64 << 20)
    assert config.LogSection(max_bytes=128 << 20).limit_bytes == 256 << 20
    for segment_bytes, max_bytes in ((4095, 8192), (4096, 8191)):
        with pytest.raises(
            config.ConfigError, match=r"^max_bytes: must hold two segments of at least 4096 bytes"
        ):
            config.LogSection(segment_bytes=segment_bytes, max_bytes=max_bytes)


def test_a_limit_of_memory_is_none_or_64_mebibytes_at_least() -> None:
    for limit_bytes in (0, 64 << 20):
        assert config.MemorySection(limit_bytes).limit_bytes == limit_bytes
    with pytest.raises(config.ConfigError, match="limit_bytes: 67108863 is neither 0 nor at least"):
        config.MemorySection((64 << 20) - 1)


# -- listeners.json on a disk that fails -----------------------------------------------------------


def test_listeners_that_can_not_be_told_or_taken_back_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "none"
    with pytest.raises(config.ConfigError) as raised:
        listeners_file.tell(folder, "gw", {"mqtt": ["10.0.0.1:1"]})
    assert raised.value.where == "gateway.state_dir"
    assert raised.value.why.startswith(f"{folder}/")
    assert raised.value.why.endswith(": No such file or directory")
    listeners_file.remove(folder)
    assert not caplog.records
    (tmp_path / listeners_file.NAME).mkdir()
    listeners_file.remove(tmp_path)
    assert f"{tmp_path / listeners_file.NAME}: " in caplog.text


def test_listeners_are_one_line_with_those_that_are_always_told_behind_the_others() -> None:
    text = listeners_file.as_text({"mqtt": ["10.0.0.1:1", "[::1]:1"], "coap": ["10.0.0.1:2"]})
    first, *others = text.split(", ")
    assert first == "mqtt 10.0.0.1:1 [::1]:1"
    assert {one.partition(" ")[0] for one in others} == set(listeners_file.ALWAYS_TOLD)
    assert {one.partition(" ")[2] for one in others} == {"10.0.0.1:2", "None"}


@pytest.mark.parametrize("damage", ["[]", '{"listeners": []}'])
def test_a_file_that_tells_of_no_listeners_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / listeners_file.NAME).write_text(damage)
    with pytest.raises(ValueError, match=f"^{tmp_path / listeners_file.NAME}: tells of no list"):
        listeners_file.read(tmp_path)
