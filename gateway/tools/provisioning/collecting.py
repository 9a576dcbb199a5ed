"""A collector for a fleet that `hedgerow init --fleet` has written, and what its server needs.

Certificate, tree key, users and policy come from the fleet's folder, as for one more gateway.
Beside the configuration stand three units: the collector's, that of the job that reads its spool,
and the dashboard's. Nothing that is there is written over, and where a step fails nothing new is
left.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from gateway.tools.provisioning import files, grown, new_folder, plan
from gateway.tools.provisioning.files import CONFIGURATION, ELSEWHERE, OPEN_MODE, Machine
from gateway.tools.provisioning.new_folder import write
from gateway.tools.provisioning.plan import GatewayPlan
from gateway.tools.provisioning.unit import CloudService, cloud_unit
from gateway.trust.tls.peer_certificate import COLLECTOR_ROLE
from light_dataclasses import dataclass

FILE: Final = "collector.toml"
SYSTEM: Final = Path("/etc/hedgerow-collector")
SYSTEM_STATE: Final = Path("/var/lib/hedgerow-collector")
SHARED: Final = ("access.toml", "passwords", "tree.key")
"""The files that it shares with the gateways: users and policy are the dashboard's here."""
DASHBOARD: Final = "127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class CollectorPlan:
    """One collector.

    Attributes:
        id: its name.
        home: where its files will be.
        state: where it writes: the spool, and the job its tables.
        gateways: whom it dials.

    """

    id: str
    home: Path
    state: Path
    gateways: Sequence[GatewayPlan]

    @property
    def is_local(self) -> bool:
        """Return whether it runs on the machine of its gateways, from the folder written there."""
        return self.gateways[0].is_local

    @property
    def spool(self) -> Path:
        """The spool's folder."""
        return self.state / "spool"

    @property
    def tables(self) -> Path:
        """The tables' folder."""
        return self.state / "tables"


class NewCollector:
    """A fleet that is there, and the plan of a collector for it.

    Args:
        fleet: the fleet's folder.
        name: of the collector.
        folder: where its files are written; None for its name in the fleet's folder.

    Raises:
        PlanError: that is no fleet's folder, or no such name.
        TakenError: there is a file or a certificate of its name.
        OSError: a file can't be read.

    """

    def __init__(self, fleet: Path, name: str, folder: Path | None) -> None:
        self._fleet = fleet
        self._authority = grown.authority_of(fleet)
        gateways = grown.gateways_of(fleet)
        plan.check_name(name)
        self.folder = folder or fleet / name
        new_folder.refuse_taken(self.folder.parent, [self.folder.name])
        grown.refuse_certified(self._authority, name)
        is_local = gateways[0].is_local
        home, state = (self.folder, self.folder) if is_local else (SYSTEM, SYSTEM_STATE)
        self._first = fleet / gateways[0].id
        self._tree = tomllib.loads((self._first / CONFIGURATION).read_text()).get("tree", {})
        self.plan = CollectorPlan(name, home, state, gateways)

    def add(self, machine: Machine) -> None:
        """Write the folder, and its certificate.

        Args:
            machine: what runs it, if it is on this one.

        Raises:
            AuthorityError: a file of the authority can't be used.
            TakenError: a file of its name is there by now.
            OSError: a file can't be read or written.

        """
        with grown.issued(self._authority, self.plan.id, roles=[COLLECTOR_ROLE]):
            new_folder.make(self.folder, partial(self._fill, machine))

    def _fill(self, machine: Machine, fresh: Path) -> None:
        own = self.plan
        write(fresh / FILE, _configuration(own, self._tree), OPEN_MODE)
        for name in SHARED:
            shutil.copy(self._first / name, fresh / name)  # with its mode
        files.write_certificates(fresh, self._authority, own.id, COLLECTOR_ROLE)
        if own.is_local:  # what the units let the services write to has to be there
            for folder in (fresh / "spool", fresh / "tables"):
                folder.mkdir(mode=0o700)
        runs = machine if own.is_local else ELSEWHERE
        for name, arguments in commands(own).items():
            service = CloudService(
                name,
                runs.command,
                arguments,
                runs.user,
                own.home,
                own.state,
                (own.spool.name, own.tables.name),
                reloads=name != "ingest",
                environment=runs.environment,
            )
            write(fresh / unit_name(name), cloud_unit(service), OPEN_MODE)


def unit_name(command: str) -> str:
    """Return the name of the unit that runs one of `commands`."""
    return f"hedgerow-{command}.service"


def commands(own: CollectorPlan) -> dict[str, tuple[str, ...]]:
    """Return what runs on the collector's server, by the command's name: arguments of `hedgerow`.

    Args:
        own: the collector.

    """
    home, spool, tables = own.home, str(own.spool), str(own.tables)
    access = ("--access", str(home / "access.toml"), "--passwords", str(home / "passwords"))
    return {
        "collector": ("collector", "--config", str(home / FILE)),
        "ingest": ("ingest", "--follow", "--compact", "--spool", spool, "--tables", tables),
        "dashboard": ("dashboard", "--tables", tables, "--listen", DASHBOARD, *access),
    }


def _configuration(own: CollectorPlan, tree: dict[str, Any]) -> str:
    dialled = "".join(f"  {json.dumps(one.at(one.ports.mqtts))},\n" for one in own.gateways)
    same = "".join(f"{key} = {json.dumps(tree[key])}\n" for key in ("name", "mode") if key in tree)
    return f"""\
# A collector of Hedgerow: docs/cloud.md. Its spool has every message of the fleet, byte for byte.
[collector]
id = {json.dumps(own.id)}
spool_dir = {json.dumps(str(own.spool))}
keeps_for = ["ingest"]       # what the job of this name has not read is never trimmed
certificate_file = "tls/collector.pem"  # with the role collector: it receives, and no more
key_file = "tls/collector.key.pem"
ca_file = "tls/ca.pem"
crl_file = "tls/revoked.pem"

[tree]
key_file = "tree.key"        # the same as the gateways'
discovery = false
neighbours = [               # where gateways take links; one that is reached is enough
{dialled}]
{same}
[log]
max_bytes = {16 << 30}      # beyond it what is in the tables is trimmed
"""
