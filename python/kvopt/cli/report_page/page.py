"""The whole page: what was simulated, the comparison, and a section of charts for each capacity and scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from kvopt import __version__
from kvopt.cli.report_page.charts import Labels, bar_chart, line_chart, line_legend
from kvopt.cli.report_page.curves import (
    BY_CAPACITY,
    LATENCIES,
    MEMORY_PARTS,
    PREFILL_PARTS,
    by_capacity,
    distributions,
    held_share,
    hit_share,
    memory_bars,
    over_time,
    prefill_bars,
    time_unit,
    used_share,
)
from kvopt.cli.report_page.style import style_sheet
from kvopt.cli.report_page.table import comparison_table
from kvopt.cli.simulate_table import verdict

if TYPE_CHECKING:
    from kvopt.cli.simulation_file import Run, Scenario

Styled = list[tuple[int, "list[Run]"]]


def report_page(scenarios: Sequence[Scenario], title: str) -> bytes:
    """The page as UTF-8 HTML that asks for nothing outside itself and runs no script. Every name in it is escaped."""
    parts = [_scenario(number, scenario) for number, scenario in enumerate(scenarios, start=1)]
    links = "".join(link for links, _ in parts for link in links)
    nav = f"<nav aria-label='Sections'><ul>{links}</ul></nav>" if links.count("<li>") > 1 else ""
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<meta name="generator" content="kvopt {escape(__version__)}"><title>{escape(title)}</title>'
        f"<style>{style_sheet()}</style></head>\n<body><main><h1>{escape(title)}</h1>{nav}\n"
        + "\n".join(body for _, body in parts)
        + f"\n<footer>Made by kvopt {escape(__version__)} from simulations. Means over seeds, ± half the 95% interval; "
        "distributions hold all seeds, charts over time show the first.</footer></main></body></html>\n"
    )
    return page.encode()


def _scenario(number: int, scenario: Scenario) -> tuple[list[str], str]:
    key, summaries = f"r{number}", scenario.summaries()
    styles = {policy: index for index, policy in enumerate(dict.fromkeys(run.policy for run in scenario.runs))}
    links = [f'<li><a href="#{key}">{escape(scenario.trace.name)}</a></li>']
    body = [
        f'<section id="{key}"><h2>{escape(scenario.trace.name)}</h2>',
        f'<p class="soft">{escape(_facts(scenario))}</p><p>{escape(verdict(summaries))}</p>',
        comparison_table(summaries),
    ]
    settings = list(dict.fromkeys((run.capacity, run.scheduler) for run in scenario.runs))
    schedulers = list(dict.fromkeys(scheduler for _, scheduler in settings))
    for index, scheduler in enumerate(schedulers):
        if len({capacity for capacity, of in settings if of == scheduler}) < 2:
            continue
        at = [(styles[each.policy], each) for each in summaries if each.scheduler == scheduler]
        body.append(f"<h3>By capacity, {escape(scheduler)}</h3>")
        body.append(line_legend((style, policy) for policy, style in styles.items()))
        charts = [
            line_chart(
                Labels(f"{key}-c{index}-{figure}", f"{name}{f', {unit}' if unit else ''}", "blocks"),
                by_capacity(at, figure),
                log_x=True,
                percent=percent,
            )
            for figure, name, unit, percent in BY_CAPACITY
        ]
        body.append(f'<div class="charts">{"".join(charts)}</div>')
    for index, (capacity, scheduler) in enumerate(settings):
        runs: dict[str, list[Run]] = {}
        for run in scenario.runs:
            if (run.capacity, run.scheduler) == (capacity, scheduler):
                runs.setdefault(run.policy, []).append(run)
        anchor = f"{key}-s{index}"
        name = f"{capacity:,} blocks, {scheduler}"
        links.append(f'<li><a href="#{anchor}">{escape(scenario.trace.name)}: {escape(name)}</a></li>')
        body.append(f'<h3 id="{anchor}">{escape(name)}</h3>')
        body.append(_setting(anchor, [(styles[policy], group) for policy, group in runs.items()]))
    return links, "\n".join([*body, "</section>"])


def _setting(key: str, runs: Styled) -> str:
    charts = [
        line_chart(
            Labels(
                f"{key}-{latency}",
                f"{name}: share of {'jobs' if latency == 'job_completion' else 'requests'}",
                "seconds",
            ),
            distributions(runs, latency),
            log_x=True,
            percent=True,
        )
        for latency, name in LATENCIES
    ]
    seconds, unit = time_unit(runs)
    charts += [
        line_chart(Labels(f"{key}-{part}", name, unit), over_time(runs, value, seconds), percent=True)
        for part, name, value in (
            ("hit", "Prompt tokens hit, over time", hit_share),
            ("held", "Memory held by requests, over time", held_share),
            ("used", "Memory held or cached, over time", used_share),
        )
    ]
    charts += [
        bar_chart(
            Labels(f"{key}-memory", "What idle cached memory was for", "block-seconds"), memory_bars(runs), MEMORY_PARTS
        ),
        bar_chart(Labels(f"{key}-prefill", "What prefill was for", "seconds"), prefill_bars(runs), PREFILL_PARTS),
    ]
    legend = line_legend((style, group[0].policy) for style, group in runs)
    return f'{legend}<div class="charts">{"".join(charts)}</div>'


def _facts(scenario: Scenario) -> str:
    trace, setup = scenario.trace, scenario.setup
    clients, profile = setup.get("clients"), setup.get("profile")
    facts = [f"{trace.requests:,} requests, {trace.unique_blocks:,} unique blocks of {trace.block_tokens} tokens"]
    if isinstance(clients, dict):
        facts.append(f"{clients.get('mode')} loop, rate {clients.get('rate')}")
    if isinstance(profile, dict):
        facts.append(str(profile.get("name")))
    seeds = len({run.seed for run in scenario.runs})
    facts.append(f"{seeds} seeds" if seeds > 1 else "one run each")
    return "; ".join(facts)
