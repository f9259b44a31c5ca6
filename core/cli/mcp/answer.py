"""Runs one question and bounds what it answers. A question that is cancelled is ended."""

import contextlib
import json
import os
import signal
import subprocess

import anyio

READ_MOST = 64 << 20  # of an answer as JSON, before it is shortened
NOTES_MOST = 8 << 10
ALWAYS_KEPT = 8  # items of a list in JSON
GRACE = 5  # seconds to end before it is killed: `attach` may be in the midst of something
# What makes an answer shorter, where a command has it.
NARROWS = ("top", "where", "from", "to", "depth", "min", "step", "device", "by")


class Failed(Exception):
    """No answer; its text says why."""


async def read(stream, most):
    """(what came, whether there was more)"""
    pieces, size = [], 0
    with contextlib.suppress(anyio.EndOfStream):
        while size <= most:
            pieces.append(await stream.receive(65536))
            size += len(pieces[-1])
    whole = b"".join(pieces)
    return whole[:most], len(whole) > most


async def end(process):
    if process.returncode is not None:
        return
    for number, wait in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with anyio.move_on_after(wait):
            await process.wait()
            return


async def run(words, stream, most, seconds):
    """(exit status, out, whether more was to come, notes)"""
    process = await anyio.open_process(
        words, stdin=subprocess.DEVNULL if stream is None else subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    parts = {}

    async def take(name, source, limit):
        parts[name], parts[f"{name} goes on"] = await read(source, limit)
        if name == "out" and parts["out goes on"]:
            await end(process)
        elif name == "err":  # or it waits for us
            while parts["err goes on"]:
                _, parts["err goes on"] = await read(source, 1 << 20)

    async def give():
        with contextlib.suppress(anyio.BrokenResourceError):
            async with process.stdin:
                await process.stdin.send(stream.encode())

    try:
        with anyio.fail_after(seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(take, "out", process.stdout, most)
                group.start_soon(take, "err", process.stderr, NOTES_MOST)
                if stream is not None:
                    group.start_soon(give)
            await process.wait()
    except TimeoutError:
        raise Failed(f"no answer in {seconds} s: ask for less, or start `gpumem mcp` with a longer --timeout") from None
    finally:
        with anyio.CancelScope(shield=True):
            await end(process)
            await process.aclose()
    return process.returncode, parts["out"].decode(errors="replace"), parts["out goes on"], parts["err"].decode(errors="replace").strip()


# ---- bounds ----


def advice(tool):
    names = [name for name in NARROWS if name in tool.arguments]
    return f": ask for less with {', '.join(names)}" if names else ""


def cut_text(text, most, goes_on, tool):
    """(text, [what was left out])"""
    if len(text) <= most and not goes_on:
        return text, []
    kept = text[:most]
    kept = kept[: kept.rfind("\n") + 1] or kept
    return kept, [f"only the first {kept.count(chr(10))} lines are here{advice(tool)}"]


def documents(text, goes_on):
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            if goes_on:  # the last line of it is half a line
                break
            raise
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def shortened(value, keep, left, path=""):
    if isinstance(value, dict):
        return {key: shortened(one, keep, left, f"{path}.{key}" if path else key) for key, one in value.items()}
    if isinstance(value, list):
        if len(value) > keep:
            shown, all_of = left.get(path, (0, 0))
            left[path] = (shown + keep, all_of + len(value))
        return [shortened(one, keep, left, f"{path}[]") for one in value[:keep]]
    return value


def cut_json(text, most, goes_on, tool):
    """(answer, [what was left out])"""
    try:
        found = documents(text, goes_on)
    except (ValueError, RecursionError):
        raise Failed("the answer is not JSON, which is a fault of gpumem: ask for the format text") from None
    if len(found) != 1 or tool.name == "events":
        size = 0
        for number, one in enumerate(found):
            size += len(json.dumps(one, ensure_ascii=False)) + 1
            if size > most:
                found, goes_on = found[:number], True
                break
        if goes_on and not found:
            raise Failed(f"one object alone is longer than {most} characters: ask for the format text")
        cut = [f"only the first {len(found)} objects are here{advice(tool)}"]
        return found, cut if goes_on else []
    if goes_on:
        raise Failed(f"the answer has more than {READ_MOST >> 20} MiB{advice(tool)}, or for the format text")
    (answer,) = found
    if len(text) <= most or size_of(answer) <= most:
        return answer, []
    least, beyond = ALWAYS_KEPT, longest(answer)
    if size_of(shortened(answer, least, {})) > most:
        raise Failed(f"the answer is longer than {most} characters, even with {least} items of each list{advice(tool)}")
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if size_of(shortened(answer, middle, {})) <= most:
            least = middle
        else:
            beyond = middle
    left = {}
    answer = shortened(answer, least, left)
    cut = [f"{path}: {shown:,} of {whole:,} are here" for path, (shown, whole) in left.items()]
    return answer, [*cut[:20], *([f"and {len(cut) - 20} more lists"] if len(cut) > 20 else []), f"the answer was too long{advice(tool)}"]


def size_of(value):
    return len(json.dumps(value, ensure_ascii=False))


def longest(value):
    if isinstance(value, dict):
        return max(map(longest, value.values()), default=0)
    return max(len(value), *map(longest, value)) if isinstance(value, list) and value else 0
