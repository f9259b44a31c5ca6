"""What the end-to-end tests share: where the build is, how a program is run, how gdb is driven.

The tests run the real shell command, the real gdb and the real PyTorch, most of them on the simulated
device. `GPUMEM_BUILD_DIR` names another build than build/ (the sanitizer's, say).
"""

import contextlib
import functools
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.register_assert_rewrite("pages")
ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GPUMEM_BUILD_DIR", ROOT / "build")).resolve()
EXAMPLES = ROOT / "examples"
# The tests run in the private Python, and so do the programs that they debug; GPUMEM_TEST_PYTHON names another
# Python for the programs (tests/tools/torch_matrix.py has some).
PYTHON = Path(os.environ.get("GPUMEM_TEST_PYTHON") or sys.executable)
VERSIONS = "import sys, importlib.metadata as m; print(*sys.version_info[:2], *m.version('torch').split('.')[:2])"
VERSIONS = tuple(map(int, subprocess.check_output([PYTHON, "-c", VERSIONS]).split()))
PYTHON_VERSION, TORCH_VERSION = VERSIONS[:2], VERSIONS[2:]
# From 2.15 on PyTorch allocates cuBLAS's workspace for each call; with this it keeps it, as the versions before do always.
KEEP_WORKSPACES = {"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}
# What is no test of recording shall leave no recordings where the tests run.
os.environ["GPUMEM_NO_RECORD"] = "1"
# No program ends while PyTorch still lets go of its last backward pass: it could die of that (the file says how). And PyTorch is
# imported in less time.
ENVIRONMENT = ROOT / "tests" / "e2e" / "programs" / "environment"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ENVIRONMENT), os.environ.get("PYTHONPATH")]))


def pytest_configure(config):
    """What programs put in the folder for temporary files goes with the tests, also where they are killed."""
    tempfile.gettempdir()  # pytest's own folders stay where they are
    folder = tempfile.mkdtemp(prefix="gt-")
    os.chmod(folder, 0o1777)  # other users' programs are started too
    os.environ["TMPDIR"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    prepare_python(config, Path(folder))


# Programs that run to their end are forked off a Python that has imported PyTorch (tests/tools/prepared_python.c): the imports
# would take half of the tests' time. With --long, for another Python, or with GPUMEM_TEST_PREPARED= (nothing) each is a process of its own.
PREPARED = BUILD / "tests" / "prepared_python"


def prepare_python(config, folder):
    if config.getoption("--long", default=False) or "GPUMEM_TEST_PYTHON" in os.environ or not PREPARED.exists():
        os.environ["GPUMEM_TEST_PREPARED"] = ""
    elif "GPUMEM_TEST_PREPARED" not in os.environ:  # the workers of one pytest share them
        sockets = folder / "python"
        sockets.mkdir()
        os.environ.update(GPUMEM_TEST_PREPARED=str(sockets), GPUMEM_TEST_REAL_PYTHON=str(PYTHON))


@pytest.fixture
def own_process(monkeypatch):
    """The test's programs begin as a process does: they ask what importing PyTorch does, or set what it reads."""
    monkeypatch.setenv("GPUMEM_TEST_PREPARED", "")


def with_prepared(command, keys):
    """The command with the prepared Python, where it runs a Python program on the simulated device; `gpumem run` may be before it."""
    words = [str(word) for word in command]
    runs = words[:2] == [str(BUILD / "bin" / "gpumem"), "run"] and "--" in words
    at = words.index("--") + 1 if runs else 0
    environment = keys.get("env") or os.environ
    if words[at : at + 1] != [str(PYTHON)] or not os.environ["GPUMEM_TEST_PREPARED"] or not (runs or "GPUMEM_SIM" in environment):
        return words, keys
    words[at] = str(PREPARED)
    names = ("GPUMEM_TEST_PREPARED", "GPUMEM_TEST_REAL_PYTHON", "GPUMEM_TEST_PREPARED_FIRST")
    ways = {name: os.environ[name] for name in names if name in os.environ}
    return words, {**keys, "env": {**environment, **ways}}


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run the tests marked long too")
    parser.addoption("--shuffle", metavar="SEED", help="files, and the tests of each, in an order made from SEED: none may depend on another")


def note_of_set_up(name):
    """Why set-up could not get something, where it noted that."""
    note = ROOT / "build" / name
    return note.read_text().strip() if note.exists() else "./scripts/setup --with-tests gets it"


# The debuggers that are tested: the program, and why it may not be there. docs/recording.md names them too.
DEBUGGERS = {
    "gdb": ("gdb", lambda: "Debian: gdb"),
    "newest-gdb": (str(ROOT / "build" / "newest-gdb" / "bin" / "gdb"), lambda: note_of_set_up("no-newest-gdb")),
    "cuda-gdb": ("cuda-gdb", lambda: note_of_set_up("no-cuda-gdb")),
}


def pytest_generate_tests(metafunc):
    """What uses run_gdb runs in gdb; the core of it, and all of it with --long, in the other debuggers too."""
    if "run_gdb" not in metafunc.fixturenames:
        return
    everywhere = metafunc.config.getoption("--long", default=False)
    several = everywhere or metafunc.definition.get_closest_marker("every_debugger")
    # One of them is a parameter too, so that what gdb did for a whole file is not done once more for tests of all debuggers.
    names = list(DEBUGGERS) if several else [pytest.param("gdb", id=pytest.HIDDEN_PARAM)]
    metafunc.parametrize("run_gdb", names, indirect=True, scope="session")


# Files that take longest (tests/tools/slowest.py) begin first, so that none of them runs alone at the end.
LONGEST = """
gdb who_holds zero hostile_names schema walk amp learn retained advise names agent_marks oom sim_allocator damaged frames agent growth record
estimate reworded gdb_agent busy_process ways snapshot agent_ends phases safe_learn docs import oom_cases sim_kernels tensors memory
call_arguments cpython far_targets linear_loop export sim replay questions_amp_zero attach amp_overflow scripts
""".split()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--long", default=False):
        long = [item for item in items if item.get_closest_marker("long")]
        if long:
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if not item.get_closest_marker("long")]
    place = {f"test_{name}.py": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (place.get(item.path.name, len(place)), item.path.name))
    if seed := config.getoption("--shuffle", default=None):
        items[:] = shuffled(items, random.Random(seed))


def shuffled(items, chance):
    """Files in a random order, in each the tests; those that share a parametrized fixture of the file stay together."""

    def shared(item):
        call = getattr(item, "callspec", None)
        return [(name, call.indices[name]) for name, scope in call._arg2scope.items() if scope.value != "function"] if call else []

    groups = [list(group) for _, group in itertools.groupby(items, key=lambda item: (item.path, shared(item)))]
    chance.shuffle(groups)
    files = list(dict.fromkeys(group[0].path for group in groups))
    groups.sort(key=lambda group: files.index(group[0].path))
    for group in groups:
        chance.shuffle(group)
    return [item for group in groups for item in group]


class Output(str):
    """Text that a command printed."""

    def json(self):
        """The first JSON document in it; gdb's own lines may stand before."""
        start = re.search(r'^(\{\s*["}]|\[\s*[{\]])', self, re.M)
        assert start, f"no JSON in: {self!r}"
        document, _ = json.JSONDecoder().raw_decode(self, start.start())
        return document

    def json_lines(self):
        return [json.loads(line) for line in self.splitlines() if line.startswith("{")]


class Run:
    """A finished process. `output` is stdout and stderr together where they were merged."""

    def __init__(self, status, out, err=""):
        self.status = status
        self.out = Output(out)
        self.err = Output(err)

    def json(self):
        return self.out.json()

    def json_lines(self):
        return self.out.json_lines()

    def check(self, status=0):
        assert self.status == status, f"exit status {self.status}\n{self.out}\n{self.err}"
        return self


class GdbRun(Run):
    """A finished gdb. `self[i]` is what the i-th command printed (its errors, and the program's own output too)."""

    def __init__(self, status, out, commands):
        super().__init__(status, out)
        self.commands = commands
        pieces = re.split("\x1e[0-9]+\x1e\n?", out)
        self.start = Output(pieces[0])
        self.sections = [Output(piece) for piece in pieces[1:]]

    def __getitem__(self, index):
        if isinstance(index, str):
            index = self.commands.index(index)
        assert index < len(self.sections), f"gdb ended before command {index}:\n{self.out}"
        return self.sections[index]


def preloaded(command, keys):
    """Popen's keys. With GPUMEM_TEST_PRELOAD=LIBRARY every program of the tests has that library loaded before all others:
    an agent that is built with AddressSanitizer needs its runtime there (test_agent_sanitized.py). gpumem itself has not."""
    library = os.environ.get("GPUMEM_TEST_PRELOAD")
    asks = str(command[0]) == str(BUILD / "bin" / "gpumem") and str(command[1]) != "run"
    if not library or asks:
        return keys
    environment = dict(os.environ if keys.get("env") is None else keys["env"])
    environment["LD_PRELOAD"] = " ".join([*library.split(), *environment.get("LD_PRELOAD", "").split()])
    return {**keys, "env": environment}


@functools.cache
def ask_python(expression):
    """The value of an expression in the Python that the programs run in, as text."""
    return subprocess.check_output([PYTHON, "-c", f"import importlib.util, sys, sysconfig; print({expression})"], text=True).strip()


def needs(library):
    """Skips a test whose programs run in a Python (GPUMEM_TEST_PYTHON) that lacks a library."""
    if ask_python(f"importlib.util.find_spec({library!r}) is None") == "True":
        pytest.skip(f"{library} is not installed in {PYTHON}")


def site_packages():
    """The folder in which that Python has PyTorch and NVIDIA's libraries."""
    return Path(ask_python("sysconfig.get_path('purelib')"))


def run_process(command, timeout=600, merge=False, **keys):
    """Runs a command in a process group of its own, which is killed whole when the time is up.

    The time is there for what hangs, and far beyond what a busy machine takes. PyTorch 2.15 aborts now and then as Python
    ends: a thread of its autograd engine that still lets go of the last graph finds the interpreter gone, and is ended in the
    midst of a destructor (1 run in 10 of examples/gpt.py on a busy machine). Such a run is made once more.
    """
    for _ in range(5):
        finished = run_once(command, timeout, merge, **keys)
        if not (finished.status in (-6, 134) and AT_EXIT in finished.out + finished.err):
            break
    return finished


def has_module(name):
    """Whether the programs' Python has it."""
    return run_process([PYTHON, "-c", f"import importlib.util as u, sys; sys.exit(not u.find_spec({name!r}))"]).status == 0


# What Triton prints at the end of a program that is forked off the prepared Python, whose modules aren't collected.
NANOBIND = re.compile(r"^(nanobind: (leaked|this is) .*| - (leaked|\.\.\. skipped) .*|See https://nanobind\S*/refleaks\.html)\n?", re.M)
AT_EXIT = "terminate called without an active exception\n"


def run_once(command, timeout, merge, **keys):
    keys.setdefault("stdin", subprocess.DEVNULL)
    command, keys = with_prepared(command, keys)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        **keys,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            kill_family(process.pid)
            out, err = process.communicate()
            raise
        finally:
            if process.poll() is None:
                kill_family(process.pid)
    return Run(process.returncode, NANOBIND.sub("", out or ""), NANOBIND.sub("", err or ""))


def kill_family(pid):
    """Kills a process, its group, and all that they started: launchers of ranks give each a session of its own."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    family = [pid]
    for one in family:
        family += children.get(one, [])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for one in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def can_trace():
    """Whether this machine lets a process be debugged: None, or the reason why not."""
    if not shutil.which("gdb"):
        return "no gdb on this machine"
    run = run_process(["gdb", "-nx", "-batch", "-ex", "starti", "--args", "/bin/true"], timeout=600, merge=True)
    return None if "Program stopped" in run.out else f"gdb cannot start a program here: {run.out.strip()[-200:]}"


@pytest.fixture(scope="session", autouse=True)
def learned_rows(tmp_path_factory):
    """With GPUMEM_TEST_LEARNED=1 the rows that gpumem ships are hidden, and those of the tests' Python are learned first:
    what is asked then is answered by learned rows alone."""
    if os.environ.get("GPUMEM_TEST_LEARNED", "0") in ("", "0"):
        return
    folder = tmp_path_factory.mktemp("learned")
    os.environ.update(GPUMEM_HIDE_ROWS="1", XDG_CACHE_HOME=str(folder), GPUMEM_LEARN_LIMIT="300")
    run_process([BUILD / "bin" / "gpumem", "learn", PYTHON]).check()
    kept = sorted(path.name.split("-")[0] for path in (folder / "gpumem" / "layouts").glob("*.layouts"))
    assert kept == ["python", "torch"], kept
    os.environ["GPUMEM_NO_LEARN"] = "1"  # what was learned has to do


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build_dir():
    return BUILD


@pytest.fixture(scope="session")
def examples():
    return EXAMPLES


@pytest.fixture(scope="session")
def python():
    """The Python with torch."""
    return PYTHON


@pytest.fixture(scope="session")
def gpumem():
    """Path of the shell command."""
    path = BUILD / "bin" / "gpumem"
    assert path.exists(), f"{path} is not built: cmake -S . -B build -G Ninja && ninja -C build"
    return path


@pytest.fixture(scope="session")
def run():
    """run(command, timeout=600, merge=False, **Popen's) -> Run."""
    return run_process


@pytest.fixture(scope="session")
def run_gpumem(gpumem):
    """run_gpumem('info', file, '--json', timeout=…) -> Run."""

    def call(*arguments, **keys):
        return run_process([gpumem, *arguments], **preloaded([gpumem, *arguments], keys))

    return call


def info_of(run_gpumem, file):
    return run_gpumem("info", file, "--json").check().json()


def events_of(run_gpumem, file):
    return run_gpumem("events", file, "--json").check().json_lines()


def line_of(program, text):
    """The number of the one line of a program that has this text."""
    (number,) = [n for n, line in enumerate(program.read_text().splitlines(), 1) if text in line]
    return number


@pytest.fixture
def program(request, tmp_path):
    """The test file's own PROGRAM, as a file."""
    path = tmp_path / "program.py"
    path.write_text(request.module.PROGRAM)
    return path


@pytest.fixture(scope="session")
def sim_env(gpumem):
    """sim_env(profile=None) -> the environment in which a program sees the simulated device."""
    known = {}

    def environment(profile=None):
        if profile not in known:
            option = "--sim" if profile is None else f"--sim={profile}"
            shown = run_process([gpumem, "run", option, "--no-record", "--", "/usr/bin/env", "-0"]).check()
            known[profile] = dict(line.split("=", 1) for line in shown.out.split("\0") if "=" in line)
        return dict(known[profile])

    return environment


@pytest.fixture(scope="session")
def gdb_works():
    reason = can_trace()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def debugger_calls(tmp_path_factory):
    """debugger_calls(debugger) -> "", or why it cannot call a function of any program on this machine.

    gdb before 14 cannot set registers where the processor has AMX. Asked of a program that has nothing to do with gpumem.
    """
    folder = tmp_path_factory.mktemp("calls")
    (folder / "program.c").write_text("#include <unistd.h>\nint main(void) { return getpid() == 0; }\n")
    subprocess.run(["gcc", "-g", "-o", folder / "program", folder / "program.c"], check=True)

    def ask(debugger):
        commands = ["del gdb._execute_unwinders"] if "cuda" in debugger else []
        line = [debugger, "-batch", "-nx", *(f"-ex=python {command}" for command in commands)]
        line += ["-ex", "start", "-ex", "print (int)getpid() > 0", folder / "program"]
        out = run_process(line, timeout=600, merge=True).out
        return "" if "$1 = 1" in out else f"{debugger} cannot call functions on this machine: {out.splitlines()[-1]}"

    return ask


@pytest.fixture(scope="session")
def run_gdb(request, gpumem, gdb_works):
    """run_gdb(commands, program, args=(), sim=True, ...) -> GdbRun.

    Starts the debugger as a user does (`gpumem gdb --sim … -- python PROGRAM ARGS`) and types the commands.
    sim: False for none, True for the default device, or a profile or size; sim_options go with it. `pid=` attaches instead;
    `gdb_args` are gdb's own options, before the commands. `run_gdb.debugger` is one of DEBUGGERS. symbols=False: gdb reads no
    library's symbols, which takes it seconds for PyTorch's unless gpumem records.
    """
    name = getattr(request, "param", "gdb")
    debugger, why_not = DEBUGGERS[name]
    if not shutil.which(debugger):
        pytest.skip(f"no {name} on this machine ({why_not()})")

    def call(
        commands,
        program=None,
        args=(),
        sim=True,
        timeout=600,
        sim_options=(),
        gdb_args=(),
        interpreter=None,
        pid=None,
        env=None,
        cwd=None,
        symbols=True,
    ):
        commands = list(commands)
        line = [gpumem, "gdb", *(["--gdb", debugger] if name != "gdb" else [])]
        if sim:
            line += ["--sim" if sim is True else f"--sim={sim}", *sim_options]
        line += ["-batch", *([] if symbols else ["-iex", "set auto-solib-add off"]), "-ex", "set width 0", *gdb_args]
        if pid is not None:
            line += ["-p", pid]
        for number, command in enumerate(commands):
            line += ["-ex", f"echo \\036{number}\\036\\n", "-ex", command]
        if program is not None:
            line += ["--", *([interpreter or PYTHON] if str(program).endswith(".py") else []), program, *args]
        environment = dict(os.environ if env is None else env)
        environment.setdefault("PYTHONUNBUFFERED", "1")
        finished = run_process(line, timeout=timeout, merge=True, env=environment, cwd=cwd)
        return GdbRun(finished.status, finished.out, commands)

    call.debugger = name
    call.path = debugger
    return call


@pytest.fixture(scope="session")
def make_core(gdb_works):
    """make_core(pid, folder) -> path of a core dump of the process, which goes on afterwards. Gigabytes: remove it.

    What `gcore` does, but for the symbols of the libraries, which take gdb seconds and are not in the core.
    """

    def make(pid, folder):
        path = folder / f"core.{pid}"
        line = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-solib-add off", "-p", pid, "-ex", f"gcore {path}"]
        made = run_process(line, timeout=600, merge=True)
        assert made.status == 0 and path.exists(), f"gdb made no core: {made.out}"
        return path

    return make


def the_program(pid):
    """The program that `gpumem run`, of this number, started; beside it may be a process that packs."""
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        for child in map(int, children.read().split()):
            if not Path(f"/proc/{child}/comm").read_text().startswith("gpumem"):
                return child
    raise AssertionError(f"process {pid} runs no program")


class Started(subprocess.Popen):
    """A program, which may be a child of the prepared Python: `pid` is its own, and it ends when the process that waits for it has."""

    def __init__(self, command, **keys):
        self.waits = None
        if str(command[0]) != str(PYTHON):
            super().__init__([str(word) for word in command], **keys)
            return
        command, keys = with_prepared(command, keys)
        if command[0] == str(PYTHON):
            super().__init__(command, **keys)
            return
        tells, told = os.pipe()
        try:
            environment = {**(keys.pop("env", None) or os.environ), "GPUMEM_TEST_PID": str(told)}
            super().__init__(command, env=environment, pass_fds=[told, *keys.pop("pass_fds", ())], **keys)
        finally:
            os.close(told)
        with open(tells, encoding="ascii") as file:
            self.waits, self.pid = self.pid, int(file.readline())

    def _try_wait(self, flags):
        if self.waits is None:
            return super()._try_wait(flags)
        pid, status = os.waitpid(self.waits, flags)
        return (self.pid if pid == self.waits else pid), status

    def _internal_poll(self, *arguments, **keys):
        if self.waits is None:
            return super()._internal_poll(*arguments, **keys)
        if self.returncode is None:
            pid, status = os.waitpid(self.waits, os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode


@contextlib.contextmanager
def spawning():
    """start(command, **Popen's) -> Popen, killed with its children in the end."""
    started = []

    def start(command, **keys):
        words = [str(word) for word in command]
        process = Started(words, start_new_session=True, text=True, **preloaded(words, keys))
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            if process.poll() is None:
                kill_family(process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a program that has ended left behind
            process.wait()


@pytest.fixture
def spawn():
    """spawn(command, **Popen's) -> Popen, killed with its children when the test ends."""
    with spawning() as start:
        yield start


def wait_until(condition, timeout=600):
    """The condition's first true value; fails after the timeout."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {timeout} s"
        time.sleep(0.05)


@pytest.fixture
def wait_for():
    """wait_for(condition, timeout=600) -> its first true value; fails after the timeout."""
    return wait_until


@pytest.fixture(scope="module")
def chromium():
    """A running browser of playwright's, for tests of pages."""
    from browser import browser  # it needs this file

    with browser() as running:
        yield running
