"""Requests, and the order in which those that wait are taken."""

from __future__ import annotations

from kvopt.scheduler.base import OrderedScheduler, RescoredScheduler, Scheduler, SchedulerView
from kvopt.scheduler.cache_aware import CacheAwareScheduler
from kvopt.scheduler.fifo import FifoScheduler
from kvopt.scheduler.priority import PriorityScheduler
from kvopt.scheduler.program import ProgramScheduler
from kvopt.scheduler.registry import SchedulerInfo, make_scheduler, parse_scheduler, register_scheduler, schedulers
from kvopt.scheduler.request import Request, RequestQueue, RequestState
from kvopt.scheduler.shortest_prefill import ShortestPrefillScheduler

__all__ = [
    "CacheAwareScheduler",
    "FifoScheduler",
    "OrderedScheduler",
    "PriorityScheduler",
    "ProgramScheduler",
    "Request",
    "RequestQueue",
    "RequestState",
    "RescoredScheduler",
    "Scheduler",
    "SchedulerInfo",
    "SchedulerView",
    "ShortestPrefillScheduler",
    "make_scheduler",
    "parse_scheduler",
    "register_scheduler",
    "schedulers",
]
