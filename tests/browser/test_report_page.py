"""The pages of a report and of a drill as people see them: in headless Chromium, on a phone and on a desk."""

import numpy as np
import pytest

from ckptstore.objectives import Objectives
from ckptstore.operations.drill import Round
from ckptstore.run import Run
from tests.browser.chromium import chromium, programs
from tests.support import RUN, make_store, random_bytes

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(None in programs(), reason="Chromium and chromedriver are not installed"),
]
NAMES = "abcdefgh"

BEYOND = """
const wide = [], edge = document.querySelector("main").getBoundingClientRect();
for (const each of document.querySelectorAll("main *")) {
  if (each.closest(".scroll") && !each.matches(".scroll")) continue;
  const box = each.getBoundingClientRect(), over = box.right > edge.right + 1 || box.left < edge.left - 1;
  if (over && each.checkVisibility()) wide.push(each.tagName + "." + each.className + ": " + box.right);
}
return wide;
"""
"""What reaches over the edge of the page's column, but for what is in a box that scrolls."""

FAINT = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
function rgb(colour) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function light(colour) {
  const [r, g, b] = colour.map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function paper(each) {
  for (; each; each = each.parentElement) {
    const found = rgb(getComputedStyle(each).backgroundColor);
    if (found[3] === 255) return found;
  }
  return [255, 255, 255, 255];
}
const faint = [];
for (const each of document.querySelectorAll("body *")) {
  const words = [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  if (!words || !each.checkVisibility()) continue;
  const [a, b] = [light(rgb(getComputedStyle(each).color)), light(paper(each))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) faint.push(each.tagName + "." + each.className + ": " + contrast.toFixed(2));
}
return faint;
"""
"""Words with less contrast than 4.5 to 1, which is what WCAG 2.2 AA asks for."""


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report on a store with something of everything amiss, and the page of a drill."""
    root = tmp_path_factory.mktemp("pages")
    domains = {name: f"a-domain-{number % 3}" for number, name in enumerate(NAMES)}
    store = make_store(root / "targets", NAMES, "6+2", domains=domains, objectives=Objectives(survive=2, rto="15m"))
    states = {step: {"w": random_bytes(400_000 * step, step), "b": np.arange(9.0)} for step in range(1, 7)}
    saved = [store.save(state, step=step) for step, state in states.items()]
    run = Run(store.config, RUN)
    drills = [run.drill(rounds=[Round(lose=lost)], report_dir=root / "reports") for lost in (1, 2, 3)]
    (root / "reports" / "drill-cut.json").write_text("{")
    store.remove(store.fragment(saved[1], 0))
    store.truncate(store.fragment(saved[2], 1))
    for number in range(3):
        store.remove(store.fragment(saved[3], number))
    store.take_away("h")
    run.report(root / "report.html", reports=root / "reports")
    drilled = next(path for path in drills[-1].files if path.endswith(".html"))
    return {"report": root / "report.html", "drill": type(root)(drilled)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1130, 1280])
@pytest.mark.parametrize("name", ["report", "drill"])
def test_nothing_overflows_nothing_is_faint_and_nothing_is_fetched(browser, pages, name, width, scheme):
    browser.open(pages[name], width, 800, scheme)
    for fold in browser.find("summary"):
        browser.click(fold)
    assert browser.run("return matchMedia(`(prefers-color-scheme: ${arguments[0]})`).matches", scheme)
    assert browser.run("return innerWidth") == width
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(BEYOND) == []
    assert browser.run(FAINT) == []
    asked = {url for url in browser.requests() if not url.startswith(("chrome:", "data:"))}
    assert asked <= {pages[name].as_uri()}


@pytest.mark.parametrize("width", [360, 1280])
def test_folds_open_and_close_and_links_lead_somewhere(browser, pages, width):
    browser.open(pages["report"], width, 800, "light")
    folds = browser.find("summary")
    assert len(folds) > 3
    opened = "return [...document.querySelectorAll('details')].filter(each => each.open).length"
    for count, fold in enumerate(folds, 1):
        browser.click(fold)
        assert browser.run(opened) == count
    browser.click(folds[0])
    assert browser.run(opened) == len(folds) - 1
    links = browser.find("nav a")
    assert len(links) == 5
    for link in links:
        browser.run("scrollTo(0, 0)")
        browser.click(link)
        assert browser.run("return document.querySelector(location.hash).getBoundingClientRect().top < innerHeight")
    assert browser.run("return scrollY") > 800


def test_the_heat_map_scrolls_within_itself_and_its_headings_stay(browser, pages):
    browser.open(pages["report"], 360, 400, "light")
    place = """
    const box = document.querySelector(".scroll");
    const cell = box.querySelector("tbody th"), head = box.querySelector("thead th");
    const before = [cell.getBoundingClientRect().left, head.getBoundingClientRect().top];
    box.scrollTo(200, 60);
    const after = [cell.getBoundingClientRect().left, head.getBoundingClientRect().top];
    return [box.scrollLeft, box.scrollTop, before, after];
    """
    across, down, before, after = browser.run(place)
    assert across > 100
    assert down > 30
    assert before == pytest.approx(after, abs=1)
