"""drgn's search of a core for an address: `drgn_search.py CORE ADDRESS`. It ends at the first memory that the core has not
got (a library's code, as in the kernel's own cores), so it is asked for what is there, part by part."""

import struct
import sys

import drgn

path, value = sys.argv[1], int(sys.argv[2], 16)
program = drgn.Program()
program.set_core_dump(path)
with open(path, "rb") as file:
    header = file.read(64)
    offset, count = struct.unpack_from("<Q", header, 32)[0], struct.unpack_from("<H", header, 56)[0]
    file.seek(offset)
    table = file.read(56 * count)
found = 0
for i in range(count):
    kind, _, _, address, _, saved, _ = struct.unpack_from("<IIQQQQQ", table, 56 * i)
    if kind == 1 and saved:  # PT_LOAD
        search = program.search_memory_word(value)
        search.set_address_range(address, address + saved - 1)
        found += len(list(search))
print(found)
