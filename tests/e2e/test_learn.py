"""The layout of an unknown PyTorch is learned: by `gpumem learn`, and by questions that need it; what both refuse."""

import json
import os
import random
import re
import shutil
import subprocess
import time
import zlib
from pathlib import Path

import pytest

from conftest import PYTHON

HELD = """
import json, os, signal, torch

class Cache:
    pass

cache = Cache()
cache.kept = torch.ones(7_007, device="cuda")
leaf = torch.nn.Parameter(torch.ones(5_005, device="cuda"))
loss = (leaf * 2).sum()
address = leaf.data_ptr()
del leaf
print(json.dumps([os.getpid(), hex(cache.kept.data_ptr()), hex(address)]), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def program(sim_env):
    """(pid, address of cache.kept, address of what the graph keeps)."""
    command = [str(PYTHON), "-W", "ignore", "-c", HELD]
    process = subprocess.Popen(command, env=sim_env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def environment(folder, **more):
    """An environment without shipped rows, whose layouts are saved in `folder`. Busy machines get more time."""
    given = {"GPUMEM_HIDE_ROWS": "torch", "XDG_CACHE_HOME": str(folder), "GPUMEM_LEARN_LIMIT": "300"}
    return {**os.environ, **given, **more}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def first_answer(program, cache, run_gpumem):
    pid, kept, _ = program
    return run_gpumem("who-holds", kept, "--pid", pid, env=environment(cache), timeout=600).check()


@pytest.fixture(scope="module")
def layouts(first_answer, cache):
    """The file in which the layout was saved."""
    (file,) = (cache / "gpumem" / "layouts").glob("torch-*.layouts")
    return file


@pytest.fixture(scope="module")
def core(program, tmp_path_factory, run_gpumem):
    file = tmp_path_factory.mktemp("core") / "core"
    run_gpumem("core", program[0], "-o", file, timeout=600).check()
    return file


# --- a question about a process ---------------------------------------------------------------------------------------


def test_the_first_question_learns_and_says_so_in_one_line(first_answer, layouts):
    (line,) = first_answer.err.splitlines()
    assert re.fullmatch(rf"gpumem: learned PyTorch \S+ in \d+\.\d s, once for this build: saved in {layouts}", line)
    assert "attribute 'kept' of Cache: global 'cache'" in first_answer.out


def test_the_next_question_uses_the_saved_layout(first_answer, program, cache, run_gpumem):
    begin = time.monotonic()
    done = run_gpumem("who-holds", program[2], "--pid", program[0], "--json", env=environment(cache)).check()
    assert done.err == ""
    assert done.json()["complete"] is True
    assert {holder["path"][0].get("name") for holder in done.json()["holders"]} == {"loss"}
    assert time.monotonic() - begin < 60


def test_a_layout_saved_by_an_older_gpumem_is_learned_again(layouts, program, tmp_path, run_gpumem):
    folder = tmp_path / "gpumem" / "layouts"
    folder.mkdir(parents=True, mode=0o700)
    text = re.sub(r"field hooks\..*\n", "", re.sub(r"fields \d+\n", "fields 60\n", layouts.read_text()))
    (folder / layouts.name).write_text(sealed(text))
    done = run_gpumem("who-holds", program[1], "--pid", program[0], env=environment(tmp_path), timeout=600).check()
    assert re.match(r"gpumem: learned PyTorch ", done.err)
    assert (folder / layouts.name).read_text() == layouts.read_text()


@pytest.mark.parametrize("switch", ["option", "variable"])
def test_no_learn_keeps_the_refusal(switch, program, tmp_path, run_gpumem):
    option = ["--no-learn"] if switch == "option" else []
    more = {"GPUMEM_NO_LEARN": "1"} if switch == "variable" else {}
    done = run_gpumem("who-holds", program[1], "--pid", program[0], *option, env=environment(tmp_path, **more)).check(4)
    assert re.match(r"gpumem: PyTorch \S+: gpumem has no table of its object layouts", done.err)
    assert not list(tmp_path.iterdir())


def test_a_question_is_answered_even_if_no_layout_can_be_saved(program, run_gpumem):
    nowhere = environment("/dev/null/nowhere")
    done = run_gpumem("who-holds", program[2], "--pid", program[0], env=nowhere, timeout=600).check()
    assert "loss" in done.out
    assert re.match(r"gpumem: learned PyTorch \S+ in \d+\.\d s, for this question only: the layout could not be saved", done.err)


def test_only_one_of_two_simultaneous_questions_learns(program, tmp_path, gpumem):
    command = [str(gpumem), "who-holds", program[1], "--pid", str(program[0])]
    both = [
        subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted("learned" in err for _, err in said) == [False, True]
    # one of them finds the other reading the process; both give the same answer
    assert all("attribute 'kept' of Cache: global 'cache'" in out for out, _ in said)


def test_a_python_that_was_deleted_while_it_runs_is_not_started(sim_env, tmp_path, run_gpumem):
    copy = tmp_path / "python3"
    shutil.copy(os.path.realpath(PYTHON), copy)
    shown = subprocess.run([PYTHON, "-c", "import sys, torch; print(sys.base_prefix, torch.__path__[0])"], capture_output=True, text=True)
    prefix, torch = shown.stdout.split()
    found = {"PYTHONPATH": os.path.dirname(torch), "PYTHONHOME": prefix}
    command = [str(copy), "-W", "ignore", "-c", HELD]
    process = subprocess.Popen(command, env={**sim_env(), **found}, stdout=subprocess.PIPE, text=True)
    try:
        pid, kept, _ = json.loads(process.stdout.readline())
        copy.unlink()
        err = run_gpumem("who-holds", kept, "--pid", pid, env=environment(tmp_path)).check(4).err
        assert f"learn: process {pid} runs a Python that was deleted or replaced on disk: gpumem does not start its Python" in err
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def own_torch(sim_env, tmp_path):
    """(pid, address, libc10.so) of a program that has the tests' PyTorch, with a separate copy of libc10.so."""
    shown = subprocess.run([PYTHON, "-W", "ignore", "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True)
    real, site = Path(shown.stdout.strip()), tmp_path / "site"
    library = site / "torch" / "lib" / "libc10.so"
    library.parent.mkdir(parents=True)
    for at, of in ((site, real.parent), (site / "torch", real), (library.parent, real / "lib")):
        for path in of.iterdir():
            if path.name not in ("torch", "lib", "libc10.so") or (path.name == "lib" and of != real):
                (at / path.name).symlink_to(path)
    shutil.copy(real / "lib" / "libc10.so", library)
    process = subprocess.Popen(
        [str(PYTHON), "-W", "ignore", "-c", HELD], env={**sim_env(), "PYTHONPATH": str(site)}, stdout=subprocess.PIPE, text=True
    )
    try:
        pid, kept, _ = json.loads(process.stdout.readline())
        assert f"{library}\n" in Path(f"/proc/{pid}/maps").read_text()
        yield pid, kept, library
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_pytorch_that_was_deleted_while_it_runs_is_not_learned(own_torch, tmp_path, run_gpumem):
    pid, kept, library = own_torch
    library.unlink()
    err = run_gpumem("who-holds", kept, "--pid", pid, env=environment(tmp_path), timeout=600).check(4).err
    assert f"learn: process {pid} has a PyTorch loaded that was deleted or replaced on disk" in err
    assert not list(tmp_path.glob("gpumem/layouts/torch-*"))


def test_a_row_learned_from_a_replaced_pytorch_is_rejected(own_torch, tmp_path, run_gpumem):
    pid, kept, library = own_torch
    code = library.read_bytes()
    note = code.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16  # NT_GNU_BUILD_ID, of 20 bytes
    beside = library.with_name("new")
    beside.write_bytes(code[:note] + bytes(byte ^ 0xFF for byte in code[note : note + 20]) + code[note + 20 :])
    beside.rename(library)
    err = run_gpumem("who-holds", kept, "--pid", pid, env=environment(tmp_path), timeout=600).check(4).err
    assert f"learn: process {pid} has a PyTorch loaded that was deleted or replaced on disk" in err
    assert not list(tmp_path.glob("gpumem/layouts/torch-*"))


# --- a core --------------------------------------------------------------------------------------------------------------


def test_a_core_needs_the_file_or_a_saved_layout(program, core, layouts, cache, tmp_path, run_gpumem):
    question = ["who-holds", program[2], "--core", core]
    assert "gpumem has no table" in run_gpumem(*question, env=environment(tmp_path)).check(4).err
    for more, env in ((["--layouts", layouts], environment(tmp_path)), ([], environment(cache))):
        answer = run_gpumem(*question, *more, "--json", env=env).check().json()
        assert answer["complete"] is True
        assert {holder["path"][0].get("name") for holder in answer["holders"]} == {"loss"}


# --- files that are not what was learned ------------------------------------------------------------------------------------


def sealed(text):
    """With the last line that belongs to it."""
    body = text[: text.rindex("end ")]
    return body + f"end {zlib.crc32(body.encode()):08x}\n"


def refused(run_gpumem, program, core, file):
    return run_gpumem("who-holds", program[1], "--core", core, "--layouts", file, env=environment("/nonexistent")).check(3).err


def test_a_cut_file_is_refused_by_name(program, core, layouts, tmp_path, run_gpumem):
    text = layouts.read_text()
    for size in range(0, len(text) - 1, 211):
        (tmp_path / "cut").write_text(text[:size])
        err = refused(run_gpumem, program, core, tmp_path / "cut")
        assert err.startswith(f"gpumem: {core}: {tmp_path}/cut: line ") or f"{tmp_path}/cut: line " in err
        assert "it is truncated" in err


def test_an_edited_file_is_refused_by_its_checksum(program, core, layouts, tmp_path, run_gpumem):
    (tmp_path / "edited").write_text(layouts.read_text().replace("field tensor.storage 16", "field tensor.storage 24"))
    assert "the checksum does not match" in refused(run_gpumem, program, core, tmp_path / "edited")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (r"field tensor\.storage \d+", "field tensor.storage 60000", "a field's value is too large"),
        (r"field tensor\.storage \d+", "field tensor.storage 504", "field tensor.storage lies beyond the object's end"),
        (r"field tensor\.storage \d+", "field tensor.storage 17", "field tensor.storage is not aligned"),
        (r"field tensor\.storage \d+\n", "", "field tensor.storage is missing"),
        (r"field tensor\.storage \d+", "field tensor.storage -8", "a field's value is not a number"),
        (r"field tensor\.storage (\d+)", r"field tensor.storage \1\nfield tensor.storage \1", "a field occurs twice"),
        (r"build libc10\.so \w+\n", "", "a library's build-id is missing"),
        (r"build libc10\.so \w+", "build libc10.so xyz", "no build-id"),
        (r"gpumem layouts 1", "gpumem layouts 99", "from a newer gpumem"),
        (r"\[torch\]", "[other]", "it has no [torch] section"),
        (r"build libc10\.so \w{4}", "build libc10.so 0000", "it is of another build than the target's: libc10.so"),
    ],
)
def test_a_hostile_file_is_refused_by_name_and_reason(before, after, why, program, core, layouts, tmp_path, run_gpumem):
    text = layouts.read_text()
    changed = re.sub(before, after, text, count=1)
    assert changed != text
    (tmp_path / "hostile").write_text(sealed(changed))
    err = refused(run_gpumem, program, core, tmp_path / "hostile")
    assert f"{tmp_path}/hostile: " in err and why in err


def test_an_unrelated_section_is_skipped(program, core, layouts, tmp_path, run_gpumem):
    text = layouts.read_text().replace("[torch]\n", "[cpython]\nversion 3.99\nfield whatever 8\n[torch]\n")
    (tmp_path / "both").write_text(sealed(text))
    done = run_gpumem("who-holds", program[1], "--core", core, "--layouts", tmp_path / "both", env=environment("/nonexistent"))
    assert "cache" in done.check().out


# --- probes that fail or hang ----------------------------------------------------------------------------------------------

PROBES = {
    "hangs": ("sleep 1000", "the probe was not ready after 2 s and was ended"),
    "hangs with closed ends": ("exec 3>&- 2>&-; sleep 1000", "the probe ended without an answer"),
    "crashes": ("kill -SEGV $$", "the probe was killed by signal 11 (Segmentation fault)"),
    "fails": ("echo ModuleNotFoundError: no torch >&2; exit 1", "the probe ended without an answer: ModuleNotFoundError: no torch"),
    "prints": ("echo gpumem-torch-probe 1; echo end; exit 0", "the probe ended without an answer"),
    "hands over nonsense": ("printf 'nonsense\\nend\\n' >&3; sleep 1000", "the probe's answer cannot be read (it is not a probe's text)"),
    "lies about its process": (
        "printf 'gpumem-torch-probe 1\\npid 1\\nversion 2.99.0\\nfield storage.data 16\\nend\\n' >&3; sleep 1000",
        "its process is not the one that was started",
    ),
    "hands over an impossible field": (
        "printf 'gpumem-torch-probe 1\\npid '$$'\\nversion 2.99.0\\nfield storage.data 60000\\nend\\n' >&3; sleep 1000",
        "storage.data at 60000: out of range",
    ),
    "misses fields": (
        "printf 'gpumem-torch-probe 1\\npid '$$'\\nversion 2.99.0\\nfield storage.size_of 96\\nmissing storage.counts fits nowhere\\nend\\n' >&3; sleep 1000",
        "PyTorch 2.99: where storage.counts lies was not found (fits nowhere)",
    ),
    "fails at a kind of object": (
        "printf 'gpumem-torch-probe 1\\npid '$$'\\nversion 2.99.0\\nfield storage.size_of 96\\nmissing (storage) KeyError: 7\\nend\\n' >&3; sleep 1000",
        "PyTorch 2.99: where storage.counts lies was not found (a field that it depends on was not found; (storage) KeyError: 7)",
    ),
}


@pytest.mark.parametrize("kind", PROBES)
def test_a_probe_that_fails_or_hangs_is_ended_and_reported(kind, tmp_path, run_gpumem, wait_for):
    script, why = PROBES[kind]
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    begin = time.monotonic()
    done = run_gpumem("learn", python, env=environment(tmp_path, GPUMEM_LEARN_LIMIT="2")).check(4)
    assert why in done.err and len(done.err.splitlines()) == 1
    assert time.monotonic() - begin < 60
    assert not list(tmp_path.glob("gpumem/layouts/torch-*"))
    # a child of the probe that was killed with it disappears only after init has waited for it
    wait_for(lambda: subprocess.run(["pgrep", "-f", str(python)], capture_output=True).stdout == b"", timeout=600)


def test_a_pytorch_without_cuda_is_named(tmp_path, run_gpumem):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "__version__ = '2.99.0+cpu'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n"
    )
    done = run_gpumem("learn", PYTHON, env=environment(tmp_path, PYTHONPATH=str(tmp_path))).check(4)
    assert "PyTorch 2.99.0+cpu sees no GPU: it is built without CUDA" in done.err


# A part of the probe is changed when it is loaded; {name} and {change} are filled in.
CHANGED = """
import importlib.util, sys

{change}

class Finder:
    # the part is found by the next finder
    def find_spec(self, name, path=None, target=None):
        if name != "{name}":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def loaded(module):
            load(module)
            change(module)
        spec.loader.exec_module = loaded
        return spec

sys.meta_path.insert(0, Finder())
"""

LETS_GO = """
held = []

def change(allocator):
    look, make = allocator.look, allocator.make
    def made(device):
        if not held:
            held.extend(allocator.torch.empty(n, device="cuda:0") for n in (1_234_567, 77))
        return make(device)
    def looked(sets):
        look(sets)
        held.clear()
    allocator.look, allocator.make = looked, made
"""

# malloc adds 16 bytes to a chunk if they would be too few for a chunk of their own
LARGER_PIECES = """
def change(words):
    usable = words._USABLE
    words._USABLE = lambda address: usable(address) + (16 if (address >> 4) * 40503 >> 9 & 3 == 0 else 0)
"""


# behind each Block the heap has the addresses of released Blocks, whose first two words malloc has overwritten
GIVEN_BACK = """
held = []

def change(allocator):
    import ctypes, struct
    tables, block = allocator.tables, allocator.block
    def copy(s, record, at, known):
        one = struct.pack("<Q", at)
        own = next(a for a in s.active if struct.pack("<Q", a) in s.bodies[record])
        body = s.bodies[record].replace(struct.pack("<Q", own), struct.pack("<Q", at))
        body = body.replace(struct.pack("<Q", s.known[own]["size"]), struct.pack("<Q", known["size"]))
        held.append(ctypes.create_string_buffer(bytes([77] * 16) + body[16:] + bytes(512), len(body) + 512))
        return ctypes.addressof(held[-1])
    def told(row, *sets):
        tables(row, *sets)
        for s in sets:
            free = {at: known for at, known in s.known.items() if known["state"] == "inactive"}
            record = s.records[0]
            copies = [copy(s, record, at, known) for at, known in free.items()]
            assert copies and all(c % 16 == 0 for c in copies)
            # read() reads the process: the words behind an object are put into what it returns
            for record in s.bodies:
                body = s.bodies[record][: allocator.usable(record) // 8 * 8]
                s.bodies[record] = (body + struct.pack(f"<{len(copies)}Q", *copies)).ljust(256, b"\\0")[:256]
    allocator.tables = told
"""


@pytest.mark.parametrize(
    "name, change",
    [pytest.param("allocator", LETS_GO, marks=pytest.mark.long), ("allocator", GIVEN_BACK), pytest.param("words", LARGER_PIECES, marks=pytest.mark.long)],
    ids=[
        "a thread lets go of memory while the probe looks",
        "blocks that were given back lie behind others",
        "pieces of heap larger than asked for",
    ],
)
def test_the_probes_random_heap_changes_nothing(name, change, layouts, tmp_path, run_gpumem):
    (tmp_path / "sitecustomize.py").write_text(CHANGED.format(name=name, change=change))
    told = environment(tmp_path, PYTHONPATH=str(tmp_path))
    done = run_gpumem("learn", PYTHON, "-o", tmp_path / "told", env=told, timeout=600).check()
    assert "verified on the live objects of a probe" in done.out
    both = [re.search(r"\[torch\]\n(?:(?!end|\[).*\n)+", file.read_text())[0] for file in (tmp_path / "told", layouts)]
    assert both[0] == both[1] and both[0].count("field ") > 100


TUNABLES = {  # glibc's, which shape the heap; "perturb" fills released memory
    "perturb": (0, 0x55, 0xA5, 1, 255),
    "tcache_count": (0, 1, 7, 127),
    "mxfast": (0, 128, 160),
    "mmap_threshold": (64 << 10, 128 << 10, 32 << 20),
    "arena_max": (1, 8),
    "top_pad": (0, 128 << 10, 4 << 20),
    "trim_threshold": (0, 128 << 10),
}


def learned_on_a_heap(seed, tmp_path, run_gpumem):
    """All layouts of this Python, from a probe whose heap is made by `seed`."""
    chance = random.Random(seed)
    told = {f"glibc.malloc.{name}": chance.choice(values) for name, values in TUNABLES.items() if chance.random() < 0.6}
    more = {
        "GLIBC_TUNABLES": ":".join(f"{name}={number}" for name, number in told.items()),
        "PYTHONHASHSEED": str(seed),
        "PYTHONMALLOC": chance.choice(("pymalloc", "pymalloc", "malloc")),
        "PYTHONPATH": str(Path(__file__).parent / "programs/stirred"),
        "GPUMEM_TEST_SEED": str(seed),
    }
    out = tmp_path / f"told-{seed}"
    done = run_gpumem("learn", PYTHON, "-o", out, env=environment(tmp_path, **more), timeout=600)
    assert done.status == 0, (seed, more, done.out, done.err)
    return out.read_text()


def same_on_heaps(seeds, layouts, tmp_path, run_gpumem):
    def of_torch(text):
        return re.search(r"\[torch\]\n(?:(?!end|\[).*\n)+", text)[0]

    known = of_torch(layouts.read_text())
    assert known.count("field ") > 100
    for seed in seeds:
        assert of_torch(learned_on_a_heap(seed, tmp_path, run_gpumem)) == known, seed


@pytest.mark.long  # test_the_probes_random_heap_changes_nothing has what lies behind blocks
def test_memory_after_an_object_in_the_heap_changes_nothing(layouts, tmp_path, run_gpumem):
    same_on_heaps(range(1), layouts, tmp_path, run_gpumem)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_memory_after_an_object_in_many_heaps_changes_nothing(layouts, tmp_path, run_gpumem):
    same_on_heaps(range(1, 100), layouts, tmp_path, run_gpumem)


def test_a_missing_and_a_wrong_python_are_wrong_usage(run_gpumem, tmp_path):
    assert "no Python given" in run_gpumem("learn").check(2).err
    assert "no such program" in run_gpumem("learn", tmp_path / "none").check(4).err
