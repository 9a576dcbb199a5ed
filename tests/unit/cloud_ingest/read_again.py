"""The quarantine read again, in a process that can be killed between two steps.

python read_again.py TABLES MAPPINGS [STEP [CERTIFICATES]]
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingest_in_steps import killing

from cloud_ingest.ingest.quarantine_reread import QuarantineReread
from cloud_ingest.job import proven_again
from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.mapping import rules
from cloud_ingest.spool.proof import HandedCertificates, read_certificates
from cloud_ingest.tables.store import TableStore
from tree_handler.seal import Seals


def main(tables: str, mappings: str, step: str = "", certificates: str = "") -> None:
    store = TableStore(tables)
    if certificates:
        data = read_certificates(Path(certificates))
        ingest = Ingest(IngestSettings(store, certificates=data, tree="t"))
        ingest.watch = killing(step)
        proven_again.read_again(ingest, Seals(None, HandedCertificates(data), "t"))
        ingest.close()
        return
    again = QuarantineReread(store, rules.read(Path(mappings).read_text()))
    again.watch = killing(step)
    again.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
