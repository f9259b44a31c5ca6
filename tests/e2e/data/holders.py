"""Holds tensors in known ways, prints where each one's memory is, and waits. Run by test_who_holds.py."""

import collections
import functools
import gc
import json
import os
import sys
import threading
import time
import weakref

import torch

DEVICE = sys.argv[1]
where = {}
SIDE = 300


def big(name=None):
    tensor = torch.ones(SIDE, SIDE, device=DEVICE)
    if name:
        where[name] = tensor.data_ptr()
    return tensor


class Plain:
    pass


class Slots:
    __slots__ = ("kept",)


class WithClassAttribute:
    shared = big("class_attribute")


class Method:
    def __init__(self):
        self.kept = big("bound_method")

    def call(self):
        pass


class Child(Plain):
    @property
    def cached(self):
        return self.__dict__["cache"]


def with_default(value=big("default"), *, named=big("keyword_default")):
    pass


def generate():
    inside = big("generator")
    yield 1
    del inside


async def wait():
    inside = big("coroutine")
    await asyncio_future()
    del inside


class asyncio_future:
    def __await__(self):
        yield 1


def raise_it():
    lost = big("traceback")
    raise ValueError(lost.shape)


def make_closure():
    captured = big("closure")
    return lambda: captured


def make_hook(scale):
    return lambda gradient: gradient * scale[0, 0]


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        doubled = value * 2
        where["context_saved"] = doubled.data_ptr()
        ctx.save_for_backward(doubled)
        ctx.extra = big("context_attribute")
        return doubled + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient


gc.disable()

# --- names and containers
a_global = big("global")
first_name = second_name = big("two_names")
a_list = [1, big("list_item")]
twice_in_list = [big("twice_in_list")] * 2
a_tuple = (1, (2, big("nested_tuple")))
a_dict = {"kept": big("dict_key")}
int_dict = {7: big("int_key")}
key_itself = {big("dict_key_itself"): 1}
ordered = collections.OrderedDict(kept=big("ordered_dict"))
defaults = collections.defaultdict(list)
defaults["x"].append(big("defaultdict"))
a_deque = collections.deque([1, 2, big("deque")])
a_set = {big("set")}
a_frozenset = frozenset([big("frozenset")])
nested = {"a": [{"b": (0, big("deeply_nested"))}]}
pair = collections.namedtuple("Pair", "left right")(1, big("namedtuple"))
iterator = iter([big("iterator_made")])
where["iterator"] = where.pop("iterator_made")

# --- objects
plain = Plain()
plain.kept = big("attribute")
slots = Slots()
slots.kept = big("slot")
child = Child()
child.cache = {"acts": [big("attribute_dict_list")]}
chained = Plain()
chained.inner = Plain()
chained.inner.kept = big("attribute_of_attribute")
bound = Method().call
partial = functools.partial(print, big("partial"))
on_tensor = torch.zeros(3)
on_tensor.note = big("attribute_of_tensor")
with_default.note = big("function_attribute")
weak = weakref.ref(a_global)

# --- code
closure = make_closure()
generator = generate()
next(generator)
coroutine = wait()
coroutine.send(None)
try:
    raise_it()
except ValueError as error:
    kept_error = error

# --- storages, views
base = big("view")
view = base[5:]
del base
whole = big("detached")
detached = whole.detach()
del whole
of_data = big("data_attribute").data
storage = big("untyped_storage").untyped_storage()
typed = big("typed_storage").storage() if hasattr(torch.Tensor, "storage") else None
typed_with_dict = big("typed_storage_with_dict").storage()
vars(typed_with_dict)  # its attributes are in a dict of their own from here on
first = big("two_views")
top, bottom = first[:10], first[10:]
del first

# --- autograd
weights = torch.randn(SIDE, SIDE, device=DEVICE, requires_grad=True)
saved_input = big("saved_by_mm")
loss = (saved_input @ weights).sum()
del saved_input
output = torch.exp(weights * 2)
where["saved_output"] = output.data_ptr()
chain = output.sum()
del output
leaf = big("leaf_of_graph").requires_grad_()
from_leaf = leaf + 1
del leaf
parts = [torch.randn(SIDE, SIDE, device=DEVICE, requires_grad=True) for _ in range(2)]
scaled = Scale.apply(weights)
hooked = torch.randn(4, 4, device=DEVICE, requires_grad=True)
hooked.register_hook(make_hook(big("hook")))
grad_fn_only = (big("grad_fn_object") @ weights).grad_fn
weights.grad = big("grad_of_global")

net = torch.nn.Sequential(torch.nn.Linear(SIDE, SIDE, device=DEVICE), torch.nn.ReLU())
net.register_buffer("running", big("buffer"))
optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
net(torch.ones(2, SIDE, device=DEVICE)).sum().backward()
optimizer.step()
where["parameter"] = net[0].weight.data_ptr()
where["grad"] = net[0].weight.grad.data_ptr()
where["optimizer_state"] = optimizer.state[net[0].weight]["exp_avg"].data_ptr()

# --- nobody, as far as Python's names go
garbage = [big("garbage")]
garbage.append(garbage)
del garbage


def in_thread(started):
    local = big("thread_local")
    started.set()
    time.sleep(1000)
    del local


started = threading.Event()
threading.Thread(target=in_thread, args=(started,), daemon=True).start()
started.wait()


def last(argument, *rest, **named):
    # malloc() maps what is as large as this and unmaps it when it is freed: the address is of nothing then
    rebound = torch.empty(64 << 20, dtype=torch.uint8)
    stale = rebound.data_ptr()
    rebound = big("rebound")
    cell = big("cell")

    def inner():
        return cell

    print(json.dumps({"pid": os.getpid(), "where": where, "stale": stale}), flush=True)
    time.sleep(1000)
    del rebound, inner


def middle():
    held = big("caller_local")
    last(big("argument"), big("star_argument"), named=big("keyword_argument"))
    del held


middle()
