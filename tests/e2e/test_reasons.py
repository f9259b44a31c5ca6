"""If the machine refuses something, the error has the true reason: the file or the limit, what it means, and what to do."""

import os
import resource
import signal
import subprocess
import sys

import pytest

SMALL = 256 << 10  # bytes of a file system that fills quickly
ALLOCATES = "import torch\nfor _ in range(int(%d)):\n    a = torch.empty(1 << 20, dtype=torch.uint8, device='cuda')\n    del a\n"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of SMALL bytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "gpumem-test", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def full_disk(small_disk):
    with open(small_disk / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return small_disk


@pytest.fixture(scope="module")
def recording(tmp_path_factory, run_gpumem):
    log = tmp_path_factory.mktemp("recording") / "run.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", sys.executable, "-c", ALLOCATES % 5000).check()
    return log


def files_of(size):
    """For Popen: the process may write files of so many bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize(("form", "before"), [("csv", None), ("csv", b"older"), ("sqlite", None)], ids=["csv", "csv-there", "sqlite"])
def test_an_export_to_a_full_disk_leaves_no_new_file_and_the_old_one_unchanged(run_gpumem, recording, full_disk, form, before):
    out = full_disk / "out"
    if before:
        (full_disk / "filler").write_bytes(bytes(1000))
        out.write_bytes(before)
        with pytest.raises(OSError), open(full_disk / "filler", "ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    names = sorted(full_disk.iterdir())
    told = run_gpumem("export", recording, "--to", form, "-o", out).check(4)
    assert told.err == f"gpumem: {out}: cannot be written: No space left on device: free some there, or name another place\n"
    assert sorted(full_disk.iterdir()) == names
    assert before is None or out.read_bytes() == before


@pytest.mark.parametrize("form", ["csv", "sqlite"])
def test_an_export_beyond_the_limit_of_files_names_it_and_leaves_nothing(run_gpumem, recording, tmp_path, form):
    out = tmp_path / "out"
    told = run_gpumem("export", recording, "--to", form, "-o", out, preexec_fn=files_of(8192)).check(4)
    assert told.err == f"gpumem: {out}: cannot be written: File too large: `ulimit -f` allows no larger one: raise it\n"
    assert not list(tmp_path.iterdir())


def test_a_simulated_device_beyond_the_limit_of_files_names_the_limit(run_gpumem, tmp_path):
    told = run_gpumem("run", "--sim", "--no-record", "--", "true", preexec_fn=files_of(8192)).check(4)
    assert "--sim" in told.err and "`ulimit -f` allows no larger one" in told.err


def test_the_limit_of_files_is_the_programs_too_with_its_signal(run_gpumem, tmp_path):
    program = f"open({str(tmp_path / 'large')!r}, 'wb').truncate(1 << 20)"
    told = run_gpumem("run", "--no-record", "--", "/bin/sh", "-c", 'grep SigIgn /proc/self/status; grep SigCgt /proc/self/status')
    mask = 1 << (25 - 1)  # SIGXFSZ
    masks = [int(line.split()[1], 16) for line in told.check().out.splitlines()]
    assert len(masks) == 2 and not any(one & mask for one in masks)
    told = run_gpumem("run", "--sim", "-o", tmp_path / "run.gpumem", "--", sys.executable, "-c", program, preexec_fn=files_of(600 << 10))
    assert "File too large" in told.err and told.status == 1  # Python ignores the signal


def test_a_program_without_disk_space_is_recorded_or_not_and_never_killed(run_gpumem, tmp_path):
    """The list to which the agent adds its recording is also a file."""
    told = run_gpumem("run", "-o", tmp_path / "run.gpumem", "--", "sh", "-c", "ulimit -f 0; sh -c 'sh -c exit; exit 7'")
    assert told.status == 7


def test_a_full_tmpdir_is_named(run_gpumem, full_disk, tmp_path):
    told = run_gpumem("run", "-o", tmp_path / "run.gpumem", "--", "true", env={**os.environ, "TMPDIR": str(full_disk)}).check(4)
    assert f"{full_disk}/" in told.err and "(TMPDIR)" in told.err and "No space left on device" in told.err
    assert [path.name for path in full_disk.iterdir()] == ["filler"]


def test_a_full_disk_is_named_as_the_reason_of_a_recordings_gap(run_gpumem, small_disk):
    log = small_disk / "run.gpumem"
    told = run_gpumem("run", "--sim", "-o", log, "--", sys.executable, "-c", ALLOCATES % 100).check()
    assert "events are missing" in told.err
    assert "the disk was full" in run_gpumem("info", log).check().out


def test_a_recording_that_was_removed_meanwhile_is_reported_as_missing(run_gpumem, tmp_path):
    log = tmp_path / "run.gpumem"
    program = ALLOCATES % 3 + f"import os\nos.unlink({str(log)!r})\n"
    told = run_gpumem("run", "--sim", "-o", log, "--", sys.executable, "-c", program).check()
    assert f"{log}: the recording was removed or renamed while the program ran" in told.err
    assert "agent's own form" not in told.err
    assert not log.exists()


# --- the state of a process ---------------------------------------------------------------------------------

LEADER = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *go_on(void *leader)
{
	pthread_join(*(pthread_t *)leader, NULL);
	puts("begun");
	fflush(stdout);
	for (;;)
		pause();
}
int main(int count, char **words)
{
	static pthread_t leader, other;
	if (count > 9) /* `attach` refuses a program that can load nothing */
		dlopen(words[9], RTLD_NOW);
	leader = pthread_self();
	pthread_create(&other, NULL, go_on, &leader);
	pthread_exit(NULL);
}
"""


def compiled(folder, text):
    (folder / "program.c").write_text(text)
    subprocess.run(["cc", "-std=gnu17", "-O1", "-pthread", "-o", folder / "program", folder / "program.c"], check=True)
    return folder / "program"


@pytest.fixture(scope="module")
def leader(tmp_path_factory):
    """A program whose first thread has ended, while another one runs."""
    program = compiled(tmp_path_factory.mktemp("leader"), LEADER)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


ASKED = [["info", "--pid"], ["retained", "--pid"], ["who-holds", "0x1000", "--pid"], ["blocks", "--pid"], ["oom", "--pid"]]
ASKED += [["core", "-o", "FILE"], ["attach", "-o", "FILE"], ["detach"], ["top"]]


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_a_process_whose_first_thread_has_ended_is_refused_with_another_threads_number(run_gpumem, leader, tmp_path, words):
    words = [tmp_path / "file" if word == "FILE" else word for word in words]
    told = run_gpumem(*words, leader.pid).check(4)
    (other,) = set(os.listdir(f"/proc/{leader.pid}/task")) - {str(leader.pid)}
    assert f"process {leader.pid}: its first thread has ended and others run on" in told.err
    assert f"for example {other}" in told.err


def test_a_process_whose_first_thread_has_ended_is_recorded_by_another_threads_number(run_gpumem, leader, tmp_path):
    (other,) = set(os.listdir(f"/proc/{leader.pid}/task")) - {str(leader.pid)}
    run_gpumem("core", other, "-o", tmp_path / "core").check()
    run_gpumem("attach", other, "-o", tmp_path / "run.gpumem", "--timeout", "600").check()
    run_gpumem("detach", other, "--timeout", "600").check()


def test_a_process_that_has_ended_and_a_kernel_thread_are_distinguished(run_gpumem):
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert "it has ended and waits for its parent" in run_gpumem("info", "--pid", process.pid).check(4).err


# --- attach, its time, and a process that does not run --------------------------------------------------------

HOLDS = """
#include <dirent.h>
#include <signal.h>
#include <unistd.h>
static int threads(void)
{
	int count = 0;
	DIR *folder = opendir("/proc/self/task");
	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count - 2;
}
/* The dynamic linker's lock is held: the agent's thread, the third one, waits for it. */
__attribute__((constructor)) static void hold(void)
{
	write(1, "begun\\n", 6);
	while (threads() < 3)
		usleep(1000);
	kill(getpid(), SIGSTOP);
	write(1, "went on\\n", 8);
}
"""
LOADS = """
#include <dlfcn.h>
#include <pthread.h>
#include <poll.h>
static void *load(void *path)
{
	return dlopen(path, RTLD_NOW);
}
int main(int argc, char **argv)
{
	pthread_t thread;
	pthread_create(&thread, NULL, load, argv[1]);
	poll(NULL, 0, -1);
}
"""


@pytest.fixture(scope="module")
def loads(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loads")
    program = compiled(folder, LOADS)
    (folder / "holds.c").write_text(HOLDS)
    subprocess.run(["cc", "-std=gnu17", "-shared", "-fPIC", "-o", folder / "holds.so", folder / "holds.c"], check=True)
    return [program, folder / "holds.so"]


def test_a_process_that_is_stopped_while_attach_waits_is_said_to_be_stopped(spawn, run_gpumem, loads, tmp_path):
    process = spawn(loads, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    told = run_gpumem("attach", process.pid, "-o", tmp_path / "run.gpumem", "--timeout", "3000", timeout=600).check(4)
    assert f"process {process.pid}: it is stopped (SIGSTOP or Ctrl-Z)" in told.err
    assert f"`kill -CONT {process.pid}`" in told.err
    process.send_signal(signal.SIGCONT)
    assert process.stdout.readline() == "went on\n"


VFORKS = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words)
{
	char byte;
	if (count > 9) /* `attach` refuses a program that can load nothing */
		dlopen(words[9], RTLD_NOW);
	puts("begun");
	fflush(stdout);
	if (vfork() == 0) {
		(void)!read(0, &byte, 1);
		_exit(0);
	}
	puts("went on");
}
"""
# A clock that advances only while gpumem sleeps, and prints that time at the end.
CLOCK = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
static double slept;
int nanosleep(const struct timespec *time, struct timespec *left)
{
	slept += time->tv_sec + time->tv_nsec * 1e-9;
	return 0;
}
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = syscall(SYS_clock_gettime, clock, time);
	if (clock == CLOCK_MONOTONIC)
		*time = (struct timespec){1000000 + (time_t)slept, (slept - (time_t)slept) * 1e9};
	return result;
}
__attribute__((destructor)) static void say(void)
{
	FILE *file = fopen(getenv("SLEPT"), "w");
	fprintf(file, "%f\\n", slept);
	fclose(file);
}
"""


def test_gpumem_waits_for_a_thread_no_longer_than_its_timeout(spawn, wait_for, run_gpumem, tmp_path):
    program = compiled(tmp_path, VFORKS)
    (tmp_path / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-std=gnu17", "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c"], check=True)
    env = {**os.environ, "LD_PRELOAD": str(tmp_path / "clock.so"), "SLEPT": str(tmp_path / "slept")}
    process = spawn([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    wait_for(lambda: "D (disk sleep)" in open(f"/proc/{process.pid}/status").read())
    told = run_gpumem("attach", process.pid, "--way", "thread", "-o", tmp_path / "run.gpumem", "--timeout", "5", env=env)
    if "ASan runtime does not come first" in told.err:
        pytest.skip("the sanitizers' build takes no library before theirs")
    assert f"thread {process.pid} does not stop" in told.check(4).err
    assert 4 < float((tmp_path / "slept").read_text()) < 6
    process.stdin.write("x")
    process.stdin.close()
    assert process.stdout.readline() == "went on\n"
    assert process.wait() == 0
