"""Wishes of the owner of a new gateway, and what is missing or wrong in them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, Final

from gateway.tools.provisioning import plan
from gateway.tools.provisioning.plan import GatewayPlan, PlanError
from gateway.web import chosen_password
from light_dataclasses import dataclass

FIRST_DEVICE: Final = "first-device"
"""The user whose password the QR code of a first start has."""


class WishError(ValueError):
    """It can't be so: ``str(error)`` is one line that begins with the field."""


@dataclass(frozen=True, slots=True)
class OwnerWish:
    """A new gateway.

    Attributes:
        gateway: its name, its place and where it listens.
        user: who administers it.
        password: of the user.

    """

    gateway: GatewayPlan
    user: str
    password: str = field(repr=False)


def wish(asked: Mapping[str, Any], addresses: Collection[str], first_port: int | None) -> OwnerWish:
    """Check what was asked.

    Args:
        asked: texts: ``name``, ``address``, ``user``, ``password`` and perhaps ``place``.
        addresses: of this machine, of which it has to be one.
        first_port: of four in a row for its listeners; None for the usual ones.

    Raises:
        WishError: something is missing or wrong.

    """
    for name in ("name", "address", "user", "password"):
        if not asked.get(name):
            raise WishError(f"{name}: is missing")
    name, place, address, user, password = (
        str(asked.get(one, "")) for one in ("name", "place", "address", "user", "password")
    )
    if address not in addresses:
        raise WishError(f"address: {address!r} is none of this gateway's: {', '.join(addresses)}")
    if user == FIRST_DEVICE:
        raise WishError(f"user: {user!r} is the name of the first device; take another one")
    if why_unfit := chosen_password.why_unfit(password, user, name):
        raise WishError(f"password: {why_unfit}")
    try:
        plan.check_user(user)
        plan.check_name(name)
        plan.check_place(place)
        plan.check_address(address)
        ports = plan.ports(0, first_port)
    except PlanError as error:
        raise WishError(str(error)) from error
    return OwnerWish(GatewayPlan(name, place, address, ports, has_page=True), user, password)
