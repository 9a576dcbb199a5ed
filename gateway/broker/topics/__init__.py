"""Topics: who subscribed, where a message goes, what is retained. No I/O, no clock."""

from __future__ import annotations

from gateway.broker.retained.messages import (
    RetainedBytesLimitError,
    RetainedLimitError,
    RetainedMessages,
    RetainedMessagesLimitError,
)
from gateway.broker.topics.filters import FilterError, covers, filter_levels, matches, split_share
from gateway.broker.topics.routes import RouteCache
from gateway.broker.topics.subscriptions import SubscriptionTree

__all__ = [
    "FilterError",
    "RetainedBytesLimitError",
    "RetainedLimitError",
    "RetainedMessages",
    "RetainedMessagesLimitError",
    "RouteCache",
    "SubscriptionTree",
    "covers",
    "filter_levels",
    "matches",
    "split_share",
]
