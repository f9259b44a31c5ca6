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
