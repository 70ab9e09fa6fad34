"""Loading a class, such as a policy or a scheduler, from a Python file, named as "path/to/file.py:ClassName"."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvopt.errors import ConfigError, KvoptError, PolicyError

if TYPE_CHECKING:
    from kvopt.policies import Policy

Base = TypeVar("Base")

_FILE_AND_CLASS = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)")
_MODULES = "kvopt_policy_"  # what the modules of such files are called


def load_policy(spec: str) -> str | type[Policy]:
    """The class that "path/to/file.py:ClassName" names; any other spec is returned as it is.

    Runs the file. Raises ConfigError when the file or class is missing or is no Policy subclass, PolicyError when
    the file itself raises.
    """
    from kvopt.policies import Policy

    return load_class(spec, "policy", Policy, PolicyError)  # type: ignore[type-abstract]


def load_class(spec: str, what: str, base: type[Base], broken: type[KvoptError]) -> str | type[Base]:
    """The subclass of `base` that "path/to/file.py:ClassName" names; any other spec is returned as it is.

    `what` stands for it in messages. Runs the file. Raises ConfigError when the file or class is missing or is none,
    `broken` when the file itself raises.
    """
    match = _FILE_AND_CLASS.fullmatch(spec)
    if match is None:
        if spec.endswith(".py"):
            raise ConfigError(f"{what} {spec!r}: name its class too, as {spec}:ClassName")
        return spec
    path, name = Path(match["file"]), match["name"]
    if not path.is_file():
        raise ConfigError(f"{what} {spec!r}: there is no file {str(path)!r}")
    found = vars(_run_file(path, broken)).get(name)
    if not isinstance(found, type) or not issubclass(found, base):
        public = f"{base.__module__.rpartition('.')[0]}.{base.__name__}"
        kind = "no class" if found is None else f"something that is no subclass of {public}"
        raise ConfigError(f"{what} {spec!r}: {path} defines {kind} under the name {name!r}")
    return found


def source_of(kind: type) -> str | None:
    """The spec by which :func:`load_class` finds this class again, also in another process; None for other classes."""
    if not kind.__module__.startswith(_MODULES):
        return None
    return f"{sys.modules[kind.__module__].__file__}:{kind.__qualname__}"


def _run_file(path: Path, broken: type[KvoptError]) -> object:
    # The module stays in sys.modules because dataclasses and pickle look their classes up there.
    name = f"{_MODULES}{path.stem}_{abs(hash(path.resolve())):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise broken(f"{path}: {_where(error, path)}{type(error).__name__}: {error}") from error
    return module


def _where(error: BaseException, path: Path) -> str:
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f"line {line}: "
