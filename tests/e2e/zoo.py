"""Programs that are awkward to attach to, made from a seed; see programs/zoo/zoo.h. Each says itself whether it is as it was.

An animal is a program with the words of its command line, and what is done to it from outside.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT = 600  # seconds: only what hangs meets it
CALLS = {
    "close": 3, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "pread64": 17, "access": 21, "sched_yield": 24,
    "mremap": 25, "madvise": 28, "dup": 32, "clone": 56, "uname": 63, "fcntl": 72, "ftruncate": 77, "readlink": 89, "sched_getaffinity": 204, "openat": 257,
    "newfstatat": 262, "set_robust_list": 273, "fallocate": 285, "prlimit64": 302, "process_vm_readv": 310,
    "getrandom": 318, "memfd_create": 319, "rseq": 334, "clone3": 435,
}  # fmt: skip
NOT_ITS_OWN = [name for name in CALLS if name != "pread64"]  # the program's own look at itself needs that one
ACTIONS = ["errno", "nosys", "kill", "thread", "trap", "trace", "notify", "log"]
QUIET = ["sleep", "spin", "input"]
BUSY = ["malloc", "dlopen", "vfork", "fork", "threads", "small", "comeandgo", "signals", "altstack", "faults", "raw", "dies", "execs"]
NEW_USER, NEW_MOUNT, NEW_IPC, NEW_NAME, NEW_NET, NEW_CGROUP = 1 << 28, 1 << 17, 1 << 27, 1 << 26, 1 << 30, 1 << 25
# What goes with quiet works alone: a busy one would meet the limit or the signal by itself.
LONELY = [
    *("handlers=count", "handlers=ignore", "block=all", "block=trap", "pending", "dumpable=0"),
    *(f"limit=as:{more}" for more in (0, 65536, 1 << 20, 16 << 20)),
    *("limit=nofile", "limit=fsize:0", "limit=fsize:4096", "limit=fsize:1000000", "limit=stack:65536", "limit=data:0"),
    *("nobody limit=nproc:1", "nobody", "nobody dumpable=0", "dispatch", "mdwe", "notsc", "lock", "name=(x) R 1 1"),
    *(f"unshare={flags}" for flags in (NEW_USER, NEW_USER | NEW_MOUNT, NEW_IPC | NEW_NAME | NEW_NET | NEW_CGROUP)),
    *("chroot", "chroot nobody"),
]
WRAPS = ["leader", "traced", "namespace"]
OUTSIDE = ["stop", "freezer", "freeze"]


@dataclass
class Animal:
    program: str  # dynamic, static or bare
    words: list
    outside: str = ""
    info: bool = False  # `info --pid` first
    detach: bool = False
    pack: bool = False

    def __str__(self):
        return " ".join([self.program, *self.words, self.outside and f"({self.outside})"]).strip()


def each_kind():
    """One animal of each kind, which no seed leaves out."""
    yield Animal("bare", [])
    for work in QUIET + BUSY:
        yield Animal("dynamic", [f"work={work}"])
    yield Animal("static", ["work=threads"])
    for trait in LONELY:
        yield Animal("dynamic", ["work=spin" if trait == "notsc" else "work=sleep", *split(trait)])
    for wrap in WRAPS:
        yield Animal("dynamic", ["work=spin", f"wrap={wrap}"])
    for outside in OUTSIDE:
        yield Animal("dynamic", ["work=sleep"], outside)
    for number, action in enumerate(ACTIONS):
        yield Animal("dynamic", ["work=input", f"filter={action}:own"])
        yield Animal("dynamic", ["work=spin", f"filter={action}:{CALLS[NOT_ITS_OWN[number * 5 % len(NOT_ITS_OWN)]]}"])
    # where these fail the C library itself ends the program
    for action in ("errno", "nosys", "trace", "notify"):
        yield Animal("dynamic", ["work=sleep", f"filter={action}:{CALLS['rseq']}"])
        yield Animal("dynamic", ["work=sleep", f"filter={action}:{CALLS['munmap']}"])


def split(trait):
    """A name may have spaces; two traits are parted by one."""
    return [trait] if trait.startswith("name=") else trait.split()


def random_animal(dice):
    work = dice.choice(QUIET + BUSY)
    words, outside = [], ""
    if work in QUIET:
        for trait in dice.sample(LONELY, dice.choice([0, 1, 1, 2, 3])):
            names = {word.split("=")[0] for word in words}
            fresh = [word for word in split(trait) if word.split("=")[0] not in names]
            words += fresh
        if "notsc" in words and work == "sleep":
            work = "spin"  # it looks at the clock
        if dice.random() < 0.4:
            target = "own" if dice.random() < 0.3 else CALLS[dice.choice(NOT_ITS_OWN)]
            words.append(f"filter={dice.choice(ACTIONS)}:{target}")
        if dice.random() < 0.15:
            outside = dice.choice(OUTSIDE)
    # who becomes nobody, or has no files, cannot do what comes before it in this list afterwards
    order = ["limit", "unshare", "chroot", "nobody"]
    words.sort(key=lambda word: order.index(word.split("=")[0]) if word.split("=")[0] in order else -1)
    wrap = [f"wrap={dice.choice(WRAPS)}"] if dice.random() < 0.15 else []
    if wrap == ["wrap=leader"] and "dispatch" in words:
        wrap = []  # such a program ends by itself: what its first thread does at its end is dispatched
    program = dice.choice(["dynamic"] * 12 + ["static"])
    return Animal(program, [f"work={work}", f"seed={dice.randrange(1000)}", *wrap, *words], outside)


def make(seed, count):
    """What this machine cannot make is left out."""
    dice = random.Random(seed)
    animals = [animal for animal in each_kind() if not needs_more(animal)][:count]
    while len(animals) < count:
        animal = random_animal(dice)
        if not needs_more(animal):
            animals.append(animal)
    for animal in animals:
        animal.info, animal.detach, animal.pack = (dice.random() < 0.5 for _ in range(3))
    return animals


def build(folder, source):
    """The programs, by name."""
    files = [source / f"{name}.c" for name in ("target", "traits", "work", "state")]
    common = ["cc", "-std=gnu17", "-O2", "-D_GNU_SOURCE", "-Wall", "-pthread"]
    programs = {name: folder / name for name in ("dynamic", "static", "bare")}
    subprocess.run([*common, "-Werror", "-o", programs["dynamic"], *files], check=True)
    subprocess.run([*common, "-static", "-o", programs["static"], *files], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["cc", "-O2", "-nostdlib", "-static", "-fno-stack-protector", "-o", programs["bare"], source / "bare.c"], check=True)
    return programs


def needs_more(animal):
    """Another root and some namespaces are for root only; before Linux 6.4 it is not seen who handles its own calls."""
    words = set(animal.words)
    root_only = {"chroot", "wrap=namespace"}
    return (os.geteuid() != 0 and root_only & words) or ("dispatch" in words and too_old())


def too_old():
    """PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG came with Linux 6.4."""
    return tuple(int(word) for word in re.findall(r"\d+", os.uname().release)[:2]) < (6, 4)


# --- what is done from outside ----------------------------------------------------------------------------


def wait_until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.002)


def state_of(pid):
    found = re.search(r"^State:\s+(\S)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return found.group(1)


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) in "Tt")
    yield
    os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def frozen_by(group, pid, file, on, off, said, frozen):
    if not group:
        yield
        return
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / file).write_text(on)
        wait_until(lambda: frozen in (group / said).read_text())
        yield
    finally:
        (group / file).write_text(off)
        with contextlib.suppress(ProcessLookupError):
            (group.parent / "cgroup.procs").write_text(str(pid))
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def new_group(file, *places):
    """A control group that can be frozen; None: none can be made here."""
    for place in places:
        with contextlib.suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="gpumem-zoo-", dir=place))
            if (folder / file).exists():
                return folder
            folder.rmdir()
    return None


def freezer():
    return new_group("freezer.state", "/sys/fs/cgroup/freezer")


def freeze():
    return new_group("cgroup.freeze", "/sys/fs/cgroup", "/sys/fs/cgroup/unified")


def from_outside(animal, pid):
    if animal.outside == "stop":
        return stopped(pid)
    if animal.outside == "freezer":
        return frozen_by(freezer(), pid, "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN")
    if animal.outside == "freeze":
        return frozen_by(freeze(), pid, "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1")
    return contextlib.nullcontext()


def not_possible(animal):
    """Why this machine has no such animal; None: it has."""
    if animal.outside in ("freezer", "freeze"):
        group = freezer() if animal.outside == "freezer" else freeze()
        if not group:
            return "no control group that can be frozen can be made here"
        group.rmdir()
    if "dispatch" in animal.words and too_old():
        return "this kernel does not tell who handles its own system calls"
    return None


# --- one animal ------------------------------------------------------------------------------------------


def told_well(told, what):
    """It did it, or said in one line why not, after a line on what it waited for."""
    assert told.returncode in (0, 4), f"{what}: status {told.returncode}: {told.stderr}"
    if told.returncode == 4:
        assert re.fullmatch(r"(gpumem: process \d+: waiting for [^\n]+\n)?gpumem: [^\n]*: [^\n]+\n", told.stderr), f"{what}: {told.stderr!r}"


def ask(gpumem, *arguments):
    command = [str(word) for word in (gpumem, *arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=LIMIT)


def attach(gpumem, animal, pid, folder, seconds):
    """What was said: None where it was recorded."""
    if animal.info:
        told_well(ask(gpumem, "info", "--pid", pid), "info")
    told = ask(gpumem, "attach", pid, "--timeout", seconds, "-o", folder / "run.gpumem", *([] if animal.pack else ["--no-pack"]))
    told_well(told, "attach")
    if told.returncode == 0 and animal.detach:
        told_well(ask(gpumem, "detach", pid, "--timeout", seconds), "detach")
    return told.stderr.strip() if told.returncode else None


@contextlib.contextmanager
def new_folder():
    """The packer may still end its work there when the program has ended."""
    folder = Path(tempfile.mkdtemp(prefix="zoo-"))
    try:
        yield folder
    finally:

        def gone():
            shutil.rmtree(folder, ignore_errors=True)
            return not folder.exists()

        wait_until(gone)


def visit(gpumem, programs, animal, seconds=5):
    """Attaches to one. Fails where it is not as it was afterwards."""
    with new_folder() as folder:
        folder.chmod(0o777)
        (folder / "root").mkdir()
        words = [f"chroot={folder / 'root'}" if word == "chroot" else word for word in animal.words]
        command = [programs[animal.program], *words]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            begun = process.stdout.readline().split()
            assert begun[:1] == ["begun"], begun
            pid = int(begun[1])
            with from_outside(animal, pid):
                said = attach(gpumem, animal, pid, folder, seconds)
            try:
                out, _ = process.communicate("x\n", timeout=LIMIT)
            except BrokenPipeError:
                out, _ = process.communicate(timeout=LIMIT)
            ended = "work=dies" in animal.words and out == ""
            # one thread says so, and before it ends the program another one executes the next program, which says so too
            ended |= "work=execs" in animal.words and out == "right\nright\n"
            assert process.returncode == 0 and (out == "right\n" or ended), f"{process.returncode}: {out!r} (gpumem: {said})"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
    return said
