"""Every error that KVopt raises on purpose, and its warnings.

All derive from :class:`KvoptError`; those caused by a bad argument also derive from :class:`ValueError`,
so that a caller who knows nothing of KVopt still catches them. The native core raises the same classes.
An error is raised before any state changes, and its message names the value and the limit.
"""

from __future__ import annotations


class KvoptError(Exception):
    """Base of all errors of this package."""


class ConfigError(KvoptError, ValueError):
    """An option, parameter or argument is outside what it may be."""


class UnknownPolicyError(ConfigError):
    """No policy has this name; the message suggests the nearest one."""


class UnknownSchedulerError(ConfigError):
    """No scheduler has this name; the message suggests the nearest one."""


class PolicyLibraryError(ConfigError):
    """A shared library of policies is missing, is none, or was compiled for another KVopt."""


class PolicyStateError(ConfigError):
    """A saved policy state is foreign, damaged, of another version, policy or settings; or a policy learns nothing."""


class ModelConfigError(ConfigError):
    """A model's config.json is damaged, or of an architecture whose geometry cannot be read; names file and key."""


class ArrayError(KvoptError, ValueError):
    """An array has another dtype, shape or layout than asked for, or lies on another device; names what and where."""


class DeviceError(KvoptError, RuntimeError):
    """A device was asked for that this build or machine does not have, or it failed; says what there is."""


class MeasurementError(KvoptError, ValueError):
    """Measured times break their format or cannot be fitted; the message names file, line and value."""


class PoorFitWarning(UserWarning):
    """A fit of measured times is poor, or the points do not determine a coefficient."""


class TraceError(KvoptError, ValueError):
    """A workload file or array breaks its format; the message names file, line or record, and value."""


class PoolError(KvoptError):
    """Base of what a block pool refuses."""


class NotEnoughBlocksError(PoolError, ValueError):
    """More blocks were asked for than can be freed; nothing was changed."""


class StaleBlockError(PoolError, ValueError):
    """A block id is out of range, or its block no longer holds what the caller thinks it holds."""


class ReferenceCountError(PoolError, ValueError):
    """A release without a reference, or more references than the counter holds."""


class LeaseError(PoolError, ValueError):
    """A lease is unknown, already over, or would exceed the lease budget."""


class RequestIdError(PoolError, ValueError):
    """A request id is unknown, or already in use."""


class PolicyError(KvoptError):
    """A policy broke its side of the contract (raised, or chose a block that it must not choose)."""


class SchedulerError(KvoptError):
    """A scheduler broke its side of the contract (raised, or named a request that it does not hold)."""


class PatchError(KvoptError, ValueError):
    """A vLLM cannot be patched, or a patched one not be put back; nothing of it was changed."""


class SimulationError(KvoptError):
    """A simulation cannot go on, or its books do not balance; the message shows the state."""


class ClientFieldError(KvoptError, ValueError):
    """A field that a client sent is unknown, of a wrong type, out of range, or contradicts another."""
