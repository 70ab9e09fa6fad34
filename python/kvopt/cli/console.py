"""Where a command writes: a rich console on a terminal, plain aligned text elsewhere, progress on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.progress import TaskID

Progress: TypeAlias = Callable[[int, "int | None", str], None]

_WIDE = 100_000
_GAP = 2  # between the columns of a table


def output_console() -> Console:
    """The console on standard output. Away from a terminal it never colours, wraps or shortens anything."""
    terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        force_terminal=terminal,
        force_interactive=False,
        no_color=None if terminal else True,
        width=None if terminal else _WIDE,
        highlight=False,
        soft_wrap=not terminal,
    )


def new_table(console: Console) -> Table:
    """An empty table in the style of the console: ruled on a terminal, aligned columns elsewhere."""
    if console.is_terminal:
        return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")


def print_table(console: Console, table: Table, spare: Sequence[str] = ()) -> None:
    """Print a table; away from a terminal without the spaces that pad its last column.

    `spare` are headers of columns that a terminal too narrow for all may leave out, the first of them first.
    """
    if console.is_terminal:
        for column in table.columns:  # a narrow terminal may fold cells between words, but must not cut figures
            texts = [str(cell) for cell in (column.header, *column.cells)]
            column.min_width = max(cell_len(word) for text in texts for word in (text or "-").split(" "))
            column.no_wrap = column.min_width == max(map(cell_len, texts))
        left_out = _leave_out(table, spare, console.width)
        console.print(table)
        if left_out:
            console.print(f"\nA wider terminal also shows: {', '.join(left_out)}.", style="dim")
        return
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")


def _leave_out(table: Table, spare: Sequence[str], width: int) -> list[str]:
    left_out = []
    for header in spare:
        if sum((column.min_width or 0) + _GAP for column in table.columns) - _GAP <= width:
            break
        table.columns = [column for column in table.columns if column.header != header]
        left_out.append(header)
    return left_out


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A progress callback that draws on standard error while the block runs; None away from a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as display:

        def report(done: int, total: int | None, what: str) -> None:
            if what not in tasks:
                tasks[what] = display.add_task(what, total=total)
            display.update(tasks[what], completed=done, total=total)

        yield report
