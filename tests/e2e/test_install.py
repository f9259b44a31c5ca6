"""`cmake --install`: the folder works, also after it was moved."""

import os

import pytest

from conftest import BUILD, EXAMPLES, PYTHON, run_process


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    first = tmp_path_factory.mktemp("install") / "first"
    run_process(["cmake", "--install", BUILD, "--prefix", first]).check()
    elsewhere = first.parent / "elsewhere"
    os.rename(first, elsewhere)
    return elsewhere


def test_moved_installation_answers(moved):
    run = run_process([moved / "bin" / "gpumem", "--help"]).check()
    assert "who-holds" in run.out


def test_moved_installation_records_in_gdb_on_the_simulated_device(moved, gdb_works):
    line = [moved / "bin" / "gpumem", "gdb", "--sim", "-batch", "-ex", "gpumem record", "-ex", "run"]
    line += ["-ex", "gpumem info --json", "--", PYTHON, EXAMPLES / "train_mlp.py"]
    run = run_process(line, merge=True).check()
    assert run.json()["complete"] is True


def test_header_is_installed_for_c_and_cpp(moved, tmp_path):
    for compiler, language in (("gcc", "c"), ("g++", "c++")):
        source = tmp_path / "use.c"
        source.write_text("#include <gpumem.h>\nint main(void) { return gpumem_version() == 0; }\n")
        library = next(moved.glob("lib/**/libgpumem.so"))
        command = [compiler, "-x", language, source, "-o", tmp_path / "use", f"-I{moved}/include"]
        run_process([*command, f"-L{library.parent}", "-lgpumem"]).check()
        run_process([tmp_path / "use"], env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)}).check()


def loaded(gdb_options, file):
    """Whether gdb has gpumem's commands once it has read the file."""
    answer = run_process(["gdb", "-nx", "-batch", *gdb_options, "-ex", f"file {file}", "-ex", "gpumem info"], merge=True)
    assert ("there is no recording to ask" in answer.out) != ('Undefined command: "gpumem"' in answer.out), answer.out
    return "there is no recording to ask" in answer.out


def test_gdb_loads_the_commands_by_itself_with_gpumems_libraries(moved):
    for name in ("libgpumem-agent.so", "libgpumem-sim.so"):
        library = next(moved.glob(f"lib/**/{name}"))
        assert loaded(["-iex", f"add-auto-load-safe-path {moved}"], library)
        assert not loaded([], library)  # gdb trusts no other folder


def test_gdb_loads_the_commands_by_itself_with_this_machines_python(moved):
    folder = moved / "share/gdb/auto-load"
    scripts = list(folder.rglob("*-gdb.py"))
    assert scripts, "the build found no Python"
    for script in scripts:
        python = "/" + str(script.relative_to(folder)).removesuffix("-gdb.py")
        where = ["-iex", f"set auto-load scripts-directory {folder}"]
        assert loaded([*where, "-iex", f"add-auto-load-safe-path {folder}"], python), python
        assert not loaded(where, python), python


def test_pkg_config_finds_the_library(moved, tmp_path):
    (tmp_path / "use.c").write_text("#include <gpumem.h>\nint main(void) { return gpumem_version() == 0; }\n")
    folder = next(moved.glob("lib/**/gpumem.pc")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = run_process(["pkg-config", "--cflags", "--libs", "gpumem"], env=env).check().out.split()
    run_process(["gcc", tmp_path / "use.c", "-o", tmp_path / "use", *flags]).check()
    run_process([tmp_path / "use"], env={**os.environ, "LD_LIBRARY_PATH": str(folder.parent)}).check()


def test_ldconfig_makes_no_cuda_library_of_the_simulated_device(moved, tmp_path):
    """For a prefix such as /usr/local, whose lib folder the loader searches: the simulated device has the names of CUDA's libraries."""
    before = {path for path in moved.rglob("*")}
    run_process(["/sbin/ldconfig", "-n", moved / "lib"]).check()
    assert {path for path in moved.rglob("*")} == before
    assert not list((moved / "lib").glob("*.so*"))
