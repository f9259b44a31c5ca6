"""How the binaries that are installed are made: each has what makes a fault of ours harder to use (cmake/hardening.cmake)."""

import platform
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, run_process

pytestmark = [
    pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf on this machine (Debian: binutils)"),
    pytest.mark.skipif(
        "GPUMEM_SANITIZE:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text(), reason="a build with the sanitizers"
    ),
]
X86 = platform.machine() == "x86_64"
# Those that are no more than a name of another library: one that has no code to be checked.
NO_CODE = ("libgpumem-sim-driver.so", "libgpumem-sim-nvml.so", "libgpumem-sim-runtime12.so")


def readelf(path, *options):
    return run_process(["readelf", "-W", *options, path], env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).check().out


def executable_pieces(path):
    """(address, offset, size, flags) of each loaded piece."""
    pieces = re.findall(
        r"^ +LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+) 0x\w+ ([RWE ]{3}) ", readelf(path, "--segments"), re.M
    )
    return [(int(at, 16), int(offset, 16), int(size, 16), flags) for offset, at, size, flags in pieces]


def entries(path):
    """Of each function that others may call by its address, the first four bytes."""
    pieces, bytes_of = executable_pieces(path), path.read_bytes()
    functions = re.findall(
        r"^ +\d+: (\w+) +\d+ FUNC +(?:GLOBAL|WEAK) +\w+ +\d+ (\S+)", readelf(path, "--dyn-syms"), re.M
    )
    found = {}
    for value, name in functions:
        for at, offset, size, _ in pieces:
            if at <= int(value, 16) < at + size:
                start = int(value, 16) - at + offset
                found[name] = bytes_of[start : start + 4]
    return found


def lacks(path, names_alone=False):
    """What a binary has not."""
    segments, dynamic = readelf(path, "--segments"), readelf(path, "--dynamic")
    symbols, missing = readelf(path, "--dyn-syms"), []

    def needs(holds, what):
        if not holds:
            missing.append(what)

    needs(re.search(r"Elf file type is DYN", segments), "code that can stand anywhere")
    needs(re.search(r"^ +GNU_RELRO ", segments, re.M), "RELRO")
    needs(re.search(r"\(FLAGS\) .*BIND_NOW", dynamic), "immediate binding")
    needs(re.search(r"^ +GNU_STACK .* RW +0x", segments, re.M), "a stack that is not executable")
    needs(not re.search(r"\(TEXTREL\)", dynamic), "code that is not written to")
    needs(all(not {"W", "E"} <= set(flags) for *_, flags in executable_pieces(path)), "writable or executable, not both")
    if not names_alone:
        needs("__stack_chk_fail" in symbols, "stack protector")
        needs(re.search(r"__\w+_chk@", symbols.replace("__stack_chk_fail@", "")), "fortified calls")
    if X86:
        needs(re.search(r"x86 feature:.*\bSHSTK\b", readelf(path, "--notes")), "the note of shadow stacks")
        needs(all(code == bytes.fromhex("f30f1efa") for code in entries(path).values()), "endbr64 at each entry")
    return missing


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Every binary that `cmake --install` puts anywhere."""
    folder = tmp_path_factory.mktemp("install")
    run_process(["cmake", "--install", BUILD, "--prefix", folder]).check()
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]


def test_every_installed_binary_is_hardened(installed):
    names = {path.name for path in installed}
    assert {"gpumem", "libgpumem-agent.so", "libgpumem-sim.so", *NO_CODE} <= names, "these are installed"
    assert any(name.startswith("libgpumem.so.") for name in names)
    assert {path.name: lacks(path, path.name in NO_CODE) for path in installed} == {path.name: [] for path in installed}


def test_command_is_a_position_independent_program(installed):
    command = next(path for path in installed if path.name == "gpumem")
    assert re.search(r"\(FLAGS_1\) .*\bPIE\b", readelf(command, "--dynamic"))


def test_exported_functions_are_examined(installed):
    for name in ("libgpumem-agent.so", "libgpumem-sim.so"):
        assert len(entries(next(path for path in installed if path.name == name))) > 10


PLAIN = ["-U_FORTIFY_SOURCE", "-fno-stack-protector", "-fcf-protection=none", "-no-pie", "-fno-pic"]
PLAIN += ["-Wl,-z,norelro", "-Wl,-z,lazy", "-Wl,-z,execstack", "-rdynamic"]


@pytest.mark.skipif(not X86, reason="what is asked for is x86-64's")
def test_a_binary_built_without_hardening_lacks_each(tmp_path):
    source, program = tmp_path / "plain.c", tmp_path / "plain"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\n"
        "int main(int count, char **words) { char room[64]; strcpy(room, words[0]); return puts(room) + count; }\n"
    )
    if subprocess.run(["gcc", "-O2", *PLAIN, "-o", program, source]).returncode:
        pytest.skip("this compiler cannot build without")
    assert lacks(program) == [
        "code that can stand anywhere",
        "RELRO",
        "immediate binding",
        "a stack that is not executable",
        "stack protector",
        "fortified calls",
        "the note of shadow stacks",
        "endbr64 at each entry",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left_out", "what"),
    [
        (["-Wl,-z,lazy"], ["immediate binding"]),
        (["-fno-stack-protector"], ["stack protector"]),
        (["-U_FORTIFY_SOURCE"], ["fortified calls"]),
        (["-Wl,-z,execstack"], ["a stack that is not executable"]),
        (["-fcf-protection=none"], ["endbr64 at each entry"]),
        ([], []),
    ],
    ids=lambda value: " ".join(value) or "nothing",
)
@pytest.mark.skipif(not X86, reason="what is asked for is x86-64's")
def test_what_is_left_out_of_a_library_is_named(tmp_path, left_out, what):
    source, library = tmp_path / "library.c", tmp_path / "library.so"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\nint hold(const char *name);\n"
        "int hold(const char *name) { char room[64]; strcpy(room, name); return puts(room); }\n"
    )
    rest = ["-fstack-protector-strong", "-fcf-protection=full", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
    rest += ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,shstk", "-Wl,-z,noexecstack", *left_out]
    run_process(["gcc", "-O2", "-shared", "-fPIC", *rest, "-o", library, source]).check()
    assert lacks(library) == what
