"""Tuples, lists, dicts, sets, deques."""

import collections
import gc
import sys

from agree import Unproved, learns, mix
from memory import WORD, read_most, u64, unsigned, words


def items_at(objects):
    """The bytes of an array of references."""
    return b"".join(id(o).to_bytes(WORD, "little") for o in objects)


def fresh(count):
    return [object() for _ in range(count)]


@learns("tuple_items", "list_items", "list_allocated")
def sequences(row):
    def inside(t):
        return lambda offset: read_most(id(t) + offset, len(t) * WORD) == items_at(t)

    row.search(
        "tuple_items",
        [inside(tuple(fresh(n))) for n in (3, 5, 8, 13, 2, 21)],
        range(8, tuple.__basicsize__ + 8, 8),
    )

    def outside(values):
        return lambda offset: read_most(u64(id(values) + offset), len(values) * WORD) == items_at(values)

    row.search(
        "list_items", [outside(fresh(n)) for n in (3, 5, 8, 13, 2, 21)], range(8, list.__basicsize__, 8)
    )
    grown = []
    for n in (1, 6, 11, 20, 33, 50):
        grown.append([])
        for i in range(n):
            grown[-1].append(i)
    empty = sys.getsizeof([])
    row.find(
        "list_allocated",
        [(id(v), (sys.getsizeof(v) - empty) // WORD) for v in grown],
        low=16,
        high=list.__basicsize__,
    )


class Dicts:
    """Dicts of known contents: `general` have keys of several types, `strings` only str."""

    def __init__(self):
        sizes = (2, 5, 9, 15, 30, 70, 130, 171, 300, 600)
        self.general = [{(k, n): object() for k in range(n)} for n in sizes]
        self.strings = [{"k%d-%d" % (k, n): object() for k in range(n)} for n in sizes]


class Split:
    def __init__(self, n):
        for i in range(n):
            setattr(self, "a%d" % i, object())


def split_classes(counts):
    return [type("Split%d" % n, (Split,), {})(n) for n in counts]


def entry(key, value):
    return items_at([key, value])


@learns("dict_used", "dict_keys", "keys_indices", "keys_entries", "keys_size", "keys_log2_size",
        "keys_log2_index_bytes", "keys_kind")  # fmt: skip
def dicts(row):
    made = Dicts()
    every = [d for pair in zip(made.general, made.strings) for d in pair]
    row.find("dict_used", [(id(d), len(d)) for d in every], low=16, high=dict.__basicsize__)

    def first_entry(d, table):
        key, value = next(iter(d.items()))
        return read_most(table, 1 << 12).find(entry(key, value))

    def last_entry(d, table):
        key, value = list(d.items())[-1]
        return read_most(table, 1 << 16).find(entry(key, value)) >= 0 or len(d) > 170

    def leads(d):
        return lambda offset: first_entry(d, u64(id(d) + offset)) > 0 and last_entry(d, u64(id(d) + offset))

    row.search("dict_keys", [leads(d) for d in every], range(16, dict.__basicsize__, 8))
    at = row["dict_keys"]
    keys = [(u64(id(d) + at), d) for d in every]
    log2 = {id(d): _log2_size(d) for d in every}
    row.find("keys_entries", [(k, len(d)) for k, d in keys], low=0, high=48)
    row.find("keys_size", [(k, 1 << log2[id(d)]) for k, d in keys], low=0, high=48)
    row.find("keys_log2_size", [(k, log2[id(d)]) for k, d in keys], low=0, high=48, width=1)
    index = {id(d): log2[id(d)] + (0 if log2[id(d)] < 8 else 1) for d in every}
    row.find("keys_log2_index_bytes", [(k, index[id(d)]) for k, d in keys], low=0, high=48, width=1)
    # Entries stand behind the indices: of general dicts with the hash before the key.
    cases = []
    for k, d in keys:
        general = not isinstance(next(iter(d)), str)
        hashed = WORD if general or "keys_log2_size" not in row else 0
        found = first_entry(d, k)
        cases.append(lambda o, found=found, d=d, hashed=hashed: o + (1 << index[id(d)]) + hashed == found)
    row.search("keys_indices", cases, range(8, 64, 8))
    if "keys_log2_size" in row:
        kinds = []  # DICT_KEYS_GENERAL, DICT_KEYS_UNICODE, DICT_KEYS_SPLIT
        apart = split_classes((3, 4, 5, 6, 7, 2))
        kept = [vars(o) for o in apart]
        for general, string, split in zip(made.general, made.strings, kept):
            kinds += [(general, 0), (split, 2), (string, 1)]
        row.find("keys_kind", [(u64(id(d) + at), kind) for d, kind in kinds], high=48, width=1)


def _log2_size(d):
    """How large the table of a dict is: its bytes beyond an empty dict's are indices and two thirds as many entries."""
    entries = len(d)
    log2 = 3
    while (2 << log2) // 3 < entries:
        log2 += 1
    return log2


@learns("dict_values", "values_items")
def split_dicts(row):
    made = split_classes((3, 4, 5, 6, 7, 2))
    kept = [vars(o) for o in made]
    contents = [list(d.values()) for d in kept]
    found = {}
    for d, values in zip(kept, contents):
        for offset in range(16, dict.__basicsize__, 8):
            if offset == row["dict_keys"]:
                continue
            inside = read_most(u64(id(d) + offset), 128).find(items_at(values))
            if inside >= 0:
                found.setdefault((offset, inside), []).append(d)
    if len(found) != 1:
        raise Unproved("dicts of instances do not agree where their values are: %s" % sorted(found))
    ((where, inside),) = found
    other = split_classes((2, 5, 8, 3, 6))
    dicts = [vars(o) for o in other]

    def right(d):
        return lambda at: read_most(u64(id(d) + at) + inside, len(d) * WORD) == items_at(d.values())

    combined = [lambda at, d=d: u64(id(d) + at) == 0 for d in ({"a": 1}, {1: 2}, dict(x=3))]
    row.prove("dict_values", where, [right(d) for d in dicts] + combined)

    def within(d):
        return lambda at: read_most(u64(id(d) + where) + at, len(d) * WORD) == items_at(d.values())

    row.prove("values_items", inside, [within(d) for d in dicts])


@learns("managed_dict", "managed_values")
def managed(row):
    made = split_classes((3, 4, 5, 6, 7, 2, 8, 9))
    kept = [vars(o) for o in made]
    row.find("managed_dict", [(id(o), id(d)) for o, d in zip(made, kept)], low=-64, high=0)
    at, inside = row["managed_dict"], row["values_items"]
    fresh_ones = split_classes((3, 4, 5, 6, 7, 2))

    def leads(o, n):
        expected = items_at([getattr(o, "a%d" % i) for i in range(n)])
        return lambda offset: read_most(u64(id(o) + offset) + inside, n * WORD) == expected

    offsets = [offset for offset in range(-64, 0, 8) if offset != at]
    row.search("managed_values", [leads(o, n) for o, n in zip(fresh_ones, (3, 4, 5, 6, 7, 2))], offsets)


@learns("values_embedded", "values_valid", "values_capacity")
def embedded_values(row):
    """From 3.13 on the values of an instance stand behind it, with bytes before them that say so."""
    inside = row["values_items"]

    def values_of(o):
        """Where its inline values begin; None where it has none."""
        first = items_at([o.a0, o.a1])
        start = type(o).__basicsize__
        found = read_most(id(o) + start, 64).find(first)
        return None if found < 0 else id(o) + start + found - inside

    made = split_classes((3, 4, 5, 6, 7, 2))
    heads = [values_of(o) for o in made]
    if None in heads:
        raise Unproved("instances have no values of their own behind them")
    # valid: until the instance gets another dict
    gone = split_classes((3, 4, 5, 6, 2, 7))
    before = [values_of(o) for o in gone]
    for o in gone:
        o.__dict__ = {"other": 1}
    valid, invalid = [(h, 1) for h in heads], [(h, 0) for h in before]
    row.find("values_valid", mix(valid, invalid), high=inside, width=1)
    # embedded: no longer where a dict took the values away with it
    dicts = [vars(o) for o in split_classes((4, 5, 3, 6, 2, 7))]
    alone = [(u64(id(d) + row["dict_values"]), 0) for d in dicts]
    row.find("values_embedded", mix(valid, [(h, 1) for h in before], alone), high=inside, width=1)
    # capacity: each further instance of a class gets room for one less
    rows = []
    for first in (2, 3):
        cls = type("Many%d" % first, (Split,), {})
        rows.append([cls(first) for _ in range(9)])

    def shrinks(first, then, by):
        a, b = values_of(first), values_of(then)
        return lambda o: unsigned(a + o, 1) - unsigned(b + o, 1) == by and unsigned(b + o, 1) >= 4

    cases = [shrinks(some[0], some[k], k) for k in (1, 3, 5, 8) for some in rows]
    row.search("values_capacity", cases, range(inside))


@learns("values_by_dict")
def visited_by_dict(row):
    """Does the collector meet values that stand in an instance through its dict, once it has one?"""
    if "values_embedded" not in row:
        row.fields["values_by_dict"] = 0  # none stand in it
        return
    answers = set()
    for o in split_classes((3, 4, 5, 6)):
        values, alone = [o.a0, o.a1], gc.get_referents(o)
        d = vars(o)
        with_dict = gc.get_referents(o)
        met = [any(v is r for r in with_dict) for v in values]
        if not all(any(v is r for r in alone) for v in values) or not any(met) and not any(r is d for r in with_dict):
            raise Unproved("gc.get_referents() does not tell the values of an instance")
        answers.add(tuple(met))
    if answers not in ({(True, True)}, {(False, False)}):
        raise Unproved("instances do not agree")
    row.fields["values_by_dict"] = int(answers == {(False, False)})


@learns("heaptype_cached_keys")
def cached_keys(row):
    """A class keeps the table of keys that its instances share."""
    made = split_classes((3, 4, 5, 6, 7, 2, 8, 9))
    kept = [vars(o) for o in made]
    at = row["dict_keys"]
    pairs = [(id(type(o)), u64(id(d) + at)) for o, d in zip(made, kept)]
    row.find("heaptype_cached_keys", pairs, low=row["type_size"], high=type.__basicsize__)


@learns("set_mask", "set_table", "set_entry_size")
def sets(row):
    made = [set(fresh(n)) for n in (2, 3, 4, 12, 40, 20, 90, 150, 5, 300)]
    empty = sys.getsizeof(set())
    large = [s for s in made if len(s) > 4]

    def table(s):
        inside = {id(o) for o in s}

        def case(offset):
            where = u64(id(s) + offset)
            return inside <= set(words(where, 4096)) and where % 8 == 0 or inside <= set(words(where, 16))

        return case

    row.search("set_table", [table(s) for s in made], range(16, set.__basicsize__, 8))
    at = row["set_table"]
    # An entry is the key and its hash; the table of a large set is all there is beside the set.
    where = [(s, u64(id(s) + at)) for s in large]

    def strides(s, start):
        inside = {id(o) for o in s}
        slots = [i * WORD for i, w in enumerate(words(start, 4096)) if w in inside]
        return lambda size: (
            sys.getsizeof(s) - empty >= size * len(s) and all(slot % size == 0 for slot in slots[: len(s)])
        )

    sizes = [size for size in (8, 16, 24, 32, 40) if all(strides(s, w)(size) for s, w in where[0::2])]
    row.prove("set_entry_size", max(sizes, default=0), [strides(s, w) for s, w in where[1::2]])
    size = row["set_entry_size"]
    pairs = [(id(s), (sys.getsizeof(s) - empty) // size - 1 if len(s) > 4 else 7) for s in made]
    row.find("set_mask", pairs, low=16, high=set.__basicsize__)


@learns(
    "deque_left_block", "deque_left_index", "deque_block_items", "deque_block_right", "deque_block_length"
)
def deques(row):
    def made(right, left):
        d = collections.deque()
        kept = fresh(right + left)
        for o in kept[:right]:
            d.append(o)
        for o in kept[right:]:
            d.appendleft(o)
        return d

    few = [made(*n) for n in ((3, 1), (2, 4), (5, 2), (4, 7), (6, 3), (3, 9), (9, 0), (1, 5))]
    many = [made(*n) for n in ((300, 2), (500, 7), (260, 4), (410, 9))]

    def block(d):
        first = items_at(list(d)[:3])
        return lambda offset: read_most(u64(id(d) + offset), 1024).find(first) >= 0

    row.search(
        "deque_left_block", [block(d) for d in few + many], range(16, collections.deque.__basicsize__, 8)
    )
    left = row["deque_left_block"]
    starts = [(d, u64(id(d) + left)) for d in few]
    inside = [(d, read_most(b, 1024).find(items_at(d))) for d, b in starts]
    # The index counts items from the block's first: place = first + 8 * index.
    found = set()
    for offset in range(16, collections.deque.__basicsize__, 8):
        firsts = {place - 8 * u64(id(d) + offset) for d, place in inside[0::2]}
        if len(firsts) == 1 and 0 <= min(firsts) <= 64:
            found.add((offset, firsts.pop()))
    if len(found) != 1:
        raise Unproved("deques do not agree where their first item is: %s" % sorted(found))
    ((offset, first),) = found
    row.prove(
        "deque_left_index",
        offset,
        [lambda at, d=d, p=p: p == first + 8 * u64(id(d) + at) for d, p in inside[1::2]],
    )
    row.prove(
        "deque_block_items",
        first,
        [lambda at, d=d, p=p: p == at + 8 * u64(id(d) + offset) for d, p in inside[1::2]],
    )

    def rows(d):
        """A block's items and the next block's, by the length of a block."""
        values = list(d)
        start = u64(id(d) + left)
        index = u64(id(d) + offset)
        return values, start, index

    def length(d):
        values, start, index = rows(d)

        def case(count):
            in_first = count - index
            return (
                in_first > 0
                and read_most(start + first + 8 * index, 8 * in_first) == items_at(values[:in_first])
                and read_most(start + first + 8 * index, 8 * in_first + 8) != items_at(values[: in_first + 1])
            )

        return case

    row.search("deque_block_length", [length(d) for d in many], range(8, 257))
    count = row["deque_block_length"]

    def right(d):
        values, start, index = rows(d)
        rest = values[count - index : 2 * count - index]
        return lambda at: read_most(u64(start + at) + first, 8 * count) == items_at(rest)

    row.search("deque_block_right", [right(d) for d in many], range(0, 16 + 8 * count + 16, 8))


@learns("iterator_sequence")
def iterators(row):
    class Old:
        def __getitem__(self, index):
            return index

    sequences = [
        fresh(3),
        tuple(fresh(4)),
        Old(),
        fresh(2),
        tuple(fresh(2)),
        Old(),
        fresh(7),
        tuple(fresh(6)),
    ]
    made = [iter(s) for s in sequences]
    row.find(
        "iterator_sequence",
        [(id(i), id(s)) for i, s in zip(made, sequences)],
        low=16,
        high=type(made[0]).__basicsize__,
    )
