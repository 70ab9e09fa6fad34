"""Retention in the timed engine: Continuum's coordinator hears what happens, and leases give way before anybody waits.

What retention knows as a session is a thread: the main one of a trace's session, and each of its sub-agents. Blocks
that are only leased are held by no request; they make room before a running request is preempted, and for the first who
waits where that lets it in.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kvopt._core import RequestInfo
from kvopt.continuum import ClientRecord, ContinuumOptions, Coordinator, NativePool, make_ttl_rule
from kvopt.continuum.pool import Holder
from kvopt.continuum.scheduler import ContinuumScheduler
from kvopt.errors import ConfigError
from kvopt.scheduler import Request, Scheduler
from kvopt.simulator.memory import Memory
from kvopt.simulator.requests import RequestSource
from kvopt.simulator.step_time import StepTime

Leases = Literal["never", "scarce", "always"]


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """What is retained, and how hard. Raises ConfigError."""

    rule: str = "index"
    """A TTL rule such as "index" or "fixed:seconds=2"; see docs/continuum.md."""
    leases: Leases = "scarce"
    """When blocks are leased."""
    lease_share: float = 0.9
    """Share of the pool that leases may pin."""
    last_turn: bool = False
    """Whether clients say which request is the last of its session or sub-agent."""

    def __post_init__(self) -> None:
        make_ttl_rule(self.rule)
        if self.leases not in get_args(Leases):
            raise ConfigError(f"retention: leases is {self.leases!r}; it must be {', '.join(get_args(Leases))}")
        share = self.lease_share
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 0.9:
            raise ConfigError(f"retention: lease_share is {share!r}; it must be a share from 0 to 0.9")
        if not isinstance(self.last_turn, bool):
            raise ConfigError(f"retention: last_turn is {self.last_turn!r}; it must be true or false")

    @classmethod
    def parse(cls, spec: str) -> RetentionOptions:
        """The options of a spec such as "index" or "fixed:seconds=2,leases=always,lease_share=0.5,last_turn=1".

        What is none of these options is one of the rule's. Raises ConfigError.
        """
        name, _, settings = spec.strip().partition(":")
        of_rule: list[str] = []
        own: dict[str, Any] = {}
        for piece in filter(None, settings.split(",")):
            key, _, text = (part.strip() for part in piece.partition("="))
            if key not in _READERS:
                of_rule.append(piece)
                continue
            if key in own:
                raise ConfigError(f"retention {spec!r}: {key} is given twice")
            own[key] = _READERS[key](spec, key, text)
        return cls(f"{name}:{','.join(of_rule)}" if of_rule else name, **own)


def _share(spec: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"retention {spec!r}: {key} is {text!r}, not a number") from None


def _switch(spec: str, key: str, text: str) -> bool:
    if text not in {"0", "1"}:
        raise ConfigError(f"retention {spec!r}: {key} is {text!r}; it must be 0 or 1")
    return text == "1"


def _word(spec: str, key: str, text: str) -> str:
    return text


_READERS: Mapping[str, Any] = {"leases": _word, "lease_share": _share, "last_turn": _switch}


class Retention:
    """What the engine tells of, and asks. This one retains nothing."""

    next_due = math.inf
    """Seconds before which the passing of time alone changes nothing."""

    def before_step(self, now: float) -> bool:
        """A step begins; true when something was let go of that may change who is admitted."""
        return False

    def planned(self, now: float) -> None:
        """The step is planned: who runs and what is held stays as it is while it takes its time."""

    def arrived(self, request: Request, now: float) -> None:
        """A request waits."""

    def scheduled(self, request: Request, hit: int, now: float) -> None:
        """It holds its blocks, of which the first `hit` were cached."""

    def preempted(self, request: Request, now: float) -> None:
        """It lost its blocks and waits again."""

    def finished(self, request: Request, info: RequestInfo, now: float) -> None:
        """Its answer is complete; it holds its blocks still."""

    def aborted(self, request: Request, now: float) -> None:
        """It ends without an answer, from wherever it was."""

    def make_room(self, blocks: int, now: float, waiting: Request | None = None) -> bool:
        """Give something up for a running request that needs `blocks` blocks, or for the first who waits.

        False when nothing is left to give, it would not do, or who waits can wait on.
        """
        return False

    def close(self, now: float) -> None:
        """The run is over; everything is let go of."""

    def counts(self) -> dict[str, float]:
        """What was done, by name."""
        return {}


class SessionRetention(Retention):
    """Continuum's coordinator on one engine; see the module."""

    def __init__(
        self,
        options: RetentionOptions,
        memory: Memory,
        source: RequestSource,
        scheduler: Scheduler,
        step_time: StepTime,
        token_budget: int,
    ) -> None:
        self._memory, self._source, self._last_turn = memory, source, options.last_turn
        self._ordered = isinstance(scheduler, ContinuumScheduler)
        order = scheduler if isinstance(scheduler, ContinuumScheduler) else ContinuumScheduler()
        self._leases = pool = _LeasedMemory(memory)
        self.coordinator = Coordinator(
            pool,
            lambda new, cached: prefill_seconds(step_time, new, cached, token_budget),
            ContinuumOptions(
                ttl=options.rule,
                leases=options.leases if pool.lease_budget else "never",
                block_tokens=memory.block_tokens,
                starvation_bound=order.bound,
                ageing=order.ageing,
            ),
        )
        order.follow(self.coordinator.selection, self._found)
        self._demand: tuple[int, int, int] | None = None

    @property
    def next_due(self) -> float:  # type: ignore[override]
        """See Retention."""
        return min(self.coordinator.next_deadline, self._leases.next_deadline)

    def before_step(self, now: float) -> bool:
        """See Retention."""
        expired = self._leases.expire(now)
        self.planned(now)
        return self.coordinator.tick(now) > 0 or expired

    def planned(self, now: float) -> None:
        """See Retention."""
        selection = self.coordinator.selection
        demand = self._memory.free, selection.blocks, len(selection)
        if demand != self._demand:  # the price reckons with what was, until something changes
            self._demand = demand
            self.coordinator.demand(now, demand[0])

    def arrived(self, request: Request, now: float) -> None:
        """See Retention."""
        record = ClientRecord(
            session_id=str(self._source.thread(request.id)),
            last_turn=self._last_turn and self._source.is_last_turn(request.id),
        )
        self.coordinator.arrival(
            request.id,
            now,
            record,
            blocks=self._memory.blocks(request.prompt_tokens),
            program_arrival=request.session_arrival,
        )

    def scheduled(self, request: Request, hit: int, now: float) -> None:
        """See Retention."""
        self.coordinator.hit(request.id, now, hit)
        self.coordinator.scheduled(request.id, now)

    def _found(self, request: Hashable, now: float, tokens: int) -> bool:
        return self.coordinator.found(request, now, tokens // self._memory.block_tokens)

    def preempted(self, request: Request, now: float) -> None:
        """See Retention."""
        self.coordinator.preempted(request.id, now)

    def finished(self, request: Request, info: RequestInfo, now: float) -> None:
        """See Retention."""
        self.coordinator.finished(
            request.id,
            now,
            stop=info.stop,
            tools=(f"tool {info.tool}",) if info.tool >= 0 else (),
            blocks=request.committed,
            handle=request,
        )

    def aborted(self, request: Request, now: float) -> None:
        """See Retention."""
        self.coordinator.aborted(request.id, now)

    def make_room(self, blocks: int, now: float, waiting: Request | None = None) -> bool:
        """See Retention."""
        if blocks > self._memory.free + self._memory.leased:
            return False  # all leases together would not do
        whom = waiting.id if waiting is not None and self._ordered else None
        return bool(self.coordinator.make_room(self._memory.free + 1, now, waiting=whom))

    def close(self, now: float) -> None:
        """See Retention."""
        self.coordinator.clear(now)

    def counts(self) -> dict[str, float]:
        """See Retention."""
        return self.coordinator.stats()


def prefill_seconds(step_time: StepTime, new: int, cached: int, step_tokens: int) -> float:
    """Seconds that an idle server computes `new` tokens behind `cached` ones, in equal steps of at most `step_tokens`.

    All are taken as the one of mean context; exact for a model that is linear in it.
    """
    if new <= 0:
        return 0.0
    steps = math.ceil(new / step_tokens)
    mean = new / steps
    return steps * step_time.step_ms([(round(mean), round(cached + (new - mean) / 2.0))], 0, 0) / 1000.0


class _LeasedMemory(NativePool):
    """The simulated memory as a ProtectedPool; handles are requests. It knows when leases end by themselves."""

    def __init__(self, memory: Memory) -> None:
        soft = memory.pool.honours_priority
        super().__init__(memory.pool, lease_budget=memory.lease_budget, soft=soft, weighs=memory.weighs)
        self._deadline: dict[int, float] = {}  # of each lease
        self.next_deadline = math.inf
        """No lease ends by itself before, in seconds."""

    def lease(self, handle: Holder, blocks: int, *, deadline: float, now: float) -> int:
        """See ProtectedPool."""
        lease = super().lease(handle, blocks, deadline=deadline, now=now)
        self._deadline[lease] = deadline
        self.next_deadline = min(self.next_deadline, deadline)
        return lease

    def end_lease(self, lease: int, *, now: float) -> bool:
        """See ProtectedPool."""
        self._deadline.pop(lease, None)
        return super().end_lease(lease, now=now)

    def expire(self, now: float) -> bool:
        """End leases that are due; whether there were any."""
        if now < self.next_deadline:
            return False
        self._pool.expire(now)
        over = [lease for lease, deadline in self._deadline.items() if deadline <= now]
        for lease in over:
            del self._deadline[lease]
        self.next_deadline = min(self._deadline.values(), default=math.inf)
        return bool(over)
