"""Whether all of a page fits: nothing wider than the window, no text cut or over another text. And pictures of it, for people to look at."""

import re

from conftest import BUILD

SIZES = {"laptop": (1280, 800), "telephone": (390, 844)}
FOLDER = BUILD / "screenshots"

# What does not fit, as sentences. A text's box is what is visible of it: what a box that scrolls has outside of itself is not looked at.
MISFITS = """() => {
  const wrong = [], boxes = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} wide, of ${width}`);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, text = node.textContent.trim();
    if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || element.closest("option, script, style")) continue;
    const style = getComputedStyle(element);
    if (element.scrollWidth > element.clientWidth + 1 && ["hidden", "clip"].includes(style.overflowX) && style.textOverflow !== "ellipsis" && element.clientWidth)
      wrong.push(`cut: ${text.slice(0, 60)}`);
    let seen = { left: 0, top: -Infinity, right: width, bottom: Infinity };
    for (let outer = element; outer; outer = outer.parentElement) {
      if (getComputedStyle(outer).overflowX === "visible") continue;
      const box = outer.getBoundingClientRect();
      seen = { left: Math.max(seen.left, box.left), top: Math.max(seen.top, box.top), right: Math.min(seen.right, box.right), bottom: Math.min(seen.bottom, box.bottom) };
    }
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      const part = { left: Math.max(box.left, seen.left), top: Math.max(box.top, seen.top), right: Math.min(box.right, seen.right), bottom: Math.min(box.bottom, seen.bottom), text };
      if (part.right - part.left > 3 && part.bottom - part.top > 3) boxes.push(part);
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++)
    for (let k = i + 1; k < boxes.length && boxes[k].top < boxes[i].bottom - 3; k++)
      if (boxes[i].text !== boxes[k].text && Math.min(boxes[i].right, boxes[k].right) - Math.max(boxes[i].left, boxes[k].left) > 2 &&
          Math.min(boxes[i].bottom, boxes[k].bottom) - boxes[k].top > 3)
        wrong.push(`over each other: ${boxes[i].text.slice(0, 40)} | ${boxes[k].text.slice(0, 40)}`);
  return [...new Set(wrong)];
}"""


def check_fits(shown, name):
    """Each view of an open page, with a block's card."""
    FOLDER.mkdir(exist_ok=True)
    for tab in shown.evaluate("gpumem.tabs.names"):
        shown.evaluate("async (name) => { gpumem.tabs.choose(name); await gpumem.tabs.show(); }", tab)
        picture = FOLDER / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}-{tab}.png"
        shown.screenshot(path=picture, full_page=True)
        wrong = shown.evaluate(MISFITS)
        assert not wrong, f"{picture}: {wrong}"
