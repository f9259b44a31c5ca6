"""Reads this process's own memory, and keeps what was found in it: the engine of the probe (see probe.py).

A field is found by agreement: of all offsets, the one at which the words of many objects are what PyTorch says of those
objects. It is then proved on other objects. A field that fits nowhere, or at two places, is left out with that reason.
"""

import ctypes
import functools
import os
import re
import struct
import time

_MEMORY = os.open("/proc/self/mem", os.O_RDONLY)
_USABLE = ctypes.CDLL(None).malloc_usable_size
_USABLE.argtypes, _USABLE.restype = [ctypes.c_void_p], ctypes.c_size_t
PYTHON_HEAD = object.__basicsize__  # of every Python object; larger in a free-threaded build


def read(address, size):
    if not 0x10000 <= address < 1 << 47:
        return b""
    try:
        return os.pread(_MEMORY, size, address)
    except OSError:
        return b""


def words(address, count):
    data = read(address, 8 * count)
    return struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])


def value(address, form="<Q"):
    """One number there; None where nothing is mapped."""
    data = read(address, struct.calcsize(form))
    return struct.unpack(form, data)[0] if len(data) == struct.calcsize(form) else None


def usable(address):
    """The bytes that malloc keeps for the object: its size and up to 15 more."""
    return _USABLE(address)


# --- classes by run-time type information (Itanium C++ ABI, 2.9.5) ---------------------------------------------------

_names = {}


def _readable_code_or_data():
    """What is mapped from files, as (begin, end, where the file begins): vtables and type_info lie there."""
    found, first, of = [], 0, None
    with open("/proc/self/maps") as maps:
        for line in maps:
            parts = line.split(None, 5)
            if len(parts) == 6 and parts[5].startswith("/"):
                begin, end = (int(part, 16) for part in parts[0].split("-"))
                first, of = (first, of) if parts[5] == of else (begin, parts[5])
                found.append((begin, end, first))
    return found


_mapped = []


def in_file(address):
    if not _mapped:
        _mapped.extend(_readable_code_or_data())
    return any(begin <= address < end for begin, end, _ in _mapped)


def _type_names(info, depth=0):
    if depth > 8 or not in_file(info):
        return []
    name_at = value(info + 8)
    if not name_at or not in_file(name_at):
        return []
    name = read(name_at, 512).split(b"\0")[0].lstrip(b"*").decode("latin-1")
    if not re.fullmatch(r"[A-Za-z_][\w.$]*", name):
        return []
    base = value(info + 16)
    # of __si_class_type_info the base follows; of the others the word is no type_info
    return [name] + (_type_names(base, depth + 1) if base and in_file(base) else [])


def classes(address):
    """The mangled name of the object's class and of its bases along the first line; [] where no vtable leads there."""
    vtable = value(address) if address and address % 8 == 0 else None
    if not vtable or vtable % 8 or not in_file(vtable):
        return []
    if vtable not in _names:
        top, info = (words(vtable - 16, 2) + (1, 0))[:2]
        _names[vtable] = _type_names(info) if top == 0 else []
    return _names[vtable]


def is_a(address, name):
    return name in classes(address)


def _unwind_table(address):
    """(table, count) of the library's functions, sorted, which C++ has for exceptions: .eh_frame_hdr (Linux Standard Base)."""
    base = next((first for begin, end, first in _mapped if begin <= address < end), 0)
    at, size, count = value(base + 32), value(base + 54, "<H"), value(base + 56, "<H")
    for header in range(base + (at or 0), base + (at or 0) + (size or 0) * (count or 0), size or 1):
        if value(header, "<I") == 0x6474E550:  # PT_GNU_EH_FRAME
            table = base + value(header + 16)
            # numbers of four bytes, from the table's own address on
            return (table, value(table + 8, "<I")) if read(table, 4)[::2] + read(table + 3, 1) == b"\x01\x03\x3b" else (0, 0)
    return 0, 0


@functools.lru_cache(maxsize=None)
def function_end(function):
    """Where the next function begins; what may be where that is not derived."""
    table, count = _unwind_table(function)
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if table + value(table + 12 + 8 * middle, "<i") > function else (middle + 1, high)
    return table + value(table + 12 + 8 * low, "<i") if low < count else function + 1024


def code_sizes(functions, room):
    """{size: where the code says it} of the sizes that these functions hand to operator delete (`mov esi, SIZE`), of those that
    fit into a chunk with so much room: malloc leaves two open. Where none does, the chunk is taken for a step larger."""
    return known_sizes(functions, room) or known_sizes(functions, room - 16)


def known_sizes(functions, room):
    fits = {}
    for function in functions:
        if not in_file(function):
            break
        code = read(function, min(function_end(function) - function, 1024))
        for match in re.finditer(rb"\xbe(..)\0\0", code, re.S):
            size = struct.unpack("<H", match.group(1))[0]
            if room - 16 < size <= room and size % 8 == 0:
                fits[size] = function + match.start(1)
    return fits


def deleted_sizes(addresses):
    """{size: where the code says it} of the objects, chunks of malloc's, from their classes' own code: a deleting destructor hands the size to operator
    delete, and malloc's chunk leaves two sizes open. A chunk may be a step larger, where the rest would be too small for one: of
    each class the smallest is asked. A class whose code does not say is left out."""
    least = {}
    for address in addresses:
        vtable = value(address)
        least[vtable] = min(least.get(vtable, address), address, key=usable)
    fits = [code_sizes(words(vtable, 16), usable(address)) for vtable, address in least.items()]
    return dict(item for sizes in fits if len(sizes) == 1 for item in sizes.items())


# --- the row ------------------------------------------------------------------------------------------------------------


class Row:
    """The fields found (`values`), those left out and why (`missing`), and each one's proof: does it hold at an offset, of
    objects that it was not found with?"""

    def __init__(self):
        self.values, self.missing, self.proofs = {}, {}, {}
        self.took = {}
        self.said = {}

    def __getitem__(self, name):
        """The value; where the field was not found, that stops what depends on it."""
        return self.values[name]

    def find(self, name, offsets, agrees, first, second):
        """agrees(offset, objects): is the field there, by all of them?"""
        fits = [offset for offset in offsets if agrees(offset, first)]
        if len(fits) > 1:
            # what lay there before may look like it by chance
            fits = [offset for offset in fits if agrees(offset, second)] or fits
        if not fits:
            self.missing[name] = "fits nowhere"
        elif len(fits) > 1:
            self.missing[name] = "fits at " + ", ".join(map(str, fits[:6]))
        elif not agrees(fits[0], second):
            self.missing[name] = f"at {fits[0]}, where other objects do not have it"
        else:
            self.values[name] = fits[0]
            self.proofs[name] = lambda offset: agrees(offset, second) and agrees(offset, first)
        return self.values.get(name)

    def compared(self, name, offsets, form, truth, first, second):
        """A number that PyTorch tells of each object: `truth` maps a set of objects to [(address, number)]."""

        def agrees(offset, objects):
            cases = truth(objects)
            return bool(cases) and all(value(at + offset, form) == wanted for at, wanted in cases)

        self.say(name, lambda: [("word", struct.calcsize(form), *case) for case in truth(second)])
        return self.find(name, offsets, agrees, first, second)

    def say(self, name, cases):
        """What gpumem's proof reads by itself, asked for when all is found (core/learn/prove.c); cases() gives ("word", bytes, address
        an object, what stands there at the field), ("code", address that has the number) or ("apart", two neighbours in an array)."""
        self.said[name] = cases

    def say_there(self, name, places, form="<Q"):
        """Of a field that was compared by where it leads to: what stands there, first where something else stands beside it."""
        if name not in self.values:
            return
        field, size = self.values[name], struct.calcsize(form)

        def unlike(at):
            return sum(value(at + field + by, form) == value(at + field, form) for by in (-size, size))

        self.say(name, lambda: [("word", size, at, value(at + field, form)) for at in sorted(places(), key=unlike)])

    def derived(self, name, number, proof):
        """A value that is not searched for, with what proves it."""
        if number is None or not proof(number):
            self.missing[name] = "not derived by the code or the objects"
            return
        self.values[name], self.proofs[name] = number, proof

    def attempt(self, what, *arguments):
        """One kind of object: where something in it is not as expected, its other fields are missing, not all."""
        begin = time.monotonic()
        try:
            what(self, *arguments)
        except Exception as error:  # noqa: BLE001: any version may fail in its own way
            self.missing[f"({what.__name__})"] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        self.took[what.__name__] = round(time.monotonic() - begin, 3)
