"""Plain twin of the kernel of order histories, and stories with events, trades and losses."""

import random
from dataclasses import dataclass, field
from itertools import groupby

from pregao.book.position_book import PositionBook
from pregao.book.priority_book import PriorityBook
from pregao.book.state import State
from pregao.book.updates import (
    BookEmptied,
    BookReset,
    MessagesMissing,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    SideCleared,
    SnapshotEnded,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
)
from pregao.umdf.gaps import GapStep
from pregao.units import Side
from tests.book.support import Story

SIDES = (Side.BID, Side.ASK)


@dataclass
class Item:
    """A message, a loaded snapshot, or a loop that shows that the book is empty."""

    serial: int
    event: int | None = None
    time: int | None = None
    step: GapStep = GapStep.APPLIES
    update: object = None
    snapshot: list = field(default_factory=list)


@dataclass
class Trades:
    """Trades of an event, or of a time."""

    volume: int | None
    first: int
    aggressor: Side | None
    used: dict = field(default_factory=lambda: dict.fromkeys(SIDES, 0))


@dataclass
class Life:
    """History of an order, as a row of the table has it."""

    order_id: int
    side: Side
    serial: int
    event: int | None
    price: int | None
    firm: int | None
    implied: bool | None
    entered: int | None
    size: int | None
    origin: str
    entry_seen: bool
    queue_position: int | None = None
    changes: int = 0
    reductions: int = 0
    reduced: int = 0
    fills: int = 0
    filled: int | None = 0
    unobserved: int = 0
    last_change: int | None = None
    last_size: int | None = None
    ended: int | None = None
    reason: str | None = None
    end_event: int | None = None
    replenishes: int | None = None
    chain: int | None = None
    chain_position: int | None = None
    clearings: int = field(default=0, compare=False)


class Histories:
    """Follows the items of one instrument; ``trades`` are by moment."""

    def __init__(self, trades, *, by_position, named):
        self.book = PositionBook() if by_position else PriorityBook()
        self.named = named
        self.trades = trades
        self.lives, self.acts = [], []
        self.of_number = {}
        self.clearings = {side: [] for side in SIDES}
        self.entered, self.filled_now = [], []
        self.open_event = self.open_moment = None

    def follow(self, items):
        for item in items:
            self._item(item)
        self._settle()
        for life in self.lives:
            if life.reason is None and life.clearings < len(self.clearings[life.side]):
                life.reason, life.ended, life.end_event = self.clearings[life.side][life.clearings]
        return self.lives

    def _item(self, item):
        if item.event is not None and item.event != self.open_event:
            self._settle()
            self.open_event = item.event
        if item.step is GapStep.GAP:
            self.book.apply(MessagesMissing((1, 1, 0), "lost"))
        if item.step in (GapStep.RESTART, GapStep.EMPTIES) or item.snapshot:
            self._clear(SIDES, "UNOBSERVED", None, None)
            if not item.snapshot:
                self.book.apply(BookEmptied((1, 1, 0)))
        position = dict.fromkeys(SIDES, 0)
        for update in item.snapshot:
            self.book.apply(update)
            if isinstance(update, SnapshotOrder):
                position[update.side] += 1
                self._act(item, update, None, None, None)
        if item.update is not None:
            self._message(item, item.update)

    def _message(self, item, update):
        moment = item.event if self.named else item.time
        if moment != self.open_moment:
            self.open_moment, self.filled_now = moment, []
        trades = None if moment is None else self.trades.get(moment)
        known = self.book.state is not State.STALE
        number, stated, removed = None, None, []
        match update:
            case BookEmptied() | BookReset():
                self._clear(SIDES, "BOOK_EMPTIED", item.time, item.event)
            case SideCleared():
                self._clear([update.side], "SIDE_CANCELLED", item.time, item.event)
            case TopRemoved():
                removed = self.book.orders(update.side)[: max(update.position, 0)]
            case OrderChanged() | OrderDeleted():
                changed = isinstance(update, OrderChanged)
                number = update.order_id
                stated = update.previous_size if changed else update.size
                if not self.named:
                    stated, orders = None, self.book.orders(update.side)
                    if known and update.position and 1 <= update.position <= len(orders):
                        order = orders[update.position - 1]
                        stated = order.size
                        number = number if changed and number is not None else order.order_id
            case OrderAdded():
                number = update.order_id
        self.book.apply(update)
        known = known and self.book.state is not State.STALE
        if isinstance(update, TopRemoved) and known:
            after = trades and item.serial > trades.first
            if after and not self.named:
                trades.used[update.side] += sum(order.size for order in removed)
            for order in removed:
                if order.order_id is not None:
                    gone = OrderDeleted(update.key, update.side, order.order_id)
                    before = None if self.named else order.size
                    self._act(item, gone, trades, order.order_id, before, not self.named)
        elif number is not None and (self.named or known):
            self._act(item, update, trades, number, stated)

    def _clear(self, sides, reason, time, event):
        for side in sides:
            self.clearings[side].append((reason, time, event))

    def _settle(self):
        for life in self.entered:
            if life.reason is None and self.book.state is not State.STALE:
                for _, run in groupby(self.book.orders(life.side), key=lambda order: order.price):
                    numbers = [order.order_id for order in run]
                    if life.order_id in numbers:
                        life.queue_position = numbers.index(life.order_id) + 1
        self.entered = []

    def _act(self, item, update, trades, number, stated, counted=False):
        if isinstance(update, SnapshotOrder):
            number = update.order_id
            if number is None:
                return
        adds = isinstance(update, OrderAdded | SnapshotOrder)
        gone = isinstance(update, OrderDeleted)
        again = getattr(update, "recovery", False)
        size = None if gone else update.size
        life = self.of_number.get(number)
        begins = life is None or life.reason is not None
        left = None if begins else life.last_size
        before = left if stated is None else stated
        shown = size if adds and (again or isinstance(update, SnapshotOrder)) else stated
        if gone:
            less = before
        else:
            less = max(before - size, 0) if before is not None and not adds else 0
        filled = False
        if trades and not adds and item.serial > trades.first and update.side != trades.aggressor:
            if not counted:
                trades.used[update.side] += less or 0
            unsized = gone and stated is None
            within = trades.volume is not None and trades.used[update.side] <= trades.volume
            filled = unsized if less is None else less > 0 and (within or unsized)
        if begins:
            life = self._begin(item, update, number, before, again)
            if life.entry_seen:
                self.entered.append(life)
                if trades and trades.volume is not None:
                    self._link(life)
        if left is not None and shown is not None:
            life.unobserved += left - shown
        if isinstance(update, OrderChanged):
            life.changes += 1
            life.last_change = item.time
            if not filled and less:
                life.reductions += 1
                life.reduced += less
        if filled:
            life.fills += 1
            life.filled = None if None in (life.filled, less) else life.filled + less
        life.last_size = before if gone else size
        life.clearings = len(self.clearings[life.side])
        if gone:
            life.ended, life.end_event = item.time, item.event
            life.reason = "FILLED" if filled else "CANCELLED"
            if filled:
                self.filled_now.append(life)
        self.acts.append((item.serial, number, type(update), size, filled))

    def _begin(self, item, update, number, before, again):
        adds = isinstance(update, OrderAdded | SnapshotOrder)
        gone = isinstance(update, OrderDeleted)
        shown = isinstance(update, SnapshotOrder)
        life = Life(
            order_id=number,
            side=update.side,
            serial=item.serial,
            event=None if shown else item.event,
            price=update.price,
            firm=None if gone else update.firm,
            implied=None if gone else update.implied,
            entered=None if gone else update.insert_time_ns,
            size=before if not adds and before is not None else None if gone else update.size,
            origin="snapshot" if shown else "message",
            entry_seen=isinstance(update, OrderAdded) and not again,
        )
        self.lives.append(life)
        self.of_number[number] = life
        return life

    def _link(self, life):
        alike = [
            other
            for other in self.filled_now
            if (other.side, other.price, other.firm) == (life.side, life.price, life.firm)
        ]
        if not alike or None in (life.price, life.firm):
            return
        other = alike[-1]
        if other.chain is None:
            other.chain, other.chain_position = other.order_id, 1
        life.replenishes, life.chain = other.order_id, other.chain
        life.chain_position = other.chain_position + 1


# --- Stories ---


def story(script, seed, *, by_position, named):
    """Return the items of a script with events, times and losses, and the trades of moments."""
    rng = random.Random(seed)
    items, parts, stale = [], [], False
    serial = event = 0
    for update in Story(by_position).play(script):
        serial += rng.randint(1, 3)
        if parts and not isinstance(update, SnapshotOrder | SnapshotEnded):
            items.append(Item(serial, snapshot=parts, step=GapStep.LOADS))
            parts = []
            serial += 2
        match update:
            case SnapshotStarted():
                parts, stale = [update], False
            case SnapshotOrder():
                if parts:
                    parts.append(update)
            case SnapshotEnded():
                if parts:
                    items.append(Item(serial, snapshot=[*parts, update], step=GapStep.LOADS))
                parts = []
            case MessagesMissing():
                stale = True
            case (
                OrderAdded() | OrderChanged() | OrderDeleted() | SideCleared() | TopRemoved()
                | BookEmptied() | BookReset()
            ):  # fmt: skip
                if rng.random() < 0.4:
                    event = serial
                step = GapStep.QUEUED if stale and items else GapStep.APPLIES
                lost = stale and not any(item.step is GapStep.GAP for item in items[-1:])
                if step is GapStep.QUEUED and lost and rng.random() < 0.5:
                    step = GapStep.GAP
                if isinstance(update, BookEmptied | BookReset):
                    step, stale = GapStep.APPLIES, False
                elif rng.random() < 0.02:
                    step, stale = GapStep.RESTART, False
                if not named:
                    if isinstance(update, OrderChanged | OrderDeleted):
                        update = update._replace(order_id=None)
                    if step in (GapStep.GAP, GapStep.QUEUED):
                        update = None
                elif isinstance(update, OrderChanged | OrderDeleted) and rng.random() < 0.3:
                    name = "previous_size" if isinstance(update, OrderChanged) else "size"
                    update = update._replace(**{name: None})
                items.append(Item(serial, event, event * 7, step, update))
    if rng.random() < 0.2:
        items.append(Item(serial + 1, step=GapStep.EMPTIES))
    return items, _traded(items, rng, named=named)


def _traded(items, rng, *, named):
    trades = {}
    for item in items:
        moment = item.event if named else item.time
        if moment is not None and moment not in trades and rng.random() < 0.6:
            trades[moment] = Trades(
                rng.choice([None, *range(1, 30)]),
                item.serial - rng.randint(0, 2),
                rng.choice([None, Side.BID, Side.ASK]),
            )
    return trades
