"""Random graphs of objects around tensors, whose roots are known: object_graphs.py SEED GRAPHS [busy].

Each graph has one tensor. Objects that hold it, or that hold such objects, are made of random kinds; some refer to each other in
cycles, some hold nothing (weak references). Then 1 to 8 variables are made to refer to some of them: globals, locals of
threads, their arguments. A variable keeps the tensor where a way of strong references leads from it to the tensor: that is
reckoned here from what was made, and printed with the tensors' addresses as one line of JSON. `busy`: threads that make and drop
objects go on meanwhile.
"""

import _thread
import collections
import contextvars
import functools
import gc
import itertools
import json
import os
import queue
import random
import sys
import threading
import types
import weakref

import torch

SIDE = 16
MOST_THREADS = 40
roots_module = types.ModuleType("holding_module")
sys.modules["holding_module"] = roots_module
local_values = threading.local()


class Node:
    """What was made: the object, and the nodes that it holds. Mutable ones can be given more."""

    def __init__(self, value, holds=(), hold=None, weak=False):
        self.value = value
        self.holds = [] if weak else list(holds)
        self.hold = hold  # hold(value): makes it hold another one
        self.is_target = False


class Plain:
    def method(self):
        return None


class Slotted:
    __slots__ = ("first", "second", "__weakref__")


class Iterated:
    def __init__(self, items):
        self.items = items


KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


def tensors(nodes):
    return [node for node in nodes if isinstance(node.value, torch.Tensor)]


# --- containers -----------------------------------------------------------------------------------------------


@kind
def a_list(nodes):
    made = [node.value for node in nodes]
    return Node(made, nodes, made.append)


@kind
def a_list_twice(nodes):
    made = [nodes[0].value, nodes[0].value]
    return Node(made, nodes[:1], made.append)


@kind
def a_tuple(nodes):
    return Node(tuple(node.value for node in nodes), nodes)


@kind
def a_dict(nodes):
    made = {f"key_{number}": node.value for number, node in enumerate(nodes)}
    return Node(made, nodes, lambda value: made.__setitem__(len(made), value))


@kind
def a_dict_of_numbers(nodes):
    made = {number: node.value for number, node in enumerate(nodes)}
    return Node(made, nodes, lambda value: made.__setitem__(len(made), value))


@kind
def a_key(nodes):
    hashable = [node for node in nodes if isinstance(node.value, (torch.Tensor, Plain, torch.nn.Module))]
    return Node({node.value: 1 for node in hashable}, hashable) if hashable else None


@kind
def a_set(nodes):
    hashable = [node for node in nodes if isinstance(node.value, (torch.Tensor, Plain, torch.nn.Module))]
    return Node({node.value for node in hashable}, hashable) if hashable else None


@kind
def an_ordered_dict(nodes):
    return Node(collections.OrderedDict((number, node.value) for number, node in enumerate(nodes)), nodes)


@kind
def a_default_dict(nodes):
    made = collections.defaultdict(list)
    for node in nodes:
        made["all"].append(node.value)
    return Node(made, nodes, made["all"].append)


@kind
def a_deque(nodes):
    made = collections.deque(node.value for node in nodes)
    return Node(made, nodes, made.append)


@kind
def a_long_list(nodes):
    made = [None] * 50 + [node.value for node in nodes] + [1] * 50
    return Node(made, nodes, made.append)


@kind
def a_chain_map(nodes):
    return Node(collections.ChainMap({}, {number: node.value for number, node in enumerate(nodes)}), nodes)


# --- instances ------------------------------------------------------------------------------------------------


@kind
def an_instance(nodes):
    made = Plain()
    for number, node in enumerate(nodes):
        setattr(made, f"attribute_{number}", node.value)
    return Node(made, nodes, lambda value: setattr(made, f"more_{len(vars(made))}", value))


@kind
def a_dict_of_an_instance(nodes):
    made = Plain()
    for number, node in enumerate(nodes):
        setattr(made, f"attribute_{number}", node.value)
    return Node(vars(made), nodes)


@kind
def a_slotted_instance(nodes):
    made = Slotted()
    made.first = nodes[0].value
    if len(nodes) > 1:
        made.second = nodes[1].value
    return Node(made, nodes[:2])


@kind
def a_namespace(nodes):
    made = types.SimpleNamespace(**{f"name_{number}": node.value for number, node in enumerate(nodes)})
    return Node(made, nodes, lambda value: setattr(made, f"more_{len(vars(made))}", value))


@kind
def a_module(nodes):
    made = torch.nn.Module()
    for number, node in enumerate(nodes):
        if isinstance(node.value, torch.nn.Module):
            made.add_module(f"child_{number}", node.value)
        elif isinstance(node.value, torch.Tensor):
            made.register_buffer(f"buffer_{number}", node.value)
        else:
            setattr(made, f"attribute_{number}", node.value)
    return Node(made, nodes, lambda value: made.__dict__.setdefault(f"more_{len(vars(made))}", value))


@kind
def a_shared_submodule(nodes):
    shared, outer = torch.nn.Module(), torch.nn.Module()
    shared.kept = nodes[0].value
    outer.encoder, outer.decoder = torch.nn.Sequential(shared), torch.nn.Sequential(shared)
    return Node(outer, nodes[:1])


@kind
def a_class(nodes):
    return Node(type("Holding", (), {"kept": nodes[0].value}), nodes[:1])


@kind
def a_named_tuple(nodes):
    return Node(collections.namedtuple("Pair", "first second")(nodes[0].value, nodes[-1].value), [nodes[0], nodes[-1]])


# --- functions ------------------------------------------------------------------------------------------------


@kind
def a_closure(nodes):
    values = [node.value for node in nodes]
    return Node(lambda: values, nodes)


@kind
def two_functions_of_a_cell(nodes):
    value = nodes[0].value

    def read():
        return value

    def write(new):
        nonlocal value
        value = new

    return Node([read, write], nodes[:1])


@kind
def defaults(nodes):
    def function(first=nodes[0].value, *, second=nodes[-1].value):
        return first, second

    return Node(function, [nodes[0], nodes[-1]])


@kind
def a_function_with_attributes(nodes):
    def function():
        pass

    function.kept = nodes[0].value
    return Node(function, nodes[:1])


@kind
def a_bound_method(nodes):
    made = Plain()
    made.kept = nodes[0].value
    return Node(made.method, nodes[:1])


@kind
def a_builtin_method(nodes):
    return Node([node.value for node in nodes].append, nodes)


@kind
def a_partial(nodes):
    return Node(functools.partial(print, *(node.value for node in nodes), key=nodes[0].value), nodes)


@kind
def a_cache(nodes):
    values = [node.value for node in nodes]

    @functools.lru_cache
    def cached(number):
        return values.pop()

    for number in range(len(values)):
        cached(number)
    return Node(cached, nodes)


@kind
def a_property(nodes):
    value = nodes[0].value
    return Node(property(lambda self: value), nodes[:1])


# --- frames that do not run -------------------------------------------------------------------------------------


def generate(values):
    yield values
    yield values


@kind
def a_generator(nodes):
    made = generate([node.value for node in nodes])
    next(made)
    return Node(made, nodes)


@kind
def a_generator_not_begun(nodes):
    return Node(generate([node.value for node in nodes]), nodes)


def delegate(inner):
    yield from inner


@kind
def a_delegating_generator(nodes):
    made = delegate(generate([node.value for node in nodes]))
    next(made)
    return Node(made, nodes)


@types.coroutine
def pause():
    yield


@kind
def a_coroutine(nodes):
    async def wait(values):
        await pause()
        return values

    made = wait([node.value for node in nodes])
    made.send(None)
    return Node(made, nodes)


@kind
def an_async_generator(nodes):
    async def generate_async(values):
        yield values
        yield values

    made = generate_async([node.value for node in nodes])
    try:
        made.__anext__().send(None)
    except StopIteration:
        pass
    return Node(made, nodes)


def fail(lost):
    raise ValueError(len(lost))


def fail_alone(given, made):
    try:
        fail(given.pop())
    except ValueError as error:
        made.put(error)


@kind
def a_traceback(nodes):
    """In a thread of its own: its frames would hold those that called them, and these the whole graph."""
    made = queue.SimpleQueue()
    _thread.start_new_thread(fail_alone, ([[node.value for node in nodes]], made))
    return Node(made.get(), nodes)


@kind
def an_exception(nodes):
    return Node(RuntimeError(*(node.value for node in nodes)), nodes)


# --- iterators and other small things -----------------------------------------------------------------------------


@kind
def an_iterator(nodes):
    values = [node.value for node in nodes]
    make = random.choice([iter, reversed, enumerate, zip, lambda items: map(len, items), lambda items: filter(None, items),
                          itertools.chain, itertools.cycle, lambda items: itertools.islice(items, 1),
                          lambda items: itertools.repeat(items)])  # fmt: skip
    return Node(make(values), nodes)


@kind
def a_view_of_a_dict(nodes):
    values = {number: node.value for number, node in enumerate(nodes)}
    return Node(random.choice([values.values, values.items, values.keys])(), nodes)


@kind
def a_mapping_proxy(nodes):
    return Node(types.MappingProxyType({number: node.value for number, node in enumerate(nodes)}), nodes)


@kind
def a_context(nodes):
    variable = contextvars.ContextVar("variable")
    made = contextvars.Context()
    made.run(variable.set, [node.value for node in nodes])
    return Node(made, nodes)


@kind
def a_weak_reference(nodes):
    able = [node for node in nodes if isinstance(node.value, (torch.Tensor, Plain, torch.nn.Module, Slotted))]
    return Node(weakref.ref(able[0].value), able[:1], weak=True) if able else None


@kind
def a_weak_dict(nodes):
    made = weakref.WeakValueDictionary()
    for node in nodes:
        if isinstance(node.value, (torch.Tensor, Plain, torch.nn.Module)):
            made[len(made)] = node.value
    return Node(made, nodes, weak=True)


@kind
def a_callback(nodes):
    values, alive = [node.value for node in nodes], Plain()
    roots_module.__dict__.setdefault("alive", []).append(alive)
    return Node(weakref.ref(alive, lambda _: values), nodes)


@kind
def a_number(nodes):
    return Node([len(nodes), "text"], nodes, weak=True)


# --- PyTorch's ----------------------------------------------------------------------------------------------------


@kind
def a_view(nodes):
    of = [node for node in nodes if node.is_target]  # of another tensor it would hold the memory alone
    return Node(of[0].value.detach().view(-1)[1:], of) if of else None


@kind
def a_graph(nodes):
    of = [node for node in tensors(nodes) if node.value.requires_grad]
    return Node(sum((node.value * 2).sum() for node in of), of) if of else None


@kind
def a_graph_that_saves(nodes):
    of = tensors(nodes)
    weight = torch.ones((), requires_grad=True)
    return Node(sum((node.value * weight).sum() for node in of), of) if of else None


@kind
def two_results_of_a_graph(nodes):
    of = tensors(nodes)
    if not of:
        return None
    middle = (of[0].value * torch.ones((), requires_grad=True)).exp()
    return Node([(middle * 2).sum(), (middle * 3).sum()], of[:1])


@kind
def a_node_of_a_graph(nodes):
    of = tensors(nodes)
    return Node((of[0].value * torch.ones((), requires_grad=True)).grad_fn, of[:1]) if of else None


@kind
def a_gradient(nodes):
    of = [node for node in nodes if node.is_target]
    if not of:
        return None
    made = torch.nn.Parameter(torch.zeros(SIDE, SIDE))
    made.grad = of[0].value.detach()
    return Node(made, of)


@kind
def a_hook(nodes):
    made, values = torch.zeros(1, requires_grad=True), [node.value for node in nodes]
    made.register_hook(lambda gradient: values and None)
    return Node(made, nodes)


@kind
def a_hook_of_a_module(nodes):
    made, values = torch.nn.Module(), [node.value for node in nodes]
    made.register_forward_hook(lambda *arguments: values and None)
    return Node(made, nodes)


@kind
def an_attribute_of_a_tensor(nodes):
    made = torch.zeros(1)
    made.kept = nodes[0].value
    return Node(made, nodes[:1])


@kind
def an_optimizers_state(nodes):
    made = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    made.state["kept"] = nodes[0].value
    return Node(made, nodes[:1], lambda value: made.__dict__.setdefault(f"more_{len(vars(made))}", value))


# --- roots --------------------------------------------------------------------------------------------------------


threads = []


def named(function, name):
    code = function.__code__
    changes = {"co_name": name, **({"co_qualname": name} if sys.version_info >= (3, 11) else {})}
    return types.FunctionType(code.replace(**changes), function.__globals__, name, None, function.__closure__)


def stand(stands):
    stands.set()
    threading.Event().wait()


def global_root(name, node):
    globals()[name] = node.value
    return [["global", "__main__", name]]


def module_root(name, node):
    setattr(roots_module, name, node.value)
    return [["global", "holding_module", name]]


def start(make):
    """Until the thread stands where it stays."""
    stands = threading.Event()
    threads.append(stands)
    make(stands)
    stands.wait()


def local_root(name, node):
    """A local variable: what it was started with it takes from a list that is empty then."""
    given = [node.value]

    def hold(given, stands):
        held = given.pop()
        stand(stands)
        return held

    start(lambda stands: _thread.start_new_thread(named(hold, name), (given, stands)))
    return [["local", "held", name]]


def cell_root(name, node):
    """A variable that a function within uses: the frame and the function hold its cell."""
    given = [node.value]

    def hold(given, stands):
        held = given.pop()

        def inner():
            return held

        stand(stands)
        return inner

    start(lambda stands: _thread.start_new_thread(named(hold, name), (given, stands)))
    return [["local", "held", name], ["local", "inner", name]]


def thread_root(name, node):
    """An argument of a thread: it is a local, and C has the tuple of arguments as long as the thread lives."""

    def hold(held, stands):
        stand(stands)

    start(lambda stands: _thread.start_new_thread(named(hold, name), (node.value, stands)))
    return [["local", "held", name], ["thread", "start of thread"]]


def thread_object_root(name, node):
    """threading's Thread has the arguments, and is held from where threading keeps and runs it."""

    def hold(held, stands):
        stand(stands)

    def make(stands):
        threading.Thread(target=named(hold, name), args=(node.value, stands), daemon=True).start()

    start(make)
    return [["local", "held", name], ["thread", "start of thread"], ["global", "threading", "_active"]]


# Thread's own functions: whether a call keeps its arguments, and a local counts, differs between versions of Python
THREADING = [["local", "self", "run"], ["local", "self", "_bootstrap_inner"], ["local", "self", "_bootstrap"],
             ["operand", "run"], ["operand", "_bootstrap_inner"], ["operand", "_bootstrap"],
             ["global", "threading", "_DeleteDummyThreadOnDel"]]  # fmt: skip


def thread_local_root(name, node):
    given = [node.value]

    def hold(given, stands):
        setattr(local_values, "kept", given.pop())
        stand(stands)

    start(lambda stands: _thread.start_new_thread(named(hold, name), (given, stands)))
    return [["global", "__main__", "local_values"]]


def exception_root(name, node):
    """An exception that is being handled."""
    given = [node.value]

    def hold(given, stands):
        try:
            raise KeyError(given.pop())
        except KeyError:
            stand(stands)

    start(lambda stands: _thread.start_new_thread(named(hold, name), (given, stands)))
    return [["thread", "exception being handled"]]


def context_root(name, node):
    given = [node.value]

    def hold(given, stands):
        variable = contextvars.ContextVar("variable")
        variable.set(given.pop())
        del variable
        stand(stands)

    start(lambda stands: _thread.start_new_thread(named(hold, name), (given, stands)))
    return [["thread", "context"]]


PLAIN_ROOTS = [global_root, global_root, module_root]
THREAD_ROOTS = [local_root, cell_root, thread_root, thread_object_root, thread_local_root, exception_root, context_root]


# --- a graph --------------------------------------------------------------------------------------------------------


def reaches(node, target, seen):
    if node is target:
        return True
    if id(node) in seen:
        return False
    seen.add(id(node))
    return any(reaches(held, target, seen) for held in node.holds)


def build(number, chance):
    tensor = torch.ones(SIDE, SIDE, requires_grad=chance.random() < 0.5)
    target = Node(tensor)
    target.is_target = True
    nodes, story = [target], [["a_tensor", []]]
    for _ in range(chance.randint(0, 10)):
        # what was made last is held more often, so that ways are long
        held = [nodes[-1] if chance.random() < 0.4 else chance.choice(nodes) for _ in range(chance.randint(1, 3))]
        name = chance.choice(list(KINDS))
        made = KINDS[name](list({id(node): node for node in held}.values()))
        if made:
            nodes.append(made)
            story.append([name, [nodes.index(node) for node in made.holds]])
    for _ in range(chance.randint(0, 3)):  # cycles, and further ways
        by, held = chance.choice(nodes), chance.choice(nodes)
        if by.hold:
            by.hold(held.value)
            by.holds.append(held)
            story.append([f"{nodes.index(by)} holds", [nodes.index(held)]])
    expected, possible = [], []
    for count in range(chance.randint(1, 8)):
        node = chance.choice(nodes[-4:]) if chance.random() < 0.6 else chance.choice(nodes)
        kinds = THREAD_ROOTS if chance.random() < 0.2 and len(threads) < MOST_THREADS else PLAIN_ROOTS
        made = chance.choice(kinds)(f"held_{number}_{count}", node)
        if reaches(node, target, set()):
            # one name of a module is one root, whatever leads to it
            story.append([f"{count} {made[0]}", [nodes.index(node)]])
            expected += [root for root in made if root[0] != "global" or root not in expected]
            possible += THREADING if ["global", "threading", "_active"] in made else []
    return {"address": tensor.data_ptr(), "roots": expected, "possible": possible, "story": story}


# --- threads that go on -----------------------------------------------------------------------------------------------


def churn(end):
    kept = []
    while not end.is_set():
        kept.append([Plain(), {"some": torch.ones(8)}, (len(kept),)])
        if len(kept) > 500:
            del kept[:400]
            torch.ones(4, 4, requires_grad=True).sum().backward()


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(seed)
    random.seed(seed)
    gc.disable()
    graphs = [build(number, chance) for number in range(count)]
    # kinds and functions above are done with what they were given
    gc.collect()
    end = threading.Event()
    busy = [threading.Thread(target=churn, args=(end,), daemon=True) for _ in range(2 if "busy" in sys.argv else 0)]
    for thread in busy:
        thread.start()
    print(json.dumps({"pid": os.getpid(), "graphs": [graph for graph in graphs if graph["roots"]]}), flush=True)
    sys.stdin.readline()
    os._exit(0)


if __name__ == "__main__":
    main()
