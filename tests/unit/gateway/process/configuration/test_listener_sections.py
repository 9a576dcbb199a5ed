"""A listener's keys that do not fit together are named, and its ports are told by scheme."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.base.toml.toml_file import ConfigError
from gateway.process.configuration.listener_sections import CoapSection, MqttSection

FILE = Path("file")
TLS: dict[str, Any] = {"tls_port": 8883, "certificate_file": FILE, "key_file": FILE}
ASKS = TLS | {"client_certificate": "required", "client_ca_file": FILE}
SHOWN: dict[str, Any] = {"certificate_file": FILE, "key_file": FILE, "client_ca_file": FILE}


def faults(section: type[MqttSection] | type[CoapSection], keys: dict[str, Any]) -> list[str]:
    try:
        section(**keys)
    except ConfigError as error:
        return [one.where for one in error.faults]
    return []


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({}, []),
        (TLS, []),
        (ASKS, []),
        (ASKS | {"client_certificate": "optional", "client_crl_file": FILE}, []),
        ({"port": 65_535}, []),
        ({"port": 65_536}, ["port"]),
        ({"port": -1}, ["port"]),
        ({"port": None}, []),
        ({"port": 0, "websocket_port": 0}, []),
        ({"port": 1, "websocket_port": 1}, ["websocket_port"]),
        ({"websocket_host": ["::1"]}, ["websocket_host"]),
        ({"websocket_host": ["::1"], "websocket_port": 80}, []),
        ({"host": ["not a host"]}, ["host"]),
        ({"websocket_path": "/mqtt"}, []),
        ({"websocket_path": "mqtt"}, ["websocket_path"]),
        ({"plugins": {"a.B": {}}}, []),
        ({"plugins": {"a.B": 1, "a.C": 2}}, ["plugins.a.B", "plugins.a.C"]),
        ({"sys_interval_s": 0.0}, []),
        ({"sys_interval_s": 0.1}, []),
        ({"sys_interval_s": 3600.0}, []),
        ({"sys_interval_s": 0.09}, ["sys_interval_s"]),
        ({"sys_interval_s": 3600.5}, ["sys_interval_s"]),
        ({"sys_interval_s": -1.0}, ["sys_interval_s"]),
        ({"tls_port": 8883}, ["certificate_file", "key_file"]),
        ({"secure_websocket_port": 443, "key_file": FILE}, ["certificate_file"]),
        ({"certificate_file": FILE, "key_file": FILE}, ["certificate_file", "key_file"]),
        (TLS | {"client_certificate": "some"}, ["client_certificate"]),
        (TLS | {"client_certificate": "required"}, ["client_ca_file"]),
        ({"client_certificate": "required"}, ["client_certificate"]),
        (
            TLS | {"client_ca_file": FILE, "client_crl_file": FILE},
            ["client_ca_file", "client_crl_file"],
        ),
        ({"proxies": ["10.0.0.0/8"], "proxied_ports": ["port"]}, []),
        ({"proxies": ["10.0.0.0/8"], "proxied_ports": ["none"]}, ["proxied_ports"]),
        ({"proxies": ["10.0.0.0/8"], "proxied_ports": ["tls_port"]}, ["proxied_ports"]),
        ({"proxied_ports": ["port"]}, ["proxied_ports"]),
        ({"proxies": ["nobody"]}, ["proxies"]),
    ],
)
def test_what_does_not_fit_together_of_the_broker_is_named(
    keys: dict[str, Any], named: list[str]
) -> None:
    assert faults(MqttSection, keys) == named


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({}, []),
        (SHOWN, []),
        (SHOWN | {"client_crl_file": FILE}, []),
        ({"port": 1, "dtls_port": 1}, ["dtls_port"]),
        ({"port": 0, "dtls_port": 0}, []),
        ({"port": None, "dtls_port": None}, []),
        ({"port": 65_536, "dtls_port": -1}, ["port", "dtls_port"]),
        ({"dtls_host": ["not a host"]}, ["dtls_host"]),
        ({"multicast": True}, []),
        ({"multicast": True, "port": None}, ["multicast"]),
        ({"public": []}, []),
        ({"public": ["/a", "b", "c"]}, ["public", "public"]),
        ({"certificate_file": FILE}, ["key_file", "client_ca_file"]),
        (
            {"key_file": FILE, "client_ca_file": FILE, "client_crl_file": FILE},
            ["key_file", "client_ca_file", "client_crl_file"],
        ),
    ],
)
def test_what_does_not_fit_together_of_coap_is_named(
    keys: dict[str, Any], named: list[str]
) -> None:
    assert faults(CoapSection, keys) == named


def test_the_brokers_ports_are_told_by_scheme_and_each_is_where_its_own_host_says() -> None:
    section = MqttSection(
        host=["10.0.0.1"],
        tls_host=["10.0.0.2"],
        websocket_port=80,
        proxies=["10.0.0.9"],
        proxied_ports=["websocket_port"],
        **TLS,
    )
    assert section.ports == {"mqtt": 1883, "mqtts": 8883, "ws": 80}
    assert section.hosts("mqtt") == section.hosts("ws") == ["10.0.0.1"]
    assert section.hosts("mqtts") == ["10.0.0.2"]
    assert (section.host_field("mqtts"), section.host_field("ws")) == ("tls_host", "host")
    assert section.proxies_of("ws") == ["10.0.0.9"]
    assert section.proxies_of("mqtt") == []
    assert MqttSection(proxies=["10.0.0.9"]).proxies_of("mqtt") == ["10.0.0.9"]


@pytest.mark.parametrize(("keys", "has"), [({}, False), (TLS, False), (ASKS, True)])
def test_links_over_tls_need_a_port_and_an_authority(keys: dict[str, Any], *, has: bool) -> None:
    assert MqttSection(**keys).has_link_files is has


@pytest.mark.parametrize(
    ("keys", "ports"),
    [
        ({}, {"coap": 5683}),
        ({"psk_file": FILE}, {"coap": 5683, "coaps": 5684}),
        (SHOWN, {"coap": 5683, "coaps": 5684}),
        ({"psk_file": FILE, **SHOWN, "port": None}, {"coaps": 5684}),
        ({"oscore_file": FILE}, {"coap": 5683}),
        ({"psk_file": FILE, "dtls_port": None}, {"coap": 5683}),
    ],
)
def test_coap_over_dtls_is_listened_on_where_a_file_says_who_comes_in(
    keys: dict[str, Any], ports: dict[str, int]
) -> None:
    assert CoapSection(**keys).ports == ports


def test_coap_over_dtls_is_where_its_own_host_says() -> None:
    alike, apart = CoapSection(host=["::1"]), CoapSection(host=["::1"], dtls_host=["::2"])
    assert alike.hosts("coap") == alike.hosts("coaps") == apart.hosts("coap") == ["::1"]
    assert apart.hosts("coaps") == ["::2"]
    fields = [one.host_field(scheme) for one in (alike, apart) for scheme in ("coap", "coaps")]
    assert fields == ["host", "host", "host", "dtls_host"]
