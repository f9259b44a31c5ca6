"""The table of ways to hold a tensor (tests/e2e/ways/): for each, gpumem names every holder and no other, and says that
this is all, in a live process and in a core dump of it. One process per group holds all of the group's ways at
once, and is asked through one session."""

import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

sys.path[:0] = [str(ROOT / "tests/e2e/ways"), str(ROOT / "gdb")]
os.environ.setdefault("GPUMEM_LIBRARY", str(BUILD / "lib" / "libgpumem.so"))

import table  # noqa: E402
import truth  # noqa: E402

from gpumem import library  # noqa: E402

WAYS = table.rows()


class Held:
    """A process that holds a tensor in each way."""

    def __init__(self, python, modules, env, cwd):
        command = [python, "-W", "ignore", table.HERE / "hold.py", *modules]
        # No prepared Python: its import's words, left on the stack, are plausible holders.
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=env, cwd=cwd, start_new_session=True
        )
        line = self.process.stdout.readline()
        while line and not line.startswith("{"):  # gloo says on standard output that it is connected
            line = self.process.stdout.readline()
        assert line, "the program ended and did not say where its tensors are"
        self.facts = json.loads(line)

    def end(self):
        # from CPython 3.14 on a server of multiprocessing's forks its processes, and outlives it
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Asked:
    """The target of the questions: a live process, or a core of it."""

    def __init__(self, facts, pid=0, core=None):
        self.facts = facts
        self.session = library.Session()
        library.library().gpumem_session_set_process(self.session._handle, pid)
        library.library().gpumem_session_set_core(self.session._handle, os.fsencode(core) if core else None)

    def ask(self, name):
        status, out, err = self.session.run(["who-holds", hex(self.facts["where"][name]), "--json"])
        assert status == 0, err
        return json.loads(out)


@pytest.fixture(scope="module")
def held(python, sim_env, tmp_path_factory):
    held = Held(python, table.MODULES, sim_env(), tmp_path_factory.mktemp("held"))
    try:
        yield held
    finally:
        held.end()


@pytest.fixture(scope="module", params=["live", "core"])
def asked(request, held, run_gpumem, tmp_path_factory):
    if request.param == "live":
        asked = Asked(held.facts, pid=held.facts["pid"])
        yield asked
        asked.session.close()
        return
    path = tmp_path_factory.mktemp("core") / "core"
    run_gpumem("core", str(held.facts["pid"]), "-o", path).check()
    try:
        asked = Asked(held.facts, core=path)
        yield asked
        asked.session.close()
    finally:
        path.unlink()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_holder_is_named_and_nothing_else(asked, way):
    reason = asked.facts["skipped"].get(way.name)
    if reason:
        assert not reason.startswith("failed: "), reason
        pytest.skip(reason)
    answer = asked.ask(way.name)
    wrong = table.wrong(way, answer, asked.facts["python"])
    if way.waits:  # if the answer has become right, remove the way's mark from the table
        assert wrong, f"gpumem knows {way.name} now, and the table says that it does not: {way.waits}"
        assert not answer["complete"], "it is not known yet, and yet said to be complete: " + "; ".join(wrong)
        pytest.xfail(f"gpumem does not know yet: {way.waits}: " + "; ".join(wrong))
    assert not wrong, "\n".join(wrong)


def test_words_in_released_or_unused_memory_hold_nothing(python, sim_env, tmp_path):
    (way,) = table.rows(["old_words"])
    held = Held(python, ["old_words"], {**sim_env(), "WAYS_ONLY": way.name}, tmp_path)
    asked = Asked(held.facts, pid=held.facts["pid"])
    try:
        reason = held.facts["skipped"].get(way.name)
        if reason:
            pytest.skip(reason)
        wrong = table.wrong(way, asked.ask(way.name), held.facts["python"])
        assert not wrong, "\n".join(wrong)
    finally:
        asked.session.close()
        held.end()


def ask_among_old_words(python, env, folder, modules, seed):
    """The number of questions, the wrong answers, and the answers that are only incomplete."""
    held = Held(python, [*modules, "planted"], {**env, "WAYS_OLD_WORDS": str(seed), "WAYS_MODULES": ",".join(modules)}, folder)
    asked = Asked(held.facts, pid=held.facts["pid"])
    count, false, short = 0, {}, {}
    try:
        for way in table.rows(modules):
            if held.facts["skipped"].get(way.name):
                continue
            count += 1
            answer = asked.ask(way.name)
            wrong = table.wrong(way, answer, held.facts["python"])
            expected = set(map(table.plain, table.expected_on(way, held.facts["python"])))
            proven = {table.plain(holder["text"]) for holder in answer["holders"] if holder["class"] == "proven"}
            listed = {table.plain(holder["text"]) for holder in answer["holders"]}
            if (proven - expected and not way.some) or expected - listed or (wrong and answer["complete"]):
                false[way.name] = wrong
            elif wrong:
                short[way.name] = wrong
    finally:
        asked.session.close()
        held.end()
    return count, false, short


@pytest.mark.long
def test_stale_words_anywhere_are_not_proven_holders(python, sim_env, tmp_path):
    count, false, short = ask_among_old_words(python, sim_env(), tmp_path, ["native"], 1)
    # the places of words differ from run to run
    assert len(false) <= 1, false
    assert count > 20 and len(false) + len(short) <= 0.2 * count, short


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_stale_words_among_all_ways_are_not_proven_holders(python, sim_env, tmp_path):
    asked = [ask_among_old_words(python, sim_env(), tmp_path, table.MODULES, seed) for seed in range(10)]
    count = sum(one[0] for one in asked)
    false = [one[1] for one in asked if one[1]]
    short = [one[2] for one in asked if one[2]]
    truth.note("who-holds", "a process with old words", "ways", count, count - sum(map(len, false)), 0, false + short)
    assert sum(map(len, false)) <= 0.001 * count, false
    assert sum(map(len, short)) <= 0.02 * count, short


# `environ` of the C library leads to memory with an old word in it, as a table of PyTorch's allocator did.
BESIDE_AN_EXIT_CALL = """
import atexit, ctypes, gc, time, torch
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def hold():
    tensor = torch.zeros(1 << 20, device="cuda")
    atexit.register(print, tensor)
    return tensor.data_ptr(), next(id(one) for one in gc.get_referrers(tensor) if type(one) is tuple)
block, arguments = hold()
environ = ctypes.c_void_p.in_dll(libc, "environ")
words = ctypes.cast(environ.value, ctypes.POINTER(ctypes.c_void_p))
count = 0
while words[count]:
    count += 1
size = 8 * count + 4096
memory = libc.malloc(size)
ctypes.memset(memory, 0, size)
ctypes.memmove(memory, environ.value, 8 * count)
ctypes.c_uint64.from_address(memory + size - 96).value = arguments
environ.value = memory
del arguments
print(block, flush=True)
time.sleep(600)
"""


def test_an_old_word_beside_a_function_that_runs_at_exit_is_no_holder(python, sim_env, spawn, run_gpumem):
    process = spawn([python, "-c", BESIDE_AN_EXIT_CALL], env=sim_env(), stdout=subprocess.PIPE)
    block = int(process.stdout.readline())
    answer = run_gpumem("who-holds", "--pid", process.pid, hex(block), "--json").check().json()
    assert answer["complete"] and len(answer["holders"]) == 1
    assert "the Python interpreter's own data" in answer["holders"][0]["text"]


def test_there_are_at_least_ninety_ways():
    assert len({(way.module, way.name) for way in WAYS if not way.waits}) >= 90


def test_the_page_of_ways_is_the_table():
    import page

    assert (ROOT / "docs/ways-to-hold.md").read_text() == page.page(), (
        "make it anew: python3 tests/e2e/ways/page.py > docs/ways-to-hold.md"
    )
