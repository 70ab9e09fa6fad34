"""The ``vllm.general_plugins`` entry point: inert until a configuration asks for KVopt.

vLLM calls :func:`register` in the API server, the engine core and every worker, perhaps several times in each. All it
does is to wrap two functions of vLLM: the one that names the scheduler's class, so that KVopt's mixin goes over
whatever class would run, and the one that makes the engine's configuration, so that a bad option is an error at once
and not after the weights are loaded. A patched vLLM does both by itself.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

from kvopt.errors import ConfigError
from kvopt.vllm.config import Config, read_config
from kvopt.vllm.versions import is_patched

logger = logging.getLogger("vllm.kvopt")  # below vLLM's own logger, so that it is shown where vLLM's lines are

_MARK = "_kvopt_wrapped"
_SCHEDULER = "kvopt.vllm.Scheduler"
_not_needed: list[str] = []
"""Why the plugin did nothing, until it is said: when vLLM loads plugins, it may not have set its logging up."""


def register() -> None:
    """Wrap vLLM's two functions; calling it again changes nothing.

    Raises ConfigError for a bad ``KVOPT_CONFIG``, so that the server does not start with it.
    """
    from vllm.config import SchedulerConfig

    read_config()
    if is_patched():
        _not_needed.append("KVopt is patched into this vLLM; the plugin does nothing")
        return
    _wrap(SchedulerConfig, "get_scheduler_cls", _scheduler_class)
    # Only who makes a configuration has this module already; importing it here would slow every worker down.
    arguments = sys.modules.get("vllm.engine.arg_utils")
    if arguments is not None and hasattr(arguments, "EngineArgs"):
        _wrap(arguments.EngineArgs, "create_engine_config", _engine_config)


def active_config(vllm_config: Any) -> Config | None:
    """The configuration that is active for this engine: asked for, or implied by ``--scheduler-cls``."""
    config = read_config(vllm_config)
    if config is None and getattr(vllm_config.scheduler_config, "scheduler_cls", None) == _SCHEDULER:
        return Config(source="--scheduler-cls")
    return config


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    if getattr(original, _MARK, False):
        return

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    setattr(wrapper, _MARK, True)
    setattr(owner, name, wrapper)


def configured(vllm_config: Any) -> None:
    """An engine was configured: metrics are served if it asks for KVopt. Raises ConfigError for a bad option."""
    config = active_config(vllm_config)
    if config is not None and _not_needed:
        logger.info(_not_needed[0])
        _not_needed.clear()
    if config is not None and config.metrics:
        from kvopt.vllm.exporter import start_exporter

        start_exporter()


def _engine_config(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    vllm_config = original(self, *args, **kwargs)
    configured(vllm_config)
    return vllm_config


def _scheduler_class(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    base = original(self, *args, **kwargs)
    from kvopt.vllm.scheduler import wrap

    return wrap(base)


def fall_back(config: Config, why: str) -> None:
    """Say in one warning that vLLM runs untouched, and why. Raises ConfigError instead when the config is strict."""
    if config.strict:
        raise ConfigError(f"{config.source}.strict: {why}")
    logger.warning("KVopt is off, vLLM runs untouched: %s", why)
