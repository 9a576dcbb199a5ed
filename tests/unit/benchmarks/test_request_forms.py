"""Goal: what is compared with JSON between gateways is the same requests, said as JSON."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import json_forms
from benchmarks.query_client import QueryClient
from benchmarks.query_fleet import running
from benchmarks.request_forms import JSON_KIND, LINE, SENML_JSON, Way
from tree_handler.remote.message import Answer, Cancel, Query, opened, sealed
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.routing import direct
from tree_handler.routing.direct import DirectMessage

BODIES = st.binary(max_size=200) | st.text().map(str.encode)


@pytest.fixture(autouse=True)
def _json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins of `speak_json` in place until the test ends."""
    for module, names in json_forms.replaced().items():
        for name, stand_in in names.items():
            monkeypatch.setattr(module, name, stand_in)


@given(BODIES, st.binary(min_size=1, max_size=8), st.booleans())
def test_what_gateways_say_to_each_other_survives_as_json(
    body: bytes, tag: bytes, is_signed: bool
) -> None:
    options = ((4, tag),)
    request = ResourceRequest("PUT", ("a", "ü"), ("x=1",), 0, 60, body, "psk:a", ("r",), options)
    response = ResourceResponse(0x45, body, 110, ((4, tag), (14, b"\x05")))
    for one in (
        Query("gw-a", "1-1", 5_000, request, "gw-b", 1, 7, 3, 60_000, 2),
        Answer("gw-b", "1-1", response, 4, True),
        Cancel("gw-a", "1-1"),
    ):
        said = sealed(one.encode(), tag) if is_signed else one.encode()
        passed = DirectMessage("gw-b", 63, "$hedgerow/query/gw-b", said)
        assert DirectMessage.decode(passed.encode()) == passed
        inner, signature = opened("message", said)
        assert type(one).decode(inner) == one
        assert signature == (tag if is_signed else b"")
        assert inner.startswith(b'{"')


def test_gateways_that_speak_json_answer_each_other_and_links_carry_more(tmp_path: Path) -> None:
    with running(tmp_path, 2, JSON_KIND, LINE) as gateways, contextlib.closing(QueryClient()) as c:
        way = Way(gateways, SENML_JSON)
        body = way.body(c)
        assert body.count(b"valve-") == 10
        way.go_on(c, 20)
    assert way.sent_bytes[0] / 20 > len(body) + 300
    assert way.cpu_s[0] > 0


def test_a_compiled_product_is_not_measured_as_if_it_spoke_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "__file__", "direct.cpython-311.so")
    with pytest.raises(RuntimeError, match="not compiled"):
        json_forms.speak_json()
