"""A bed for a test that fills it itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import bed
import pytest
from missing_peer import skip_or_fail_in_ci


@contextmanager
def empty_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    """A bed, or a skip that says what is missing for one."""
    if (why := bed.why_not()) is not None:
        skip_or_fail_in_ci(why)
    with bed.made_in(tmp_path_factory.mktemp("bed")) as made:
        yield made
