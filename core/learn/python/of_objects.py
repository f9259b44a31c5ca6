"""Heads of objects, and types."""

import collections
import datetime
import decimal
import io
import sys
import types

import api
from agree import Unproved, learns, mix
from memory import Unreadable, signed, text_at, u64, unsigned, words


class Plain:
    pass


class Slotted:
    __slots__ = ("alpha", "beta", "gamma")


class Slotted2:
    __slots__ = ("delta", "epsilon", "zeta", "__weakref__", "eta")


class Outer:
    class Inner(Plain):
        pass

    class Second(dict):
        __slots__ = ("theta", "iota")

    class Third(list, Plain):
        pass

    class Fourth(Inner, Third):
        pass


STATIC = [int, str, dict, list, tuple, set, type, types.FunctionType, bytes, float, BaseException, KeyError, complex,
          bytearray, frozenset, property, types.ModuleType, types.CodeType, memoryview, range, slice]  # fmt: skip
HEAP = [Plain, Outer.Inner, Slotted, Outer.Second, Slotted2, Outer.Third, Outer, Outer.Fourth]
OTHERS = [collections.deque, collections.OrderedDict, collections.defaultdict, datetime.datetime, datetime.date,
          io.BytesIO, decimal.Decimal, io.StringIO]  # fmt: skip
TYPES = STATIC + HEAP + OTHERS
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
TYPE_SPAN = type.__basicsize__  # sizeof(PyHeapTypeObject)

SMALL = [
    1.5,
    "abc",
    (),
    [1],
    {},
    {1},
    b"x",
    int,
    len,
    Plain(),
    lambda: 0,
    2j,
    Slotted(),
    sys,
    range(3),
    iter([]),
]


@learns("object_refcount", "refcount_size", "object_type", "object_size")
def heads(row):
    row.find("object_type", [(id(o), id(type(o))) for o in SMALL], high=32)

    def counts(o):
        def case(offset):
            before = signed(id(o) + offset, 4)
            more = [o] * 77
            return signed(id(o) + offset, 4) - before == len(more)

        return case

    row.search(
        "object_refcount",
        [counts(o) for o in ([1], {1: 2}, Plain(), Slotted(), bytearray(b"x"), {2})],
        range(0, 24, 4),
    )
    # Behind a count of four bytes stand flags, which objects of the interpreter itself have.
    at = row["object_refcount"]
    beside = [
        o for o in (int, str, dict, list, tuple, None, True, type, (), "", b"") if u64(id(o) + at) >> 32
    ]
    size = 4 if beside else 8

    def few(o):
        return lambda n: 0 < unsigned(id(o) + at, n) <= sys.getrefcount(o)

    cases = [few(o) for o in ([], {}, Plain(), {3})]
    row.prove("refcount_size", size, cases)
    tuples = [tuple(object() for _ in range(n)) for n in (3, 11, 7, 19, 2, 301)]
    lists = [[object()] * n for n in (5, 13, 8, 21)]
    row.find("object_size", [(id(t), len(t)) for t in tuples + lists], high=32)


@learns("type_name", "type_basicsize", "type_itemsize", "type_flags", "type_base", "type_bases", "type_mro",
        "type_dictoffset", "type_weaklistoffset")  # fmt: skip
def types_in_general(row):
    def named(cls):
        full = (
            cls.__name__
            if cls.__module__ == "builtins" or cls in HEAP
            else cls.__module__ + "." + cls.__name__
        )
        return lambda offset: text_at(u64(id(cls) + offset)) == full.encode()

    row.search("type_name", [named(cls) for cls in STATIC[:12] + [collections.deque, Plain, datetime.date, Slotted]],
               range(0, TYPE_SPAN, 8))  # fmt: skip

    def values(name, get, **more):
        row.find(name, [(id(cls), get(cls)) for cls in TYPES], high=TYPE_SPAN, **more)

    values("type_basicsize", lambda cls: cls.__basicsize__)
    sized = [cls for cls in TYPES if cls.__itemsize__]
    unsized = [cls for cls in TYPES if not cls.__itemsize__]
    items = mix([(id(cls), cls.__itemsize__) for cls in sized], [(id(cls), 0) for cls in unsized])
    row.find("type_itemsize", items, high=TYPE_SPAN)
    values("type_flags", lambda cls: cls.__flags__)
    values("type_base", lambda cls: id(cls.__base__))
    values("type_dictoffset", lambda cls: cls.__dictoffset__, sign=True)
    values("type_weaklistoffset", lambda cls: cls.__weakrefoffset__, sign=True)
    # The types of the interpreter itself keep these elsewhere from 3.12 on.
    for name, get in (("type_bases", lambda cls: cls.__bases__), ("type_mro", lambda cls: cls.__mro__)):
        row.find(name, [(id(cls), id(get(cls))) for cls in HEAP], high=TYPE_SPAN)


@learns("mappingproxy_mapping", "type_dict")
def type_dicts(row):
    dicts = [{"k%d" % i: i} for i in range(8)]
    proxies = [types.MappingProxyType(d) for d in dicts]
    row.find("mappingproxy_mapping", [(id(p), id(d)) for p, d in zip(proxies, dicts)], low=16, high=32)
    at = row["mappingproxy_mapping"]
    made = []
    for cls in HEAP:
        proxy = cls.__dict__
        made.append((id(cls), u64(id(proxy) + at)))
    row.find("type_dict", made, high=TYPE_SPAN)


@learns("type_size")
def type_size(row):
    """A heap type's tp_as_async and the like lead into the rest of the very struct: the first, to its beginning."""

    def inside(cls):
        return {w - id(cls) for w in words(id(cls), TYPE_SPAN // 8) if 0 < w - id(cls) < TYPE_SPAN}

    lowest = {min(inside(cls)) for cls in HEAP[0::2]}
    if len(lowest) != 1:
        raise Unproved("heap types do not agree where their second part begins")
    row.prove("type_size", lowest.pop(), [lambda at, cls=cls: min(inside(cls)) == at for cls in HEAP[1::2]])


@learns("heaptype_name", "heaptype_qualname", "heaptype_module")
def heap_types(row):
    made = [type("Made%d" % i, (Plain,), {"__qualname__": "Some.Made%d" % i}) for i in range(8)]
    span = {"low": row["type_size"], "high": TYPE_SPAN}
    row.find("heaptype_name", [(id(cls), id(cls.__name__)) for cls in made + HEAP], **span)
    row.find("heaptype_qualname", [(id(cls), id(cls.__qualname__)) for cls in made + HEAP], **span)
    # Types that C modules made with PyType_FromModuleAndSpec() know their module; PyType_GetModule() tells it.
    pairs = []
    for cls in _all_types():
        if cls.__flags__ & HEAP_TYPE:
            try:
                pairs.append((id(cls), api.address("PyType_GetModule", cls)))
            except TypeError:
                pairs.append((id(cls), 0))
    free = [pair for pair in pairs if not pair[1]]
    by_module = {}
    for pair in pairs:
        if pair[1]:
            by_module.setdefault(pair[1], []).append(pair)
    owned = [pair for some in zip(*by_module.values()) for pair in some] if by_module else []
    row.find("heaptype_module", mix(owned, free[:16]), **span)


def _all_types():
    seen, todo = [], [object]
    known = set()
    while todo:
        cls = todo.pop()
        if id(cls) in known:
            continue
        known.add(id(cls))
        seen.append(cls)
        todo += type.__subclasses__(cls)
    return seen


@learns("type_members", "member_name", "member_type", "member_offset", "member_size")
def members(row):
    """Slots: tp_members leads to one PyMemberDef each, in the order of their names."""
    T_OBJECT_EX = 16  # Include/structmember.h; Py_T_OBJECT_EX from 3.12 on
    classes = [
        type("With%d" % n, (), {"__slots__": tuple("s%02d" % i for i in range(n))}) for n in (2, 5, 3, 4)
    ]

    def table(cls):
        return lambda offset: text_at(u64(u64(id(cls) + offset))) == b"s00"

    row.search("type_members", [table(cls) for cls in classes], range(0, row["type_size"], 8))
    at = row["type_members"]

    def second(cls):
        first = u64(id(cls) + at)
        return lambda size: text_at(u64(first + size)) == b"s01"

    row.search("member_size", [second(cls) for cls in classes], range(8, 128, 8))
    size = row["member_size"]
    entries = [(cls, u64(id(cls) + at) + size * i, i) for cls in classes for i in range(len(cls.__slots__))]
    row.search("member_name", [lambda o, e=e, i=i: text_at(u64(e + o)) == b"s%02d" % i for _, e, i in entries],
               range(0, size, 8))  # fmt: skip

    def leads(cls, entry, index):
        def case(offset):
            value, instance = object(), cls()
            setattr(instance, cls.__slots__[index], value)
            inside = u64(entry + offset)
            return 0 < inside < cls.__basicsize__ and u64(id(instance) + inside) == id(value)

        return case

    row.search("member_offset", [leads(*e) for e in entries], range(0, size, 8))
    # Other kinds of members have other types; those of slots are the same everywhere.
    cases = [lambda o, e=e: signed(e + o, 4) == T_OBJECT_EX for _, e, _ in entries]
    taken = (row["member_offset"], row["member_name"])
    free = [o for o in range(0, size, 4) if o & ~7 not in taken]

    def flags_of(instance_type, name, kind):
        """A member of a C type whose kind is known."""

        def case(offset):
            first = u64(id(instance_type) + at)
            for i in range(64):
                entry = first + i * size
                if text_at(u64(entry + row["member_name"])) == name:
                    return signed(entry + offset, 4) == kind
            raise Unreadable("no such member")

        return case

    T_INT, T_OBJECT, T_DOUBLE = 1, 6, 4
    cases += [flags_of(types.CodeType, b"co_argcount", T_INT), flags_of(complex, b"real", T_DOUBLE),
              flags_of(types.CodeType, b"co_flags", T_INT), flags_of(types.CodeType, b"co_name", T_OBJECT)]  # fmt: skip
    row.search("member_type", cases, free)
