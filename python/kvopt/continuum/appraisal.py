"""What an idle session's blocks are worth now: everything a TTL rule asks about, brought together."""

from __future__ import annotations

from kvopt.continuum.gaps import SessionGaps
from kvopt.continuum.loss import LossSeconds
from kvopt.continuum.options import ContinuumOptions
from kvopt.continuum.price import BlockPrice, QueueForecast
from kvopt.continuum.selection import ProgramSelection
from kvopt.continuum.sessions import Session
from kvopt.continuum.ttl import Decision, Question
from kvopt.continuum.ttl_rules import make_ttl_rule


class Appraisal:
    """Asks the rule about idle sessions. Its parts learn from the coordinator's events."""

    def __init__(
        self,
        loss: LossSeconds,
        options: ContinuumOptions,
        selection: ProgramSelection,
        capacity: int,
    ) -> None:
        self.rule = make_ttl_rule(options.ttl)
        self.gaps = SessionGaps(shrinkage=options.shrinkage, memory=options.memory, pace=options.pace)
        self.price = BlockPrice(capacity, options.time_constant)
        self.forecast = QueueForecast(options.time_constant)
        self.running = 0
        self.running_blocks = 0
        self._block_tokens = options.block_tokens
        self._selection = selection
        self._loss = loss
        self._available = 0

    def started(self, blocks: int) -> None:
        """A request runs, and holds so many blocks."""
        self.running += 1
        self.running_blocks += blocks

    def stopped(self, blocks: int) -> None:
        """It runs no longer."""
        self.running -= 1
        self.running_blocks -= blocks

    def demand(self, now: float, available: int) -> None:
        """How many blocks could be had just now."""
        self._available = available
        waiting = self._selection
        self.price.observe(now, available=available, wanted=waiting.blocks, waiting=len(waiting))

    def loss(self, own: int, shared: int) -> float:
        """Seconds that losing `own` blocks behind `shared` others costs."""
        return self._loss(own * self._block_tokens, shared * self._block_tokens) if own else 0.0

    def decide(self, session: Session, now: float) -> Decision:
        """The rule's answer on an idle session; one whose client asked for a TTL is kept that long at least."""
        blocks, shared, _ = session.footprint
        own = blocks - shared
        ahead = self._selection.ahead(session.arrival)
        decision = self.rule.decide(
            Question(
                self.gaps.curve(session, now),
                self.loss(own, shared),
                age=now - session.idle_since,
                queueing=self.forecast.gain(ahead=ahead, blocks=own, available=self._available) if ahead else 0.0,
                blocks=own,
                price=self.price.price(now),
                others=self.running_blocks,
                delayed=1 + self.running + len(self._selection),
                tool=session.tool,
                expected_gap=session.expected,
            )
        )
        asked = session.asked_until - now
        if asked > 0.0 and not (decision.keep and decision.ttl >= asked):
            return decision._replace(ttl=asked, keep=True, reasons=("the client asked for it", *decision.reasons))
        return decision
