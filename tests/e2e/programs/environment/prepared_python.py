"""A Python that has imported PyTorch and becomes a program each time one is wanted: it forks, and the child goes on as
`python PROGRAM.py ARGS` would, with the same stacks. tests/tools/prepared_python.c asks for programs, and says why.

It runs within sitecustomize, so in a child the interpreter goes on to its script, whose name is replaced. Where programs are recorded,
what the import made is frozen (gc.freeze): their ends don't collect it, which takes as long as the program.
"""

import contextlib
import ctypes
import gc
import os
import selectors
import signal
import socket
import sys
import tempfile
import time

IDLE_SECONDS = 60


class Memory:
    """This process's own memory, where a wrong address is an error."""

    def __init__(self):
        self.fd = os.open("/proc/self/mem", os.O_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        os.close(self.fd)

    def read(self, address, size):
        try:
            return os.pread(self.fd, size, address)
        except (OSError, OverflowError):
            return b""

    def write(self, address, content):
        os.pwrite(self.fd, content, address)


def python_text(text):
    """A wchar_t string that Python may free."""
    units = text.encode("utf-32-le", "surrogateescape") + bytes(4)
    allocate = ctypes.pythonapi.PyMem_RawMalloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    address = allocate(len(units))
    ctypes.memmove(address, units, len(units))
    return address.to_bytes(8, "little")


def places_of(memory, address, words, text):
    """Addresses of those of so many words that point to this string."""
    wanted = text.encode("utf-32-le", "surrogateescape") + bytes(4)
    content = memory.read(address, words * 8)
    pointers = [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content), 8)]
    return [address + 8 * i for i, pointer in enumerate(pointers) if pointer and memory.read(pointer, len(wanted)) == wanted]


def configuration():
    """The address of Python's configuration."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    api._PyInterpreterState_GetConfig.restype = ctypes.c_void_p
    api._PyInterpreterState_GetConfig.argtypes = [ctypes.c_void_p]
    return api._PyInterpreterState_GetConfig(api.PyInterpreterState_Get())


def replace_code(memory, code):
    """The code after `-c`."""
    (runs,) = places_of(memory, configuration(), 100, sys.orig_argv[-2] + "\n")
    memory.write(runs, python_text(code + "\n"))


def replace_script(memory, program):
    """The script stands there twice: what is run, and the first argument, whose folder is searched for modules."""
    config, script = configuration(), sys.orig_argv[-2]
    (runs,) = places_of(memory, config, 100, script)
    content = memory.read(config, 800)
    lists = [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content), 8)]
    arguments = {place for items in lists for place in places_of(memory, items, 2, script)} - {runs}
    assert arguments
    memory.write(runs, python_text(os.path.abspath(program)))
    for place in arguments:
        memory.write(place, python_text(program))


def writable_parts(library):
    """The parts of a library's memory that it writes to, as (first, last + 1); the one without a name right after it is its too."""
    parts, after = [], None
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            words = line.split(None, 5)
            first, end = (int(word, 16) for word in words[0].split("-"))
            named = words[5].strip() if len(words) > 5 else ""
            if named.endswith(library) or (not named and first == after):
                after = end
                if words[1].startswith("rw"):
                    parts.append((first, end))
    return parts


def replace_in(memory, library, old, new):
    """A string in a library's memory, which has the space."""
    for first, end in writable_parts(library):
        at = memory.read(first, end - first).find(old + b"\0")
        if at >= 0:
            memory.write(first + at, new + b"\0")
            return
    raise AssertionError(f"{library} has no {old!r}")


def replace_settings(memory, folder, environment):
    """The agent has read them when it was loaded."""
    new, old = environment.get("GPUMEM_AGENT"), os.environ.get("GPUMEM_AGENT")
    if not old:
        return
    replace_in(memory, "/libgpumem-agent.so", os.fsencode(old), os.fsencode(new))
    replace_in(memory, "/libgpumem-agent.so", os.fsencode(os.getcwd()), os.fsencode(folder))
    settings = dict(part.split("=", 1) for part in new.split(";"))
    with contextlib.suppress(OSError), open(settings["list"], "r+", encoding="ascii") as file:
        file.seek(0, os.SEEK_END)
        file.write(f"{os.getpid()}\n")


def replace_command(memory):
    """What /proc/PID/cmdline shows."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    first, end = int(fields[45]), int(fields[46])
    text = b"".join(os.fsencode(argument) + b"\0" for argument in sys.orig_argv)
    memory.write(first, text.ljust(end - first, b"\0"))


def received(connection):
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    size, content = int.from_bytes(size, "little"), b""
    while len(content) < size:
        content += connection.recv(size - len(content))
    folder, _, content = content.partition(b"\0\0")
    arguments, _, content = content.partition(b"\0\0")
    environment = content.removesuffix(b"\0\0").split(b"\0")
    texts = [os.fsdecode(text) for text in arguments.split(b"\0")]
    variables = dict(os.fsdecode(text).partition("=")[::2] for text in environment)
    variables.pop("GPUMEM_TEST_PID", None)
    return streams, os.fsdecode(folder), texts, variables


def become(streams, folder, arguments, environment):
    """In the child: the program."""
    os.setsid()
    with Memory() as memory:
        replace_settings(memory, folder, environment)
        os.chdir(folder)
        if arguments[0] == "-c":
            replace_code(memory, arguments[1])
            sys.orig_argv[-3:], sys.argv[:] = arguments, ["-c", *arguments[2:]]
        else:
            replace_script(memory, arguments[0])
            sys.orig_argv[-2:] = sys.argv[:] = arguments
        replace_command(memory)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    tempfile.tempdir = None


class Server:
    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.children = {}  # by number: the connection of who waits for it
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.path = path

    def begin(self):
        new = self.path + ".new"
        self.listener.bind(new)
        self.listener.listen(64)
        os.rename(new, self.path)  # whoever finds it can connect

    def unlist(self):
        """Nobody finds it any more, and another may begin. Who has found it is served."""
        for name in (self.path + ".begun", self.path):
            os.unlink(name)

    def serve(self):
        """Returns in each child; ends when nothing was wanted for a while, as it takes 400 MB, or the folder of the tests is gone."""
        ending, used = False, time.monotonic()
        while os.path.exists(os.path.dirname(self.path)):
            events = self.selector.select(0.01 if self.children else 0 if ending else 1)
            if events or self.children:
                used = time.monotonic()
            elif ending:
                break
            elif time.monotonic() - used > IDLE_SECONDS:
                self.unlist()
                ending = True
            for key, _ in events:
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    if self.fork(connection):
                        return
                else:
                    self.abandoned(key.fileobj)
            self.reap()
        os._exit(0)

    def fork(self, connection):
        streams, *wanted = received(connection)
        child = os.fork()
        if not child:
            self.listener.close()
            connection.close()
            for other in self.children.values():
                other.close()
            self.selector.close()
            become(streams, *wanted)
            return True
        for stream in streams:
            os.close(stream)
        self.children[child] = connection
        self.selector.register(connection, selectors.EVENT_READ)
        connection.sendall(f"{child}\n".encode())
        return False

    def abandoned(self, connection):
        """Who waited for a program was killed: so is the program."""
        self.selector.unregister(connection)
        for child, other in self.children.items():
            if other is connection:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)

    def reap(self):
        while self.children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            connection = self.children.pop(child)
            with contextlib.suppress(KeyError):
                self.selector.unregister(connection)
            with contextlib.suppress(OSError):
                connection.sendall(f"{status}\n".encode())
            connection.close()


def serve():
    path = os.environ.pop("GPUMEM_TEST_SERVE")
    try:
        import torch._dynamo  # noqa: F401: with it, torch; the optimizers import it

        server = Server(path)
        with Memory() as memory:
            if settings := os.environ.get("GPUMEM_AGENT"):
                replace_in(memory, "/libgpumem-agent.so", os.fsencode(settings), os.fsencode(settings))
        if settings:  # a program that is recorded has no need of the collector for what the import made
            gc.collect()
            gc.freeze()
        server.begin()
    except BaseException:
        with open(path + ".failed", "w", encoding="ascii"):
            pass
        raise
    server.serve()
