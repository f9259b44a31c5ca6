"""Frames, generators, coroutines, exceptions, threads."""

import asyncio
import builtins
import concurrent.futures
import contextlib
import contextvars
import logging
import logging.handlers
import sys
import threading
import types
import warnings

from hold import big, running, stay, way


@running("local 'held' of {f}")
def local():
    held = big()
    stay()
    del held


@running("local 'held' of {f}")
def rebound():
    held = 1
    held = big()
    stay()
    del held


# until 3.10 the caller's stack keeps the arguments while it calls
@running("local 'held' of {f}", until_310=["local 'held' of {f}", "an operand of {caller}"])
def argument():
    def call(held):
        stay()
        del held

    call(big())


@running(
    "item 1 of tuple: local 'rest' of {f}",
    until_310=["item 1 of tuple: local 'rest' of {f}", "an operand of {caller}"],
)
def star_arguments():
    def call(*rest):
        stay()

    call(0, big())


@running(
    "key 'named' of dict: local 'named' of {f}",
    until_310=["key 'named' of dict: local 'named' of {f}", "an operand of {caller}"],
)
def keyword_arguments():
    def call(**named):
        stay()

    call(named=big())


def depth(more):
    return depth(more - 1) if more else stay()


@running("local 'held' of {f}")
def a_callers_local():
    held = big()
    [depth(20), stay()].append(held)


@running("local 'held' of {f}", "closure variable 'held' of cell.<locals>.inner(): local 'inner' of {f}")
def cell():
    held = big()

    def inner():
        return held

    stay()
    del inner


@running("an operand of {f}")
def operand():
    print(big(), stay())


@running("item 0 of list: an operand of {f}")
def list_under_construction():
    return [[big()], stay()]


@running(
    "item 0 of tuple: sequence of tuple_iterator: an operand of {f}",
    since_315=["item 0 of tuple: an operand of {f}"],  # a loop over a tuple has no iterator
)
def iterated():
    for _ in [big()]:
        del _
        stay()


# what makes the class holds its names too
@running("key 'kept' of dict: f_locals of Body()", some=True, classes=["plausible", "proven"])
def class_body():
    class Body:
        kept = big()
        stay()


@running(
    "key 'kept' of dict: f_locals of <module>()",
    "key 'kept' of dict: __globals__ of function: f_func of <module>()",
    "key 'kept' of dict: an operand of {caller}",
    until_310=[
        "key 'kept' of dict: f_locals of <module>()",
        "key 'kept' of dict: f_globals of <module>()",
        "key 'kept' of dict: an operand of {caller}",
    ],
    some=True,  # C's exec() holds a function that has them
    classes=["plausible", "proven"],
)
def exec_namespace():
    exec("kept = big()\nstay()", {"big": big, "stay": stay})


@running("local 'held' of {f}")
def with_statement():
    class Manager:
        def __enter__(self):
            return self.kept

        def __exit__(self, *error):
            pass

    manager = Manager()
    manager.kept = big()
    with manager as held:
        manager.kept = None
        stay()
        del held


@running(
    "local 'held' of generator managed(): attribute 'gen' of _GeneratorContextManager: self of bound method _GeneratorContextManager.__exit__: an operand of {f}",
    # the method and what it is of are two values of the stack
    since_314=["local 'held' of generator managed(): attribute 'gen' of _GeneratorContextManager: an operand of {f}"],
)
def context_manager():
    @contextlib.contextmanager
    def managed():
        held = big()
        yield
        del held

    with managed():
        stay()


@running("local 'held' of {f}")
def exception_handler():
    try:
        raise ValueError
    except ValueError:
        held = big()
        stay()
        del held


@running("item 0 of tuple: args of ValueError: exception being handled")
def exception_under_way():
    try:
        raise ValueError(big())
    except ValueError:
        stay()


@way("local 'inside' of generator generate(): {g}")
def generator():
    def generate():
        inside = big()
        yield 1
        del inside

    held = generate()
    next(held)
    return held


@way("local 'inside' of generator generate(): {g}")
def generator_that_has_not_begun():
    def generate(inside):
        yield inside

    return generate(big())


@way("local 'inside' of generator inner(): an operand of generator outer(): {g}")
def delegating_generator():
    def inner():
        inside = big()
        yield 1
        del inside

    def outer():
        yield from inner()

    held = outer()
    next(held)
    return held


@way(
    "item 0 of tuple: sequence of tuple_iterator: local '.0' of generator <genexpr>(): {g}",
    since_315=["item 0 of list: local '.0' of generator <genexpr>(): {g}"],
)
def generator_expression():
    return (item for item in [big()])


@types.coroutine
def pause():
    yield


@way("local 'inside' of coroutine wait(): {g}")
def coroutine():
    async def wait():
        inside = big()
        await pause()
        del inside

    held = wait()
    held.send(None)
    return held


@way("local 'inside' of async_generator generate(): {g}")
def async_generator():
    async def generate():
        inside = big()
        yield 1
        del inside

    held = generate()
    with contextlib.suppress(StopIteration):
        held.__anext__().send(None)
    return held


loop = asyncio.new_event_loop()


# the loop that will wake it holds it too, and what refers to that loop
@way("local 'inside' of coroutine wait(): coroutine of Task: {g}", some=True)
def pending_task():
    async def wait():
        inside = big()
        await asyncio.sleep(1000)
        del inside

    held = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    return held


@way("result of Future: {g}")
def future_result():
    held = loop.create_future()
    held.set_result(big())
    return held


@way("attribute '_result' of Future: {g}")
def executor_future():
    held = concurrent.futures.Future()
    held.set_result(big())
    return held


class Blocked:
    executor = concurrent.futures.ThreadPoolExecutor(1)
    go = threading.Event()


Blocked.executor.submit(Blocked.go.wait)


@way(
    "item 0 of tuple: attribute 'args' of _WorkItem: item 0 of list: items of SimpleQueue: attribute '_work_queue' of ThreadPoolExecutor: attribute 'executor' of class Blocked: global 'Blocked' of module flow",
    since_313=[
        "item 0 of tuple: attribute 'args' of _WorkItem: item 0 of SimpleQueue: attribute '_work_queue' of ThreadPoolExecutor: attribute 'executor' of class Blocked: global 'Blocked' of module flow"
    ],
    since_314=[
        "item 0 of tuple: item 1 of tuple: attribute 'task' of _WorkItem: item 0 of SimpleQueue: attribute '_work_queue' of ThreadPoolExecutor: attribute 'executor' of class Blocked: global 'Blocked' of module flow"
    ],
    some=True,
)
def work_that_waits():
    Blocked.executor.submit(print, big())


@way("item of hamt: variables of Context: context", "item of hamt: variables of Context: global 'context_copy' of module flow")  # fmt: skip
def context_variable():
    held = contextvars.ContextVar("context_variable")
    held.set(big())
    return held


@way("item of hamt: variables of Context: {g}")
def context_copy():
    def change():
        variable.set(big())

    variable = contextvars.ContextVar("variable")
    held = contextvars.copy_context()
    held.run(change)
    return held


@way("local 'lost' of raise_it(): traceback of ValueError: {g}")
def traceback():
    def raise_it():
        lost = big()
        raise ValueError(lost.shape)

    try:
        raise_it()
    except ValueError as error:
        return error


@way("item 0 of tuple: args of ValueError: {g}")
def exception_argument():
    return ValueError(big())


@way("item 0 of tuple: args of ValueError: __cause__ of RuntimeError: {g}")
def exception_cause():
    error = RuntimeError()
    error.__cause__ = ValueError(big())
    return error


@way("item 0 of tuple: args of KeyError: __context__ of RuntimeError: {g}")
def exception_context():
    error = RuntimeError()
    error.__context__ = KeyError(big())
    return error


@way("attribute 'detail' of ValueError: {g}")
def exception_attribute():
    error = ValueError()
    error.detail = big()
    return error


@way("local 'lost' of raise_it(): global 'last_traceback' of module sys")
def last_traceback():
    def raise_it():
        lost = big()
        raise ValueError(lost.shape)

    try:
        raise_it()
    except ValueError as error:
        sys.last_traceback = error.__traceback__.tb_next


@way("item 0 of tuple: args of ValueError: global 'last_value' of module sys")
def last_value():
    sys.last_value = ValueError(big())


@way("global '_' of module builtins")
def interactive_underscore():
    builtins._ = big()


@way("key '3' of dict: global 'Out' of module flow")
def notebook_output():
    globals()["Out"] = {3: big()}


@way("local 'inside' of kept(): {g}")
def frame_object():
    def kept():
        inside = big()
        return sys._getframe(), inside

    return kept()[0]


@way("item 0 of tuple: attribute '_args' of Thread: {g}")
def thread_not_started():
    return threading.Thread(target=print, args=(big(),))


thread_locals = threading.local()


@running(
    "key 'kept' of dict: value of dict: dummies of _local: global 'thread_locals' of module flow",
    since_313=["key 'kept' of dict: value of dict: values by thread of _local: global 'thread_locals' of module flow"],
)
def thread_local():
    thread_locals.kept = big()
    stay()


@way("item 0 of tuple: attribute 'args' of LogRecord: item 0 of list: attribute 'buffer' of MemoryHandler: {g}")
def log_record():
    handler = logging.handlers.MemoryHandler(100)
    handler.handle(logging.LogRecord("name", logging.INFO, "file", 1, "%s %s", (big(), 1), None))
    return handler


@way("attribute 'source' of WarningMessage: item 0 of list: {g}")
def warning_source():
    with warnings.catch_warnings(record=True) as held:
        warnings.simplefilter("always")
        warnings.warn_explicit("text", UserWarning, "file", 1, source=big())
    return held


@way("item 0 of tuple: closure variable 'args' of _exit_wrapper(): item 1 of tuple: item 0 of deque: attribute '_exit_callbacks' of ExitStack: {g}")  # fmt: skip
def exit_stack():
    held = contextlib.ExitStack()
    held.callback(print, big())
    return held


@way("global 'kept_elsewhere' of module flow_made")
def global_of_another_module():
    module = sys.modules["flow_made"] = types.ModuleType("flow_made")
    module.kept_elsewhere = big()


@way("item 0 of list: global '__path__' of module flow_package")
def path_of_a_package():
    module = sys.modules["flow_package"] = types.ModuleType("flow_package")
    module.__path__ = [big()]

