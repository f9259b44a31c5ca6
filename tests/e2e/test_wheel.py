"""The wheel: what scripts/wheel builds, in an environment that has nothing of the build; its command; what a source build lacks."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from conftest import BUILD, EXAMPLES, PYTHON, ROOT, run_process, site_packages
from mistakes import wrong_answers
from test_hardening import NO_CODE, lacks, readelf

PACKAGE = ROOT / "scripts" / "wheel.d" / "gpumem_debugger"
NEEDED_FOR_OLDER_GLIBC = {"dpkg-source": "dpkg-dev", "m4": "m4", "tclsh": "tcl"}
ONLY_THE_SYSTEM = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


# ---- the package around the program ----


def command(folder, *words, **environment):
    return run_process([sys.executable, "-m", "gpumem_debugger", *words], env={**ONLY_THE_SYSTEM, "PYTHONPATH": str(folder), **environment})


@pytest.fixture
def package(tmp_path):
    """package(program) -> a folder with the package, whose bin/gpumem is a script of this text."""

    def make(program):
        shutil.copytree(PACKAGE, tmp_path / "gpumem_debugger")
        path = tmp_path / "gpumem_debugger" / "bin" / "gpumem"
        path.parent.mkdir()
        path.write_text(program)
        path.chmod(0o755)
        return tmp_path

    return make


def test_the_command_passes_words_and_status_on(package):
    folder = package('#!/bin/sh\nprintf "<%s>" "$@"\nexit 7\n')
    answer = command(folder, "why", "a b", "--json")
    assert (answer.status, answer.out) == (7, "<why><a b><--json>")


def test_a_gdb_of_the_environment_is_taken_where_the_path_has_none(package, tmp_path):
    folder = package('#!/bin/sh\necho "${GPUMEM_GDB-none}"\n')
    environment = tmp_path / "environment"
    run_process([sys.executable, "-m", "venv", "--without-pip", environment]).check()
    words = [environment / "bin" / "python", "-m", "gpumem_debugger"]
    nothing = {**ONLY_THE_SYSTEM, "PYTHONPATH": str(folder), "PATH": str(tmp_path / "empty")}
    assert run_process(words, env=nothing).check().out == "none\n"
    gdb = environment / "bin" / "gdb"
    gdb.write_text("#!/bin/sh\n")
    gdb.chmod(0o755)
    assert run_process(words, env=nothing).check().out == f"{gdb}\n"
    assert run_process(words, env={**nothing, "GPUMEM_GDB": "/a/gdb"}).check().out == "/a/gdb\n"
    with_gdb = tmp_path / "with"
    with_gdb.mkdir()
    (with_gdb / "gdb").symlink_to(gdb)
    assert run_process(words, env={**nothing, "PATH": str(with_gdb)}).check().out == "none\n"


def test_mcp_runs_in_the_python_that_the_wheel_is_in(package):
    folder = package('#!/bin/sh\necho "${GPUMEM_MCP_PYTHON-none}"\n')
    assert command(folder, "mcp").out == f"{sys.executable}\n"
    assert command(folder, "mcp", GPUMEM_MCP_PYTHON="/a/python").out == "/a/python\n"
    assert command(folder, "run").out == "none\n"


def test_the_plugin_for_pytest_is_that_of_the_folder(package):
    folder = package("")
    words = [sys.executable, "-c", "import gpumem_debugger.pytest_plugin as plugin; print(hasattr(plugin, 'pytest_addoption'))"]
    environment = {**ONLY_THE_SYSTEM, "PYTHONPATH": os.pathsep.join([str(folder), sysconfig.get_path("purelib")])}
    without = run_process(words, env=environment).check()
    assert without.out == "False\n" and "install gpumem-debugger again" in without.err
    shutil.copytree(BUILD / "lib" / "gpumem-python", folder / "gpumem_debugger" / "lib64" / "gpumem-python")
    assert run_process(words, env=environment).check().out == "True\n"


def test_a_program_that_has_ended_is_one_line(package):
    folder = package("")
    (folder / "gpumem_debugger" / "bin" / "gpumem").unlink()
    answer = command(folder, "doctor")
    assert answer.status == 1 and answer.err.count("\n") == 1 and "install gpumem-debugger again" in answer.err


def test_doctor_reports_the_other_project_of_this_name(tmp_path):
    program = tmp_path / "gpumem_debugger" / "bin" / "gpumem"
    program.parent.mkdir(parents=True)
    shutil.copy(BUILD / "bin" / "gpumem", program)

    def of_command():
        machine = run_process([program, "doctor", "--json"]).check().json()["machine"]
        return [check for check in machine if check["name"] == "command"]

    (tmp_path / "gpumem_debugger-0.1.0.dist-info").mkdir()
    assert of_command() == []
    (tmp_path / "gpumem-0.1.4.dist-info").mkdir()
    (found,) = of_command()
    assert found["state"] == "problem" and "gpumem-0.1.4" in found["value"]
    assert "python -m gpumem_debugger" in found["advice"]


# ---- a build from source ----


@pytest.mark.parametrize(
    ("option", "package"),
    [
        ("CMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON", "pkg-config"),
        ("ELF_FOUND=", "libelf-dev"),
        ("UTHASH_INCLUDE_DIR=UTHASH_INCLUDE_DIR-NOTFOUND", "uthash-dev"),
    ],
)
def test_a_build_that_lacks_a_library_names_its_package(tmp_path, option, package):
    hidden = {"PKG_CONFIG_LIBDIR": "/nowhere"} if "ELF" in option else {}
    words = ["-DCMAKE_FIND_ROOT_PATH=/nowhere", "-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY", "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY"]
    words = words if "NOTFOUND" in option else []
    answer = run_process(["cmake", "-S", ROOT, "-B", tmp_path, f"-D{option}", *words], env={**os.environ, **hidden}, merge=True)
    assert answer.status != 0
    assert re.search(rf"apt-get install\s+{package}\b", answer.out), answer.out


# ---- the wheel itself ----


@pytest.fixture(scope="module", params=["", "2.28"], ids=["glibc", "glibc 2.28"])
def wheel(request, tmp_path_factory):
    """One for a machine like this, and one for machines with an older glibc."""
    out = tmp_path_factory.mktemp("wheel")
    words = []
    if request.param:
        missing = [package for program, package in NEEDED_FOR_OLDER_GLIBC.items() if not shutil.which(program)]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)}")
        words = ["--glibc", request.param]
    run_process([ROOT / "scripts" / "wheel", "-o", out, *words], timeout=1800).check()
    (path,) = out.iterdir()
    if request.param:
        assert path.name.endswith(f"-py3-none-manylinux_{request.param.replace('.', '_')}_x86_64.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A Python with the wheel; PyTorch it sees where the tests' Python has it."""
    folder = tmp_path_factory.mktemp("environment") / "python"
    run_process([PYTHON, "-m", "venv", folder]).check()
    run_process([folder / "bin" / "pip", "install", "-q", "--no-index", wheel], timeout=600).check()
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "torch_of_the_tests.pth").write_text(f"{site_packages()}\n")
    return folder


@pytest.fixture(scope="module")
def installed(environment):
    def call(*words, timeout=600):
        return run_process([environment / "bin" / "gpumem", *words], env=ONLY_THE_SYSTEM, timeout=timeout)

    return call


@pytest.mark.long
def test_the_wheel_is_for_any_python_3_and_names_the_c_library(wheel):
    assert re.fullmatch(r"gpumem_debugger-[0-9.]+-py3-none-manylinux_2_[0-9]+_x86_64\.whl", wheel.name)


@pytest.mark.long
def test_no_binary_of_the_wheel_has_a_path_of_the_build(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            for path in (str(ROOT), os.environ.get("HOME", "/nowhere") + "/", "/tmp/tmp", sysconfig.get_path("purelib")):
                assert path.encode() not in content, f"{name} has {path}"


def binaries(environment):
    files = environment.glob("lib/python*/site-packages/gpumem_debugger*/**/*")
    return [path for path in sorted(files) if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]


def exported(path):
    """Names with their versions, and the library's own name."""
    symbols = re.findall(r"^ +\d+: \w+ +\d+ (?!NOTYPE)\w+ +(?:GLOBAL|WEAK|UNIQUE) +\w+ +(?!UND)\w+ (\S+)", readelf(path, "--dyn-syms"), re.M)
    return sorted(symbols), re.findall(r"\(SONAME\) .*\[(.*)\]", readelf(path, "--dynamic"))


def needed(path):
    """But for glibc's libraries, of which 2.34 made one. auditwheel has put a hash and versions in the names of those that the wheel
    brings."""
    names = re.findall(r"\(NEEDED\) .*\[(.*)\]", readelf(path, "--dynamic"))
    return sorted(re.match(r"\w+", name)[0] for name in names if not re.match(r"(libc|libm|libdl|libpthread|librt)\.so", name))


@pytest.mark.long
def test_each_library_of_the_wheel_finds_what_it_needs_in_it(environment):
    libraries = [path for path in environment.glob("lib/python*/site-packages/gpumem_debugger*/**/*") if ".so" in path.name or path.parent.name == "bin"]
    assert len(libraries) > 12
    system = re.compile(r"^/(usr/)?lib/(x86_64-linux-gnu/)?(libc|libm|libdl|libpthread|librt|libz|libstdc\+\+|libgcc_s|ld-linux-x86-64)\.so")
    for library in libraries:
        found = run_process(["ldd", library], env=ONLY_THE_SYSTEM, merge=True).out
        for line in found.splitlines():
            name, _, path = line.strip().partition(" => ")
            if "libcudart.so" in name or not path:  # the simulated device's own name: it is loaded before
                continue
            path = path.split(" (")[0]
            assert path.startswith(str(environment)) or system.match(path), f"{library.name}: {line}"


@pytest.mark.long
def test_no_binary_needs_a_newer_glibc_than_the_name_of_the_wheel_says(wheel, environment):
    (named,) = re.findall(r"-manylinux_2_([0-9]+)_x86_64", wheel.name)
    newest = {}
    for path in binaries(environment):
        needed = re.findall(r"Name: GLIBC_2\.([0-9]+)", readelf(path, "--version-info"))
        newest[path.name] = max([0, *map(int, needed)])
    assert len(newest) > 12
    assert {name: minor for name, minor in newest.items() if minor > int(named)} == {}


@pytest.mark.long
def test_libraries_have_the_names_and_the_hardening_of_an_ordinary_build(environment):
    # gpumem-ranks is linked with MPI where the build has it, and the wheel for an older glibc has not
    own = [path for path in binaries(environment) if re.match(r"(lib)?gpumem(?!-ranks)", path.name)]
    assert len(own) >= 7
    for path in own:
        built = BUILD / ("bin" if path.parent.name == "bin" else "lib") / path.name
        assert exported(path) == exported(built), path.name
        assert needed(path) == needed(built), path.name
        assert lacks(path, path.name in NO_CODE) == [], path.name


@pytest.mark.long
def test_pytest_finds_the_plugin_of_the_wheel(environment, tmp_path):
    (tmp_path / "test_memory.py").write_text(
        "import pytest, torch\nkept = []\n\n"
        "@pytest.mark.gpu_memory(leaks=False, sim='8GiB')\ndef test_leak():\n    kept.append(torch.ones(1 << 20, device='cuda'))\n"
    )
    done = run_process([environment / "bin" / "python", "-m", "pytest", "-rA"], cwd=tmp_path, env=ONLY_THE_SYSTEM)
    assert done.status == 1 and "item 0 of list: global 'kept' of module test_memory" in done.out, done.out


@pytest.mark.long
def test_the_first_session_works_from_the_wheel_alone(installed, environment, tmp_path):
    python, recording, page = environment / "bin" / "python", tmp_path / "run.gpumem", tmp_path / "page.html"
    assert installed("--version").check().out.startswith("gpumem ")
    for shared in ("bash-completion/completions/gpumem", "zsh/site-functions/_gpumem", "fish/vendor_completions.d/gpumem.fish", "man/man1/gpumem-peak.1"):
        assert (environment / "share" / shared).is_file()
    machine = {check["name"]: check for check in installed("doctor", "--json").check().json()["machine"]}
    assert machine["simulated device"]["state"] == "ok" and machine["source lines"]["state"] == "ok"
    assert str(environment) in machine["simulated device"]["value"]
    installed("run", "--sim", "-o", recording, "--", python, EXAMPLES / "linear_loop.py").check()
    assert installed("peak", recording, "--json").check().json()["allocated"] == 4402614784
    installed("view", recording, "-o", page).check()
    assert page.stat().st_size > 50000
    replayed = installed("replay", recording, "--python", python, "--alloc-conf", "expandable_segments:True", "--json").check().json()
    assert replayed
    commands = ["gpumem record", "run", "gpumem peak"]
    words = [word for one in commands for word in ("-ex", one)]
    answer = installed("gdb", "--sim", "-batch", *words, "--", python, EXAMPLES / "linear_loop.py").check()
    assert "4,402,614,784 bytes" in answer.out


@pytest.mark.long
def test_holders_are_named_from_the_wheel_alone(installed, environment, spawn, sim_env, tmp_path):
    program = tmp_path / "hold.py"
    program.write_text(
        "import torch\nkept = {'first': torch.zeros(1000, 1000, device='cuda')}\nprint(hex(kept['first'].data_ptr()), flush=True)\ninput()\n"
    )
    process = spawn([environment / "bin" / "python", program], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    address = process.stdout.readline().strip()
    answer = installed("who-holds", address, "--pid", process.pid).check()
    assert "kept" in answer.out and "'first'" in answer.out
    process.communicate("\n", timeout=600)


@pytest.mark.long
def test_thirty_mistakes_of_a_beginner_are_answered_with_what_to_do(environment, tmp_path):
    """From the wheel alone. test_mistakes asks the same of the build every day."""

    def call(*words):
        return run_process([environment / "bin" / "gpumem", *words], env=ONLY_THE_SYSTEM, cwd=tmp_path)

    recording = tmp_path / "run.gpumem"
    call("run", "--sim", "-o", recording, "--", environment / "bin" / "python", "-c", "import torch; torch.empty(1, device='cuda')").check()
    assert wrong_answers(call, recording, tmp_path) == []
