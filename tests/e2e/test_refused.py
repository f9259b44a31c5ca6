"""Who may be read and who not, as the kernel decides it: user namespaces, capabilities, a security module. docs/security.md has the table."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import run_process

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
    pytest.mark.skipif(not (shutil.which("setpriv") and shutil.which("unshare")), reason="no setpriv or unshare on this machine"),
]
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
WITHOUT_PTRACE = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
USER_NAMESPACE = ["unshare", "-U"]
AS_ROOT_INSIDE = ["unshare", "-U", "-r"]
WAITS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words)
{
	puts("begun");
	fflush(stdout);
	if (count > 9) /* `attach` refuses a program that can load nothing */
		dlopen(words[9], RTLD_NOW);
	return getchar() < 0;
}
"""
# A domain of Landlock without a rule that matters here: of what is outside it nothing may be traced.
LANDLOCKED = """
#define _GNU_SOURCE
#include <linux/landlock.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words)
{
	const struct landlock_ruleset_attr attributes = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_BLOCK};
	int rules = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
	if (count < 2 || rules < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, rules, 0))
		return 125;
	execvp(words[1], words + 1);
	return 126;
}
"""
CONTAINER = "a container or a security module forbids it"
NAMESPACE = "gpumem runs in a user namespace, and may not trace processes outside it: ask from outside"


@pytest.fixture(scope="module")
def programs():
    """Where other users can start them too."""
    folder = Path(tempfile.mkdtemp(prefix="refused-"))
    folder.chmod(0o755)
    for name, text in (("waits", WAITS), ("landlocked", LANDLOCKED)):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-o", folder / name, folder / f"{name}.c"], check=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def outputs():
    """A folder that both users write to."""
    folder = Path(tempfile.mkdtemp(prefix="outputs-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def begin(spawn, programs, who, program="waits"):
    process = spawn([*who, str(programs / program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if process.stdout.readline() != "begun\n":
        pytest.skip(f"{' '.join(who)}: not possible here")
    return process


def ask(gpumem, outputs, who, *words):
    if run_process([*who, gpumem, "--version"]).status != 0:
        pytest.skip(f"{' '.join(who)}: gpumem cannot be started so here")
    return run_process([*who, gpumem, *words], cwd=outputs)


def check(gpumem, outputs, who, process, reason):
    """Read and recorded, or both refused for that reason; the process goes on."""
    questions = [["core", process.pid, "-o", outputs / "core"], ["attach", process.pid, "--timeout", "600", "-o", outputs / "run.gpumem"]]
    for words in questions:
        told = ask(gpumem, outputs, who, *words)
        if reason is None:
            told.check()
        else:
            assert reason in told.check(4).err, told.err
            assert told.err.count("\n") == 1
    assert process.poll() is None


@pytest.mark.parametrize(
    "asks, asked, reason",
    [
        (NOBODY, NOBODY, None),
        (NOBODY, [*NOBODY, *USER_NAMESPACE], None),
        (NOBODY, [*NOBODY, *AS_ROOT_INSIDE], None),
        ([], [*NOBODY, *AS_ROOT_INSIDE], None),
        ([*NOBODY, *USER_NAMESPACE], NOBODY, NAMESPACE),
        ([*NOBODY, *AS_ROOT_INSIDE], NOBODY, NAMESPACE),
        (AS_ROOT_INSIDE, [], NAMESPACE),
        (WITHOUT_PTRACE, WITHOUT_PTRACE, None),
        (WITHOUT_PTRACE, [], CONTAINER),
        (WITHOUT_PTRACE, NOBODY, CONTAINER),
    ],
    ids=["user-user", "user-in_namespace", "user-root_of_namespace", "root-root_of_namespace", "in_namespace-user", "root_of_namespace-user",
         "root_of_namespace-root", "no_capability-no_capability", "no_capability-root", "no_capability-user"],
)  # fmt: skip
def test_a_process_is_read_or_refused_with_a_remedy(spawn, gpumem, programs, outputs, asks, asked, reason):
    check(gpumem, outputs, asks, begin(spawn, programs, asked), reason)


def test_a_setuid_program_is_refused_to_the_user_who_started_it(spawn, gpumem, programs, outputs):
    program = programs / "setuid"
    shutil.copy(programs / "waits", program)
    program.chmod(0o4755)
    process = begin(spawn, programs, NOBODY, "setuid")
    users = [line.split()[1:5] for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("Uid:")]
    if users != [["65534", "0", "0", "0"]]:
        pytest.skip("this file system has no setuid programs")
    check(gpumem, outputs, NOBODY, process, "run as")
    check(gpumem, outputs, [], process, None)


def test_root_of_a_user_namespace_asks_about_what_is_in_it(spawn, gpumem, programs, outputs):
    process = begin(spawn, programs, [*NOBODY, *AS_ROOT_INSIDE])
    inside = [*NOBODY, "nsenter", "--user", "--preserve-credentials", "--target", str(process.pid)]
    ask(gpumem, outputs, inside, "core", process.pid, "-o", outputs / "core").check()


@pytest.fixture
def landlocked(programs):
    command = [str(programs / "landlocked")]
    if run_process([*command, "true"]).status != 0:
        pytest.skip("this kernel has no Landlock")
    return command


@pytest.mark.parametrize("who", [[], NOBODY], ids=["root", "user"])
def test_a_refusal_by_a_security_module_is_reported_as_such(spawn, gpumem, programs, outputs, landlocked, who):
    check(gpumem, outputs, [*who, *landlocked], begin(spawn, programs, who), CONTAINER)


@pytest.mark.parametrize(
    "scope, who, reason",
    [
        ("1", NOBODY, "kernel.yama.ptrace_scope is 1"),
        ("2", NOBODY, "kernel.yama.ptrace_scope is 2"),
        ("3", NOBODY, "kernel.yama.ptrace_scope is 3"),
        ("3", [], "kernel.yama.ptrace_scope is 3"),
    ],
)
def test_a_refusal_by_ptrace_scope_is_reported_as_such(spawn, gpumem, programs, outputs, landlocked, scope, who, reason):
    """The refusal is Landlock's, the setting a file in its place: a kernel without Yama shows so much."""
    process = begin(spawn, programs, who)
    yama = "/proc/sys/kernel/yama"
    script = f"mount -t tmpfs none /proc/sys/kernel && mkdir {yama} && echo {scope} > {yama}/ptrace_scope && exec \"$@\""
    check(gpumem, outputs, ["unshare", "-m", "sh", "-c", script, "sh", *who, *landlocked], process, reason)
