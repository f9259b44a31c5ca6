"""What fuzzers begin with, where a few bytes of a corpus do not say it: scripts/run_tests.py makes these each time."""

import json
import lzma
import pickle
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def core_seeds(folder):
    """Real cores to begin with: of a small program, plain and compressed. The fuzzer's first byte says that the rest
    is a file."""
    program = subprocess.Popen(["sleep", "60"])
    try:
        for name, options in (("plain", []), ("compressed", ["--compress"])):
            core = folder / f"{name}.core"
            command = [ROOT / "build" / "bin" / "gpumem", "core", str(program.pid), "-o", core, *options]
            if subprocess.run(command, capture_output=True, timeout=600).returncode == 0:
                (folder / f"seed-{name}").write_bytes(b"\1" + core.read_bytes()[: 256 << 10])
                if name == "plain":
                    packed = lzma.compress(core.read_bytes()[: 256 << 10], preset=0)
                    (folder / "seed-xz").write_bytes(b"\1" + packed)
            core.unlink(missing_ok=True)
    finally:
        program.kill()
        program.wait()


def snapshot_seeds(folder):
    """Small snapshots in every form: entries that are alike, so that what is learned from one reads the next."""
    frames = [{"filename": name, "line": line, "name": "f"} for line, name in enumerate(["a.py", "b.py", "c.cpp"])]
    trace = []
    for number in range(6):
        stack = frames[: number % 3 + 1] if number % 4 else []
        for action in ("alloc", "free_requested", "free_completed"):
            trace.append({"action": action, "addr": (1 << 46) + number % 3 * 4096, "size": 300 * number, "stream": number % 2,
                          "time_us": (1 << 50) + number, "compile_context": "N/A",
                          "user_metadata": "a" if number > 2 else "", "frames": stack})  # fmt: skip
    blocks = [{"size": 1024, "requested_size": 900, "state": "active_allocated", "frames": frames}]
    segment = {"device": 0, "address": 1 << 46, "total_size": 1024, "stream": 0, "is_expandable": False, "blocks": blocks}
    said = [{"stage": stage, "name": "forward", "device": 0, "time_us": (1 << 50) + 3} for stage in ("START", "END")]
    whole = {"segments": [segment], "device_traces": [trace, trace[:4]], "external_annotations": said}
    for protocol in (2, 4):
        (folder / f"seed-{protocol}").write_bytes(pickle.dumps(whole, protocol))
    # as torch 2.15 writes it: native frames between Python's, labels, pools, pinned memory
    native = [{"name": "??", "filename": "/l/libpython3.11.so.1.0", "line": 1038786},
              {"name": "_start", "filename": "/usr/bin/python3.11", "line": 4224}]  # fmt: skip
    for entry in trace:
        entry.update(pool_id=(0, 0), frames=[native[0], *entry["frames"], *native])
    label = {**trace[0], "action": "annotate", "user_metadata": "label"}
    today = {**whole, "device_traces": [[*trace[:4], label, *trace[4:]]], "host_segments": [{**segment, "device": -1, "blocks": [*blocks]}],
             "host_traces": trace[:3], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "trace_alloc_overflowed": True}}  # fmt: skip
    (folder / "seed-today").write_bytes(pickle.dumps(today, 2))
    (folder / "seed-today-json").write_text(json.dumps(today))
    (folder / "seed-list").write_bytes(pickle.dumps([segment], 3))
    (folder / "seed-json").write_text(json.dumps(whole))


def layouts_seeds(folder):
    """PyTorch's rows, as files and as sections, and each row of a shipped CPython."""
    for path in sorted((ROOT / "core" / "torch" / "tables").glob("*.layouts"))[-3:]:
        text = path.read_bytes()
        (folder / f"seed-{path.stem}-file").write_bytes(b"\1" + text)
        sections = text[text.index(b"\n") + 1 : text.rindex(b"end ")]
        (folder / f"seed-{path.stem}").write_bytes(b"\0" + sections)
    for number in range(8):
        (folder / f"seed-python-{number}").write_bytes(bytes([128 + number]))


def elf_seeds(folder):
    """Small libraries of the build, and sections that fit each other."""
    for name in ("libgpumem-sim-nvml.so", "libgpumem-sim-runtime12.so"):
        library = ROOT / "build" / "lib" / name
        if library.exists():
            (folder / f"seed-{name}").write_bytes(b"\3" + library.read_bytes())
    names = b"\0cudaMalloc\0_ZN3foo3barEv\0"
    symbols = b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, 1, 0x1000 + name, 16) for name in (1, 12))
    note = struct.pack("<III", 4, 4, 3) + b"GNU\0abcd"
    table = struct.pack("<IIII", 1, 0, 1, 6) + bytes(8) + struct.pack("<I", 0) + struct.pack("<II", 2, 1)
    parts, described, at = [(2, 0, names), (0, 1, bytes(24) + symbols), (1, 1, symbols), (5, 0, note), (3, 0, table)], b"", 0
    for kind, link, content in parts:
        described += struct.pack("<BBHH", kind, link, at, len(content))
        at += len(content)
    for choice in (0, 2):
        content = b"".join(content for *_, content in parts)
        (folder / f"seed-sections-{choice}").write_bytes(bytes([choice, len(parts) - 1]) + described + content)


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def agents_record(kind, *content):
    """A record of agent/format.h: numbers, and strings."""
    payload = b"".join(varint(len(item)) + item if isinstance(item, bytes) else varint(item) for item in content)
    return varint(kind) + varint(len(payload)) + payload


def agents_event(action, bits, *numbers):
    return bytes([0x80 | action]) + struct.pack("<H", bits) + b"".join(map(varint, numbers))


def spool_seeds(folder):
    """Recordings as the agent writes them: plain, of a ring, packed, with an extent that was never begun."""
    code = agents_record(16, 1, 1, 3, b"a.py", b"Model.forward", bytes([151, 0] * 8), bytes([0x80, 1] * 4), b"", 1, b"x", 32, 1, b"zeros", 2, 0x030B)
    interned = code + agents_record(17, 1, 0, 1, 4) + agents_record(17, 2, 1, 1, 8)
    interned += agents_record(18, 1, 4096, 65536, 0, b"/l/libx.so", b"abcd") + agents_record(19, 1, 0, 5000)
    interned += agents_record(20, 1, 1, 1, 4, 1) + agents_record(22, b"a gap") + agents_record(23, b"lost", 3)
    marks = b"".join(agents_record(24, kind, b"name") for kind in range(1, 6)) + agents_record(25, 7, b"thread")
    events = marks + agents_event(1, 0x301, 20, 16, 4, 4, 2) + agents_event(4, 0x41, 2, 16, 4096, 1)
    events += agents_record(21, 1, 0, 5) + agents_event(1, 0x1B, 2, 32, 8, 1, 2, 1) + agents_event(3, 0x1, 2, 15, 4)
    events += agents_event(8, 0x4, 2, 0, 100, 2, 0) + agents_event(9, 0, 1, 0, 0) + agents_event(5, 0x1, 2, 16, 4096)
    shape = bytes([2, 1, 0, 255, 31, 1]) + struct.pack("<H", 3)

    def extent(content, kind=0, bits=1, following=0):
        return struct.pack("<BBBBHH", kind, bits, 7, following, len(content), 1) + content

    never_begun = extent(b"", bits=32)
    for name, choice, extents in [
        ("plain", 0, [extent(interned), extent(events), never_begun]),
        ("old", 4, [extent(interned), extent(events), never_begun]),
        ("runs", 8, [extent(interned), extent(events, bits=0), never_begun]),
        ("packed", 0, [extent(interned, bits=5), extent(events, bits=5), never_begun]),
        ("to-pack", 16, [extent(interned), extent(events), never_begun]),
        ("ring", 2, [extent(interned, 1), extent(events, 2), extent(events)]),
    ]:
        start = shape if name != "ring" else shape[:2] + b"\2" + shape[3:]
        (folder / f"seed-{name}").write_bytes(bytes([choice]) + start + b"".join(extents) + b"python a.py")


def summary_seeds(folder):
    """What gpumem-ranks keeps of small recordings, without its head and its hash."""
    tests = ROOT / "build" / "tests"
    ranks = tests / "ranks-one" / "gpumem-ranks"
    if not ranks.exists():
        return
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([tests / "rank_recordings", made, "3", "600", "1", "--odd", "0", "--leak", "1", "--oom", "2"], check=True)
        for question in ("peak", "steps", "phases", "leaks", "oom", "timeline", "zero"):
            subprocess.run([ranks, question, f"{made}/*.gpumem"], stdout=subprocess.DEVNULL)
            for kept in Path(made).glob("*.summary"):
                content = kept.read_bytes()
                (folder / f"seed-{question}-{kept.name}").write_bytes(content[1 + content[0] : -8])


SEEDS = {
    "fuzz_core": core_seeds,
    "fuzz_elf": elf_seeds,
    "fuzz_layouts": layouts_seeds,
    "fuzz_snapshot": snapshot_seeds,
    "fuzz_spool": spool_seeds,
    "fuzz_summary": summary_seeds,
}


def make(fuzzer, folder):
    """The seeds of a fuzzer, in a folder of its corpus."""
    if fuzzer in SEEDS:
        SEEDS[fuzzer](folder)
