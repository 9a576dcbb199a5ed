"""The dashboard makes a link of a gateway's page only if the address is a web address."""

import pyarrow as pa
import pytest

from cloud_ingest.dashboard.fleet_view import gateway
from cloud_ingest.dashboard.page_address import page_address
from cloud_ingest.tables.fleet_schemas import GATEWAYS


@pytest.mark.parametrize(
    "told",
    [
        "https://gw-a.example:8443/healthz",
        "http://192.0.2.7:9100/healthz",
        "http://[2001:db8::7]:9100/",
        "https://gw-a/",
    ],
)
def test_a_web_address_of_a_host_becomes_a_link(told: str) -> None:
    assert page_address(told) == told


@pytest.mark.parametrize(
    "told",
    [
        None,
        "",
        "javascript:alert(1)",
        "JAVASCRIPT://gw-a/%0aalert(1)",
        "data:text/html,<script>alert(1)</script>",
        "//gw-a/healthz",
        "/healthz",
        "ftp://gw-a/",
        "file:///etc/passwd",
        "https://",
        "https:gw-a",
        "https://bank.example@evil.example/",
        "https://u:p@gw-a/",
        "https://gw-a\\@evil.example/",
        "https://gw a/",
        "https://gw-a:0/",
        "https://gw-a:99999/",
        "https://gw-a:x/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://gw_a/",
        "https://1.2.3/",
        "https://b\u00fccher.example/",
        "https://gw-a/\n",
        "https://gw-a/'onclick='",
        "https://gw-a/" + "x" * 200,
    ],
)
def test_nothing_else_does(told: str | None) -> None:
    assert page_address(told) is None


def test_a_gateway_tells_of_its_page_only_if_it_is_one_and_an_old_table_of_none() -> None:
    row = {"gateway": "gw", "page": "javascript:alert(1)"}
    table = pa.Table.from_pylist([row], schema=GATEWAYS)
    for told in (table, table.drop_columns(["page"])):
        found = gateway(told, "gw")
        assert found is not None
        assert found["page"] is None


def test_without_a_table_there_is_no_gateway() -> None:
    assert gateway(None, "gw-a") is None
