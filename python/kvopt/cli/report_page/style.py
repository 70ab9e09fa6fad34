"""The style of the page: light, dark and paper, one column on a phone."""

from __future__ import annotations

_LIGHT = ["#1f5fbf", "#c2410c", "#15803d", "#9333ea", "#0e7490", "#b91c5c", "#7a6a00", "#555e6b"]
_DARK = ["#7db4ff", "#ff9d5c", "#6fd58a", "#d3a4ff", "#5cd0e6", "#ff8ab8", "#e0cd55", "#b3bcc9"]
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "", "7 3", "2 3")

_RULES = """
:root{color-scheme:light dark;--back:#fff;--ink:#1b2027;--soft:#5a6472;--rule:#d5dae1;--panel:#f6f8fa;LIGHT}
@media (prefers-color-scheme:dark){
:root{--back:#12161c;--ink:#e6eaf0;--soft:#a3adba;--rule:#343c47;--panel:#1a2028;DARK}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1240px;margin:0 auto;padding:16px}
h1{font-size:1.6rem;line-height:1.2;margin:.4em 0}
h2{font-size:1.25rem;line-height:1.25;margin:2em 0 .4em;border-top:1px solid var(--rule);padding-top:.8em}
h3{font-size:1.05rem;margin:1.6em 0 .3em}
h1,h2,h3,p,li,figcaption,tbody th{overflow-wrap:anywhere}
p{margin:.4em 0;max-width:75ch}
.soft,figcaption+p{color:var(--soft)}
.wide{overflow-x:auto;border:1px solid var(--rule);border-radius:6px;margin:.8em 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:13.5px}
th,td{padding:5px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th.name,td.name{text-align:left;white-space:normal;min-width:6.5em;max-width:15em}
th.name[scope]{position:sticky;left:0;background:var(--back)}thead th.name[scope]{background:var(--panel)}
td small{display:block;color:var(--soft);font-size:11.5px;line-height:1.2}
thead th{background:var(--panel);font-weight:600;vertical-align:bottom;white-space:normal;min-width:5.5em}
td,tbody th{vertical-align:top}
tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}
tbody th{font-weight:600}
tr.first th,tr.first td{border-top:2px solid var(--rule)}
td.best{font-weight:700}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:14px;align-items:start}
figure{margin:0;padding:10px;background:var(--panel);border:1px solid var(--rule);border-radius:6px;max-width:560px}
figcaption{font-weight:600;font-size:13.5px;margin-bottom:4px}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--rule);stroke-width:.8;fill:none}
.axis,.tick{stroke:var(--soft);stroke-width:1;fill:none}
.l path{fill:none;stroke-width:1.8;stroke-linejoin:round}
.l .whisker{stroke-width:1.2;stroke-dasharray:none}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:.5em 0;padding:0;font-size:13.5px}
.legend,figure .legend{margin-bottom:.3em}
figure .legend{gap:2px 14px;font-size:12px;color:var(--soft)}
.legend li{display:flex;align-items:center;gap:7px}
.swatch{width:28px;height:8px;flex:none}
nav ul{columns:2 16em;padding-left:1.2em;margin:.5em 0}
a{color:var(--s0)}
footer{margin:2.5em 0 1em;color:var(--soft);font-size:13px}
@media print{
:root{--back:#fff;--ink:#000;--soft:#444;--rule:#bbb;--panel:#fff;LIGHT}
body{font-size:10pt}main{max-width:none;padding:0}nav{display:none}
.wide{overflow:visible}table{font-size:7pt}th,td{padding:2px 3px}td small{font-size:6pt}
th.name,td.name{min-width:5em;overflow-wrap:normal}
.charts{display:block}figure{display:inline-block;width:49%;margin:0 .4% 6px 0;vertical-align:top}
figure,tr{break-inside:avoid}h2,h3,h3+.legend{break-after:avoid}
@page{margin:14mm}
}
"""


def style_sheet() -> str:
    """The rules, with a colour and a pattern of dashes for each line and each piece of a bar."""
    series = "".join(
        f".s{number} path{{stroke:var(--s{number});stroke-dasharray:{dash or 'none'}}}"
        f".s{number} circle{{fill:var(--s{number})}}.p{number}{{fill:var(--s{number})}}"
        for number, dash in enumerate(_DASHES)
    )
    rules = _RULES.replace("LIGHT", _variables(_LIGHT)).replace("DARK", _variables(_DARK))
    return rules.strip() + series


def _variables(colours: list[str]) -> str:
    return ";".join(f"--s{number}:{colour}" for number, colour in enumerate(colours))
