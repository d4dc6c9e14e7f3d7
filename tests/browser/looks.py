"""How a widget looks: in both of JupyterLab's themes, in wide windows and in narrow ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .lab import Page, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator

THEMES = ("Dark", "Light")  # the one that JupyterLab begins with is the last
WIDTHS = (640, 800, 1280)  # the first is the last one's page, magnified twice

FITS = "(element) => element.scrollWidth <= element.clientWidth + 1"
# What is written in less than 4.5 : 1 (WCAG 2) on what lies behind it.
_POOR = """(root) => {
  const channels = (text) => {
    const found = text.match(/-?[\\d.]+/g).map(Number);
    return text.startsWith('color(srgb') ? found.map((c, i) => i < 3 ? c * 255 : c) : found;
  };
  const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const mixed = (over, under) => over.slice(0, 3).map((c, i) => c * (over[3] ?? 1) + under[i] * (1 - (over[3] ?? 1)));
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(channels(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((under, over) => mixed(over, under), [255, 255, 255]);
  };
  const poor = [];
  for (const element of root.querySelectorAll('*')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.disabled || !element.checkVisibility()) continue;
    const ground = behind(element), ink = mixed(channels(getComputedStyle(element).color), ground);
    const [dark, bright] = [light(ink), light(ground)].sort((a, b) => a - b);
    const ratio = (bright + 0.05) / (dark + 0.05);
    if (ratio < 4.5) poor.push(`${element.className} "${element.textContent.slice(0, 40)}" ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


def every_look(page: Page, selector: str, directory: Path, name: str = "") -> None:
    """What matches fits in its place and can be read in every theme and width; a picture of each is kept."""
    shown = page.page.locator(selector)
    for theme in THEMES:
        wear(page, theme)
        for width in WIDTHS:
            page.page.set_viewport_size({"width": width, "height": 900})
            until(lambda: shown.evaluate(FITS), 10, f"{selector} is wider than its place of {width} px")
            readable(page, selector)
            shown.screenshot(path=directory / f"{name or selector[5:]}-{theme.lower()}-{width}.png")


def readable_under_the_pointer(page: Page, selector: str, target: Locator) -> None:
    """What matches can be read in every theme while the pointer is over one part of it."""
    for theme in THEMES:
        wear(page, theme)
        target.hover()
        readable(page, selector)


def wear(page: Page, theme: str) -> None:
    """Change JupyterLab's theme to one of `THEMES`."""
    page.page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", f"JupyterLab {theme}"
    )


def readable(page: Page, selector: str) -> None:
    shown = page.page.locator(selector)
    poor: list[str] = []

    def is_readable() -> bool:
        poor[:] = shown.evaluate(_POOR)
        return not poor

    try:
        until(is_readable, 10, "it stays hard to read")
    except TimeoutError:
        raise AssertionError(f"hard to read: {poor}") from None
