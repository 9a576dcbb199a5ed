"""The block of all keys in docs/configuration.md, made from the configuration's reference.

.venv/bin/python -m gateway.tools.handbook.configuration_page docs/configuration.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from gateway.process.configuration import keys

_BLOCK = re.compile(r"(?<=```toml\n)\[gateway\].*?(?=```)", re.DOTALL)


def with_reference(page: str) -> str:
    """Return the page with the block as the reference has it.

    Args:
        page: Markdown, whose first block with a section is the one of all keys.

    Raises:
        ValueError: it has no such block.

    """
    if not _BLOCK.search(page):
        raise ValueError("the page has no block of all keys, which begins with [gateway]")
    return _BLOCK.sub(lambda _: keys.reference(), page, count=1)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_reference(file.read_text()))
