"""Reads what is packed in a recording, as docs/agent-format.md and docs/log-format.md describe it, and where the file has holes."""

import ctypes
import errno
import os
import struct
from dataclasses import dataclass

FILE_HEADER, EXTENT, EXTENT_HEADER, PAGE = 16384, 1 << 18, 64, 4096
EVENTS, PACKED = 0, 3  # kinds of extents
LOG_HEADER, CHUNK_HEADER, EVENT_CHUNK, CHUNK_PACKED = 64, 24, 12, 1
WORTH_PACKING = 256  # bytes of a log's chunk: core/log/writer.c


@dataclass
class Extent:
    number: int
    committed: int
    finished: bool
    packed_in: int
    packed_at: int

    def offset(self):
        return FILE_HEADER + self.number * EXTENT


def zstd():
    library = ctypes.CDLL("libzstd.so.1")
    for name in ("ZSTD_compress", "ZSTD_decompress", "ZSTD_compressBound"):
        getattr(library, name).restype = ctypes.c_size_t
    return library


def unpacked(frame, size):
    """The `size` bytes that a zstd frame holds."""
    out = ctypes.create_string_buffer(size + 1)
    assert zstd().ZSTD_decompress(out, ctypes.c_size_t(size + 1), frame, ctypes.c_size_t(len(frame))) == size
    return out.raw[:size]


def zstd_size(payload, level=3):
    """How many bytes zstd itself makes of it."""
    library = zstd()
    room = library.ZSTD_compressBound(ctypes.c_size_t(len(payload)))
    out = ctypes.create_string_buffer(room)
    return library.ZSTD_compress(out, ctypes.c_size_t(room), payload, ctypes.c_size_t(len(payload)), level)


def data_bytes(file, start, end):
    """How many of these bytes of the file take room on the disk: the others are holes."""
    taken = 0
    while start < end:
        try:
            start = os.lseek(file.fileno(), start, os.SEEK_DATA)
        except OSError as error:
            assert error.errno == errno.ENXIO  # only a hole follows
            break
        if start >= end:
            break
        hole = min(os.lseek(file.fileno(), start, os.SEEK_HOLE), end)
        taken += hole - start
        start = hole
    return taken


def event_extents(file):
    """The extents of an agent's file that hold events, or held them before they were packed."""
    file.seek(4172)
    (count,) = struct.unpack("<I", file.read(4))
    for number in range(count):
        file.seek(FILE_HEADER + number * EXTENT)
        header = file.read(EXTENT_HEADER)
        magic, committed = struct.unpack_from("<4sI", header)
        kind, _, finished = struct.unpack_from("<III", header, 28)
        if magic == b"GTEX" and kind == EVENTS:
            yield Extent(number, committed, bool(finished), *struct.unpack_from("<II", header, 56))


def is_packed(path):
    """Whether each extent that no thread writes any more is packed, and its pages behind the first are given back."""
    with open(path, "rb") as file:
        return all(
            extent.packed_in and not data_bytes(file, extent.offset() + PAGE, extent.offset() + EXTENT)
            for extent in event_extents(file)
            if extent.finished and extent.committed >= PAGE
        )


def packed_extents(path):
    """Of each packed extent its number, the bytes of its records, and the zstd frame that holds them."""
    with open(path, "rb") as file:
        for extent in event_extents(file):
            if not extent.packed_in:
                continue
            file.seek(FILE_HEADER + (extent.packed_in - 1) * EXTENT + extent.packed_at)
            number, size, packed, _ = struct.unpack("<IIII", file.read(16))
            assert (number, size) == (extent.number, extent.committed)
            yield number, size, file.read(packed)


def event_chunks(path):
    """Of each chunk of events in a log: whether it is packed, and its bytes in the file."""
    with open(path, "rb") as file:
        file.seek(LOG_HEADER)
        while header := file.read(CHUNK_HEADER):
            magic, kind, flags, length = struct.unpack_from("<4sHHI", header)
            assert magic == b"GMCK"
            payload = file.read(length)
            if kind == EVENT_CHUNK:
                yield bool(flags & CHUNK_PACKED), payload


def varint(data, at):
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


FIELDS_OF_BITS = {1: 1, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1, 16: 1}  # varints after the first three


def interned_ids(path, kind):
    """The ids of the records of a kind (enum gm_agent_record) in an agent's file, in their order."""
    packed = {number: unpacked(frame, size) for number, size, frame in packed_extents(path)}
    ids = []
    with open(path, "rb") as file:
        for extent in event_extents(file):
            file.seek(extent.offset() + EXTENT_HEADER)
            data, at = packed.get(extent.number) or file.read(extent.committed), 0
            while at < len(data):
                if data[at] & 0x80:
                    bits = data[at + 1] | data[at + 2] << 8 | (data[at] & 0x40) << 10
                    at += 3
                    for _ in range(3 + sum(count for bit, count in FIELDS_OF_BITS.items() if bits >> bit & 1)):
                        _, at = varint(data, at)
                    continue
                one, at = varint(data, at)
                size, at = varint(data, at)
                if one == kind:
                    ids.append(varint(data, at)[0])
                at += size
    return ids
