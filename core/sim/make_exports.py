#!/usr/bin/env python3
"""Makes the export lists of the simulated CUDA device from the libraries found.

The simulated device stands in front of NVIDIA's libraries, so it must define every symbol that they
define: one that is missing makes the loader refuse torch, or lets a call fall through to the real
library. The lists are checked in (core/sim/exports/), so a build needs no torch; tests/e2e makes them
anew and compares.

    make_exports.py SITE_PACKAGES OUTPUT_FOLDER

SITE_PACKAGES is where the torch wheel and NVIDIA's wheels are installed. Each list is a C include file:
STUB(name) for a call that is refused unless core/sim/cuda/ defines it, COMPUTE(name) for one that
succeeds having computed nothing. Of the libraries of solvers: CREATE and DESTROY of a handle, ACCEPT of a setting,
QUERY(name, type, first, last) of how large a workspace is, which goes to the parameters first and last.

A torch for CUDA 13 (2.11 on) makes the main lists; those that are checked in have what 2.11 to 2.15 need (CUDA 13.0
and 13.2), since what a list has already stays in it. One for CUDA 12 (2.4 to 2.10) makes those that end in 12: what
its libraries define besides the main lists, which lie in this folder. Those that are checked in are
CUDA 12.8's (torch 2.8 to 2.10). The libraries of 12.1 to 12.6 define nothing more that a program could
call: only what cuBLAS and cuBLASLt had between them, and cuBLAS is answered before it comes to that.
"""
import ctypes
import functools
import pathlib
import re
import subprocess
import sys

# Calls of cuBLAS that set something up or ask something; all others compute.
NOT_COMPUTE = re.compile(
    r"Get(?!r|q|l)|Set|Create|Destroy|Logger|Xt|Init|Shutdown|Alloc|Free|Property|Version|Status|Check|Heuristic|"
    r"Cache|Ctx|Characteristic|Desc|Preference|Layout|Algo|igrat|xerbla|Environment|Emulation|Register|Unregister"
)
# The same of cuDNN.
CUDNN_NOT_COMPUTE = re.compile(r"Get|Set|Create|Destroy|Find|Version|Query|Derive|Restore|Backend(?!Execute)|Build|Clip")


@functools.cache
def dynamic_symbols(path):
    """(name, version, defined) of each dynamic symbol of an ELF file."""
    found = []
    text = subprocess.run(
        ["readelf", "-W", "--dyn-syms", str(path)], check=True, capture_output=True, text=True
    ).stdout
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit() or fields[3] == "SECTION":
            continue
        if fields[3] == "OBJECT" and fields[6] == "ABS":
            continue
        name, _, version = fields[7].partition("@")
        found.append((name, version.lstrip("@"), fields[6] != "UND"))
    return found


def imports(site, library):
    """What torch's own libraries import from one of NVIDIA's, by version name."""
    found = set()
    for path in sorted((site / "torch" / "lib").glob("*.so*")):
        for name, version, defined in dynamic_symbols(path):
            if not defined and version == library:
                found.add(name)
    return found


def driver_names(site):
    """The driver's entry points: no driver is installed, so from cuda.h, and what torch imports."""
    header = (site / "nvidia/cu13/include/cuda.h").read_text()
    names = set(re.findall(r"\b(?:CUresult\s+CUDAAPI|CUresult)\s+(cu[A-Z]\w*)\s*\(", header))
    for plain, versioned in re.findall(
        r"^\s*#\s*define\s+(cu[A-Z]\w*)\s+(?:__CUDA_API_PT(?:DS|SZ)\()?(cu\w+)\)?\s*$", header, re.M
    ):
        names |= {plain, versioned}
    for path in sorted((site / "torch" / "lib").glob("*.so*")):
        for name, version, defined in dynamic_symbols(path):
            if not defined and not version and re.match(r"cu[A-Z]", name):
                names.add(name)
    return {name for name in names if not name.startswith(("cuFile", "cuda"))}


def parameters(header, name):
    """A function's parameters as its header declares them; none: not declared."""
    found = re.search(r"\b" + name + r"\s*\(([^;{]*?)\)\s*;", header)
    return [" ".join(word.split()) for word in found.group(1).split(",")] if found else []


def solver_lines(site, soname, header):
    """What torch imports of a library of solvers: how each call is answered follows from its name and its header."""
    for name in sorted(imports(site, soname)):
        words = parameters(header, name)
        sizes = [i for i, word in enumerate(words) if re.search(r"\b(?:int|size_t) ?\*", word) and re.search(
            r"[lL]work|[bB]ufferSize|workspaceInBytes", word)]
        if re.search(r"[cC]reate(?!Identity)", name) and words and "*" in words[0]:
            yield f"CREATE({name})"
        elif re.search(r"[dD]estroy", name):
            yield f"DESTROY({name})"
        elif sizes and len(words) <= 24:
            kind = "int" if re.search(r"\bint ?\*", words[sizes[0]]) else "size_t"
            yield f"QUERY({name}, {kind}, {sizes[0]}, {sizes[-1]})"
        elif re.search(r"Set[A-Z]", name):
            yield f"ACCEPT({name})"
        elif re.search(r"Nnz$|Get", name):
            yield f"STUB({name})"
        else:
            yield f"COMPUTE({name})"


def entry(line):
    """What a line of a list is about, in the order of the lists: a name, or an error's number."""
    word = re.search(r"\((\w+)", line)[1]
    return (int(word), "") if word.isdigit() else (0, word)


def write(folder, name, lines):
    """A list. What is checked in and not made now stays: another version of torch imports it."""
    made = {entry(line): line for line in lines}
    checked_in = pathlib.Path(__file__).parent / "exports" / name
    for line in checked_in.read_text().splitlines()[1:] if checked_in.exists() else ():
        made.setdefault(entry(line), line)
    text = "/* Made by core/sim/make_exports.py; do not edit. */\n" + "".join(made[key] + "\n" for key in sorted(made))
    (folder / name).write_text(text)


def listed(*names):
    """The names of lists that are checked in."""
    texts = ((pathlib.Path(__file__).parent / "exports" / name).read_text() for name in names)
    return {name for text in texts for name in re.findall(r"\((\w+)\)", text)}


def cuda12(site, folder):
    """What CUDA 12's libraries define and CUDA 13's do not."""
    for path, prefix, not_compute, main_list, list_name in (
        ("cuda_runtime/lib/libcudart.so.12", ("cuda", "__cuda"), re.compile(""), "libcudart13.inc", "libcudart12.inc"),
        ("cublas/lib/libcublas.so.12", ("cublas",), NOT_COMPUTE, "libcublas13.inc", None),
        ("cublas/lib/libcublasLt.so.12", ("cublasLt",), NOT_COMPUTE, "libcublasLt13.inc", "libcublasLt12.inc"),
        ("cudnn/lib/libcudnn.so.9", ("cudnn",), CUDNN_NOT_COMPUTE, "libcudnn9.inc", None),
    ):
        path = site / "nvidia" / path
        names = {n for n, _, defined in dynamic_symbols(path) if defined and n.startswith(prefix)}
        wanted = imports(site, path.name)
        if not wanted <= names:
            sys.exit(f"{path.name}: torch imports what it does not define: {sorted(wanted - names)}")
        names -= listed(main_list)
        if names and not list_name:
            sys.exit(f"{path.name}: more than {main_list} has, and no list for it: {sorted(names)}")
        if list_name:
            lines = (("STUB" if not_compute.search(n) else "COMPUTE") + f"({n})" for n in sorted(names))
            write(folder, list_name, lines)
    for path in sorted((site / "torch" / "lib").glob("*.so*")):
        driver = {n for n, v, defined in dynamic_symbols(path) if not defined and not v and re.match(r"cu[A-Z]", n)}
        driver = {n for n in driver if not n.startswith(("cuFile", "cuda"))} - listed("libcuda1.inc")
        if driver:
            sys.exit(f"{path.name}: imports what libcuda1.inc does not have: {sorted(driver)}")


def main():
    site, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if (site / "nvidia/cuda_runtime/lib/libcudart.so.12").exists():
        cuda12(site, folder)
        return
    libraries = site / "nvidia/cu13/lib"
    cudnn = site / "nvidia/cudnn/lib"
    for path, prefix, not_compute, list_name in (
        (libraries / "libcudart.so.13", ("cuda", "__cuda"), re.compile(""), "libcudart13.inc"),
        (libraries / "libcublas.so.13", ("cublas",), NOT_COMPUTE, "libcublas13.inc"),
        (libraries / "libcublasLt.so.13", ("cublasLt",), NOT_COMPUTE, "libcublasLt13.inc"),
        (cudnn / "libcudnn.so.9", ("cudnn",), CUDNN_NOT_COMPUTE, "libcudnn9.inc"),
        (site / "nvidia/nccl/lib/libnccl.so.2", ("nccl",), re.compile(""), "libnccl2.inc"),
    ):
        soname = path.name
        names = {n for n, _, defined in dynamic_symbols(path) if defined and n.startswith(prefix)}
        wanted = imports(site, soname)
        if not wanted <= names:
            sys.exit(f"{soname}: torch imports what it does not define: {sorted(wanted - names)}")
        write(
            folder,
            list_name,
            (("STUB" if not_compute.search(n) else "COMPUTE") + f"({n})" for n in sorted(names)),
        )
    include = site / "nvidia/cu13/include"
    for soname, header, list_name in (
        ("libcusolver.so.12", "cusolverDn.h", "libcusolver12.inc"),
        ("libcusparse.so.12", "cusparse.h", "libcusparse12.inc"),
    ):
        write(folder, list_name, solver_lines(site, soname, (include / header).read_text()))
    write(folder, "libcufft12.inc", (f"STUB({n})" for n in sorted(imports(site, "libcufft.so.12"))))
    if (site / "pynvml.py").exists():  # no NVML is installed, so what its Python binding (nvidia-ml-py) calls
        names = set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)', (site / "pynvml.py").read_text()))
        write(folder, "libnvidia-ml1.inc", (f"STUB({n})" for n in sorted(names)))
    write(folder, "libcuda1.inc", (f"STUB({n})" for n in sorted(driver_names(site))))

    # The runtime's error names and texts, asked of the real library: that needs no device.
    cudart = ctypes.CDLL(str(libraries / "libcudart.so.13"))
    cudart.cudaGetErrorName.restype = cudart.cudaGetErrorString.restype = ctypes.c_char_p
    unknown = cudart.cudaGetErrorName(-12345)
    errors = []
    for code in range(1000):
        name = cudart.cudaGetErrorName(code)
        if name != unknown:
            errors.append(f'ERROR({code}, "{name.decode()}", "{cudart.cudaGetErrorString(code).decode()}")')
    write(folder, "errors13.inc", errors)

    # cuDNN's statuses, likewise.
    graph = ctypes.CDLL(str(cudnn / "libcudnn_graph.so.9"))
    graph.cudnnGetErrorString.restype = ctypes.c_char_p
    unknown = graph.cudnnGetErrorString(-12345)
    texts = ((code, graph.cudnnGetErrorString(code)) for code in range(6000))
    write(folder, "errors_cudnn9.inc", (f'ERROR({c}, "{t.decode()}")' for c, t in texts if t != unknown))


if __name__ == "__main__":
    main()
