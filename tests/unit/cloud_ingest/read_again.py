"""The quarantine read again, in a process that can be killed between two steps.

python read_again.py TABLES MAPPINGS [STEP]
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingest_in_steps import killing

from cloud_ingest.ingest.again import QuarantineAgain
from cloud_ingest.mapping import rules
from cloud_ingest.tables.store import TableStore


def main(tables: str, mappings: str, step: str = "") -> None:
    again = QuarantineAgain(TableStore(tables), rules.read(Path(mappings).read_text()))
    again.watch = killing(step)
    again.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
