"""Goal: what an owner asks for is checked, and the field that is wrong is named first."""

from __future__ import annotations

import pytest

from gateway.tools.first_start.owner_wish import WishError, wish

ASKED = {"name": "gw-hall", "address": "10.0.0.7", "user": "anna", "password": "open sesame"}
ADDRESSES = ["10.0.0.7", "fd00::7"]


def test_a_gateway_with_a_page_is_planned() -> None:
    made = wish({**ASKED, "place": "campus/north"}, ADDRESSES, None)
    own = made.gateway
    assert (own.id, own.domain, own.group, own.address) == (
        "gw-hall",
        "campus",
        "north",
        "10.0.0.7",
    )
    assert own.has_page
    assert own.has_tls
    assert "sesame" not in repr(made)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, "") for name in ASKED),
        ("name", "../etc"),
        ("name", "a" * 100),
        ("place", "a/b/c"),
        ("place", "+"),
        ("address", "10.0.0.8"),
        ("user", "anna:x"),
        ("user", "-"),
        ("user", "first-device"),
        ("password", "short"),
        ("password", "x" * 257),
    ],
)
def test_a_wrong_field_is_named(field: str, value: str) -> None:
    with pytest.raises(WishError, match=rf"^{field}: "):
        wish({**ASKED, field: value}, ADDRESSES, None)


def test_a_password_that_is_a_name_is_refused() -> None:
    with pytest.raises(WishError, match=r"^password: "):
        wish({**ASKED, "user": "administrator", "password": "Administrator"}, ADDRESSES, None)
