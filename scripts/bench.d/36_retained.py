"""`retained` for everything of the reference process (1 GB writable, a million objects, 2,000 tensors): the whole command,
against one streaming read of the same pages. Its own part, behind the graph that who-holds makes too, is told beside."""

import importlib.util
import json
import time
from pathlib import Path

TITLE = "retained on a live process: writable memory gone through"
UNIT = "GB/s"

spec = importlib.util.spec_from_file_location("who_holds", Path(__file__).with_name("30_who_holds.py"))
who_holds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(who_holds)


def target(bench):
    """One program for all rounds: (its pid, a block's address)."""
    process = bench.keep(
        "reference", lambda: bench.start([bench.python, bench.programs / "reference.py"], env=bench.sim)
    )
    if not hasattr(process, "said"):
        process.said = process.stdout.readline().split()
    if not process.said:
        raise bench.Failed("the program that is looked at did not start")
    return int(process.said[0]), process.said[1]


def ask(bench):
    pid, _ = target(bench)
    start = time.monotonic()
    out = bench.run([bench.gpumem, "retained", "--json", "--depth", "1", "--pid", pid])
    seconds = time.monotonic() - start
    if "global 'model'" not in out:
        raise bench.Failed(" ".join(out.split())[-200:])
    return json.loads(out[out.index("{") : out.rindex("}") + 1])["scan"], seconds


def whole(bench):
    scan, seconds = ask(bench)
    return scan["bytes"] / seconds / 1e9


def own(bench):
    scan, _ = ask(bench)
    return scan["bytes"] / scan["retained_seconds"] / 1e9


def streaming(bench):
    who_holds.target = target
    return who_holds.streaming(bench)


CONTENDERS = {
    "gpumem retained, the whole command": whole,
    "gpumem retained, without the graph": own,
    "streaming read of the same pages": streaming,
}
COMPARE = [
    ("gpumem retained, the whole command", "streaming read of the same pages", "of a streaming read's rate"),
    ("gpumem retained, without the graph", "streaming read of the same pages", "of a streaming read's rate"),
]
