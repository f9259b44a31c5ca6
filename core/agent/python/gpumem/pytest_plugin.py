"""A plugin for pytest: limits on the GPU memory of tests, and what is left when one of them fails.

    @pytest.mark.gpu_memory(limit="2 GiB", leaks=False, sim="a100-40gb")
    def test_training_step(): ...

A test is recorded on its own, from its first function-scoped fixture (or its call) to the end of its teardown, so that what
fixtures of modules and sessions hold is not its doing. Limits are judged by `gpumem assert`, and what failed is explained by
`gpumem peak`, `gpumem blocks` and `gpumem who-holds`. Tests with `sim` run in another process, `gpumem run --sim`, whose reports
are passed on; this module is that process's program too (see main()).

docs/pytest.md is the user's page. The plugin needs pytest 7.4 or newer, and imports PyTorch nowhere.
"""

import contextlib
import gc
import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback
from _pytest.config import create_terminal_writer

HERE = Path(__file__).resolve().parent
MARK = "gpu_memory"
# Set in the process that runs tests on a simulated device: the device.
SIMULATED = "GPUMEM_PYTEST_SIM"
FIXTURE_RANGE = "gpumem: fixture "
LARGEST = 1000 << 40
FIGURES = ("own", "peak", "reserved", "left")
SHOWN = 10
LINES = 5
PROPERTY = "gpumem_{}_bytes"


def beside(name):
    """The module of this folder, whatever else has its name in this Python."""
    spec = importlib.util.spec_from_file_location(f"_gpumem_{name.strip('_')}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


asking = beside("asking")
UNITS, size_text, readable_by_children = asking.UNITS, asking.size_text, asking.readable_by_children


def calls():
    """The module `gpumem`."""
    global _calls
    if _calls is None:
        _calls = beside("__init__")
    return _calls


_calls = None


def program():
    """The path of `gpumem`: that of this installation."""
    found = asking.program()
    if not found:
        raise pytest.UsageError(f"gpumem: no command gpumem belongs to {HERE}: install it again")
    return found


def ask(*words, timeout=120):
    """(exit status, stdout, stderr) of a question."""
    program()
    try:
        return asking.run(words, timeout)
    except subprocess.TimeoutExpired:
        return None, "", f"gpumem {words[0]}: no answer in {timeout} s"


def exact(size):
    return size_text(size) if size < 1024 else f"{size_text(size)} ({size:,} bytes)"


def parse_tolerance(text):
    """'5%' -> (0.05, 0); '10 MiB' -> (0, 10485760)."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%|B|[KMGT]iB)\s*", text)
    if not found:
        raise pytest.UsageError(f"--gpumem-tolerance: {text!r} is no tolerance: give one such as 5% or 10MiB")
    number, unit = float(found[1]), found[2]
    return (number / 100, 0) if unit == "%" else (0.0, int(number * 1024 ** UNITS.index(unit)))


# ---- options and marks ----


def pytest_addoption(parser):
    group = parser.getgroup("gpumem", "GPU memory, by gpumem")
    group.addoption("--gpumem", action="store_true", help="record the GPU memory of every test, and list the highest peaks")
    group.addoption("--gpumem-sim", metavar="PROFILE", help="run the tests on a simulated device (`gpumem sim` lists them), without a GPU")
    group.addoption("--gpumem-dir", metavar="DIR", help="keep the recordings of all tests here (default: those of failed tests, in .gpumem)")
    group.addoption("--gpumem-baseline", metavar="FILE", help="fail tests whose own peak has grown beyond that in FILE")
    group.addoption("--gpumem-tolerance", metavar="LIMIT", default="5%", help="how much a peak may grow: 5%% (default) or 10MiB")
    group.addoption("--gpumem-update", action="store_true", help="write the peaks of this run to the baseline")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        f"{MARK}(limit=None, own=None, leaks=True, sim=None): limits on GPU memory. limit: the most bytes allocated on a device "
        "('2 GiB'); own: the same without what was there before the test; leaks=False: nothing of the test is left after its "
        "teardown; sim: a simulated device (`gpumem sim`).",
    )
    option = config.option
    if option.gpumem_update and not option.gpumem_baseline:
        raise pytest.UsageError("--gpumem-update: no file to write to: give one with --gpumem-baseline FILE")
    tolerance = parse_tolerance(option.gpumem_tolerance)
    baseline = read_baseline(option.gpumem_baseline, option.gpumem_update) if option.gpumem_baseline else {}
    config.pluginmanager.register(Plugin(config, baseline, tolerance), "gpumem-tests")


def read_baseline(name, may_lack):
    """{test: bytes}."""
    try:
        text = Path(name).read_text()
    except FileNotFoundError:
        if may_lack:
            return {}
        raise pytest.UsageError(f"--gpumem-baseline: {name} does not exist: --gpumem-update writes it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise pytest.UsageError(f"--gpumem-baseline: {name}: {error}") from None
    try:
        tests = json.loads(text)["tests"]
        return {str(test): int(one["own_peak"]) for test, one in tests.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise pytest.UsageError(f"--gpumem-baseline: {name} is no baseline of gpumem's: {error!r}") from None


@dataclass
class Limits:
    limit: int = None  # bytes
    own: int = None
    leaks: bool = True
    sim: str = None


def limits_of(item):
    """The limits of the marks of a test, its class and its module, the nearest first; None: it has none."""
    found = {}
    for mark in item.iter_markers(MARK):
        unknown = set(mark.kwargs) - set(Limits.__dataclass_fields__)
        if mark.args or unknown:
            wrong = mark.args[0] if mark.args else sorted(unknown)[0]
            raise pytest.UsageError(f"{item.nodeid}: {MARK}: {wrong!r} is not known: it takes limit=, own=, leaks= and sim=")
        found = {**mark.kwargs, **found}
    for name in ("limit", "own"):
        if found.get(name) is not None:
            found[name] = parse_size(found[name], f"{item.nodeid}: {MARK}: {name}")
    return Limits(**found) if found else None


def parse_size(value, what):
    """'2 GiB' -> 2147483648; a number is bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(B|[KMGT]iB)?\s*", str(value))
    size = int(float(found[1]) * 1024 ** UNITS.index(found[2] or "B")) if found else None
    if size is None or size > LARGEST:
        raise pytest.UsageError(f"{what}: {value!r} is no size: give one such as '2 GiB', in B, KiB, MiB, GiB or TiB")
    return size


# ---- one test ----


class Wrong(Exception):
    """A test that exceeds a limit, or of which that cannot be said: the text of its report."""

    def shown(self, item):
        """As pytest shows a failure: the first line stands in its summary, and all survives the way between processes."""
        text = str(self)
        path, line, _ = item.location
        where = ReprFileLocation(path, (line or 0) + 1, text.partition("\n")[0])
        return ReprExceptionInfo(ReprTraceback([ReprEntryNative([text + "\n"])], None, style="native"), where)


@dataclass
class Recording:
    """Of one test: from start() to finish()."""

    item: pytest.Item
    limits: Limits
    path: Path
    before: dict = field(default_factory=dict)  # device: bytes allocated when the test began
    running: bool = False
    failed: bool = False
    figures: dict = field(default_factory=dict)  # FIGURES: bytes
    within: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self):
        if self.running:
            return
        self.before = allocated_now()
        try:
            began = calls().start(str(self.path))
        except RuntimeError as error:
            pytest.fail(str(error), pytrace=False)
        if not began:
            pytest.fail(
                "gpumem: this process is recorded already, so its tests cannot be recorded one by one: "
                "run pytest without `gpumem run`, or under `gpumem run --no-record`",
                pytrace=False,
            )
        self.running = True
        self.within.enter_context(calls().range(self.item.nodeid))

    def stop(self):
        if self.running:
            self.running = False
            self.within.close()
            calls().stop()

    def measure(self, limit):
        """The check of `gpumem assert --peak` of the device that is highest; None: no GPU memory was allocated."""
        status, out, err = ask("assert", self.path, f"--peak={LARGEST if limit is None else limit}", "--json")
        if status not in (0, 1):
            raise Wrong(err.strip() or out)
        checks = {check["device"]: check for check in json.loads(out)["files"][0]["checks"] if check["reason"] != "no_events"}
        for device, size in self.before.items():
            check = checks.setdefault(device, {"device": device, "actual": 0, "reserved": 0, "verdict": "holds"})
            check["actual"] = max(check["actual"], size)
            if limit is not None and check["actual"] > limit:
                check["verdict"] = "fails"
        checks = [check for check in checks.values() if check["actual"]]
        if not checks:
            return None
        self.figures["peak"] = max(check["actual"] for check in checks)
        self.figures["reserved"] = max(check["reserved"] for check in checks)
        self.figures["own"] = max(check["actual"] - self.before.get(check["device"], 0) for check in checks)
        order = {"fails": 2, "unknown": 1, "holds": 0}
        return max(checks, key=lambda check: order[check["verdict"]])

    def judge_peak(self, baseline, tolerance, finished):
        """Raises Wrong where a limit is exceeded and, when the test has ended, where that is not known."""
        check = self.measure(self.limits.limit)
        if check is None:
            return
        if check["verdict"] == "fails":
            raise Wrong(self.explain(f"{exact(check['actual'])} were allocated on cuda:{check['device']}", exact(self.limits.limit), check))
        if check["verdict"] == "unknown" and finished and self.limits.limit is not None:
            _, out, _ = ask("info", self.path)
            raise Wrong(f"gpumem: the limit of {exact(self.limits.limit)} cannot be judged: the recording is not complete\n{out}")
        own = self.figures["own"]
        if self.limits.own is not None and own > self.limits.own:
            raise Wrong(self.explain(f"the test itself allocated {exact(own)} at a time", exact(self.limits.own), check))
        if baseline is not None:
            share, size = tolerance
            if own > baseline + max(baseline * share, size):
                raise Wrong(
                    self.explain(f"the peak of the test itself has grown to {exact(own)}", f"{exact(baseline)} in the baseline", check)
                )

    def explain(self, said, limit, check):
        _, out, _ = ask("peak", self.path)
        before = self.before.get(check["device"], 0)
        text = [f"gpumem: {said}; the limit is {limit}"]
        if before:
            text.append(f"{exact(before)} of the device were allocated before the test began")
        return "\n".join([*text, "", *out.splitlines()[:15]])

    def judge_leaks(self):
        # cuBLAS's workspaces stay in PyTorch, whoever used them first
        selected = f"--where=not range~'{FIXTURE_RANGE}' and not category=workspace"
        status, out, err = ask("blocks", self.path, selected, "--json")
        if status != 0:
            raise Wrong(err.strip())
        answer = json.loads(out)
        if "where" not in answer:  # no events
            return
        blocks, unknown = answer["blocks"], answer["where"]["unknown_blocks"]
        self.figures["left"] = sum(block["size"] for block in blocks)
        if self.limits.leaks or self.failed:
            return
        if unknown:
            raise Wrong(f"gpumem: leaks cannot be judged: of {unknown} blocks it is not known where they were allocated")
        if not blocks:
            return
        text = [f"gpumem: {exact(self.figures['left'])} of the test are still allocated after its teardown", ""]
        groups = sorted(answer["groups"], key=lambda group: -group["bytes"])
        text += [f"{size_text(group['bytes']):>12}  {group['key']}" for group in groups[:LINES]]
        if len(groups) > LINES:
            text.append(f"{'':>12}  and {len(groups) - LINES} more lines")
        with readable_by_children():
            for block in sorted(blocks, key=lambda block: -block["size"])[:3]:
                status, held, _ = ask("who-holds", "--pid", os.getpid(), block["address"])
                if status == 0:
                    text += ["", held.rstrip()]
        raise Wrong("\n".join(text))


def allocated_now():
    """Device: allocated bytes, by PyTorch; empty where it is not imported or has used no device."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if not cuda or not getattr(cuda, "is_initialized", bool)():
        return {}
    return {device: cuda.memory_allocated(device) for device in range(cuda.device_count())}


# ---- all tests ----


class Plugin:
    def __init__(self, config, baseline, tolerance):
        self.config, self.baseline, self.tolerance = config, baseline, tolerance
        self.option = config.option
        self.everything = self.option.gpumem or bool(self.option.gpumem_baseline)
        self.current = None  # the Recording of the test that runs
        self.scratch = None
        self.children = {}
        self.measured = {}  # test: {figure: bytes}

    # -- recording --

    def folder(self):
        if self.scratch is None:
            self.scratch = Path(tempfile.mkdtemp(prefix="gpumem-pytest-"))
        return self.scratch

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        limits = limits_of(item)
        self.current = None
        if limits or self.everything:
            name = re.sub(r"[^A-Za-z0-9._-]+", "_", item.nodeid)[-150:]
            path = self.folder() / f"{name}-{zlib.crc32(item.nodeid.encode('utf-8', 'replace')):08x}.gpumem"
            self.current = Recording(item, limits or Limits(), path)
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if self.current is None:
            yield
            return
        if fixturedef.scope == "function":
            self.current.start()
            yield
            return
        with calls().range(f"{FIXTURE_RANGE}{fixturedef.argname}"):
            yield

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        if self.current:
            self.current.start()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        recording = self.current
        if recording is None or recording.item is not item:
            return
        report = outcome.get_result()
        recording.failed |= report.failed
        try:
            self.judge(recording, report)
        except Wrong as wrong:
            report.outcome, report.longrepr = "failed", wrong.shown(item)
            recording.failed = True
        except Exception:  # a fault of the plugin costs the test, not the run
            text = f"gpumem: the plugin failed, which is a fault of gpumem\n{traceback.format_exc()}"
            report.outcome, report.longrepr = "failed", Wrong(text).shown(item)
            recording.failed = True
        if call.when == "teardown":
            self.finish(recording, report)

    def judge(self, recording, report):
        now = allocated_now()
        if not now:  # PyTorch has used no device so far
            if report.when == "teardown":
                recording.stop()
            return
        baseline = None if self.option.gpumem_update else self.baseline.get(recording.item.nodeid)
        # after the teardown it is asked again, so here only where the test can fail by it
        limited = baseline is not None or recording.limits.limit is not None or recording.limits.own is not None
        if report.when == "call" and recording.running and report.passed and limited:
            recording.judge_peak(baseline, self.tolerance, False)
        if report.when != "teardown":
            return
        # the values of function-scoped fixtures, which pytest lets go of after this
        if getattr(recording.item, "funcargs", None):
            recording.item.funcargs.clear()
        left = allocated_now()  # without them
        if not recording.limits.leaks or any(size > recording.before.get(device, 0) for device, size in left.items()):
            gc.collect()
        began = recording.running
        recording.stop()
        if began and not recording.failed:
            recording.judge_peak(baseline, self.tolerance, True)
        elif began:
            recording.measure(None)
        if began and recording.figures:
            recording.judge_leaks()

    def finish(self, recording, report):
        for name in FIGURES:
            if name in recording.figures:
                report.user_properties.append((PROPERTY.format(name), recording.figures[name]))
        self.current = None
        kept = self.option.gpumem_dir or (recording.failed and self.config.rootpath / ".gpumem")
        if kept and recording.figures:
            target = Path(kept) / recording.path.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if not self.option.gpumem_dir and not (target.parent / ".gitignore").exists():
                    (target.parent / ".gitignore").write_text("*\n")
                shutil.move(recording.path, target)
                report.sections.append(("gpumem", f"recording: {target}\nnext: gpumem peak {target}"))
            except OSError as error:
                report.sections.append(("gpumem", f"the recording was not kept: {error}"))
        with contextlib.suppress(OSError):
            recording.path.unlink()

    def pytest_collection_modifyitems(self, items):
        for item in items:
            limits_of(item)  # a wrong mark is said before anything runs

    # -- a simulated device --

    def device_of(self, item):
        """The simulated device that a test has to be run on in another process; None: it is run here."""
        if SIMULATED in os.environ:
            return None
        limits = limits_of(item)
        return (limits.sim if limits else None) or self.option.gpumem_sim

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        profile = self.device_of(item)
        if not profile:
            return None
        child = self.children.get(profile)
        if child is None or not child.has(item.nodeid):
            # a process of pytest-xdist does not know which tests will be its own
            alone = hasattr(self.config, "workerinput")
            items = item.session.items
            items = [item] if alone else [one for one in items[items.index(item) :] if self.device_of(one) == profile]
            if child:
                child.end()
            child = self.children[profile] = Child(self.config, profile, items)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in child.reports_of(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    # -- the end --

    def pytest_runtest_logreport(self, report):
        found = dict(report.user_properties) if report.when == "teardown" else {}
        figures = {name: found[PROPERTY.format(name)] for name in FIGURES if PROPERTY.format(name) in found}
        if figures:
            self.measured[report.nodeid] = figures

    def pytest_sessionfinish(self):
        for child in self.children.values():
            child.end()
        if self.current:
            self.current.stop()
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
        if self.option.gpumem_update and SIMULATED not in os.environ and not hasattr(self.config, "workerinput"):
            self.write_baseline()

    def write_baseline(self):
        own = {**self.baseline, **{test: one["own"] for test, one in self.measured.items() if "own" in one}}
        value = {"format": 1, "tests": {test: {"own_peak": own[test]} for test in sorted(own)}}
        path = Path(self.option.gpumem_baseline)
        fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            fresh.write_text(json.dumps(value, indent=1) + "\n")
            fresh.replace(path)
        except OSError as error:
            raise pytest.UsageError(f"--gpumem-baseline: {path} cannot be written: {error.strerror}") from None

    def pytest_terminal_summary(self, terminalreporter):
        if not self.everything or SIMULATED in os.environ:
            return
        terminalreporter.section("GPU memory")
        if not self.measured:
            terminalreporter.write_line("No test allocated GPU memory.")
            return
        rows = sorted(self.measured.items(), key=lambda one: -one[1].get("own", 0))
        terminalreporter.write_line(f"{'own peak':>12}{'peak':>12}{'reserved':>12}{'left':>12}  test")
        for test, figures in rows[:SHOWN]:
            cells = "".join(f"{size_text(figures[name]) if name in figures else '-':>12}" for name in FIGURES)
            terminalreporter.write_line(f"{cells}  {test}")
        if len(rows) > SHOWN:
            terminalreporter.write_line(f"{len(rows) - SHOWN} more tests have lower peaks.")
        terminalreporter.write_line("own peak: without what was allocated before the test. left: after its teardown.")
        if self.option.gpumem_update:
            terminalreporter.write_line(f"The baseline was written: {self.option.gpumem_baseline}")
        elif self.option.gpumem_baseline:
            fresh = sum(test not in self.baseline for test in self.measured)
            if fresh:
                terminalreporter.write_line(f"{fresh} of them are not in the baseline: --gpumem-update adds them.")


# ---- the process of a simulated device ----


class Child:
    """pytest under `gpumem run --sim`, for tests of this session; its reports come by a pipe, a line of JSON each."""

    def __init__(self, config, profile, items):
        self.config, self.profile = config, profile
        self.left = {item.nodeid for item in items}
        self.error = ""  # pytest's own
        self.spoke = self.ended = False
        self.early = {}  # reports of tests that are asked for later
        self.folder = Path(tempfile.mkdtemp(prefix="gpumem-pytest-"))
        settings = self.folder / "settings"
        settings.write_bytes(pickle.dumps(self.settings(items)))
        reader, writer = os.pipe()
        self.reports = os.fdopen(reader, encoding="utf-8")
        shown = config.option.capture == "no"
        self.output = None if shown else open(self.folder / "output", "wb")  # noqa: SIM115
        command = [program(), "run", f"--sim={profile}", "--no-record", "--", sys.executable, __file__, settings, writer]
        self.process = subprocess.Popen(
            list(map(str, command)),
            cwd=config.invocation_params.dir,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT if self.output else None,
            env={**os.environ, SIMULATED: profile},
            pass_fds=[writer],
        )
        os.close(writer)

    def settings(self, items):
        """What pytest-xdist gives to its processes too: the options, and what is to be run."""
        options = dict(vars(self.config.option))
        options.update(plugins=[*options.get("plugins", []), "no:cacheprovider", "no:xdist", "no:junitxml"])
        options.update(rootdir=str(self.config.rootpath), maxfail=0, usepdb=False, gpumem_sim=None)
        options["gpumem_dir"] = options["gpumem_dir"] and os.path.abspath(options["gpumem_dir"])
        if self.config.inipath:
            options["inifilename"] = str(self.config.inipath)
        plain = {}
        for name, value in options.items():
            with contextlib.suppress(Exception):  # of another plugin, and only for this process
                pickle.dumps(value)
                plain[name] = value
        return {
            "options": plain,
            "tests": [os.path.join(self.config.rootpath, item.nodeid) for item in items],
            "path": sys.path,
        }

    def has(self, test):
        """Will it say anything of this test? One that could not begin says the same of all."""
        return test in self.left and (not self.ended or not self.spoke)

    def reports_of(self, item):
        """Those of one test, as they come; of one that the process did not live to see, one that says so."""
        self.left.discard(item.nodeid)
        yield from self.early.pop(item.nodeid, [])
        while True:
            line = self.reports.readline()
            if not line:
                self.ended = True
                yield self.lost(item)
                return
            data = json.loads(line)
            if "error" in data:
                self.error = data["error"]
                continue
            if "ended" in data:
                if data["ended"] == item.nodeid:
                    return
                continue
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
            self.spoke = True
            if isinstance(report.longrepr, list):  # of a skipped test: JSON has no tuples
                report.longrepr = tuple(report.longrepr)
            if report.nodeid == item.nodeid:
                yield report
            else:
                self.early.setdefault(report.nodeid, []).append(report)

    def lost(self, item):
        status = self.process.wait()
        said = self.error
        for name in ("terminal", "output"):
            with contextlib.suppress(OSError):
                said += (self.folder / name).read_text(errors="replace")[-8192:]
        ended = f"by signal {-status}" if status < 0 else f"with status {status}"
        text = f"gpumem: the process that ran this test on the simulated device {self.profile} ended {ended}\n{said}"
        return pytest.TestReport(item.nodeid, item.location, {}, "failed", Wrong(text).shown(item), "call")

    def end(self):
        with contextlib.suppress(OSError):
            self.process.kill() if self.left else None
        self.reports.close()  # it is told so at its next report
        self.process.wait()
        if self.output:
            self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Reporter:
    """In that process: passes its reports on."""

    def __init__(self, config, out):
        self.config, self.out = config, out

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        """What it would print is shown only where it ends too early."""
        screen = open(Path(sys.argv[1]).with_name("terminal"), "w")  # noqa: SIM115
        config.pluginmanager.get_plugin("terminalreporter")._tw = create_terminal_writer(config, screen)

    def write(self, value):
        self.out.write(json.dumps(value, default=str) + "\n")
        self.out.flush()

    def pytest_runtest_logreport(self, report):
        self.write(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_runtest_logfinish(self, nodeid):
        self.write({"ended": nodeid})

    def pytest_internalerror(self, excrepr):
        self.write({"error": str(excrepr)})


def main():
    settings = pickle.loads(Path(sys.argv[1]).read_bytes())  # written by this module, in a folder of this user's own
    sys.path[:] = settings["path"]
    config = pytest.Config.fromdictargs(settings["options"], settings["tests"])
    with os.fdopen(int(sys.argv[2]), "w", encoding="utf-8") as out:
        config.pluginmanager.register(Reporter(config, out))
        sys.exit(config.hook.pytest_cmdline_main(config=config))


if __name__ == "__main__":
    main()
