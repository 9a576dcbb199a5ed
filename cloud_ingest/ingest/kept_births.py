"""Births of Sparkplug B beside the tables: they name the aliases of messages of later triggers.

The file is written before the commit of the messages that it is read for, so after a kill it knows
at least what it has to. Where it is lost, aliases have no names until the next birth.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from cloud_ingest.mapping.births import Birth, Births
from cloud_ingest.tables.delta import named_errors
from cloud_ingest.tables.store import TableStore

FILE: Final = "_ledger/births"

_log = logging.getLogger(__name__)


class KeptBirths:
    """The births that a set of tables knows.

    Args:
        tables: the folder of all tables.

    Raises:
        TableError: they can't be read.

    """

    def __init__(self, tables: TableStore) -> None:
        self._tables = tables
        self.births = Births()
        with named_errors(tables):
            data = tables.read(FILE)
        if data is not None:
            try:
                self.births = Births.unpack(data)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                _log.warning("%s/%s: %s: aliases wait for births", tables.uri, FILE, error)

    def take(self, births: Iterable[Birth]) -> None:
        """Remember births, also after a kill.

        Raises:
            TableError: the file can't be written.

        """
        if self.births.take(births):
            self._write()

    def forget(self, origin: str) -> None:
        """Remember nothing of a gateway.

        Raises:
            TableError: the file can't be written.

        """
        with named_errors(self._tables):
            if self._tables.read(FILE) is None:
                return
        self.births.forget(origin)
        self._write()

    def _write(self) -> None:
        with named_errors(self._tables):
            self._tables.write(FILE, self.births.pack())
