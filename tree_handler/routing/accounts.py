"""Accounts of an origin: which of its messages are for which gateway, and what came.

The origin alone decides who gets a message, when it accepts it, and keeps that for as long as
its log has the message: so whether a number is missing at a gateway by design or by accident
can always be told (`Tell`). For each gateway it also knows the last number that is for it, and
how far the gateway has said to be covered; while the one is greater it claims it, now and then.

The numbers for a gateway are kept as ranges. Where they grow too many, gaps are filled: too much
is sent then when it is asked for, never too little.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.routing.wire import Claimed

CLAIM_AFTER_S: Final = 0.5
"""An unanswered number is claimed so long after it was sent; then ever more rarely."""
CLAIM_AT_MOST_S: Final = 10.0
MAX_STREAMS: Final = 257
"""Epochs that are kept: the present one and as many as `epoch_order` tells of."""
MAX_WANTED_RANGES: Final = 256
"""Ranges kept of one stream for one gateway."""
_EVERYBODY: Final = ""
"""Stands in what is saved where a gateway's id would: no gateway has this one."""


@dataclass(slots=True)
class Account:
    """One gateway's part of one stream.

    Attributes:
        wanted: the numbers that are for it, as far as the log has them.
        covered: it has said that it has all that is for it up to here.
        claim_at: when the last number is claimed next; infinity once it is covered.
        wait_s: how long after that again.
        answered: which of its requests was answered last; 0 if none was.
        dropped: up to here the log dropped numbers that it had not said it has: what came behind
            them waits for the word that they do not come.

    """

    wanted: Intervals = field(default_factory=Intervals)
    covered: int = 0
    claim_at: float = math.inf
    wait_s: float = CLAIM_AFTER_S
    answered: int = 0
    dropped: int = 0

    @property
    def owed(self) -> Intervals:
        """The numbers for it that it has not said it has."""
        if not self.covered:
            return self.wanted
        return self.wanted.without(Intervals([(1, self.covered)]))


@dataclass(slots=True)
class OwnStream:
    """One boot epoch of the origin.

    Attributes:
        last: the last number that was accepted.
        accounts: by gateway.
        saved_last: up to here it was saved for whom the numbers are.
        for_everybody: numbers of which nobody knows for whom they are; who becomes known is owed
            them too.

    """

    last: int = 0
    accounts: dict[str, Account] = field(default_factory=dict)
    saved_last: int = 0
    for_everybody: Intervals = field(default_factory=Intervals)

    def account(self, gateway_id: str) -> Account:
        """Return the account of a gateway, a new one if it has none."""
        account = self.accounts.get(gateway_id)
        if account is None:
            account = self.accounts[gateway_id] = Account(Intervals(self.for_everybody))
        return account


class Accounts:
    """All that one origin owes.

    Args:
        origin: its gateway id.
        epoch: its present boot epoch.

    """

    def __init__(self, origin: str, epoch: int) -> None:
        self.origin = origin
        self.epoch = epoch
        self.streams: dict[int, OwnStream] = {}
        """By boot epoch, the present one and earlier ones."""
        self.lost = 0
        """Numbers that the log trimmed before a gateway they were for had said it has them."""
        self.due_at = math.inf
        """The time when `claims` may have something to say."""

    def __len__(self) -> int:
        """Return how many accounts there are, of all epochs and gateways."""
        return sum([len(stream.accounts) for stream in self.streams.values()])

    def ended(self, epoch: int, last: int) -> None:
        """An earlier epoch ended with this number."""
        stream = self.streams.setdefault(epoch, OwnStream())
        stream.last = max(stream.last, last)
        while len(self.streams) > MAX_STREAMS:
            del self.streams[min(self.streams)]

    def last_for(self, epoch: int, to: Iterable[str]) -> list[tuple[str, int]]:
        """For each gateway the last number that is for it, as `accepted` will say."""
        stream = self.streams.get(epoch)
        if stream is None:
            return [(one, 0) for one in to]
        found = ((one, stream.accounts.get(one)) for one in to)
        unmet = stream.for_everybody.last
        return [(one, unmet if account is None else account.wanted.last) for one, account in found]

    def accepted(
        self, epoch: int, first: int, last: int, to: Iterable[str], now: float
    ) -> list[tuple[str, int]]:
        """Note for whom a batch was accepted; return for each the number that was its last
        before."""
        stream = self.streams.get(epoch)
        if stream is None:
            stream = self.streams[epoch] = OwnStream()
        stream.last = max(stream.last, last)
        before = []
        for gateway_id in to:
            account = stream.accounts.get(gateway_id)
            if account is None:
                account = stream.account(gateway_id)
                self._tell_ends(gateway_id, epoch, now)
            wanted = account.wanted
            before.append((gateway_id, wanted.last))
            wanted.add(first, last)
            if len(wanted) > MAX_WANTED_RANGES:
                _thin_out(wanted)
            if account.claim_at == math.inf:
                account.wait_s = CLAIM_AFTER_S
                account.claim_at = now + CLAIM_AFTER_S
                self.due_at = min(self.due_at, account.claim_at)
        return before

    def wanted(self, gateway_id: str, epoch: int, ranges: Intervals) -> Intervals:
        """Return which of these numbers are for a gateway."""
        account = self._account(gateway_id, epoch)
        if account is None:
            return Intervals()
        return ranges.common(account.wanted)

    def before(self, gateway_id: str, epoch: int, number: int) -> int:
        """Return the last number for a gateway before this one."""
        account = self._account(gateway_id, epoch)
        return 0 if account is None else account.wanted.before(number)

    def has_answered(self, gateway_id: str, epoch: int, number: int) -> bool:
        """Return whether this request of a gateway was the last that was answered."""
        account = self._account(gateway_id, epoch)
        return account is not None and 0 < number == account.answered

    def answered(self, gateway_id: str, epoch: int, number: int) -> None:
        """A request of a gateway is answered: what is claimed from now on says so."""
        account = self._account(gateway_id, epoch)
        if account is not None:
            account.answered = number

    def tail(self, gateway_id: str, epoch: int) -> tuple[int, int]:
        """Return the last number for a gateway, and the last number of the stream."""
        stream = self.streams.get(epoch)
        if stream is None:
            return 0, 0
        account = stream.accounts.get(gateway_id)
        return 0 if account is None else account.wanted.last, stream.last

    def covered(self, gateway_id: str, epoch: int, number: int, now: float) -> None:
        """A gateway says that it has all that is for it up to a number."""
        account = self._account(gateway_id, epoch)
        if account is None:
            return
        account.covered = max(account.covered, number)
        if not self._is_open(epoch, account):
            account.claim_at = math.inf
        else:
            account.wait_s = CLAIM_AFTER_S
            account.claim_at = min(account.claim_at, now + CLAIM_AFTER_S)
            self.due_at = min(self.due_at, account.claim_at)

    def asks(self, gateway_id: str, epoch: int, numbers: Intervals, now: float) -> None:
        """A gateway asks for these: it has not all any more that it said it has.

        So these are claimed until it says so again. Without a claim it would not hear that its
        request was answered where the answer is lost, and would repeat for ever what is answered
        once.
        """
        account = self._account(gateway_id, epoch)
        lacking = Intervals() if account is None else numbers.common(account.wanted)
        if account is None or not lacking.before(account.covered + 1):
            return
        account.covered = next(iter(lacking))[0] - 1
        if account.claim_at == math.inf and self._is_open(epoch, account):
            account.wait_s = CLAIM_AFTER_S
            account.claim_at = now + CLAIM_AFTER_S
            self.due_at = min(self.due_at, account.claim_at)

    def claim_anew(self, gateway_ids: Collection[str], now: float, *, restarted: bool) -> None:
        """These gateways came into reach: claim what is open at once.

        Args:
            gateway_ids: who.
            now: when.
            restarted: they may have forgotten what they said they had.

        """
        for epoch, stream in self.streams.items():
            for gateway_id in gateway_ids & stream.accounts.keys():
                account = stream.accounts[gateway_id]
                if restarted:
                    account.covered = account.answered = 0
                if self._is_open(epoch, account):
                    account.wait_s = CLAIM_AFTER_S
                    account.claim_at = self.due_at = now

    def claims(
        self, reached: Collection[str], now: float
    ) -> Iterable[tuple[Epoch, int, list[Claimed]]]:
        """Give what is claimed of gateways in reach now: stream, last number, and from whom.

        Of a gateway that is out of reach nothing is claimed until it is back (`claim_anew`).
        """
        self.due_at = math.inf
        for epoch, stream in self.streams.items():
            claimed: list[Claimed] = []
            for gateway_id, account in stream.accounts.items():
                if account.claim_at == math.inf or gateway_id not in reached:
                    continue
                if account.claim_at <= now:
                    claimed.append((gateway_id, account.wanted.last, account.answered))
                    account.claim_at = now + account.wait_s
                    account.wait_s = min(2 * account.wait_s, CLAIM_AT_MOST_S)
                self.due_at = min(self.due_at, account.claim_at)
            if claimed:
                yield (self.origin, epoch), stream.last, claimed

    def saved_up_to(self, epoch: int) -> int:
        """Return the number of an epoch up to which the receivers were saved."""
        stream = self.streams.get(epoch)
        return 0 if stream is None else stream.saved_last

    def for_everybody(self, epoch: int, numbers: Intervals) -> None:
        """Nobody knows for whom these are: who is `met` from now on is owed them."""
        stream = self.streams.get(epoch)
        if stream is not None:
            stream.for_everybody.update(numbers)
            if len(stream.for_everybody) > MAX_WANTED_RANGES:
                _thin_out(stream.for_everybody)

    def met(self, gateway_id: str, now: float) -> None:
        """A gateway is known: it is owed, too, what is for everybody."""
        for epoch, stream in self.streams.items():
            if len(stream.for_everybody):
                self.owe(epoch, stream.for_everybody, (gateway_id,), now)

    def owe(self, epoch: int, numbers: Intervals, to: Iterable[str], now: float) -> None:
        """These may be for these gateways: claim them at once."""
        stream = self.streams.get(epoch)
        if stream is None:  # older than all that are kept
            return
        for gateway_id in to:
            if gateway_id not in stream.accounts:
                self._tell_ends(gateway_id, epoch, now)
            account = stream.account(gateway_id)
            account.wanted.update(numbers)
            if len(account.wanted) > MAX_WANTED_RANGES:
                _thin_out(account.wanted)
            if self._is_open(epoch, account):
                account.wait_s = CLAIM_AFTER_S
                account.claim_at = self.due_at = now

    def forget(self, gateway_id: str) -> None:
        """A gateway is gone for good: nothing is for it any more."""
        for stream in self.streams.values():
            account = stream.accounts.pop(gateway_id, None)
            if account is not None:
                self.lost += account.owed.count()

    def trimmed(self, kept_from: Mapping[Epoch, int]) -> None:
        """The log dropped its oldest: the lowest number that it still holds, by stream."""
        for epoch, stream in self.streams.items():
            first = kept_from.get((self.origin, epoch), 1)
            if first <= 1:
                continue
            dropped = Intervals([(1, first - 1)])
            stream.for_everybody = stream.for_everybody.without(dropped)
            for account in stream.accounts.values():
                left = account.wanted.without(dropped)
                gone = account.owed.common(dropped)
                self.lost += gone.count()
                account.dropped = max(account.dropped, gone.last)
                account.wanted = left
                if not self._is_open(epoch, account):
                    account.claim_at = math.inf

    def owed(self) -> dict[str, int]:
        """Return how many numbers each gateway has not yet said it has, of those it is owed any."""
        found: dict[str, int] = {}
        for stream in self.streams.values():
            for gateway_id, account in stream.accounts.items():
                if account.wanted.last > account.covered:
                    found[gateway_id] = found.get(gateway_id, 0) + account.owed.count()
        return found

    def save(self) -> list[Any]:
        """Return all of it, for `load`."""
        rows = []
        for epoch, stream in self.streams.items():
            accounts = [[to, a.covered, list(a.wanted)] for to, a in stream.accounts.items()]
            if len(stream.for_everybody):
                accounts.append([_EVERYBODY, 0, list(stream.for_everybody)])
            rows.append([epoch, stream.last, accounts])
        return rows

    def load(self, rows: Iterable[Any], now: float) -> None:
        """Take up what `save` returned; all that is open will be claimed."""
        for epoch, last, accounts in rows:
            self.ended(epoch, last)
            stream = self.streams.get(epoch)
            if stream is None:  # older than all that are kept
                continue
            stream.saved_last = last
            for to, covered, wanted in accounts:
                numbers = Intervals((first, end) for first, end in wanted)
                if to == _EVERYBODY:
                    stream.for_everybody = numbers
                    continue
                account = Account(numbers, covered)
                stream.accounts[to] = account
                if self._is_open(epoch, account):
                    account.claim_at = self.due_at = now

    def _is_open(self, epoch: int, account: Account) -> bool:
        """Return whether a gateway has not said yet that it has all.

        Of an earlier epoch all is told to its end: messages of the next one wait for that.
        """
        if epoch != self.epoch:
            return self.streams[epoch].last > account.covered
        return max(account.wanted.last, account.dropped) > account.covered

    def _tell_ends(self, gateway_id: str, epoch: int, now: float) -> None:
        """A gateway gets its first message of an epoch: tell it how the earlier ones ended."""
        for earlier, stream in self.streams.items():
            if earlier >= epoch:
                continue
            account = stream.account(gateway_id)
            if self._is_open(earlier, account):
                account.claim_at = self.due_at = now

    def _account(self, gateway_id: str, epoch: int) -> Account | None:
        stream = self.streams.get(epoch)
        return None if stream is None else stream.accounts.get(gateway_id)


def _thin_out(wanted: Intervals) -> None:
    """Fill every other gap of the older half."""
    ranges = list(wanted)
    for i in range(0, len(ranges) // 2, 2):
        wanted.add(ranges[i][0], ranges[i + 1][1])
