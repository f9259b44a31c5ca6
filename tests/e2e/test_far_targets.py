"""Targets that are not simply a process of this machine: behind gdbserver, in gdb's own core target, in a container's
namespaces. The program holds one tensor in a global variable, which each way has to find."""

import os
import re
import shutil
import subprocess
import threading

import pytest

from conftest import ROOT, run_process, spawning

PROGRAM = ROOT / "tests" / "e2e" / "programs" / "held.py"
PLUGIN = ROOT / "gdb" / "gpumem-gdb.py"
HELD = "global 'kept' of module __main__ (held.py)"


def start_held(spawn, python, *prefix):
    process = spawn([*prefix, python, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid, address = process.stdout.readline().split()
    process.said_pid, process.address = int(pid), address
    return process


@pytest.fixture
def held(spawn, python):
    return start_held(spawn, python)


def plain_gdb(*commands, timeout=600, arguments=()):
    """gdb with the plugin, as a user loads it; no setting is changed for the test."""
    line = ["gdb", "-nx", "-batch", "-ex", "set width 0", "-x", PLUGIN]
    for command in commands:
        line += ["-ex", command]
    return run_process([*line, *arguments], timeout=timeout, merge=True)


# --- gdbserver ---------------------------------------------------------------------------------------------


@pytest.fixture
def gdbserver(gdb_works):
    """gdbserver(pid, inside=()) -> its port."""
    if not shutil.which("gdbserver"):
        pytest.skip("no gdbserver on this machine")
    started = []

    def start(pid, inside=()):
        server = subprocess.Popen(
            [*map(str, inside), "gdbserver", "--once", "--attach", "127.0.0.1:0", str(pid)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(server)
        for line in server.stderr:
            found = re.search(r"Listening on port (\d+)", line)
            if found:
                return int(found.group(1))
        pytest.skip(f"gdbserver cannot attach here (status {server.wait()})")

    yield start
    for server in started:
        server.kill()
        server.wait()
        server.stderr.close()


REMOTE = ["set auto-solib-add off", "set sysroot /"]


def test_python_and_pytorch_are_recognised_through_gdbserver(held, gdbserver):
    port = gdbserver(held.pid)
    run = plain_gdb(*REMOTE, f"target remote 127.0.0.1:{port}", "gpumem doctor")
    assert re.search(r"process \d+: read through the debugger", run.out), run.out
    for line in (r"ok +memory +readable", r"ok +Python +CPython 3", r"ok +PyTorch +2", r"yes who-holds"):
        assert re.search(line, run.out), run.out


@pytest.mark.long  # every writable byte comes through gdbserver, at 20 MB a second
def test_who_holds_answers_through_gdbserver(held, gdbserver):
    port = gdbserver(held.pid)
    run = plain_gdb(*REMOTE, f"target remote 127.0.0.1:{port}", f"gpumem who-holds {held.address}")
    assert HELD in run.out and "complete: every reference was found" in run.out, run.out


def test_through_gdbserver_files_of_the_other_side_are_used(held, gdbserver, tmp_path):
    """gdb's sysroot is an empty folder, so that a file can be read only through gdbserver or by its own path."""
    port = gdbserver(held.pid)
    run = plain_gdb(
        "set auto-solib-add off",
        f"set sysroot {tmp_path}",
        f"target extended-remote 127.0.0.1:{port}",
        "python import gpumem.session as s; s.session().watch.inform(s.session().library)",
        "python print('fetched', s.session().watch.remote._copy('/etc/hostname'), open(s.session().watch.remote._copy('/proc/self/status')).readline())",
        "python print('none', s.session().watch.remote._copy('/no/such/file'))",
    )
    assert "gdbserver" in re.search(r"fetched .*", run.out).group(0), run.out
    assert "none None" in run.out


@pytest.mark.long
def test_changed_memory_is_read_again(spawn, python, gdbserver, tmp_path):
    program = tmp_path / "twice.py"
    program.write_text(
        "import os, sys, torch\n"
        "kept = torch.zeros(10_000)\n"
        "print(os.getpid(), hex(kept.untyped_storage().data_ptr()), flush=True)\n"
        "sys.stdin.readline()\n"
        "other = kept\n"
        "del kept\n"
        "os.kill(os.getpid(), 19)\n"
        "sys.stdin.read()\n"
    )
    process = spawn([python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _, address = process.stdout.readline().split()
    port = gdbserver(process.pid)
    process.stdin.write("\n")
    process.stdin.flush()
    ask = f"gpumem who-holds {address}"
    run = plain_gdb(*REMOTE, f"target remote 127.0.0.1:{port}", ask, "echo \\nAGAIN\\n", "continue", ask)
    before, after = run.out.split("\nAGAIN\n")
    assert "global 'kept'" in before and "global 'other'" not in before
    assert "global 'other'" in after and "global 'kept'" not in after, after


def test_record_is_refused_behind_gdbserver(spawn, gdbserver):
    process = spawn(["sleep", "600"])
    port = gdbserver(process.pid)
    run = plain_gdb(*REMOTE, f"target remote 127.0.0.1:{port}", "gpumem record")
    assert "gpumem: record: the program runs on another machine" in run.out
    assert "Traceback" not in run.out


# --- gdb's own core target ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["gpumem core", "gcore"])
def test_who_holds_answers_in_gdb_on_a_core(held, python, gpumem, make_core, tmp_path, by):
    core = tmp_path / "core"
    if by == "gcore":
        core = make_core(held.pid, tmp_path)
    else:
        run_process([gpumem, "core", held.pid, "-o", core]).check()
    interpreter = os.path.realpath(python)
    held.kill()
    held.wait()
    run = plain_gdb(
        "set auto-solib-add off", f"core {core}", "gpumem who-holds kept", "gpumem record", arguments=[interpreter]
    )
    core.unlink()
    assert HELD in run.out, run.out
    assert "record: the program runs on another machine" in run.out


# --- namespaces --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def unshare():
    """The command that runs another in a PID and mount namespace of its own."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare"):
        pytest.skip("no unshare on this machine")
    tried = run_process([*command, "true"])
    if tried.status != 0:
        pytest.skip(f"namespaces are not allowed here: {tried.err.strip()}")
    return command


def outer_pid(name, parent):
    """The process id, in this namespace, of the process of that name below `parent`."""
    todo = [parent]
    while todo:
        pid = todo.pop()
        with open(f"/proc/{pid}/comm") as comm:
            if comm.read().strip().startswith(name):
                return pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            todo += [int(child) for child in children.read().split()]
    raise AssertionError(f"no {name} below {parent}")


@pytest.fixture(scope="module")
def in_namespace(python, unshare):
    """(the process, its number outside of its namespace)"""
    with spawning() as spawn:
        process = start_held(spawn, python, *unshare)
        yield process, outer_pid("python", process.pid)


def test_a_process_in_another_pid_namespace_is_asked_by_our_number(in_namespace, run_gpumem):
    process, pid = in_namespace
    assert process.said_pid != pid, "it is in no other namespace"
    answer = run_gpumem("who-holds", "--pid", pid, process.address, "--json").check().json()
    assert answer["complete"] is True
    assert [holder["text"] for holder in answer["holders"]] == [HELD]


def test_a_variable_in_another_pid_namespace_is_found_by_its_thread(in_namespace, run_gpumem):
    _, pid = in_namespace
    assert HELD in run_gpumem("who-holds", "--pid", pid, "kept").check().out


def test_libraries_that_only_the_targets_namespace_has_are_found(spawn, python, unshare, run_gpumem, tmp_path):
    """The interpreter's folder is mounted only inside the namespace: outside, that path does not exist."""
    inside = tmp_path / "inside"
    inside.mkdir()
    site = next(path for path in python.parent.parent.glob("lib/python3*/site-packages") if (path / "torch").is_dir())
    script = f'mount --bind "{site}" "{inside}" && exec env PYTHONPATH="{inside}" "{os.path.realpath(python)}" -S "{PROGRAM}"'
    process = spawn([*unshare, "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = process.stdout.readline().split()
    if not said:
        pytest.skip("the folder cannot be mounted in a namespace here")
    pid = outer_pid("python", process.pid)
    assert not list(inside.iterdir())
    with open(f"/proc/{pid}/maps") as maps:
        assert f"{inside}/torch/lib/libc10.so" in maps.read()
    answer = run_gpumem("who-holds", "--pid", pid, said[1], "--json").check().json()
    assert answer["complete"] is True
    assert [holder["text"] for holder in answer["holders"]] == [HELD]


CHANGED_ROOT = """
for folder in /*; do
	inside="$1$folder"
	if [ -L "$folder" ]; then cp -P "$folder" "$inside"
	elif [ -d "$folder" ]; then mkdir -p "$inside" && mount --rbind "$folder" "$inside" || exit 77
	fi
done
root="$1"
shift
exec chroot "$root" "$@"
"""


def test_a_process_that_changed_its_root_is_asked_and_attached_to(spawn, python, unshare, run_gpumem, tmp_path):
    """Outside, the paths of the process's files begin with the folder that is its root."""
    root = tmp_path / "root"
    root.mkdir()
    words = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--propagation", "private"]
    process = spawn([*words, "sh", "-c", CHANGED_ROOT, "sh", root, python, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = process.stdout.readline().split()
    if not said:
        pytest.skip("folders cannot be mounted in a namespace here")
    pid = outer_pid("python", process.pid)
    assert os.readlink(f"/proc/{pid}/root") == str(root)
    answer = run_gpumem("who-holds", "--pid", pid, said[1], "--json").check().json()
    assert answer["complete"] is True
    assert [holder["text"] for holder in answer["holders"]] == [HELD]
    run_gpumem("attach", "--timeout", "600", "--way", "thread", pid, "-o", tmp_path / "run.gpumem").check()
    run_gpumem("detach", "--timeout", "600", pid).check()


def test_a_core_of_a_process_in_a_namespace_answers_too(in_namespace, run_gpumem, tmp_path):
    _, pid = in_namespace
    core = tmp_path / "core"
    run_gpumem("core", pid, "-o", core).check()
    assert HELD in run_gpumem("who-holds", "--core", core, "kept").check().out
    core.unlink()


# --- refused, and ended meanwhile --------------------------------------------------------------------------


def test_another_users_process_is_refused_with_what_to_do(spawn, gpumem, build_dir):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv on this machine")
    process = spawn(["sleep", "600"])
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if run_process([*other, gpumem, "--version"]).status != 0:
        pytest.skip("another user may not run the built command here")
    run = run_process([*other, gpumem, "who-holds", "--pid", process.pid, "0x1000"])
    run.check(4)
    assert f"process {process.pid}: reading its memory is refused: it belongs to user 0, and you are user 65534" in run.err
    assert "run as the same user or as root" in run.err


@pytest.mark.parametrize("question", [["who-holds", "--pid", "PID", "0x1000"], ["blocks", "--pid", "PID"], ["attach", "PID"]])
def test_a_process_that_is_not_dumpable_is_reported_as_such_to_its_own_user(spawn, gpumem, question):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv on this machine")
    other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if run_process([*other, gpumem, "--version"]).status != 0:
        pytest.skip("another user may not run the built command here")
    code = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('begun', flush=True); time.sleep(600)"
    process = spawn([*other, "/usr/bin/python3", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    run = run_process([*other, gpumem, *[str(process.pid) if word == "PID" else word for word in question]], cwd="/tmp")
    run.check(4)
    assert "it is not dumpable" in run.err and "run as root" in run.err and "same user" not in run.err
    assert run.err.count("\n") == 1


@pytest.mark.parametrize("moment", [1, 10, *(pytest.param(moment, marks=pytest.mark.long) for moment in (3, 30))])
def test_a_process_that_dies_while_it_is_read_is_reported_in_time(spawn, python, run_gpumem, build_dir, moment):
    """The process is killed when its memory is read for the n-th time."""
    process = start_held(spawn, python)
    threading.Thread(target=process.wait).start()  # so that it is gone when it is killed
    environment = {**os.environ, "LD_PRELOAD": str(build_dir / "tests" / "libkill_target.so"), "GPUMEM_TEST_KILL_AT": str(moment)}
    asked = run_gpumem("who-holds", "--pid", process.pid, process.address, env=environment).check(4)
    assert asked.err.startswith("gpumem: ") and asked.err.count("\n") == 1, asked.err
    assert process.wait(600) == -9
