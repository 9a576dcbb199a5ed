"""A gateway that appends nothing: ``python -m benchmarks.without_log run --config FILE``.

No setting switches the log off, since acknowledgements stand on it. This shows what it costs: the
same batches are made and acknowledged, only the write is left out.
"""

from __future__ import annotations

import sys

from gateway.log.message_log import MessageLog
from gateway.tools import cli
from tree_handler.batch import Header


def _append_nothing(self: MessageLog, frame: bytes, header: Header) -> None:
    """Stand in for `MessageLog.append`."""


if __name__ == "__main__":
    MessageLog.append = _append_nothing  # type: ignore[method-assign]  # that is the purpose
    sys.exit(cli.main())
