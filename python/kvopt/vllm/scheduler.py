"""The mixin that goes over vLLM's scheduler class, whichever it is, and the class for ``--scheduler-cls``.

A wrapped class decides when it is made: without a configuration, or with a vLLM that is not known, it makes an instance
of the class that it wraps, untouched.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from kvopt.vllm.config import Config
from kvopt.vllm.plugin import active_config, fall_back, logger
from kvopt.vllm.pools import pool_for
from kvopt.vllm.runtime import Runtime
from kvopt.vllm.versions import check_vllm


class KVoptMixin:
    """Tells KVopt of what the scheduler under it does; every method calls vLLM's own.

    Attributes:
        kvopt: the run-time of this engine: hooks, metrics, recorder, pool.
    """

    kvopt: Runtime

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        config = _asked_for(args, kwargs)
        assert config is not None
        vllm_config = _vllm_config(args, kwargs)
        with pool_for(config, vllm_config, _argument(args, kwargs, 1, "kv_cache_config")) as pool:
            super().__init__(*args, **kwargs)
        self.kvopt = Runtime(config, vllm_config, self, pool)
        logger.info("KVopt is active (from %s): %s", config.source, self.kvopt.describe())

    def add_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        with self.kvopt.hooks.guard("arrival"):
            self.kvopt.arrived(request)
        return super().add_request(request, *args, **kwargs)  # type: ignore[misc]

    def schedule(self, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        with self.kvopt.hooks.guard("before a step"):
            self.kvopt.before_step()
        output = super().schedule(*args, **kwargs)  # type: ignore[misc]
        with self.kvopt.hooks.guard("scheduled"):
            self.kvopt.scheduled(output)
        return output

    def update_from_output(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        outputs = super().update_from_output(scheduler_output, *args, **kwargs)  # type: ignore[misc]
        with self.kvopt.hooks.guard("step"):
            self.kvopt.stepped()
        return outputs

    def _preempt_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        with self.kvopt.hooks.guard("preempted"):
            self.kvopt.preempted(request)
        return super()._preempt_request(request, *args, **kwargs)  # type: ignore[misc]

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        with self.kvopt.hooks.guard("finished"):
            self.kvopt.finished(request)
        return super()._free_request(request, *args, **kwargs)  # type: ignore[misc]

    def _free_blocks(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        with self.kvopt.hooks.guard("released"):
            self.kvopt.released(request)
        return super()._free_blocks(request, *args, **kwargs)  # type: ignore[misc]

    def reset_prefix_cache(self, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        with self.kvopt.hooks.guard("before a reset"):
            self.kvopt.before_reset()
        done = super().reset_prefix_cache(*args, **kwargs)  # type: ignore[misc]
        with self.kvopt.hooks.guard("reset"):
            self.kvopt.reset(bool(done))
        return done

    def shutdown(self) -> Any:  # noqa: D102
        with self.kvopt.hooks.guard("shutdown"):
            self.kvopt.shutdown()
        return super().shutdown()  # type: ignore[misc]


@functools.cache
def wrap(base: type[Any]) -> type[Any]:
    """The class that makes a `base` with KVopt over it, or a plain `base` where KVopt is not asked for."""
    if base is Scheduler or issubclass(base, KVoptMixin):
        return base

    def new(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
        config = _asked_for(args, kwargs)
        if config is None:
            return base(*args, **kwargs)
        found = check_vllm()
        if not found.supported:
            fall_back(config, "; ".join(found.problems))
            return base(*args, **kwargs)
        return super(wrapped, cls).__new__(cls)

    space = {"__new__": new, "__module__": __name__, "__doc__": KVoptMixin.__doc__}
    name = f"KVopt{base.__name__}"
    wrapped: type[Any] = types.new_class(name, (KVoptMixin, base), exec_body=lambda body: body.update(space))
    return wrapped


class Scheduler:
    """For ``--scheduler-cls kvopt.vllm.Scheduler``: vLLM's own sync or async scheduler with KVopt over it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The wrapped scheduler that this configuration calls for."""
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler as SyncScheduler

        asynchronous = _vllm_config(args, kwargs).scheduler_config.async_scheduling
        return wrap(AsyncScheduler if asynchronous else SyncScheduler)(*args, **kwargs)


def _asked_for(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config | None:
    return active_config(_vllm_config(args, kwargs))


def _vllm_config(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _argument(args, kwargs, 0, "vllm_config")


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return kwargs[name] if name in kwargs else args[place]
