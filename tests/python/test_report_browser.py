"""The page in a real browser: nothing sticks out or overlaps at the widths of a desk and of a phone, dark and light."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from test_report import page_of, simulated

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")

# Measures the page that the browser has laid out, and leaves what it found in the title.
PROBE = """<script>
const boxes = (e) => [...e].map((x) => x.getBoundingClientRect());
const inside = (a, b) =>
  a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const apart = (a, b) =>
  a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
const found = {width: document.documentElement.scrollWidth, view: innerWidth, outside: [], overlaps: [], smallest: 99};
for (const figure of document.querySelectorAll("figure")) {
  const frame = figure.getBoundingClientRect(), texts = [...figure.querySelectorAll("svg[role=img] text")];
  const places = boxes(texts);
  places.forEach((box, i) => {
    if (!inside(box, frame)) found.outside.push(texts[i].textContent);
    for (let j = i + 1; j < places.length; j++)
      if (!apart(box, places[j])) found.overlaps.push(`${texts[i].textContent} ${texts[j].textContent}`);
    const svg = texts[i].ownerSVGElement;
    found.smallest = Math.min(found.smallest, 11 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width);
  });
}
const figures = boxes(document.querySelectorAll("figure"));
figures.forEach((a, i) => figures.slice(i + 1).forEach((b) => { if (!apart(a, b)) found.overlaps.push("figures"); }));
found.figures = figures.length;
document.title = JSON.stringify(found);
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"there is no headless browser: none of {', '.join(BROWSERS)}")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    result = simulated(
        folder, "result.json", "--capacity", "5,10,16", "--policy", "lru,cost-aware,s3-fifo", "--seeds", 3
    )
    page_of(folder, result)
    return folder / "report.html"


def browse(browser: str, page: Path, width: int, *options: str) -> str:
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},1600",
        f"--user-data-dir={page.parent / 'profile'}", *options, page.as_uri(),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overlaps_or_sticks_out(browser: str, page: Path, width: int) -> None:
    text = page.read_text()
    probed = page.with_name("probed.html")
    # The page forbids scripts, so that of the test needs the rule taken out.
    probed.write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("</body>", f"{PROBE}</body>")
    )
    dom = browse(browser, probed, width, "--dump-dom")
    match = re.search(r"<title>(\{.*?\})</title>", dom)
    assert match is not None
    found = json.loads(html.unescape(match[1]))
    assert found["view"] == width
    assert found["width"] <= width
    assert found["figures"] == 27
    assert found["outside"] == []
    assert found["overlaps"] == []
    assert found["smallest"] >= 9.5


def test_dark_and_light(browser: str, page: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow, which comes with the extra plot, is not installed")
    from PIL import Image

    shades = []
    for scheme in (1, 0):  # light, dark
        shot = page.with_name(f"{scheme}.png")
        browse(browser, page, 1280, f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}")
        with Image.open(shot) as image:
            shades.append(float(np.median(np.asarray(image.convert("L")))))
    assert shades[0] > 200
    assert shades[1] < 60
