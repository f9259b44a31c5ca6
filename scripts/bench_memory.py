"""What rows of scripts/bench.d share: one streaming read of a process's memory or of a core, which looks at nothing."""

import ctypes
import os
import re
import threading
import time

THREADS = os.cpu_count()
MIB = 1 << 20
SKIP = re.compile(r"gpumem-sim|nvidia|\[v")


class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def writable(pid):
    """(start, end) of what who-holds looks at: the device's memory is none of it."""
    found = []
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            words = line.split(None, 5)
            if words[1].startswith("rw") and not SKIP.search(words[5] if len(words) > 5 else ""):
                found.append(tuple(int(end, 16) for end in words[0].split("-")))
    return found


def touched(pid):
    """Runs of resident pages, from /proc/PID/pagemap."""
    import numpy

    runs = []
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for first, end in writable(pid):
            pagemap.seek(first // 4096 * 8)
            there = numpy.frombuffer(pagemap.read((end - first) // 4096 * 8), dtype="u8") >> 62 != 0
            edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([0], there.astype("i1"), [0]))))
            runs += [(first + int(a) * 4096, first + int(b) * 4096) for a, b in zip(edges[::2], edges[1::2])]
    return runs


def in_threads(work, pieces, threads=THREADS):
    """Seconds until all pieces are read: each thread takes the next one. ctypes releases the GIL."""
    left = iter(pieces)
    lock = threading.Lock()

    def run():
        buffer = ctypes.create_string_buffer(MIB)
        ctypes.memset(buffer, 1, MIB)
        while True:
            with lock:
                piece = next(left, None)
            if piece is None:
                return
            work(buffer, *piece)

    started = [threading.Thread(target=run) for _ in range(threads)]
    start = time.monotonic()
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return time.monotonic() - start


def read_process(pid, threads=THREADS):
    """(bytes, seconds) of reading all touched pages once, a MiB at a time."""
    call = ctypes.CDLL(None).process_vm_readv
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    call.restype = ctypes.c_ssize_t
    read = []

    def work(buffer, at, size):
        here = Span(ctypes.addressof(buffer), size)
        there = Span(at, size)
        read.append(max(0, call(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)))

    pieces = [(at, min(MIB, end - at)) for first, end in touched(pid) for at in range(first, end, MIB)]
    seconds = in_threads(work, pieces, threads)
    return sum(read), seconds


def read_file(path, size):
    """Seconds of reading so many bytes of a file once, a MiB at a time."""
    with open(path, "rb", buffering=0) as file:
        return in_threads(lambda buffer, at: os.preadv(file.fileno(), [buffer], at), [(at,) for at in range(0, size, MIB)])
