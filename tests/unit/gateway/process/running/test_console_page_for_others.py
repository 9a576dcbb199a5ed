"""A gateway tells others the address of its console only if they can reach the console."""

from pathlib import Path

import pytest

from gateway.process.configuration.config import ConsoleSection
from gateway.process.running.console_part import page_for_others

TLS = {"certificate_file": Path("console.pem"), "key_file": Path("console.key.pem")}


@pytest.mark.parametrize(
    ("host", "names", "tls", "page"),
    [
        ("192.0.2.7", [], {}, "http://192.0.2.7:9100/healthz"),
        ("2001:db8::7", [], {}, "http://[2001:db8::7]:9100/healthz"),
        ("0.0.0.0", ["gw-a.example", "gw-a"], TLS, "https://gw-a.example:9100/healthz"),
        ("0.0.0.0", [], TLS, ""),
        ("::", [], {}, ""),
        ("127.0.0.1", ["gw-a.example"], {}, ""),
        ("::1", [], {}, ""),
    ],
)
def test_others_are_told_of_a_console_that_they_reach(
    host: str, names: list[str], tls: dict[str, Path], page: str
) -> None:
    own = ConsoleSection(host=host, names=names, port=9100, **tls)
    assert page_for_others(own, 9100) == page


def test_with_a_page_for_browsers_that_is_what_others_are_told_of() -> None:
    own = ConsoleSection(host="192.0.2.7", web=True, **TLS)
    assert page_for_others(own, 9641) == "https://192.0.2.7:9641/"
