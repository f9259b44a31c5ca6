"""Strings, bytes and numbers."""

import sys

from agree import Unproved, learns, mix
from memory import read, u64, unsigned


class Text(str):
    pass


ASCII = ["learned-%s" % ("x" * n) for n in range(3, 40, 3)]
LATIN = ["\xe9\xe8" + "y" * n for n in range(3, 24, 3)]
WIDE = ["\u0416\u0417" + "\u0418" * n for n in range(3, 24, 3)]


@learns("str_length", "str_ascii_size", "str_compact_size", "str_data", "bytes_data")
def strings(row):
    row.find("str_length", [(id(s), len(s)) for s in ASCII + LATIN + WIDE], low=16, high=48)

    def begins(o, encoded):
        return lambda offset: read(id(o) + offset, len(encoded)) == encoded

    row.search("str_ascii_size", [begins(s, s.encode()) for s in ASCII], range(16, 96, 4))
    compact = [begins(s, s.encode("latin-1")) for s in LATIN] + [
        begins(s, s.encode("utf-16-le")) for s in WIDE
    ]
    row.search("str_compact_size", compact, range(16, 96, 4))
    blobs = [bytes(range(1, n)) for n in (9, 30, 14, 70, 22, 41)]
    row.search("bytes_data", [begins(b, b) for b in blobs], range(16, 48))

    kept = [Text(s) for s in WIDE]

    def leads(s):
        encoded = str(s).encode("utf-16-le")
        return lambda offset: read(u64(id(s) + offset), len(encoded)) == encoded

    row.search(
        "str_data", [leads(s) for s in kept], range(row["str_compact_size"], row["str_compact_size"] + 16, 8)
    )


@learns("str_state")
def string_state(row):
    # Bits, from the lowest: interned 2, kind 3, compact 1, ascii 1 (in builds with a GIL)
    def of(s, kind, compact, ascii):
        def case(offset):
            word = unsigned(id(s) + offset, 4)
            return (word >> 2 & 7, word >> 5 & 1, word >> 6 & 1) == (kind, compact, ascii)

        return case

    kept = [Text(s) for s in WIDE[:4]]
    groups = [of(s, 1, 1, 1) for s in ASCII[:4]], [of(s, 1, 1, 0) for s in LATIN[:4]], \
        [of(s, 2, 1, 0) for s in WIDE[:4]], [of(s, 2, 0, 0) for s in kept]  # fmt: skip
    row.search("str_state", mix(*groups), range(16, row["str_ascii_size"], 4))


@learns("long_digits", "long_tag")
def integers(row):
    bits = sys.int_info.bits_per_digit
    if sys.int_info.sizeof_digit != 4:
        raise Unproved("digits of %d bytes" % sys.int_info.sizeof_digit)
    numbers = [0x1234567 | 0x7654321 << bits, 0x2345678 | 0x6543219 << bits | 0x11111 << 2 * bits,
               0x3456789 | 0x5432198 << bits, 0x1111 | 0x2222 << bits | 0x3333 << 2 * bits]  # fmt: skip

    def digits(n):
        found = []
        while n:
            found.append(n & (1 << bits) - 1)
            n >>= bits
        return found

    def holds(n):
        encoded = b"".join(d.to_bytes(4, "little") for d in digits(n))
        return lambda offset: read(id(n) + offset, len(encoded)) == encoded

    row.search("long_digits", [holds(n) for n in numbers], range(8, 48, 4))
    signed_ones = numbers + [-n for n in numbers] + [7, -7, 12345]
    # From 3.12 on: digits << 3 | 2 where negative, 1 where zero; 4 marks small ones (3.14). Before, ob_size has
    # the sign.
    row.find("long_tag", [(id(n), len(digits(abs(n))) << 3 | (2 if n < 0 else 0)) for n in signed_ones],
             low=16, high=row["long_digits"], mask=~4)  # fmt: skip
