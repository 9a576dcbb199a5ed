"""Welcome of a new gateway: beside its certificate its plan, and what all of the fleet share.

The operator's folder has it when a token is made; the enrolment service hands it to who spends the
token, and `hedgerow join` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from dtls import keystore
from dtls.errors import KeystoreError
from gateway.base.toml import checks
from gateway.tools.provisioning import plan
from gateway.tools.provisioning.plan import GatewayPlan, PlanError, Ports
from light_dataclasses import dataclass

SHARED: Final = ("access.toml", "passwords", "psk", "tree.key")
"""The files that every gateway of a fleet has the same."""
BYTES_MAX: Final = 1 << 20
"""Of these files, all together, as JSON has them: what is no ASCII is longer there."""
NEIGHBOURS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Welcome:
    """A new gateway's place among the others.

    Attributes:
        plan: who it is, where it listens and whom it dials.
        user: who may write, for the comments of its configuration.
        shared: the text of each of `SHARED`.

    """

    plan: GatewayPlan
    user: str
    shared: Mapping[str, str] = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return the object that a service keeps and hands on."""
        ports = self.plan.ports
        return {
            "name": self.plan.id,
            "place": self.plan.place,
            "address": self.plan.address,
            "ports": [ports.mqtt, ports.mqtts, ports.coap, ports.coaps],
            "neighbours": list(self.plan.neighbours),
            "has_neighbours_here": self.plan.has_neighbours_here,
            "user": self.user,
            "shared": dict(self.shared),
        }

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Welcome:
        """Read what a service has handed on.

        Raises:
            PlanError: something in it is missing, or can't be a gateway's.

        """
        try:
            name, place, address, user = (
                _text(found, key) for key in ("name", "place", "address", "user")
            )
            mqtt, mqtts, coap, coaps = map(_port, found["ports"])
            neighbours = [str(one) for one in found["neighbours"]]
            shared = {key: _text(found["shared"], key) for key in SHARED}
            is_beside = bool(found["has_neighbours_here"])
        except (KeyError, TypeError, ValueError) as error:
            raise PlanError(f"what the service hands on can't be read: {error}") from error
        ports = Ports(mqtt, mqtts, coap, coaps)
        plan.check_name(name)
        plan.check_place(place)
        plan.check_address(address)
        for one in neighbours:
            for fault in checks.host_and_port("neighbours", one):
                raise PlanError(f"{fault.where}: {fault.why}")
        made = cls(
            GatewayPlan(name, place, address, ports, tuple(neighbours), is_beside), user, shared
        )
        made.check_size()
        try:
            users = keystore.parse(shared["psk"], "psk").identities()
        except KeystoreError as error:
            raise PlanError(f"what the service hands on: {error}") from error
        if user not in users:
            raise PlanError(f"user: {user!r} has no key in psk")
        return made

    def check_size(self) -> None:
        """Refuse what is more than a fleet needs.

        Raises:
            PlanError: it is.

        """
        size = len(json.dumps(dict(self.shared)))
        if size > BYTES_MAX:
            raise PlanError(
                f"{', '.join(SHARED)}: {size} bytes in JSON, and at most {BYTES_MAX} are handed on"
            )
        if len(self.plan.neighbours) > NEIGHBOURS_MAX:
            raise PlanError(f"neighbours: more than {NEIGHBOURS_MAX}")


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


def _port(value: object) -> int:
    if type(value) is not int or not 0 < value <= plan.MOST_PORT:
        raise TypeError(f"{value!r} is no port")
    return value
