"""`kvopt policies`: what can be named where a policy is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kvopt.cli.values import policy_library_option

if TYPE_CHECKING:
    from rich.console import Console

    from kvopt._core import PolicyInfo


@click.command(short_help="List the policies, or describe one.")
@click.argument("name", required=False)
@policy_library_option
def policies(name: str | None) -> None:
    """List the policies, or describe the policy NAME and its parameters.

    A parameter is set after the name, as in NAME:PARAMETER=VALUE. Policies of a shared library are listed with
    --policy-library.
    """
    from kvopt import _core
    from kvopt.cli.console import output_console

    console = output_console()
    known = _core.policies()
    if name is None:
        _print_all(console, known)
        return
    parsed, _ = _core.parse_policy(name)
    _print_one(console, next(policy for policy in known if policy.name == parsed))


def _print_all(console: Console, known: list[PolicyInfo]) -> None:
    from rich.text import Text

    from kvopt.cli.console import new_table, print_table

    table = new_table(console)
    adjustable = any(policy.parameters for policy in known)
    for column in ("name", "kind", *(("parameters",) if adjustable else ()), "summary", "reference"):
        table.add_column(column)
    for policy in known:
        parameters = ", ".join(f"{parameter.name}={parameter.default:g}" for parameter in policy.parameters)
        adjust = (parameters or "-",) if adjustable else ()
        table.add_row(*map(Text, (policy.name, _kind(policy), *adjust, policy.summary, policy.reference)))
    print_table(console, table)


def _print_one(console: Console, policy: PolicyInfo) -> None:
    from rich.text import Text

    console.print(Text(f"{policy.name} ({_kind(policy)}): {policy.summary}"))
    console.print(Text(f"reference: {policy.reference}"))
    console.print(Text(f"needs: {', '.join(policy.needs) or 'nothing but the references'}"))
    if not policy.parameters:
        console.print("parameters: none")
    for parameter in policy.parameters:
        limits = f"{parameter.lowest:g} to {parameter.highest:g}"
        console.print(Text(f"parameter {parameter.name}={parameter.default:g} ({limits}): {parameter.description}"))


def _kind(policy: PolicyInfo) -> str:
    return "offline" if policy.offline else "online"
