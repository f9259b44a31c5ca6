"""Yama's ptrace_scope, 0 to 3, tried as a user, as root and as root of a container, in a virtual machine whose kernel has Yama.
docs/security.md has the table."""

import sys
from pathlib import Path

import pytest
from conftest import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests" / "tools"))
import linux_vm  # noqa: E402

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(14400),
    pytest.mark.skipif(BUILD != ROOT / "build", reason="the machine runs the build in build/"),
]
REFUSED = {"1": "kernel.yama.ptrace_scope is 1, ", "2": "kernel.yama.ptrace_scope is 2, ", "3": "kernel.yama.ptrace_scope is 3, "}
HELPS = {
    "user": {"1": "run as root, or `sysctl kernel.yama.ptrace_scope=0`", "2": "run as root, or `sysctl kernel.yama.ptrace_scope=0`"},
    "root without CAP_SYS_PTRACE": {"1": "--cap-add=SYS_PTRACE", "2": "--cap-add=SYS_PTRACE"},
}
# What was read has no Python in it: that is found out by reading.
DONE = {
    "info": (4, "no Python here yet"),
    "blocks": (4, "no Python here yet"),
    "who-holds": (4, "no Python here yet"),
    "core": (0, "core of process"),
    "attach": (0, "recording process"),
    "detach": (0, "has ended"),
    "attach to Python": (0, "recording process"),
    "attach to what allows it": (0, "recording process"),
}


@pytest.fixture(scope="module")
def trials():
    """{(scope, who, what): (status, said)}"""
    why_not = linux_vm.why_not()
    if why_not:
        pytest.skip(why_not)
    found, _ = linux_vm.trials("ptrace_scope.py")
    return {(trial["scope"], trial["who"], trial["what"]): (trial["status"], trial["said"]) for trial in found}


def allowed(scope, who, what):
    """As Yama's documentation has it."""
    return scope == "0" or (who == "root" and scope != "3") or (scope == "1" and what == "attach to what allows it")


@pytest.mark.parametrize("who", ["user", "root", "root without CAP_SYS_PTRACE"])
@pytest.mark.parametrize("scope", "0123")
class TestScope:
    @pytest.mark.parametrize("what", DONE)
    def test_a_process_is_read_or_refused_by_name_with_a_remedy(self, trials, scope, who, what):
        status, said = trials[scope, who, what]
        if allowed(scope, who, what):
            assert (status, True) == (DONE[what][0], DONE[what][1] in said), said
            return
        assert status == 4 and said.count("\n") == 1, said
        assert REFUSED[scope] in said and "`gpumem run`" in said
        assert HELPS.get(who, {}).get(scope, "") in said

    def test_the_program_goes_on(self, trials, scope, who):
        assert trials[scope, who, "ends"] == (0, "")

    def test_gdb_shows_why_it_may_not_attach(self, trials, scope, who):
        status, said = trials[scope, who, "gdb -p"]
        if allowed(scope, who, "gdb -p"):
            assert "may not attach" not in said and "Operation not permitted" not in said
        else:
            assert f"gdb may not attach to it: {REFUSED[scope]}" in said and "Operation not permitted" in said

    def test_a_program_is_recorded_from_its_start_and_in_gdb_up_to_1(self, trials, scope, who):
        status, said = trials[scope, who, "run"]
        assert status == 1 and "begun" in said and "nothing to record: no process allocated" in said
        status, said = trials[scope, who, "gdb"]
        if scope in "01" or allowed(scope, who, "gdb"):
            assert "Breakpoint 1, " in said and "ptrace" not in said
        else:
            assert f"it may not start a program: {REFUSED[scope]}" in said and "Operation not permitted" in said

    def test_the_doctor_names_it(self, trials, scope, who):
        status, said = trials[scope, who, "doctor"]
        assert status == 0
        if scope == "0":
            assert "you may read your own processes and attach to them" in said
        elif allowed(scope, who, "doctor"):
            assert f"kernel.yama.ptrace_scope is {scope}, which does not restrict root" in said
        else:
            assert f"kernel.yama.ptrace_scope is {scope}: running processes cannot be read" in said
            assert ("run as root" in said) == (scope != "3")
