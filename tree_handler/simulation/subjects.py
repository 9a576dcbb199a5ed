"""All that can be simulated, by the name that `hedgerow simulate --subject` has for it."""

from __future__ import annotations

from tree_handler.simulation.liar import LiarOptions
from tree_handler.simulation.overlays import OverlayOptions
from tree_handler.simulation.retained import RetainedOptions
from tree_handler.simulation.retained_liar import RetainedLiarOptions
from tree_handler.simulation.routed import RoutedOptions
from tree_handler.simulation.runs import Options
from tree_handler.simulation.shared import SharedOptions
from tree_handler.simulation.topics import TopicOptions

SUBJECTS: dict[str, type[Options]] = {
    "tree": Options,
    "routed": RoutedOptions,
    "topic": TopicOptions,
    "overlays": OverlayOptions,
    "retained": RetainedOptions,
    "shared": SharedOptions,
    "liar": LiarOptions,
    "retained-liar": RetainedLiarOptions,
}
"""The options of a run of each."""
