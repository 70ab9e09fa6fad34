"""Workers on this machine: processes that each load a trace and then run one cell of it after another.

The parent holds one end of a pipe to each; a worker ends when the pipe closes or its parent is gone, also in the middle
of a cell, so nothing is left behind by a kill. Processes are spawned, never forked: threads of the parent do no harm.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kvopt.errors import ConfigError, KvoptError, SimulationError
from kvopt.workload.parquet import read_parquet

if TYPE_CHECKING:
    from kvopt.simulator.server import Progress
    from kvopt.workload.base import Trace

Cell = TypeVar("Cell")
Answer = TypeVar("Answer")
Cell_contra = TypeVar("Cell_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


class Runner(Protocol[Cell_contra, Answer_co]):
    """Runs the cells of one trace, one after another."""

    def run(self, cell: Cell_contra, progress: Progress | None = None) -> Answer_co:
        """The answer of a cell; `progress` is called now and then."""


class Job(Protocol[Cell_contra, Answer_co]):
    """What a worker needs besides the trace; it is pickled for processes of their own."""

    def runner(self, trace: Trace) -> Runner[Cell_contra, Answer_co]:
        """What runs cells of this trace."""


class Workers(Protocol[Cell, Answer_co]):
    """What runs cells, anywhere."""

    def run(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Answer_co]]:
        """Run these cells; yield each with its answer when it is done, in any order.

        Raises what a cell raised, and SimulationError when a worker was lost.
        """

    def close(self) -> None:
        """End the workers, whatever they do."""


def check_jobs(jobs: int) -> int:
    """How many processes; raises ConfigError below 1."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ConfigError(f"jobs: {jobs!r} is not a whole number from 1 up")
    return jobs


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_workers(trace_file: Path, job: Job[Cell, Answer], jobs: int) -> Workers[Cell, Answer]:
    """`jobs` processes on a trace in KVopt's own format; one job is run in this process. Raises ConfigError."""
    return InProcess(trace_file, job) if check_jobs(jobs) == 1 else Processes(trace_file, job, jobs)


class InProcess(Generic[Cell, Answer]):
    """One cell after another, here."""

    def __init__(self, trace_file: Path, job: Job[Cell, Answer]) -> None:
        self._runner = job.runner(read_parquet(trace_file))

    def run(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Answer]]:
        """See Workers."""
        for cell in cells:
            yield cell, self._runner.run(cell)

    def close(self) -> None:
        """See Workers."""


class Processes(Generic[Cell, Answer]):
    """Processes of their own, started when the first cells come."""

    def __init__(self, trace_file: Path, job: Job[Cell, Answer], jobs: int) -> None:
        self._arguments = (str(trace_file), job)
        self._jobs = jobs
        self._started: dict[Connection, BaseProcess] = {}

    def run(self, cells: Iterable[Cell]) -> Iterator[tuple[Cell, Answer]]:
        """See Workers."""
        waiting = list(cells)[::-1]
        self._start(min(self._jobs, len(waiting)))
        idle = list(self._started)
        busy: dict[Connection, Cell] = {}
        while waiting or busy:
            while waiting and idle:
                pipe = idle.pop()
                busy[pipe] = waiting.pop()
                try:
                    pipe.send(busy[pipe])
                except OSError:
                    raise self._lost(pipe, busy[pipe]) from None
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                pipe = ready
                cell = busy.pop(pipe)
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):
                    raise self._lost(pipe, cell) from None
                if isinstance(answer, BaseException):
                    raise answer
                idle.append(pipe)
                yield cell, answer

    def close(self) -> None:
        """See Workers."""
        for pipe, process in self._started.items():
            pipe.close()
            process.terminate()
        for process in self._started.values():
            process.join()
        self._started = {}

    def _start(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        while len(self._started) < count:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, os.getpid(), *self._arguments), daemon=True)
            process.start()
            theirs.close()
            self._started[ours] = process

    def _lost(self, pipe: Connection, cell: Cell) -> SimulationError:
        process = self._started[pipe]
        process.join()
        return SimulationError(f"the worker of {cell} ended with exit code {process.exitcode}")


def _serve(pipe: Connection, parent: int, trace_file: str, job: Job[Cell, Answer]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers

    def watch(done: int, total: int | None, what: str) -> None:
        if os.getppid() != parent:
            os._exit(1)

    try:
        runner: Runner[Cell, Answer] | None = None
        while True:
            cell = pipe.recv()
            try:
                runner = runner or job.runner(read_parquet(trace_file))
                answer: object = runner.run(cell, watch)
            except KvoptError as error:
                answer = error
            except Exception:
                answer = SimulationError(f"{cell}: {traceback.format_exc()}")
            pipe.send(answer)
    except (EOFError, OSError):
        return
