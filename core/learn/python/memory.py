"""The probe's own memory, read without risk: an address that is not mapped is an error, never a crash."""

import os
import struct

_memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)

WORD = 8


class Unreadable(Exception):
    pass


def read(address, size, memory=None):
    """Exactly `size` bytes, or Unreadable."""
    if not 0 < address < 1 << 47:
        raise Unreadable("0x%x" % (address & (1 << 64) - 1))
    try:
        got = os.pread(_memory if memory is None else memory, size, address)
    except OSError:
        got = b""
    if len(got) != size:
        raise Unreadable("0x%x" % address)
    return got


def read_most(address, size):
    """Up to `size` bytes: fewer where the mapping ends."""
    while size >= WORD:
        try:
            return read(address, size)
        except Unreadable:
            size //= 2
    return b""


def u64(address):
    return int.from_bytes(read(address, 8), "little")


def unsigned(address, width):
    return int.from_bytes(read(address, width), "little")


def signed(address, width):
    return int.from_bytes(read(address, width), "little", signed=True)


def words(address, count):
    data = read_most(address, count * WORD)
    return struct.unpack("<%dQ" % (len(data) // WORD), data[: len(data) // WORD * WORD])


def text_at(address, most=128):
    """The C string at an address, b"" where there is none."""
    data = read_most(address, most)
    end = data.find(b"\0")
    return data[:end] if end >= 0 else b""
