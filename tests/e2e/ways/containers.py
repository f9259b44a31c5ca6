"""Containers."""

import bisect
import collections
import dataclasses
import enum
import heapq
import itertools
import queue
import types
import weakref

from hold import big, mark, way


@way("{g}")
def a_global():
    return big()


@way("{g}", "global 'second_name' of module containers")
def two_names():
    tensor = globals()["second_name"] = big()
    return tensor


@way("item 1 of list: {g}")
def list_item():
    return [1, big()]


@way("item 0 of list: {g}", "item 1 of list: {g}")
def twice_in_a_list():
    return [big()] * 2


@way("item 1 of list: {g}")
def list_after_removals():
    held = [big() for _ in range(9)]
    del held[1:8]
    return held


@way("item 1 of tuple: item 1 of tuple: {g}")
def nested_tuple():
    return 1, (2, big())


@way("key 'kept' of dict: {g}")
def dict_value():
    return {"kept": big()}


@way("key '7' of dict: {g}")
def dict_value_by_number():
    return {7: big()}


@way("value of dict: {g}")
def dict_value_by_tuple():
    return {(0, 1): big()}


@way("a key itself of dict: {g}")
def dict_key():
    return {big(): 1}


@way("key 'b' of dict: {g}")
def dict_after_deletions():
    held = {name: big() for name in "abc"}
    del held["a"], held["c"]
    mark(held["b"])
    return held


@way("item 1 of tuple: key 'b' of dict: item 0 of list: key 'a' of dict: {g}")
def nested_containers():
    return {"a": [{"b": (0, big())}]}


@way("item 3 of list: item 2 of tuple: item 1 of list: item 0 of tuple: {g}")
def nested_lists_and_tuples():
    return ([0, (0, 0, [0, 0, 0, big()])],)


@way("key 'kept' of OrderedDict: {g}")
def ordered_dict():
    return collections.OrderedDict(kept=big())


@way("item 0 of list: key 'x' of defaultdict: {g}")
def default_dict():
    held = collections.defaultdict(list)
    held["x"].append(big())
    return held


@way("a key itself of Counter: {g}")
def counter():
    return collections.Counter([big()])


@way("key 'kept' of dict: item 1 of list: attribute 'maps' of ChainMap: {g}")
def chain_map():
    return collections.ChainMap({}, {"kept": big()})


@way("item 2 of deque: {g}")
def deque_item():
    return collections.deque([1, 2, big()])


@way("item 150 of deque: {g}")
def deque_of_many_blocks():
    return collections.deque([*range(150), big(), *range(150)])


@way("item of set: {g}")
def set_item():
    return {big()}


@way("item of frozenset: {g}")
def frozen_set():
    return frozenset([big()])


@way("item of frozenset: a key itself of dict: {g}")
def frozen_set_as_key():
    return {frozenset([big()]): 1}


@way("item 1 of Pair: {g}")
def named_tuple():
    return collections.namedtuple("Pair", "left right")(1, big())


@way("attribute 'kept' of Record: {g}")
def data_class():
    @dataclasses.dataclass
    class Record:
        kept: object

    return Record(big())


@way("item 1 of list: attribute 'data' of UserList: {g}")
def user_list():
    return collections.UserList([1, big()])


@way("key 'kept' of dict: attribute 'data' of UserDict: {g}")
def user_dict():
    return collections.UserDict(kept=big())


@way("attribute 'kept' of SimpleNamespace: {g}")
def simple_namespace():
    return types.SimpleNamespace(kept=big())


@way("key 'kept' of dict: mapping of mappingproxy: {g}")
def mapping_proxy():
    return types.MappingProxyType({"kept": big()})


@way(
    "attribute '_value_' of Choice: {g}",
    "a key itself of dict: attribute '_value2member_map_' of class Choice: attribute '__objclass__' of Choice: {g}",
    since_314=[
        "attribute '_value_' of Choice: {g}",
        "a key itself of dict: attribute '_value2member_map_' of class Choice: attribute '__objclass__' of Choice: {g}",
        "item 0 of list: attribute '_hashable_values_' of class Choice: attribute '__objclass__' of Choice: {g}",
    ],
)
def enum_member():
    class Choice(enum.Enum):
        KEPT = big()

    return Choice.KEPT


@way("item 0 of list: sequence of list_iterator: {g}")
def list_iterator():
    return iter([big()])


@way("key 'kept' of dict: mapping of dict_values: {g}")
def dict_view():
    return {"kept": big()}.values()


@way("item 0 of list: sequence of list_iterator: item 0 of tuple: iterators of zip: {g}")
def zipped():
    return zip([big()], [1])


@way("item 0 of list: sequence of list_iterator: iterator of enumerate: {g}")
def enumerated():
    return enumerate([big()])


@way("item 0 of list: sequence of list_iterator: item 0 of tuple: iterators of map: {g}")
def mapped():
    return map(str, [big()])


@way("item 1 of list: sequence of list_iterator: source of chain: {g}")
def chained_iterators():
    return itertools.chain.from_iterable([[1], big()])


@way("element of repeat: {g}")
def repeated():
    return itertools.repeat(big())


@way("item 0 of tuple: item 0 of list: {g}")
def heap_of_tuples():
    held = []
    heapq.heappush(held, (0.5, 1, None))
    held[0] = (big(), 1)
    return held


@way("item 1 of list: {g}")
def sorted_list():
    held = [1, 3]
    bisect.insort(held, 2)
    held[1] = big()
    return held


@way("item 0 of deque: attribute 'queue' of Queue: {g}")
def a_queue():
    held = queue.Queue()
    held.put(big())
    return held


@way("item 1 of tuple: item 0 of list: attribute 'queue' of PriorityQueue: {g}")
def priority_queue():
    held = queue.PriorityQueue()
    held.put((1, big()))
    return held


class Key:
    pass


key_that_lives = Key()


@way("value of dict: attribute 'data' of WeakKeyDictionary: {g}")
def weak_key_dictionary():
    held = weakref.WeakKeyDictionary()
    held[key_that_lives] = big()
    return held


@way("{g}")
def weak_reference_is_no_holder():
    tensor = big()
    globals()["weak"] = weakref.ref(tensor)
    return tensor


@way("{g}")
def weak_value_dictionary_is_no_holder():
    tensor = big()
    globals()["weak_values"] = weakref.WeakValueDictionary(kept=tensor)
    return tensor


@way("{g}")
def weak_set_is_no_holder():
    tensor = big()
    globals()["weak_set"] = weakref.WeakSet([tensor])
    return tensor


@way("item 0 of list: {g}")
def spare_capacity_is_no_holder():
    tensor = big()
    spare = globals()["spare_list"] = [None] * 40 + [tensor]
    spare.pop()
    return [tensor]


@way("{g}")
def a_freed_list_is_no_holder():
    tensor = big()
    for _ in range(50):
        [tensor] * 60
    return tensor


@way("item 500 of list: {g}")
def one_of_many():
    held = [None] * 1000
    held[500] = big()
    return held


@way("attribute 'stop' of slice: {g}")
def slice_object():
    return slice(big())


@way("key 'kept' of dict: {g}")
def within_a_cycle():
    held = {"kept": big()}
    held["self"] = held
    return held
