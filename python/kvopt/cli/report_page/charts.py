"""Charts as inline SVG: lines and stacked bars, in the colours of the page, with a title for readers and tools.

A chart is drawn 360 units wide: a phone shows it at its own size, so its letters stay legible. Its colours are classes
of the page's style, so the same picture is right in dark, in light and on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from kvopt.cli.report_page.axes import Axis, linear_axis, log_axis, short

WIDTH, HEIGHT = 360, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 10, 38
COLOURS = 8

Point = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """Points from left to right; None breaks the line. `half` is what lies above and below each, where known."""

    label: str
    style: int
    points: Sequence[Point]
    half: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts of a whole, by the order of the legend."""

    label: str
    parts: Sequence[float]


@dataclass(frozen=True, slots=True)
class Part:
    """What the pieces at one place of all bars are, and their colour."""

    name: str
    style: int


@dataclass(frozen=True, slots=True)
class Labels:
    """What a chart says in words: title, and what its axes measure."""

    key: str
    """Unique on the page."""
    title: str
    x: str
    y: str = ""


def line_chart(labels: Labels, lines: Sequence[Line], *, log_x: bool = False, percent: bool = False) -> str:
    """A figure with all lines; of those without a point only the title is left."""
    known = [(x, y) for line in lines for x, y in line.points if y is not None and (x > 0 or not log_x)]
    if not known:
        return _figure(labels, _text(WIDTH / 2, HEIGHT / 2, "no data", "middle"), HEIGHT)
    horizontal = (_LEFT, WIDTH - _RIGHT)
    xs, ys = [x for x, _ in known], [y for _, y in known]
    margin = 1.08 if any(line.half for line in lines) else 1.0  # so that points are whole, also at the ends
    x_axis = log_axis(min(xs) / margin, max(xs) * margin, *horizontal) if log_x else linear_axis(max(xs), *horizontal)
    top = max(
        [*ys, *(y + h for line in lines for (_, y), h in zip(line.points, line.half, strict=False) if y is not None)]
    )
    y_axis = Axis(0.0, 1.0, HEIGHT - _BOTTOM, _TOP) if percent else linear_axis(top, HEIGHT - _BOTTOM, _TOP)
    body = [*_grid(labels, x_axis, y_axis, percent)]
    for line in lines:
        shapes = [_path(line, x_axis, y_axis), *_whiskers(line, x_axis, y_axis)]
        body.append(f'<g class="l s{line.style % COLOURS}"><title>{escape(line.label)}</title>{"".join(shapes)}</g>')
    return _figure(labels, "".join(body), HEIGHT)


def bar_chart(labels: Labels, bars: Sequence[Bar], parts: Sequence[Part]) -> str:
    """A figure with a stacked bar under each label; `parts` name and colour the pieces."""
    row, top = 34, 6
    height = top + row * len(bars) + 38
    whole = max((math.fsum(bar.parts) for bar in bars), default=0.0)
    if not whole > 0:
        return _figure(labels, _text(WIDTH / 2, height / 2, "nothing", "middle"), height)
    axis = linear_axis(whole, 8, WIDTH - _RIGHT)
    bottom = top + row * len(bars)
    body = []
    for tick in axis.ticks(4):
        x = axis.place(tick)
        body.append(
            f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>{_text(x, bottom + 14, short(tick), _anchor(axis, tick))}'
        )
    for number, bar in enumerate(bars):
        y, done = top + row * number, 0.0
        body.append(_text(8, y + 12, _shortened(bar.label), "start"))
        for index, part in enumerate(bar.parts):
            begin, end = axis.place(done), axis.place(done + part)
            said = f"{bar.label}: {parts[index].name} {short(part)}"
            place = f'x="{begin:.1f}" y="{y + 16}" width="{max(end - begin, 0):.1f}" height="13"'
            body.append(f'<rect class="p{parts[index].style}" {place}><title>{escape(said)}</title></rect>')
            done += part
    body.append(_text((axis.begin + axis.end) / 2, bottom + 30, labels.x, "middle"))
    return _figure(labels, "".join(body), height, part_legend(parts))


def line_legend(names: Iterable[tuple[int, str]]) -> str:
    """Which line is whose, once for all charts of a section."""
    items = "".join(
        f'<li><svg class="swatch l s{style % COLOURS}" viewBox="0 0 28 8" aria-hidden="true"><path d="M0 4H28"/></svg>'
        f"{escape(name)}</li>"
        for style, name in names
    )
    return f'<ul class="legend">{items}</ul>'


def part_legend(parts: Sequence[Part]) -> str:
    """Which piece of a bar is what."""
    items = "".join(
        f'<li><svg class="swatch" viewBox="0 0 28 8" aria-hidden="true">'
        f'<rect class="p{part.style}" width="28" height="8"/></svg>{escape(part.name)}</li>'
        for part in parts
    )
    return f'<ul class="legend">{items}</ul>'


def _figure(labels: Labels, body: str, height: int, below: str = "") -> str:
    return (
        f'<figure><figcaption id="{labels.key}-title">{escape(labels.title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{labels.key}-title">'
        f"<title>{escape(labels.title)}</title>{body}</svg>{below}</figure>"
    )


def _grid(labels: Labels, x_axis: Axis, y_axis: Axis, percent: bool) -> Iterable[str]:
    for tick in y_axis.ticks():
        y = y_axis.place(tick)
        said = f"{100 * tick:.0f}%" if percent else short(tick)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>{_text(_LEFT - 6, y + 4, said, "end")}'
    for tick in x_axis.ticks():
        x = x_axis.place(tick)
        yield f'<path class="tick" d="M{x:.1f} {HEIGHT - _BOTTOM}v4"/>'
        yield _text(x, HEIGHT - _BOTTOM + 18, short(tick), _anchor(x_axis, tick))
    yield f'<path class="axis" d="M{_LEFT} {HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>'
    yield _text((x_axis.begin + x_axis.end) / 2, HEIGHT - 4, labels.x, "middle")


def _path(line: Line, x_axis: Axis, y_axis: Axis) -> str:
    pieces, pen, alone = [], "M", []
    for x, y in line.points:
        if y is None or (x_axis.log and x <= 0):
            pen = "M"
            continue
        pieces.append(f"{pen}{x_axis.place(x):.1f} {y_axis.place(y):.1f}")
        pen = "L"
    drawn = f'<path d="{"".join(pieces)}"/>' if pieces else ""
    if line.half or len(line.points) == 1:  # measured points, not a curve: show where they are
        for x, y in line.points:
            if y is not None:
                alone.append(f'<circle cx="{x_axis.place(x):.1f}" cy="{y_axis.place(y):.1f}" r="2.5"/>')
    return drawn + "".join(alone)


def _whiskers(line: Line, x_axis: Axis, y_axis: Axis) -> Iterable[str]:
    for (x, y), half in zip(line.points, line.half, strict=False):
        if y is not None and half > 0:
            low, high = y_axis.place(y - half), y_axis.place(y + half)
            yield f'<path class="whisker" d="M{x_axis.place(x):.1f} {low:.1f}V{high:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _anchor(axis: Axis, tick: float) -> str:
    # The last label would stick out of the picture.
    return "end" if axis.place(tick) > axis.end - 10 else "start" if axis.place(tick) < 16 else "middle"


def _shortened(label: str) -> str:
    return label if len(label) <= 52 else f"{label[:51]}…"
