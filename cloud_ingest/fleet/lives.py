"""Lives of gateways: which one a status record is of, and whether it is the present one.

Boot epochs are drawn, clocks lie, and what a gateway said before its last start may come after it.
So a record of another life counts as the newer one if its own clock says so, or if that life is
evidently alive: two of its records came as far apart, by the collector's clock, as its uptime says
they were sent. Records that waited somewhere come all at once.

A life that was over and is alive again is a second machine with the same id: a copied card.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cloud_ingest.evidence.facts import Statement
from cloud_ingest.fleet.gateway_state import GatewayState, HeardLife
from record_formats.status_record import StatusRecord

_LEAST_PACE: Final = 0.5
_MOST_PACE: Final = 2.0
"""Records are live if the pause between them is as long as it was at their gateway, within this."""
_AGAIN: Final = 2
"""Live records in a row that bring a life back which was over: one may be so by chance."""
_MAX_RETURNS: Final = 8


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The position of a record among those of its gateway's lives.

    Attributes:
        is_newest: of the gateway's present life.
        is_live: it came when it was sent.
        begins: it is the first of that life.

    """

    is_newest: bool
    is_live: bool = False
    begins: bool = False


def place(gateway: GatewayState, said: Statement, record: StatusRecord) -> RecordPosition:
    """Say what a record is; the gateway's lives are noted, and which one it is in.

    Args:
        gateway: whose it is.
        said: the record's stamp.
        record: what it says.

    """
    life = gateway.life(said.boot_epoch, said.collected_us)
    if said.sequence <= life.sequence:
        return RecordPosition(is_newest=False)
    is_live = _is_live(life, said, record)
    life.paced = life.paced + 1 if is_live else 0
    life.sequence, life.status_us, life.up_s = said.sequence, said.collected_us, record.up_s
    if gateway.epoch == said.boot_epoch:
        return RecordPosition(is_newest=True, is_live=is_live)
    if gateway.epoch is not None:
        is_later = (
            said.origin_us is not None
            and gateway.origin_us is not None
            and said.origin_us > gateway.origin_us
        )
        is_taken = life.paced >= _AGAIN if life.was_current else is_live or is_later
        if not is_taken:
            return RecordPosition(is_newest=False)
        if life.was_current:
            gateway.returns_us = [*gateway.returns_us, said.collected_us][-_MAX_RETURNS:]
        gateway.lives[gateway.epoch].was_current = True
    gateway.epoch = said.boot_epoch
    return RecordPosition(is_newest=True, is_live=is_live, begins=True)


def _is_live(life: HeardLife, said: Statement, record: StatusRecord) -> bool:
    sent_us = (record.up_s - life.up_s) * 1e6
    if life.status_us is None or sent_us <= 0:
        return False
    return _LEAST_PACE * sent_us <= said.collected_us - life.status_us <= _MOST_PACE * sent_us
