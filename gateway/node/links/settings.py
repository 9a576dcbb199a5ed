"""Settings of a node: who it is, how its log and links are run, and who takes what comes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

from gateway.log.errors import LogError
from gateway.node.links.handshake import Credentials
from light_dataclasses import dataclass
from tree_handler.batch import MAX_NUMBER, Entry, Header, Row
from tree_handler.replication.actions import Refuse
from tree_handler.replication.repairing import RepairSettings
from tree_handler.seal import Seals
from tree_handler.spanning.spanning_tree import Identity, Parameters

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of one node.

    Attributes:
        credentials: id, tree name, key and mode.
        identity: what the spanning tree elects by.
        parameters: timers of the spanning tree.
        sync: acknowledge after `fdatasync`.
        sync_interval_s: without, how often `fdatasync` is called while something is appended.
        spool_unlogged: append QoS 0 batches too (the collector).
        repair_interval_s: see `Replication`.
        seals: proves what this gateway makes and checks what comes; None where nobody seals.
        floods_clients: without it a part that `TreeNode.route` is told of sends clients' messages.

    """

    credentials: Credentials
    identity: Identity
    parameters: Parameters
    sync: bool = False
    sync_interval_s: float = 1.0
    spool_unlogged: bool = False
    repair_interval_s: float = 5.0
    floods_clients: bool = True
    seals: Seals | None = None

    def repair(self, redial_s: float) -> RepairSettings:
        """Return what replication is set to, where who was refused dials again within a time."""
        return RepairSettings(
            floods_clients=self.floods_clients,
            interval_s=self.repair_interval_s,
            unlinked_s=2 * self.parameters.silence_s + redial_s,
            seals=self.seals,
            draw=_number_of_search,
        )

    def candidate(self) -> Identity:
        """Return the identity as it stands for election: signed, where anything is."""
        return self.identity if self.seals is None else self.seals.stands(self.identity)


def _number_of_search() -> int:
    return 1 + secrets.randbelow(MAX_NUMBER)


def _always() -> bool:
    return True


def _as_neighbours_say(gateway_id: str, epoch: int) -> bool:
    return True


def _nobody_is_told(gateway_id: str, epoch: int) -> None:
    """Do nothing: the log says it anyway."""


def _nobody_keeps(refuse: Refuse, peer_id: str) -> None:
    """Do nothing: it is counted."""


def _say_outlived(epoch: int) -> None:
    _log.error("a neighbour knows boot %d of this gateway, later than this one", epoch)


@dataclass(frozen=True, slots=True)
class NodeReceiver:
    """The functions that take what other gateways sent.

    Attributes:
        control: called with each message between gateways, this one's included.
        deliver: called with the messages of other gateways' clients, in order per origin; None
            where there is nobody to hand them to.
        reads_unlogged: whether anybody here would be handed a QoS 0 message now; if not, batches
            of them are passed on undecoded.
        outlived: called when a neighbour knows of a later life of this gateway, with its epoch.
        kept_out: called with id and epoch of a life of a gateway that is given no link, since
            another life of it is in the tree.
        is_there: whether a life of a gateway, by id and epoch, is in the tree as neighbours say.
        unproven: called with a batch that was not taken, and the neighbour that handed it over.
        keep: called in place of an append to the log, where somebody else may keep batches: why
            the log did not take one that it was to have, if so.

    """

    control: Callable[[Entry, Header], None]
    deliver: Callable[[list[Row], Header], None] | None = None
    reads_unlogged: Callable[[], bool] = _always
    outlived: Callable[[int], None] = _say_outlived
    kept_out: Callable[[str, int], None] = _nobody_is_told
    is_there: Callable[[str, int], bool] = _as_neighbours_say
    unproven: Callable[[Refuse, str], None] = _nobody_keeps
    keep: Callable[[bytes, Header], LogError | None] | None = None
