"""view_picture.py: makes docs/view-gpt.png, docs/view-gpt.svg and docs/view-compare.png anew, from recordings of examples/gpt.py that it
makes.

view_picture.py FILE OUT.png: the page of another recording. The page is shown at its peak, with the largest block there, of several the oldest.

The PNG is by Debian's Chromium; in it (a chunk of text) is what it shows, as the commands say it. tests/e2e/test_view_programs.py holds
both files to what is recorded today.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from browser import Opened, browser  # noqa: E402

GPUMEM = ROOT / "build" / "bin" / "gpumem"
KEY = b"gpumem"


def ask(*words, gpumem=GPUMEM):
    return json.loads(subprocess.run([gpumem, *words, "--json"], check=True, capture_output=True).stdout)


def compared(one, other, gpumem=GPUMEM):
    """What the picture of two recordings shows: both peaks, and the differences by category."""
    told = subprocess.run([gpumem, "diff", one, other, "--json"], capture_output=True).stdout  # exit status 1: they differ
    told = json.loads(told)
    return {
        "peaks": [[file["allocated"], file["event"]] for file in told["files"]],
        "by_category": {group["key"]: group["bytes"] for group in told["tables"][0]["groups"]},
    }


def shown(recording, gpumem=GPUMEM):
    """What the picture of a recording shows."""
    peak = ask("blocks", recording, "--at-peak", gpumem=gpumem)
    block = max(peak["blocks"], key=lambda block: (block["size"], -block["allocated"]))
    return {
        "events": ask("info", recording, gpumem=gpumem)["events"],
        "peak": peak["event"],
        "by_category": peak["by_category"],
        "block": block["allocated"],
        "size": block["size"],
    }


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def told(png):
    """What a PNG of ours says that it shows."""
    data, at = png.read_bytes(), 8
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if kind == b"tEXt" and data[at + 8 :].startswith(KEY + b"\0"):
            return json.loads(data[at + 8 + len(KEY) + 1 : at + 8 + length])
        at += 12 + length
    return None


def picture(recording, out):
    facts = shown(recording)
    page = recording.with_name(recording.name + ".html")
    subprocess.run([GPUMEM, "view", recording, "-o", page], check=True)
    moment = f"#event={facts['peak']}&block={facts['block']}"
    with browser() as chromium, Opened(chromium, page.resolve(), moment, viewport={"width": 1280, "height": 900}) as opened:
        opened.wait("title => document.querySelector('#card h2').textContent.startsWith(title)", f"Block #{facts['block']},")
        opened.wait_for_timeout(500)  # the last frame
        keep(opened.screenshot(), facts, out)


def keep(png, facts, out):
    head = 8 + 25  # the signature and IHDR
    out.write_bytes(png[:head] + chunk(b"tEXt", KEY + b"\0" + json.dumps(facts).encode()) + png[head:])


def picture_of_both(one, other, out):
    page = one.with_name("both.html")
    subprocess.run([GPUMEM, "view", one, other, "-o", page], check=True)
    with browser() as chromium, Opened(chromium, page.resolve(), viewport={"width": 1280, "height": 900}) as opened:
        opened.evaluate("gpumem.tabs.choose('compare')")
        opened.wait_for_timeout(500)  # the last frame
        keep(opened.screenshot(), compared(one, other), out)


def main():
    if len(sys.argv) == 3:
        picture(Path(sys.argv[1]), Path(sys.argv[2]))
        return
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    folder = Path(tempfile.gettempdir()) / "gpumem-pictures"  # the page shows it, so it says nothing of this machine
    folder.mkdir(mode=0o700)
    try:
        (folder / ".venv").symlink_to(ROOT / ".venv")
        (folder / "examples").mkdir()
        shutil.copy(ROOT / "examples" / "gpt.py", folder / "examples")
        recording = folder / "gpt.gpumem"
        program = [".venv/bin/python", "-W", "ignore", "examples/gpt.py"]
        subprocess.run([GPUMEM, "run", "--sim", "-o", recording, "--", *program], check=True, cwd=folder)
        picture(recording, ROOT / "docs" / "view-gpt.png")
        subprocess.run([GPUMEM, "view", recording, "--svg", ROOT / "docs" / "view-gpt.svg"], check=True)
        other = folder / "gpt-bf16.gpumem"
        subprocess.run([GPUMEM, "run", "--sim", "-o", other, "--", *program, "bf16"], check=True, cwd=folder)
        picture_of_both(recording, other, ROOT / "docs" / "view-compare.png")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
