"""Binds libgpumem.so by ctypes. It does not depend on gdb.

The library is searched for relative to the plugin: in the build folder of a source tree, or in the lib
folder of the installed prefix. GPUMEM_LIBRARY names another one.
"""

import ctypes
import json
import os

NAME = "libgpumem.so.0"

# enum gpumem_verdict
STOP, NEW_SITES, REFUSED, NEW_LIBRARIES, OOM = 1, 2, 4, 8, 16


# gpumem_read_callback, gpumem_registers_callback, gpumem_file_callback
ReadCallback = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)
RegistersCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))
FileCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)

Words = ctypes.c_uint64 * 17  # the registers, in DWARF's order


class StopAnswer(ctypes.Structure):
    """struct gpumem_stop_answer."""

    _fields_ = [("stops", ctypes.c_uint64), ("verdict", ctypes.c_int32), ("advanced", ctypes.c_int32)]


class LibraryMissing(Exception):
    """libgpumem.so was not found, or is not this plugin's."""


class Failure(Exception):
    """An error of the library: its message, and the exit status of the shell command."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def candidates():
    """The paths to try, in order."""
    named = os.environ.get("GPUMEM_LIBRARY")
    if named:
        yield named
        return
    here = os.path.dirname(os.path.realpath(__file__))  # …/gdb/gpumem
    top = os.path.dirname(os.path.dirname(here))
    yield os.path.join(top, "build", "lib", NAME)  # source tree
    prefix = os.path.dirname(os.path.dirname(top))  # PREFIX/share/gpumem/gdb/gpumem
    yield os.path.join(prefix, "lib", NAME)
    lib = os.path.join(prefix, "lib")
    try:
        for multiarch in sorted(os.listdir(lib)):
            yield os.path.join(lib, multiarch, NAME)
    except OSError:
        pass
    yield os.path.join(prefix, "lib64", NAME)


def _load():
    tried = []
    for path in candidates():
        if not os.path.exists(path):
            tried.append(path)
            continue
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            raise LibraryMissing(f"{path}: {error}: build it again") from None
    raise LibraryMissing(f"libgpumem.so was not found at {', '.join(tried[:2])}: build gpumem, or set GPUMEM_LIBRARY")


def _declare(lib):
    pointer, text, out_text = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)
    number, size = ctypes.c_int, ctypes.c_size_t
    words = ctypes.POINTER(ctypes.c_uint64)
    for name, result, arguments in (
        ("gpumem_version", text, []),
        ("gpumem_free", None, [pointer]),
        ("gpumem_visible", pointer, [text, size]),
        ("gpumem_session_create", pointer, []),
        ("gpumem_session_destroy", None, [pointer]),
        ("gpumem_session_set_process", None, [pointer, number]),
        ("gpumem_session_set_thread", None, [pointer, number]),
        ("gpumem_session_set_frame", None, [pointer, ctypes.c_uint]),
        ("gpumem_session_set_log", None, [pointer, text]),
        ("gpumem_session_set_terminal", None, [pointer, number, number]),
        ("gpumem_session_invalidate", None, [pointer]),
        ("gpumem_session_set_core", None, [pointer, text]),
        (
            "gpumem_session_set_remote",
            number,
            [
                pointer,
                number,
                text,
                ctypes.POINTER(number),
                size,
                ReadCallback,
                RegistersCallback,
                FileCallback,
                pointer,
            ],
        ),
        ("gpumem_session_frame_caller", number, [pointer, words, number, words]),
        ("gpumem_session_frame_functions", number, [pointer, words, size, ctypes.POINTER(text)]),
        ("gpumem_file_defines", number, [text, text]),
        ("gpumem_session_show_progress", None, [pointer, number]),
        ("gpumem_session_run", number, [pointer, number, ctypes.POINTER(text), out_text, out_text]),
        ("gpumem_command_name", text, [size]),
        ("gpumem_command_summary", text, [size]),
        ("gpumem_agent_library", number, [out_text, out_text]),
        ("gpumem_session_agent_function", ctypes.c_uint64, [pointer, text]),
        ("gpumem_session_thread_is_call_safe", number, [pointer, number, words]),
        ("gpumem_session_agent_existing", ctypes.c_uint64, [pointer, ctypes.c_uint64, ctypes.c_uint64]),
        ("gpumem_save_recording", number, [text, text, out_text]),
        ("gpumem_recorder_create", number, [number, text, text, text, ctypes.POINTER(pointer), out_text]),
        ("gpumem_recorder_close", number, [pointer, out_text]),
        ("gpumem_recorder_refresh", number, [pointer, ctypes.POINTER(size), out_text]),
        ("gpumem_recorder_site_count", size, [pointer]),
        ("gpumem_recorder_site_address", ctypes.c_uint64, [pointer, size]),
        ("gpumem_recorder_site_name", text, [pointer, size]),
        (
            "gpumem_recorder_stop_at",
            None,
            [pointer, ctypes.c_uint64, number, words, number, ctypes.POINTER(StopAnswer)],
        ),
        ("gpumem_recorder_refusal", text, [pointer]),
        ("gpumem_recorder_stop_when", None, [pointer, ctypes.c_uint64, ctypes.c_uint32]),
        ("gpumem_recorder_watch", number, [pointer, ctypes.c_uint32, text, number, out_text]),
        ("gpumem_recorder_unwatch", None, [pointer, ctypes.c_uint32]),
        ("gpumem_recorder_watch_hits", ctypes.c_uint64, [pointer, ctypes.c_uint32]),
        ("gpumem_recorder_stopped_by", ctypes.c_uint32, [pointer, words]),
        ("gpumem_condition_check", number, [text, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(size), out_text]),
        ("gpumem_walk_create", number, [text, ctypes.POINTER(pointer), out_text]),
        ("gpumem_walk_destroy", None, [pointer]),
        ("gpumem_walk_watch", number, [pointer, ctypes.c_uint32, text, number, out_text]),
        ("gpumem_walk_unwatch", None, [pointer, ctypes.c_uint32]),
        ("gpumem_walk_watch_hits", ctypes.c_uint64, [pointer, ctypes.c_uint32]),
        ("gpumem_walk_stopped_by", ctypes.c_uint32, [pointer, words]),
        ("gpumem_walk_arm", number, [pointer, number, words, number, ctypes.POINTER(number), out_text]),
        ("gpumem_walk_stop", number, [pointer, number, ctypes.POINTER(number), out_text]),
        ("gpumem_walk_check", number, [text, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(size), out_text]),
        ("gpumem_recorder_flush", number, [pointer, out_text]),
        ("gpumem_recorder_step", ctypes.c_uint32, [pointer]),
        ("gpumem_recorder_event_count", ctypes.c_uint64, [pointer]),
        ("gpumem_recorder_summary", ctypes.c_void_p, [pointer]),
    ):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib


_library = None


def library():
    """The library; loaded when first asked for."""
    global _library
    if _library is None:
        try:
            _library = _declare(_load())
        except AttributeError as error:
            raise LibraryMissing(f"libgpumem.so does not fit this plugin ({error}): build it again") from None
    return _library


def _take(pointer):
    """Takes ownership of a string that the library returned."""
    if not pointer:
        return ""
    value = ctypes.cast(pointer, ctypes.c_char_p).value.decode("utf-8", "replace")
    library().gpumem_free(pointer)
    return value


def encode(text):
    return os.fsencode(text)


def _check(status, message):
    if status != 0:
        raise Failure(_take(message) or "out of memory: nothing was done: free some memory and try again", status)


def visible(text):
    """Text on one line, with control characters made visible. A session's output has this form already."""
    try:
        encoded = str(text).encode("utf-8", "surrogateescape")
        return _take(library().gpumem_visible(encoded, len(encoded)))
    except (LibraryMissing, UnicodeError):
        return ascii(str(text))[1:-1]


def reason(err):
    """The error lines of an answer, without the program's name."""
    return err.strip().replace("gpumem: ", "", 1)


def as_json(question, status, out, err):
    """The answer of a question with --json."""
    if status >= 2 or not out:
        raise Failure(reason(err) or f"{question}: no answer", status)
    return json.loads(out)


class Session:
    """A session of the library, which answers questions."""

    def __init__(self):
        self._handle = library().gpumem_session_create()
        if not self._handle:
            raise MemoryError

    def close(self):
        if self._handle:
            library().gpumem_session_destroy(self._handle)
            self._handle = None

    def show_progress(self):
        library().gpumem_session_show_progress(self._handle, 1)

    def set_process(self, process):
        library().gpumem_session_set_process(self._handle, process)

    def set_core(self, path):
        library().gpumem_session_set_core(self._handle, encode(path) if path else None)

    def set_remote(self, remote):
        """Sets the target.Remote, which must live until another one is set; None: none."""
        lib = library()
        if remote is None:
            nothing = (ReadCallback(), RegistersCallback(), FileCallback())
            lib.gpumem_session_set_remote(self._handle, 0, None, None, 0, *nothing, None)
            return
        threads = (ctypes.c_int * (len(remote.threads) + 1))(*remote.threads)
        status = lib.gpumem_session_set_remote(
            self._handle,
            remote.pid,
            encode(remote.maps),
            threads,
            len(remote.threads),
            remote.read,
            remote.registers,
            remote.file,
            None,
        )
        if status != 0:
            raise MemoryError

    def look_at(self, thread, log, columns, frame=0):
        """Sets the target of the next question, and drops all data read from the process before."""
        lib = library()
        lib.gpumem_session_set_thread(self._handle, thread)
        lib.gpumem_session_set_frame(self._handle, frame)
        lib.gpumem_session_set_log(self._handle, encode(log) if log else None)
        lib.gpumem_session_set_terminal(self._handle, columns, 0)
        lib.gpumem_session_invalidate(self._handle)

    def invalidate(self):
        """Drops all data read from the process and the log."""
        library().gpumem_session_invalidate(self._handle)

    def agent_function(self, name):
        """The address of a function of the C library or the agent in the process; 0 if there is none."""
        return library().gpumem_session_agent_function(self._handle, encode(name))

    def thread_is_call_safe(self, thread):
        """(0: a stopped thread may call functions, 1 and 2: not from there, where it soon will be or 0)."""
        back = ctypes.c_uint64()
        return library().gpumem_session_thread_is_call_safe(self._handle, thread, ctypes.byref(back)), back.value

    def agent_existing(self, table=0, size=0):
        return library().gpumem_session_agent_existing(self._handle, table, size)

    def frame_caller(self, registers, innermost):
        """The registers of a native frame's caller, or None. `innermost` is None if the debugger does not know."""
        own, caller = Words(*registers), Words()
        place = -1 if innermost is None else int(innermost)
        return list(caller) if library().gpumem_session_frame_caller(self._handle, own, place, caller) else None

    def frame_functions(self, addresses):
        """The names of the functions at these addresses, with None for unknown ones."""
        count = len(addresses)
        words, names = (ctypes.c_uint64 * (count + 1))(*addresses), (ctypes.c_char_p * (count + 1))()
        if library().gpumem_session_frame_functions(self._handle, words, count, names) != 0:
            return [None] * count
        return [name.decode("utf-8", "replace") if name else None for name in names[:count]]

    def set_thread(self, thread):
        library().gpumem_session_set_thread(self._handle, thread)

    def run(self, arguments):
        """Runs one command: (exit status, its output, its error lines)."""
        out, err = ctypes.c_void_p(), ctypes.c_void_p()
        words = (ctypes.c_char_p * (len(arguments) + 1))(*map(encode, arguments), None)
        status = library().gpumem_session_run(
            self._handle, len(arguments), words, ctypes.byref(out), ctypes.byref(err)
        )
        return status, _take(out), _take(err)


def file_defines(path, function):
    """Whether a library defines a function, given the name that users type."""
    return bool(library().gpumem_file_defines(encode(path), encode(function)))


def agent_library():
    """The path of the agent's library."""
    path, message = ctypes.c_void_p(), ctypes.c_void_p()
    _check(library().gpumem_agent_library(ctypes.byref(path), ctypes.byref(message)), message)
    return _take(path)


def save_recording(path, to):
    """Copies a recording of the session's to the user's file."""
    message = ctypes.c_void_p()
    _check(library().gpumem_save_recording(encode(path), encode(to), ctypes.byref(message)), message)


def commands():
    """Names and summaries of the commands that a session answers."""
    lib, found = library(), []
    while True:
        name = lib.gpumem_command_name(len(found))
        if name is None:
            return found
        found.append((name.decode(), lib.gpumem_command_summary(len(found)).decode()))


def check_condition(condition, step=0, event=0, by_agent=False):
    """(the syntax error or None, its column or 0, whether any later event can meet the condition)."""
    message, column = ctypes.c_void_p(), ctypes.c_size_t()
    check = library().gpumem_walk_check if by_agent else library().gpumem_condition_check
    status = check(encode(condition), step, event, ctypes.byref(column), ctypes.byref(message))
    wrong = _take(message) if status > 1 else None
    return wrong, column.value, status == 0


class Walk:
    """The core's part of conditions at events that the agent records."""

    def __init__(self, path):
        handle, message = ctypes.c_void_p(), ctypes.c_void_p()
        _check(library().gpumem_walk_create(encode(path), ctypes.byref(handle), ctypes.byref(message)), message)
        self.handle = handle.value

    def close(self):
        handle, self.handle = self.handle, None
        library().gpumem_walk_destroy(handle)

    def watch(self, number, condition, once):
        message = ctypes.c_void_p()
        _check(library().gpumem_walk_watch(self.handle, number, encode(condition), once, ctypes.byref(message)), message)

    def unwatch(self, number):
        library().gpumem_walk_unwatch(self.handle, number)

    def watch_hits(self, number):
        return library().gpumem_walk_watch_hits(self.handle, number)

    def stopped_by(self):
        event = ctypes.c_uint64()
        return library().gpumem_walk_stopped_by(self.handle, ctypes.byref(event)), event.value

    def arm(self, process, addresses, every):
        """Whether any condition may still hold."""
        active, message = ctypes.c_int(), ctypes.c_void_p()
        words = (ctypes.c_uint64 * len(addresses))(*addresses)
        _check(library().gpumem_walk_arm(self.handle, process, words, every, ctypes.byref(active), ctypes.byref(message)), message)
        return bool(active.value)

    def stop(self, thread):
        """Whether a condition holds at the event at which the thread stands."""
        holds, message = ctypes.c_int(), ctypes.c_void_p()
        _check(library().gpumem_walk_stop(self.handle, thread, ctypes.byref(holds), ctypes.byref(message)), message)
        return bool(holds.value)


class Recorder:
    """The core's part of a recording."""

    def __init__(self, process, devices, log, source):
        handle, message = ctypes.c_void_p(), ctypes.c_void_p()
        _check(
            library().gpumem_recorder_create(
                process, encode(devices), encode(log), encode(source), ctypes.byref(handle), ctypes.byref(message)
            ),
            message,
        )
        self.handle = handle.value

    def close(self):
        handle, self.handle = self.handle, None
        if handle:
            message = ctypes.c_void_p()
            _check(library().gpumem_recorder_close(handle, ctypes.byref(message)), message)

    def sites(self):
        """The addresses for breakpoints."""
        lib, count, message = library(), ctypes.c_size_t(), ctypes.c_void_p()
        _check(lib.gpumem_recorder_refresh(self.handle, ctypes.byref(count), ctypes.byref(message)), message)
        return [lib.gpumem_recorder_site_address(self.handle, index) for index in range(count.value)]

    def site_name(self, address):
        lib = library()
        for index in range(lib.gpumem_recorder_site_count(self.handle)):
            if lib.gpumem_recorder_site_address(self.handle, index) == address:
                return lib.gpumem_recorder_site_name(self.handle, index).decode()
        return "?"

    def refusal(self):
        text = library().gpumem_recorder_refusal(self.handle)
        return text.decode("utf-8", "replace") if text else None

    def stop_when(self, events=0, step=0):
        library().gpumem_recorder_stop_when(self.handle, events, step)

    def watch(self, number, condition, once):
        message = ctypes.c_void_p()
        _check(library().gpumem_recorder_watch(self.handle, number, encode(condition), once, ctypes.byref(message)), message)

    def unwatch(self, number):
        library().gpumem_recorder_unwatch(self.handle, number)

    def watch_hits(self, number):
        return library().gpumem_recorder_watch_hits(self.handle, number)

    def stopped_by(self):
        """The condition that held at the latest stop (0: none did), and the event."""
        event = ctypes.c_uint64()
        return library().gpumem_recorder_stopped_by(self.handle, ctypes.byref(event)), event.value

    def flush(self):
        message = ctypes.c_void_p()
        _check(library().gpumem_recorder_flush(self.handle, ctypes.byref(message)), message)

    def step(self):
        return library().gpumem_recorder_step(self.handle)

    def event_count(self):
        return library().gpumem_recorder_event_count(self.handle)

    def summary(self):
        return _take(library().gpumem_recorder_summary(self.handle))
