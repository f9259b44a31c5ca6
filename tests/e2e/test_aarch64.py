"""What of gpumem compiles for aarch64, and which files are x86-64's. Under --all: it compiles all rooms."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, run_process

COMPILER = "aarch64-linux-gnu-gcc"
# Registers of processes and cores, machine code for the agent's start, vector instructions: what a port would have to write.
OF_X86 = {
    "core/holders/heap/scan_words.c", "core/image/core_file.c", "core/image/core_notes.c", "core/image/core_write.c", "core/image/live.c",
    "core/image/pointer_free.c", "core/image/thread_state.c", "core/inject/code.c", "core/inject/filter.c", "core/inject/safe.c",
    "core/inject/start_stop.c", "core/inject/thread.c", "core/record/advance.c", "core/symbols/find_bytes.c",
}  # fmt: skip
# The agent and the simulated device run inside the program, and have parts of their own in assembler; the maker of tables needs Python.h.
LEFT_OUT = re.compile(r"core/(agent|preload)/|core/sim/(cuda|kernels|nccl)/|/main/|core/cpython/versions/tables/")
LIBRARIES = ["libelf.h", "gelf.h", "elfutils", "dwarf.h", "jansson.h", "jansson_config.h", "zlib.h", "zconf.h", "zstd.h", "zstd_errors.h", "lzma",
             "lzma.h", "uthash.h", "utlist.h", "sqlite3.h", "curses.h", "ncurses.h", "ncurses_dll.h", "term.h", "unctrl.h"]  # fmt: skip


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """The libraries' headers without those of this machine's C library."""
    if not shutil.which(COMPILER) or not Path("/usr/aarch64-linux-gnu/include/stdio.h").exists():
        pytest.skip("apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    folder = tmp_path_factory.mktemp("headers")
    for name in LIBRARIES:
        for where in ("/usr/include", "/usr/include/x86_64-linux-gnu"):
            if Path(where, name).exists() and not (folder / name).exists():
                (folder / name).symlink_to(Path(where, name))
    return folder


@pytest.mark.long
def test_all_but_the_files_of_x86_compile_for_aarch64(headers):
    def compiles(name):
        words = [COMPILER, "-std=gnu17", "-D_GNU_SOURCE", '-DGPUMEM_VERSION="x"', "-w", "-fsyntax-only", f"-I{ROOT}/core", f"-I{ROOT}/core/include"]
        return run_process([*words, "-idirafter", headers, ROOT / name]).status == 0

    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "core").rglob("*.c"))
    names = [name for name in sources if not LEFT_OUT.search(name)]
    assert len(names) > 600
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        failed = {name for name, good in zip(names, workers.map(compiles, names)) if not good}
    assert failed == OF_X86


def test_a_build_for_another_processor_says_what_is_missing(tmp_path):
    (tmp_path / "toolchain.cmake").write_text("set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR aarch64)\nset(CMAKE_C_COMPILER_WORKS 1)\n")
    done = run_process(["cmake", "-S", ROOT, "-B", tmp_path / "build", f"-DCMAKE_TOOLCHAIN_FILE={tmp_path}/toolchain.cmake"], merge=True)
    said = re.sub(r"\s+", " ", done.out)
    assert done.status != 0 and "gpumem runs on x86-64 only, and this is aarch64" in said, done.out
    assert "core/inject" in said and "core/image" in said
