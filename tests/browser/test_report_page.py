from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import HOSTILE, Open

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

# Text whose contrast with what is behind it is below 4.5, the limit of WCAG 2 for text of any size (level AA).
FAINT_TEXT = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("script")) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${element.tagName} ${element.className} ${contrast.toFixed(2)}`);
  }
  return faint;
}"""


def labels(table: Locator) -> list[str]:
    """First cells of the rows that can be sorted."""
    return table.locator("tbody:not(.controls) th").all_inner_texts()


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def open_all(page: Page) -> None:
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


def test_the_page_asks_for_nothing_and_complains_of_nothing(visit: Open) -> None:
    visited = visit()
    page = visited.page
    open_all(page)
    page.mouse.wheel(0, 20_000)
    page.wait_for_timeout(300)
    assert page.evaluate("Array.from(document.images).every((image) => image.complete && image.naturalWidth > 0)")
    assert page.locator("figure img").count() >= 3
    assert visited.messages == []
    assert visited.requests == []


def test_the_policy_stops_scripts_that_are_not_the_pages_own(visit: Open) -> None:
    visited = visit()
    visited.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.harmed = true";
          document.body.append(script);
          const image = document.createElement("img");
          image.src = "https://example.org/x.png";
          document.body.append(image);
        }"""
    )
    visited.page.wait_for_timeout(200)
    assert visited.page.evaluate("window.harmed") is None
    assert visited.requests == []
    assert sum("Content Security Policy" in message for message in visited.messages) >= 2


def test_a_click_sorts_up_down_and_back(visit: Open) -> None:
    table = visit().page.locator("#source0-table1")
    suite_order = ["RBM", "O-RBM, not aligned", "O-RBM, aligned", "TI-RBM", "θ-RBM"]
    assert labels(table) == suite_order
    button = table.get_by_role("button", name="sparsity 0.1", exact=True)
    heading = button.locator("xpath=..")
    # The paper's errors at sparsity 0.1: 16.39, 16.61, 16.61, 14.08, 10.85; both O-RBM rows have the same.
    button.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert labels(table) == ["θ-RBM", "TI-RBM", "RBM", "O-RBM, not aligned", "O-RBM, aligned"]
    button.click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert labels(table) == ["O-RBM, not aligned", "O-RBM, aligned", "RBM", "TI-RBM", "θ-RBM"]
    assert table.locator("tbody.controls th").all_inner_texts() == ["pixels", "aligned pixels"]
    button.click()
    assert heading.get_attribute("aria-sort") == "none"
    assert labels(table) == suite_order


def test_the_keyboard_sorts_a_column_under_two_headings(visit: Open) -> None:
    page = visit().page
    table = page.locator("#source0-table2")
    table.get_by_role("button", name="train").nth(1).focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('th').getAttribute('aria-sort')") == "ascending"
    assert labels(table)[:2] == ["RBM", "O-RBM, not aligned"]
    page.keyboard.press("Space")
    assert labels(table)[0] == "θ-RBM"
    assert page.locator("#status").inner_text() == "Sorted by train, descending."
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert table.locator("th[aria-sort=ascending], th[aria-sort=descending]").count() == 1


def test_numbers_sort_as_numbers_and_gaps_stay_last(visit: Open) -> None:
    page = visit().page
    open_all(page)
    table = page.locator("#source0-numbers")
    for direction in (1, -1):
        table.get_by_role("button", name="difference").click()
        values: list[Any] = table.locator("tbody tr").evaluate_all(
            "rows => rows.map((row) => row.cells[5].dataset.value ?? null)"
        )
        numbers = [float(value) for value in values if value is not None]
        assert len(numbers) > 20
        assert numbers == sorted(numbers, reverse=direction < 0)
        assert values[: len(numbers)].count(None) == 0


def test_runs_are_shown_under_the_pointer_and_by_focus(visit: Open) -> None:
    page = visit().page
    number = page.locator("#source0-table1 .number").first
    tip = page.locator("#tip")
    assert tip.is_hidden()
    number.hover()
    assert "rbm/sparsity=0.3, test error in %" in tip.inner_text()
    assert tip.inner_text().count("seed ") == 3
    tip.hover()
    page.wait_for_timeout(400)
    assert tip.is_visible()
    page.mouse.move(5, 5)
    page.wait_for_timeout(400)
    assert tip.is_hidden()
    number.focus()
    assert tip.is_visible()
    page.keyboard.press("Tab")
    assert "rbm/sparsity=0.2" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_the_keyboard_reaches_everything_in_order(visit: Open) -> None:
    page = visit().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert page.locator(".verdicts .evidence").first.is_visible()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_command_is_copied(visit: Open) -> None:
    visited = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visited.page
    open_all(page)
    row = page.locator("table.commands tbody tr").first
    row.get_by_role("button", name="Copy").click()
    row.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == row.locator("code").inner_text()
    words = shlex.split(copied)
    # The folders of the call that wrote the page, and then the run.
    assert words[:2] == ["thetarbm", "--data-dir"]
    assert words[3] == "--results"
    assert words[5:] == ["run", "rbm/sparsity=0.3", "--force", "rbm/sparsity=0.3"]
    assert page.locator("#status").inner_text() == "Copied."


def test_a_command_is_copied_without_the_clipboards_script(visit: Open) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"]).page
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    open_all(page)
    row = page.locator("table.commands tbody tr").nth(1)
    row.get_by_role("button", name="Copy").click()
    row.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == row.locator("code").inner_text()


def test_dark_and_light_follow_the_system_until_the_button_is_used(visit: Open) -> None:
    light, dark = visit(color_scheme="light").page, visit(color_scheme="dark").page
    assert background(light) != background(dark)
    button = dark.locator("#theme")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert background(dark) == background(light)
    assert button.get_attribute("aria-pressed") == "false"
    dark.reload()
    assert background(dark) == background(light)
    night = background(visit(color_scheme="dark").page)
    light.emulate_media(color_scheme="dark")
    assert background(light) == night
    assert light.locator("#theme").get_attribute("aria-pressed") == "true"


def test_charts_are_turned_on_a_dark_page_and_commands_are_folded(visit: Open) -> None:
    shade = "getComputedStyle(document.querySelector('.picture.chart img')).filter"
    assert visit(color_scheme="light").page.evaluate(shade) == "none"
    page = visit(color_scheme="dark").page
    assert "invert" in page.evaluate(shade)
    page.locator("#theme").click()
    assert page.evaluate(shade) == "none"
    assert page.locator("table.commands").first.is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(visit: Open, scheme: str) -> None:
    page = visit(color_scheme=scheme).page
    open_all(page)
    assert page.evaluate(FAINT_TEXT) == []


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_the_page_is_never_wider_than_the_screen(visit: Open, width: int) -> None:
    page = visit(width=width).page
    open_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#source0-table2 .number").last.focus()
    tip = page.locator("#tip").bounding_box()
    assert tip is not None
    assert tip["x"] >= 0
    assert tip["x"] + tip["width"] <= width


def test_a_phone_can_push_wide_tables_and_tap_numbers(visit: Open) -> None:
    page = visit(width=360, has_touch=True, is_mobile=True).page
    table = page.locator(".scroll", has=page.locator("#source0-table2"))
    assert table.evaluate("box => box.scrollWidth > box.clientWidth")
    assert table.get_attribute("tabindex") == "0"
    assert "sideways" in table.evaluate("box => getComputedStyle(box, '::before').content")
    number = page.locator("#source0-table1 .number").first
    number.tap()
    assert "seed 0" in page.locator("#tip").inner_text()
    page.locator("h1").tap()
    assert page.locator("#tip").is_hidden()


@pytest.mark.parametrize("width", [375, 1280])
def test_universes_are_chosen_by_their_options_and_sorted(visit: Open, universes: Path, width: int) -> None:
    page = visit(universes, width=width).page
    open_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    rows = page.locator("#readings-universes tbody tr")
    total = rows.count()
    first, second = page.locator(".filter select").all()
    first.focus()
    first.select_option("floor=0.1")
    visible = page.locator("#readings-universes tbody tr:visible")
    options: list[str] = visible.evaluate_all("rows => rows.map((row) => row.dataset.options)")
    assert 0 < len(options) < total
    assert all("floor=0.1" in each.split() for each in options)
    second.select_option("batch=50")
    assert 0 < visible.count() < len(options)
    assert page.locator("#status").inner_text() == f"{visible.count()} of {total} universes."
    page.locator("#readings-universes").get_by_role("button", name="distance").press("Enter")
    distances: list[float] = visible.evaluate_all("rows => rows.map((row) => Number(row.cells[1].dataset.value))")
    assert distances == sorted(distances)
    first.select_option("")
    second.select_option("")
    assert visible.count() == total


def test_print_shows_what_is_folded_and_leaves_out_what_is_clicked(visit: Open) -> None:
    page = visit(color_scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator(".evidence").first.is_visible()
    assert page.locator("#suite-text").is_visible()
    for folded in ("nav.page", "#theme", ".copy", ".every"):
        assert page.locator(folded).first.is_hidden()
    assert background(page) == "rgb(255, 255, 255)"
    assert page.evaluate(FAINT_TEXT) == []
    page.set_viewport_size({"width": 680, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".evidence").first.is_hidden()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_markup_in_suite_and_records_is_text(visit: Open, hostile: Path) -> None:
    visited = visit(hostile)
    page = visited.page
    open_all(page)
    page.locator("#source0-table1 .number").first.focus()
    assert "rbm/sparsity=0.3" in page.locator("#tip").inner_text()
    page.wait_for_timeout(200)
    assert page.evaluate("window.harmed") is None
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("script").count() == 1
    assert HOSTILE in page.locator("#environments").inner_text()
    assert visited.messages == []
    assert visited.requests == []


def test_without_scripts_everything_can_be_read(visit: Open) -> None:
    page = visit(java_script_enabled=False).page
    assert page.locator("#theme").is_hidden()
    assert page.locator(".copy").first.is_hidden()
    assert page.locator("#source0-table1 tbody tr").count() == 7
    page.locator(".verdicts summary").first.click()
    assert page.locator(".evidence").first.is_visible()
