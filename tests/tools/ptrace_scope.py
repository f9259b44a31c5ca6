"""Who may be read and attached to with each kernel.yama.ptrace_scope: runs as root on a kernel with Yama, and sets it to 0, 1, 2, 3.

Use: ptrace_scope.py REPOSITORY    # prints a line of JSON for each trial

A scope of 3 lasts until the machine is restarted, so that tests/e2e/test_ptrace_scope.py runs this in a virtual one.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from in_vm import NOBODY, ask, compile_program, mount_repository

SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
LESS = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
USERS = {"user": NOBODY, "root": [], "root without CAP_SYS_PTRACE": LESS}
PYTHON = ["/usr/bin/python3", "-c", "print('begun', flush=True); input()"]
# With an argument it lets everybody trace it, as far as Yama is concerned.
WAITS = """
#include <stdio.h>
#include <sys/prctl.h>
int main(int count, char **words)
{
	if (count > 1 && prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) != 0)
		return 1;
	puts("begun");
	fflush(stdout);
	return getchar() < 0;
}
"""


class Program:
    """One that waits; its parent is this script, and gpumem is no parent of it."""

    def __init__(self, words, folder):
        words = [str(word) for word in words]
        self.process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "begun\n":
            raise RuntimeError(f"{words} does not begin")
        self.pid = self.process.pid

    def end(self):
        """The status with which it goes on to its end."""
        self.process.communicate("\n", timeout=600)
        return self.process.returncode


def trials(gpumem, program, who, folder):
    """(what, status, what was printed)"""

    def told(*words):
        return ask([*who, gpumem, *words], folder)

    def attach(pid):
        return told("attach", pid, "--timeout", 600, "-o", f"{pid}.gpumem")

    def detach(pid):
        return told("detach", pid, "--timeout", 600)

    target = Program([*who, program], folder)
    yield "info", *told("info", "--pid", target.pid)
    yield "blocks", *told("blocks", "--pid", target.pid)
    yield "who-holds", *told("who-holds", "0x1000", "--pid", target.pid)
    yield "core", *told("core", target.pid, "-o", "core")
    yield "attach", *attach(target.pid)
    yield "detach", *detach(target.pid)
    yield "gdb -p", *told("gdb", "-batch", "-p", target.pid)
    status = target.end()
    target = Program([*who, *PYTHON], folder)
    yield "attach to Python", *attach(target.pid)
    status |= target.end()
    target = Program([*who, program, "allows"], folder)
    yield "attach to what allows it", *attach(target.pid)
    yield "ends", status | target.end(), ""
    yield "run", *told("run", "-o", "run.gpumem", "--", program)
    yield "gdb", *told("gdb", "-batch", "-ex", "break puts", "-ex", "run", "-ex", "info program", "--args", program)
    yield "doctor", *told("doctor")


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        program = Path(folder) / "waits"
        compile_program(WAITS, program)
        repository = mount_repository(sys.argv[1], folder)
        for scope in "0123":
            SCOPE.write_text(scope)
            for name, who in USERS.items():
                own = Path(folder) / f"{scope} {name}"
                own.mkdir()
                own.chmod(0o777)
                for what, status, said in trials(repository / "build/bin/gpumem", program, who, own):
                    trial = {"scope": scope, "who": name, "what": what, "status": status, "said": said}
                    print(json.dumps(trial), flush=True)


if __name__ == "__main__":
    main()
