"""Compares what the agent's stacks say of a thread with what Python itself says, in many shapes of call.

python stacks_truth.py PROBE.so: prints one line a shape ("ok NAME" or what differs), and "done".
"""

import asyncio
import bisect
import ctypes
import dis
import functools
import gc
import os
import sys
import threading

probe = ctypes.CDLL(sys.argv[1])  # lets go of the GIL while it runs
held = ctypes.PyDLL(sys.argv[1])  # keeps it
for library in (probe, held):
    library.probe_take.restype = ctypes.c_char_p
    library.probe_gap.restype = ctypes.c_char_p
    library.probe_last_pass.restype = ctypes.c_char_p
    library.probe_time.restype = ctypes.c_double
failures = []


def parts(text):
    sections = {}
    rows = None
    for line in text.decode("utf-8", "surrogateescape").split("\n"):
        if line in ("python", "native", "backtrace", "flags", "evidence"):
            rows = sections.setdefault(line, [])
        elif line:
            rows.append(line.split("\t"))
    return sections


def line_at(code, offset):
    starts = list(dis.findlinestarts(code))
    at = bisect.bisect_right([start for start, _ in starts], offset) - 1
    return starts[at][1] if at >= 0 else None


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def expected(frame):
    rows = []
    while frame:
        rows.append((frame.f_code, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    return rows


def compare(name, found, rows):
    found = [(row[0], row[1], int(row[2]), int(row[3])) for row in found]
    if len(found) != len(rows):
        failures.append(f"{name}: {len(found)} frames instead of {len(rows)}: {found[:6]}")
        return
    for i, ((file, function, first, offset), (code, lasti, line)) in enumerate(zip(found, rows)):
        seen = code.co_filename.encode("utf-8", "replace").decode()
        if (file, function, first) != (seen, name_of(code), code.co_firstlineno):
            failures.append(f"{name}: frame {i}: {file}:{first} {function} instead of {seen} {name_of(code)}")
            return
        # the innermost frame has gone on since
        if i > 0 and offset != lasti:
            failures.append(f"{name}: frame {i}, {function}: at {offset} instead of {lasti}")
            return
        if line_at(code, offset) != line:
            failures.append(f"{name}: frame {i}, {function}: line {line_at(code, offset)} instead of {line}")
            return


def compare_native(name, sections):
    ours = [int(row[0], 16) for row in sections["native"]]
    theirs = [int(row[0], 16) for row in sections["backtrace"]]
    # backtrace() ends with a frame of no address where nothing says that the stack ends
    theirs = [address for address in theirs if address]
    if ours != theirs:
        same = 0
        while same < min(len(ours), len(theirs)) and ours[same] == theirs[same]:
            same += 1
        failures.append(f"{name}: native: {len(ours)} frames instead of {len(theirs)}, the same up to {same}")


def take(name, library=None, native=True):
    sections = [parts((library or probe).probe_take(0)), expected(sys._getframe())][0]; rows = expected(sys._getframe())  # fmt: skip
    compare(name, sections["python"], rows)
    if native:
        compare_native(name, sections)


SHAPES = []


def shape(function):
    SHAPES.append(function)
    return function


@shape
def plain():
    take("plain")
    take("plain, the GIL held", held)


@shape
def from_two_lines():
    def inner():
        take("from two lines")

    for _ in range(3):
        inner()
        inner()
        (inner(),
         inner())  # fmt: skip


@shape
def recursion():
    def down(n):
        if n == 0:
            take("recursion")
            return
        down(n - 1)
        if n % 7 == 0:
            take("recursion, on the way back")

    down(50)
    down(20)
    down(200)


@shape
def generators():
    def count(n):
        for i in range(n):
            take("generators")
            yield i

    def outer(n):
        yield from count(n)

    assert list(outer(3)) == [0, 1, 2]
    a, b = outer(2), outer(2)
    next(a), next(b), next(a), next(b)
    assert sum(x for x in outer(4)) == 6


@shape
def coroutines():
    async def leaf():
        take("coroutines")
        await asyncio.sleep(0)
        take("coroutines, after a switch")

    async def middle():
        await leaf()

    async def main():
        await asyncio.gather(middle(), middle(), leaf())

    async def agen():
        for i in range(2):
            take("asynchronous generators")
            yield i

    async def consume():
        return [i async for i in agen()]

    asyncio.run(main())
    assert asyncio.run(consume()) == [0, 1]


@shape
def calls_of_c_between():
    list(map(lambda _: take("calls of C between"), range(3)))
    sorted([3, 1, 2], key=lambda x: take("sorted") or x)
    functools.reduce(lambda a, b: take("reduce"), range(3))
    max([1, 2], key=lambda x: [take("nested") for _ in range(2)] and x)

    class Thing:
        def __getattr__(self, name):
            take("__getattr__")
            return name

        def __add__(self, other):
            take("__add__")
            return self

        @property
        def value(self):
            take("property")
            return 1

        def __del__(self):
            take("__del__")

        def __call__(self, *args, **kwargs):
            take("__call__")

    thing = Thing()
    thing.anything + str(thing.value)
    thing + thing
    thing(*[1, 2], **{"a": 1})
    functools.partial(thing, 1)()
    del thing
    callback = ctypes.CFUNCTYPE(None)(lambda: take("a callback from C"))
    callback()


@shape
def threads():
    def work(name):
        for _ in range(50):
            take(name)
            (lambda: take(name))()

    made = [threading.Thread(target=work, args=(f"thread {i}",)) for i in range(8)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()
    for i in range(50):  # their memory is given to others
        thread = threading.Thread(target=take, args=(f"short thread {i}",))
        thread.start()
        thread.join()


@shape
def code_made_at_run_time():
    scope = {"take": take}
    for i in range(60):
        exec(compile("\n" * (i % 5) + f"take('exec {i}')\n", f"<cell {i % 7}>", "exec"), scope)
        exec(f"def f{i % 3}():\n" + "\n" * (i % 4) + "    take('made function')\n", scope)
        scope[f"f{i % 3}"]()
        eval("take('eval')", scope)
        del scope[f"f{i % 3}"]
        if i % 10 == 0:
            gc.collect()


@shape
def replaced_code():
    def f():
        take("replaced code, before")

    f()

    def g():


        take("replaced code, after")  # fmt: skip

    f.__code__ = g.__code__
    f()


@shape
def classes_and_names():
    class Außen:
        class Inner:
            def método(self):
                take("names beyond ASCII")

            @classmethod
            def c(cls):
                take("class method")

            @staticmethod
            def s():
                take("static method")

        def 名(self):
            take("UCS2 name")

    Außen.Inner().método()
    Außen.Inner.c()
    Außen.Inner.s()
    Außen().名()
    exec(compile("def f():\n    take('UCS4 file')\n", "<\U0001f600>", "exec"), globals())
    f()  # noqa: F821


@shape
def exceptions():
    try:
        try:
            raise ValueError
        except ValueError:
            take("handler")
            raise KeyError
        finally:
            take("finally")
    except KeyError:
        take("outer handler")

    class Manager:
        def __enter__(self):
            take("__enter__")

        def __exit__(self, *args):
            take("__exit__")
            return True

    with Manager():
        take("with")
        raise ValueError


@shape
def traced():
    def tracer(frame, event, arg):
        return tracer

    sys.settrace(tracer)
    try:
        take("traced", native=False)
    finally:
        sys.settrace(None)
    sys.setprofile(lambda *args: None)
    try:
        take("profiled", native=False)
    finally:
        sys.setprofile(None)


@shape
def imports():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "imported_by_test.py"), "w") as file:
            file.write("import __main__\nx = 1\n__main__.take('import')\n")
        sys.path.insert(0, folder)
        import imported_by_test  # noqa: F401

        sys.path.remove(folder)


@shape
def long_function():
    lines = "".join(f"    x{i} = {i}\n" for i in range(400))
    scope = {"take": take}
    exec(f"def long():\n{lines}    take('a function with EXTENDED_ARG')\n{lines}    take('its end')\n", scope)
    scope["long"]()


@shape
def forked():
    child = os.fork()
    if child == 0:
        take("forked child")
        os._exit(1 if failures else 0)
    if os.waitpid(child, 0)[1] != 0:
        failures.append("forked child: differs")


def deep():
    """Beyond the bound: the innermost frames, and a mark; also when it is reached little by little, and left again."""

    def check(rows, sections):
        found = sections["python"]
        if len(rows) < 4096:
            compare("deep", found, rows)
        elif len(found) != 256:
            failures.append(f"deep: {len(found)} frames of {len(rows)}")
        else:
            compare("deep", found, rows[:256])

    def down(n):
        if n % 700 == 3:
            check(expected(sys._getframe()), parts(probe.probe_take(0)))
        if n:
            down(n - 1)
        if n % 900 == 5:
            check(expected(sys._getframe()), parts(probe.probe_take(0)))

    sys.setrecursionlimit(20000)
    threading.stack_size(512 << 20)
    thread = threading.Thread(target=down, args=(6000,))
    thread.start()
    thread.join()
    if b"too deep" not in probe.probe_gap():
        failures.append(f"deep: no mark: {probe.probe_gap()}")


def main():
    probe.probe_start(1, 1)
    for _ in range(2):  # all is known the second time
        for function in SHAPES:
            before = len(failures)
            function()
            for line in failures[before:before + 3]:
                print(f"{function.__name__}: {line}")
            if len(failures) == before:
                print(f"ok {function.__name__}")
    before = len(failures)
    deep()
    print("ok deep" if len(failures) == before else failures[-1])
    print("done" if not failures else f"{len(failures)} differ")


if __name__ == "__main__":
    main()
