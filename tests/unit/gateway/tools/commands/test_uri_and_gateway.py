"""A URI names its gateway, so an option that names one is refused beside it."""

from __future__ import annotations

import pytest

from gateway.tools import cli


@pytest.mark.parametrize("option", ["--host", "--config"])
@pytest.mark.parametrize("uri", ["coap://127.0.0.1:9/status", "coaps://127.0.0.1:9/status"])
def test_no_option_that_names_a_gateway_goes_with_a_uri(
    uri: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["get", uri, option, "127.0.0.1"]) == 2
    assert f"{uri}: neither --host nor --config goes with a URI" in capsys.readouterr().err
