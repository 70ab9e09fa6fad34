"""What may stand where a replay takes a policy: a spec, a Policy subclass, or a new Policy object."""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path
from typing import TypeAlias

from kvopt import _core
from kvopt.errors import ConfigError, PolicyError
from kvopt.policies import Policy

PolicyLike: TypeAlias = "str | type[Policy] | Policy"
"""A spec such as "lru", a Policy subclass that is made without arguments, or a new Policy object."""

_CALLS = "\n\nAt:\n"  # what the native core puts between an error of Python code and the calls that led to it
_CALL = re.compile(r"^ *(?P<file>.+)\((?P<line>\d+)\): ", re.MULTILINE)
_PACKAGE = Path(__file__).parents[1]


def policy_name(policy: PolicyLike) -> str:
    """What a policy is called in rows: its spec, or the `name` (else the class name) of a Python policy."""
    if isinstance(policy, str):
        return policy
    kind = policy if isinstance(policy, type) else type(policy)
    name = getattr(policy, "name", None)
    return name if isinstance(name, str) and name else kind.__name__


def check_policy(policy: PolicyLike, capacities: int = 1) -> str:
    """The name of a policy that can be replayed at so many capacities.

    Raises UnknownPolicyError for a name that no policy has, ConfigError for anything else that cannot be replayed.
    """
    if isinstance(policy, str):
        _core.parse_policy(policy)
        return policy
    if isinstance(policy, Policy):
        if policy.attached or capacities > 1:
            why = "it has served one" if policy.attached else f"give its class to replay it at {capacities} capacities"
            raise ConfigError(f"policies: {policy_name(policy)}: a policy object serves one pool; {why}")
        return policy_name(policy)
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise ConfigError(f"policies: {policy!r} is neither a policy name nor a kvopt.policies.Policy")
    if inspect.isabstract(policy):
        missing = ", ".join(sorted(policy.__abstractmethods__))
        raise ConfigError(f"policies: {policy_name(policy)} lacks the methods {missing}")
    return policy_name(policy)


def new_policy(policy: PolicyLike) -> str | Policy:
    """The policy for one replay; a class is called without arguments, and PolicyError says how that failed."""
    if not isinstance(policy, type):
        return policy
    try:
        return policy()
    except Exception as error:
        raise PolicyError(f"{policy_name(policy)}() raised {type(error).__name__}: {error}") from error


def breach(error: PolicyError, policy: PolicyLike, capacity: int) -> PolicyError:
    """The same error in one line: of which policy, at which capacity, and where in its own code."""
    said, _, calls = str(error).partition(_CALLS)
    places = ((Path(call["file"]), call["line"]) for call in _CALL.finditer(calls))
    inner = itertools.takewhile(lambda place: Path(__file__).parent not in place[0].parents, places)
    own = next((f"{file}: line {line}: " for file, line in inner if _PACKAGE not in file.parents), "")
    return PolicyError(f"{own}policy {policy_name(policy)} at {capacity} blocks: {' '.join(said.split())}")
