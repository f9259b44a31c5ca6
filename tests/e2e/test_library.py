"""The library as others use it: the examples of docs/library.md, compiled and run against an installed tree; the header, the
exported names and the ABI; errors as facts; sessions in several threads."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest
from conftest import BUILD, EXAMPLES, PYTHON, ROOT, run_process

HEADER = ROOT / "core" / "include" / "gpumem.h"
PAGE = (ROOT / "docs" / "library.md").read_text()


def example(language):
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S).group(1)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder to which an installed gpumem was moved."""
    first = tmp_path_factory.mktemp("library") / "first"
    run_process(["cmake", "--install", BUILD, "--prefix", first]).check()
    elsewhere = first.parent / "else where"
    os.rename(first, elsewhere)
    return elsewhere


@pytest.fixture(scope="module")
def folder(installed):
    return next(installed.glob("lib*/**/libgpumem.so")).parent


@pytest.fixture(scope="module")
def environment(folder):
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "PKG_CONFIG_PATH": str(folder / "pkgconfig")}


@pytest.fixture(scope="module")
def recording(tmp_path_factory, run_gpumem):
    path = tmp_path_factory.mktemp("recording") / "leak.gpumem"
    run_gpumem("run", "--sim", "-o", path, "--", PYTHON, EXAMPLES / "leak.py").check()
    return path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, environment):
    """compiled(name, source, compiler="cc") -> a program."""
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config on this machine")

    def compile(name, source, *options, compiler="cc"):
        path = tmp_path_factory.mktemp("program") / f"{name}.c"
        path.write_text(source)
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "gpumem"], env=environment, capture_output=True, text=True, check=True
        ).stdout
        command = f"{compiler} -Wall -Wextra -Werror {' '.join(options)} {path} -o {path.with_suffix('')} {flags}"
        run_process(["sh", "-c", command]).check()
        return path.with_suffix("")

    return compile


# --- the examples -----------------------------------------------------------------------------------


def test_example_in_c_answers_like_the_shell_command(compiled, environment, recording, run_gpumem):
    run = run_process([compiled("peak", example("c")), recording], env=environment).check()
    first, _, answer = run.out.partition("\n")
    device = run_gpumem("info", recording, "--json").check().json()["devices"][0]
    assert first == f"cuda:0: peak {device['peak_allocated']} bytes at event {device['peak_event']}"
    assert answer == run_gpumem("peak", recording, "--by", "line", "--json").check().out


def test_example_in_c_shows_where_a_file_is_damaged(compiled, environment, recording, tmp_path):
    damaged = tmp_path / "damaged.gpumem"
    whole = recording.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2] + bytes(64) + whole[len(whole) // 2 + 64 :])
    run = run_process([compiled("damaged", example("c")), damaged], env=environment).check(3)
    offset = int(re.search(rf"^damaged: {re.escape(str(damaged))}, byte (\d+)$", run.err, re.M).group(1))
    assert 0 < offset <= len(whole) // 2 + 64


def test_example_in_python_answers_like_the_shell_command(environment, recording, run_gpumem, tmp_path):
    script = tmp_path / "leaks.py"
    script.write_text(example("python"))
    run = run_process([sys.executable, script, recording], env=environment).check()
    sites = run_gpumem("leaks", recording, "--json").check(1).json()["sites"]
    assert sites and run.out.splitlines() == [f"{s['file']}:{s['line']}: {s['bytes_per_step']} bytes a step" for s in sites]
    run = run_process([sys.executable, script, tmp_path / "none.gpumem"], env=environment).check(1)
    assert "none.gpumem" in run.err


def test_the_header_compiles_as_c99_and_as_cpp(compiled):
    use = "#include <gpumem.h>\nint main(void) { return gpumem_json_version() - 1 + (gpumem_version()[0] == 0); }\n"
    compiled("old", use, "-std=c99", "-pedantic")
    compiled("cpp", use, "-x", "c++", "-std=c++11", "-pedantic", compiler="c++")


# --- names -------------------------------------------------------------------------------------------


def declared():
    return set(re.findall(r"^GPUMEM_API[^;(]*?\b(gpumem_\w+)\(", HEADER.read_text(), re.M))


def test_what_is_exported_is_what_the_header_declares_and_the_map_lists(folder):
    names = run_process(["nm", "-D", "--defined-only", folder / "libgpumem.so"]).check().out
    exported = set(re.findall(r" T (\w+)@@GPUMEM_0\.1$", names, re.M)) or set(re.findall(r" T (\w+)", names))
    listed = set(re.findall(r"^\t\t(gpumem_\w+);", (ROOT / "core" / "include" / "gpumem.map").read_text(), re.M))
    assert len(declared()) > 50
    assert exported == declared() == listed
    versions = run_process(["readelf", "-V", folder / "libgpumem.so"]).check().out
    assert "Name: GPUMEM_0.1" in versions


def test_every_question_of_the_page_is_in_the_header():
    assert set(re.findall(r"`(gpumem_\w+_json)\(\)`", PAGE)) == {n for n in declared() if n.endswith("_json")}


# --- ctypes: what a test needs ------------------------------------------------------------------------


class SessionOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("recording", ctypes.c_char_p),
        ("core", ctypes.c_char_p),
        ("process", ctypes.c_int),
        ("thread", ctypes.c_int),
    ]


class EventsOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("first", ctypes.c_uint64), ("count", ctypes.c_uint64), ("later", ctypes.c_uint64)]


class Failure(Exception):
    pass


class Library:
    def __init__(self):
        self.lib = ctypes.CDLL(str(BUILD / "lib" / "libgpumem.so.0"))
        for name in declared():
            getattr(self.lib, name)  # every function exists
        for name in ("message", "path"):
            getattr(self.lib, f"gpumem_error_{name}").restype = ctypes.c_char_p
        self.lib.gpumem_session_notes.restype = ctypes.c_char_p

    def check(self, status, error):
        if status <= 1:
            return status
        lib, number = self.lib, ctypes.c_uint64()
        failure = Failure(lib.gpumem_error_message(error).decode())
        failure.status = lib.gpumem_error_status(error)
        failure.path = lib.gpumem_error_path(error)
        failure.errno = lib.gpumem_error_errno(error)
        failure.offset = number.value if lib.gpumem_error_offset(error, ctypes.byref(number)) else None
        failure.address = number.value if lib.gpumem_error_address(error, ctypes.byref(number)) else None
        lib.gpumem_error_destroy(error)
        assert failure.status == status
        raise failure

    def open(self, **options):
        options = {name: os.fsencode(value) if name in ("recording", "core") else value for name, value in options.items()}
        given = SessionOptions(size=ctypes.sizeof(SessionOptions), **options)
        session, error = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.gpumem_session_open(ctypes.byref(given), ctypes.byref(session), ctypes.byref(error)), error)
        return session

    def ask(self, session, question, *arguments):
        """(status, text) of gpumem_QUESTION_json(session, ARGUMENTS …)."""
        answer, error = ctypes.c_void_p(), ctypes.c_void_p()
        function = getattr(self.lib, f"gpumem_{question}_json")
        status = self.check(function(session, *arguments, ctypes.byref(answer), ctypes.byref(error)), error)
        text = ctypes.string_at(answer).decode()
        self.lib.gpumem_free(answer)
        return status, text

    def close(self, session):
        self.lib.gpumem_session_destroy(session)


@pytest.fixture(scope="module")
def library():
    return Library()



# --- answers -----------------------------------------------------------------------------------------

OF_A_RECORDING = {
    "info": [],
    "events": [None],
    "blocks": [None],
    "timeline": [None],
    "peak": [None],
    "steps": [],
    "amp": [],
    "phases": [None],
    "leaks": [],
    "segments": [None],
}


@pytest.mark.parametrize("question", OF_A_RECORDING)
def test_library_and_shell_answer_alike(library, run_gpumem, recording, question):
    session = library.open(recording=recording)
    status, text = library.ask(session, question, *OF_A_RECORDING[question])
    library.close(session)
    shell = run_gpumem(question, recording, "--json")
    assert (status, text) == (shell.status, shell.out)


def test_the_process_is_read_again_by_each_question_and_continues(library, spawn, sim_env, tmp_path):
    script = tmp_path / "grow.py"
    script.write_text(
        "import sys, torch\n"
        "kept = []\n"
        "for line in sys.stdin:\n"
        "    kept.append(torch.zeros(1 << 20, device='cuda'))\n"
        "    print(hex(kept[-1].data_ptr()), flush=True)\n"
    )
    process = spawn([PYTHON, script], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def one_more():
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    first = one_more()
    session = library.open(process=process.pid)
    before = json.loads(library.ask(session, "info")[1])["devices"][0]["allocated"]
    second = one_more()
    after = json.loads(library.ask(session, "info")[1])["devices"][0]["allocated"]
    assert after - before == 4 << 20
    for index, block in enumerate((first, second)):
        answer = json.loads(library.ask(session, "who_holds", block.encode())[1])
        assert answer["complete"] is True
        assert any(step["kind"] == "item" and step.get("index") == index for step in answer["holders"][0]["path"])
    library.close(session)


def test_several_threads_ask_several_sessions(library, recording, run_gpumem):
    expected = {name: run_gpumem(name, recording, "--json").out for name in ("info", "peak", "leaks", "steps")}
    wrong = []

    def work(name):
        for _ in range(5):
            session = library.open(recording=recording)
            text = library.ask(session, name, *OF_A_RECORDING[name])[1]
            if text != expected[name]:
                wrong.append(name)
            library.close(session)

    threads = [threading.Thread(target=work, args=(name,)) for name in expected for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_structs_and_json_agree(compiled, environment, recording, run_gpumem):
    source = r"""
#include <gpumem.h>
#include <inttypes.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	struct gpumem_session_options options = {.size = sizeof(options), .recording = argv[argc - 1]};
	gpumem_session *session;
	struct gpumem_recording_info info = {.size = sizeof(info)};
	if (gpumem_session_open(&options, &session, NULL) || gpumem_recording_info(session, &info, NULL))
		return 1;
	for (uint64_t i = 0; i < info.events; i++) {
		struct gpumem_event_info event = {.size = sizeof(event)};
		if (gpumem_event_info(session, i, &event, NULL) || event.size != sizeof(event))
			return 1;
		printf("%" PRIu64 " %s %s %s %d %u %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", i, event.action, event.phase,
		        event.device_type, event.device, event.step, event.address, event.bytes, event.time_us);
	}
	struct gpumem_event_info none = {.size = sizeof(none)};
	struct gpumem_event_info older = {.size = sizeof(size_t) + sizeof(char *), .phase = "untouched"};
	if (gpumem_event_info(session, info.events, &none, NULL) != GPUMEM_USAGE)
		return 2;
	if (gpumem_event_info(session, 0, &older, NULL) || older.size != sizeof(size_t) + sizeof(char *) ||
	        older.phase[0] != 'u' || older.action[0] == 0)
		return 3;
	gpumem_session_destroy(session);
	return 0;
}
"""
    run = run_process([compiled("structs", source), recording], env=environment).check()
    events = run_gpumem("events", recording, "--json").check().json_lines()
    expected = [
        f"{e['n']} {e['action']} {e['phase']} {e['device_type']} {e['device']} {e['step'] or 0} {e['address'][2:]} {e['size']} {e['time_us']}"
        for e in events
    ]
    assert len(expected) > 100 and run.out.splitlines() == expected


# --- errors ------------------------------------------------------------------------------------------


def test_a_missing_file_is_reported_as_facts(library, tmp_path):
    session = library.open(recording=tmp_path / "none.gpumem")
    with pytest.raises(Failure) as failed:
        library.ask(session, "info")
    library.close(session)
    failure = failed.value
    assert (failure.status, failure.path, failure.errno) == (3, os.fsencode(tmp_path / "none.gpumem"), 2)
    assert failure.offset is None and failure.address is None


def test_options_of_a_later_version_are_refused_unless_they_are_0(library, recording):
    session = library.open(recording=recording)
    later = EventsOptions(size=ctypes.sizeof(EventsOptions), first=2, count=3, later=0)
    assert [json.loads(line)["n"] for line in library.ask(session, "events", ctypes.byref(later))[1].splitlines()] == [2, 3, 4]
    later.later = 1
    with pytest.raises(Failure) as failed:
        library.ask(session, "events", ctypes.byref(later))
    assert failed.value.status == 2
    later.size = 4
    with pytest.raises(Failure) as failed:
        library.ask(session, "events", ctypes.byref(later))
    assert failed.value.status == 2
    library.close(session)


@pytest.mark.parametrize("block", [b"--help", b"--core=/etc/passwd", b"-p1", b""])
def test_block_is_never_read_as_an_option(library, recording, block):
    session = library.open(recording=recording)
    with pytest.raises(Failure) as failed:
        library.ask(session, "why", block, None)
    assert failed.value.status == 2
    library.close(session)


def test_a_file_whose_name_looks_like_an_option_is_a_file(library, recording, tmp_path, monkeypatch):
    shutil.copy(recording, tmp_path / "--help")
    monkeypatch.chdir(tmp_path)
    session = library.open(recording="--help")
    assert json.loads(library.ask(session, "info")[1])["events"] > 100
    library.close(session)


def test_session_about_a_process_and_a_core_is_refused(library):
    with pytest.raises(Failure) as failed:
        library.open(process=1, core="core.1")
    assert failed.value.status == 2


@pytest.mark.parametrize("command", ["run", "gdb", "fit", "attach", "top", "learn", "nothing"])
def test_commands_that_start_programs_are_not_questions(library, command):
    session = library.open()
    with pytest.raises(Failure) as failed:
        library.ask(session, "question", command.encode(), None, 0)
    assert failed.value.status == 2
    library.close(session)


def test_export_writes_what_the_shell_command_writes(library, recording, run_gpumem, tmp_path):
    session, error = library.open(recording=recording), ctypes.c_void_p()
    path = os.fsencode(tmp_path / "ours.csv")
    library.check(library.lib.gpumem_export(session, b"csv", path, ctypes.byref(error)), error)
    run_gpumem("export", recording, "--to=csv", "-o", tmp_path / "shell.csv").check()
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "shell.csv").read_bytes()
    with pytest.raises(Failure) as failed:
        library.check(library.lib.gpumem_export(session, b"nothing", path, ctypes.byref(error)), error)
    assert failed.value.status == 2
    library.close(session)
