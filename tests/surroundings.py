"""A broker's surroundings, made of a test's functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.broker.hooks import Events, Hooks
from tree_handler.sharing.rule import EachGateway, SharedGroups


@dataclass(frozen=True)
class Authenticator:
    decide: Callable[..., Any]


@dataclass(frozen=True)
class Tree:
    publish_all: Callable[..., Any]
    carries: Callable[[], bool] = lambda: False

    @property
    def carries_unlogged(self) -> bool:
        return self.carries()


@dataclass(frozen=True)
class Links:
    accept: Callable[..., Any]
    why_no_link: Callable[..., str] = lambda connect, certificate, address: ""


def _always(client: Any, topic: str) -> bool:
    return True


@dataclass(frozen=True)
class Permissions:
    may_publish: Callable[..., Any] = _always
    may_subscribe: Callable[..., Any] = _always
    may_deliver: Callable[..., Any] = _always
    is_concealed: Callable[..., bool] = lambda client, topic_filter: False


async def no_links(transport: Any, first: bytes) -> None:
    """Serves no neighbour."""


def hooks(
    *,
    commit: Callable[..., Any],
    authenticate: Callable[..., Any] = lambda client, password: True,
    carries_unlogged: Callable[[], bool] = lambda: False,
    links: Callable[..., Any] = no_links,
    events: Events | None = None,
    groups: SharedGroups | None = None,
    **permissions: Any,
) -> Hooks:
    """`Hooks` of functions; without any of `Permissions` all is permitted."""
    given = {name: decide for name, decide in permissions.items() if decide is not None}
    return Hooks(
        Authenticator(authenticate),
        Tree(commit, carries_unlogged),
        Links(links),
        Permissions(**given) if given else None,
        () if events is None else (events,),
        groups=groups or EachGateway(),
    )
