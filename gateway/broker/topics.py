"""Topics: who subscribed, where a message goes, what is retained. No I/O, no clock."""

from __future__ import annotations

from gateway.broker.retained import (
    RetainedBytesLimitError,
    RetainedLimitError,
    RetainedMessages,
    RetainedMessagesLimitError,
)
from gateway.broker.routes import RouteCache
from gateway.broker.subscriptions import SubscriptionTree
from gateway.broker.topic_filters import FilterError, covers, filter_levels, matches, split_share

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
