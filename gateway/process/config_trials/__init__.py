"""A gateway's configuration is changed on trial: what does not come up goes back by itself."""

from __future__ import annotations

from typing import Final

WITHIN_S: Final = 60.0
"""The time in which a gateway comes up by its new configuration."""
LEAST_WITHIN_S: Final = 1.0
MOST_WITHIN_S: Final = 3600.0
