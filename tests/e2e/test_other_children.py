"""What a recorded program starts: what could not load the agent or the simulated device runs as ever, all else has them.

The programs are started in each of the ways that libc has (tests/tools/start_program.c). What cannot load them is of musl, by its
dynamic linker's name (tests/tools/foreign_linker.c stands in for it), of another processor's kind (tests/unit/test_preload.c), or of
a user who may not open them.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import ROOT

TOOLS = ROOT / "tests" / "tools"
EXEC = ["execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat", "execveat_fd"]
WAYS = [*EXEC, "posix_spawn", "posix_spawnp", "vfork"]
DOORS = {
    "recorded": ["--devices", "cpu", "-o", "run.gpumem"],
    "simulated": ["--sim", "--no-record"],
    "both": ["--sim", "-o", "run.gpumem"],
}
# Ends with 7 where the first argument's library is preloaded into it.
ASKS = """
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    const char *preload = getenv("LD_PRELOAD");
    const char *other = getenv("OTHER");
    return other && strcmp(other, "stays") == 0 && preload && strstr(preload, argc > 1 ? argv[1] : "libgpumem-") ? 7 : 9;
}
"""


def compiled(source, target, *options):
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-o", target, source, *options], check=True)
    return target


@pytest.fixture(scope="module")
def programs():
    """A folder that every user can read (pytest's own are not)."""
    folder = Path(tempfile.mkdtemp(prefix="gpumem-children-"))
    folder.chmod(0o755)
    compiled(TOOLS / "start_program.c", folder / "start_program")
    linker = compiled(TOOLS / "foreign_linker.c", folder / "ld-musl-test.so.1", "-static", "-nostdlib", "-fno-stack-protector")
    (folder / "asks.c").write_text(ASKS)
    compiled(folder / "asks.c", folder / "own")
    compiled(folder / "asks.c", folder / "foreign", f"-Wl,--dynamic-linker={linker}")
    (folder / "script").write_text(f"#! {folder / 'foreign'} -x\n")
    (folder / "script").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("door", DOORS)
def test_a_child_with_another_c_library_runs_unchanged(run_gpumem, programs, tmp_path, door):
    environment = {**os.environ, "OTHER": "stays"}
    for way in [*WAYS, "system", "popen"]:
        for child in ["foreign", "script"]:
            if way in ("fexecve", "execveat_fd") and child == "script":
                continue  # the descriptor is closed on exec: the interpreter could not open it
            words = [programs / "start_program", way, programs / child, "libgpumem-"]
            finished = run_gpumem("run", *DOORS[door], "--", *words, cwd=tmp_path, env=environment)
            assert finished.status == 7, (way, child, finished.err)
            assert "ld.so" not in finished.err


@pytest.mark.parametrize("door", DOORS)
def test_a_child_of_this_c_library_has_what_its_parent_has(run_gpumem, programs, tmp_path, door):
    library = "libgpumem-sim.so" if door == "simulated" else "libgpumem-agent.so"
    environment = {**os.environ, "OTHER": "stays"}
    for way in [*WAYS, "system", "popen"]:
        name = f"{programs / 'own'} {library}" if way in ("system", "popen") else programs / "own"
        words = [programs / "start_program", way, name, library]
        finished = run_gpumem("run", *DOORS[door], "--", *words, cwd=tmp_path, env=environment)
        assert finished.status == 7, (way, finished.err)


def test_names_without_a_slash_are_found_by_path(run_gpumem, programs, tmp_path):
    environment = {**os.environ, "OTHER": "stays", "PATH": f"/nonexistent:{programs}:{os.environ['PATH']}"}
    for way in ["execvp", "execvpe", "execlp", "posix_spawnp"]:
        for child in ["foreign", "own"]:
            words = [programs / "start_program", way, child, "libgpumem-agent.so"]
            finished = run_gpumem("run", *DOORS["recorded"], "--", *words, cwd=tmp_path, env=environment)
            assert finished.status == 7, (way, child, finished.err)


def test_libraries_that_others_preload_stay_preloaded(run_gpumem, programs, build_dir, tmp_path):
    other = shutil.copy(build_dir / "tests/libmany_processors.so", tmp_path / "libother.so")
    (tmp_path / "linker.c").write_text((TOOLS / "foreign_linker.c").read_text().replace('"libgpumem-"', '"libother.so"'))
    linker = compiled(tmp_path / "linker.c", tmp_path / "ld-musl-other.so.1", "-static", "-nostdlib", "-fno-stack-protector")
    foreign = compiled(programs / "asks.c", tmp_path / "foreign", f"-Wl,--dynamic-linker={linker}")
    words = [programs / "start_program", "execve", foreign]
    finished = run_gpumem("run", *DOORS["recorded"], "--", *words, cwd=tmp_path, env={**os.environ, "LD_PRELOAD": str(other)})
    assert finished.status == 8, finished.err


def test_a_child_whose_user_may_not_open_the_library_runs_unchanged(run_gpumem, programs, build_dir, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can start a program as somebody else")
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    library = shutil.copy(build_dir / "lib/libgpumem-agent.so", folder / "libgpumem-agent.so")
    (tmp_path / "program.py").write_text(
        "import subprocess, sys\n"
        "preload = lambda **keys: subprocess.run(['/bin/sh', '-c', 'echo $LD_PRELOAD'], capture_output=True, text=True, cwd='/', **keys)\n"
        "own, other = preload(), preload(user=65534, group=65534, extra_groups=[])\n"
        "print('libgpumem-agent' in own.stdout, own.stderr, 'libgpumem-agent' in other.stdout, other.stderr)\n"
    )
    words = ["--devices", "cpu", "-o", tmp_path / "run.gpumem", "--", shutil.which("python3"), tmp_path / "program.py"]
    finished = run_gpumem("run", *words, env={**os.environ, "GPUMEM_AGENT_LIBRARY": str(library)})
    assert finished.out.split() == ["True", "False"], (finished.out, finished.err)
