"""The session: the recording or process that questions are about. There is one for each gdb."""

import atexit
import os
import shutil
import tempfile

import gdb

from . import debugger, library
from .target import Watch


class Log:
    """The file of one recording. A temporary file is removed when gdb ends, unless it was saved."""

    def __init__(self, pid):
        descriptor, self.path = tempfile.mkstemp(prefix=f"gpumem-{pid}-", suffix=".gpumem")
        os.close(descriptor)
        self.saved_as = None

    def save(self, path):
        library.save_recording(self.path, path)
        self.saved_as = os.path.abspath(path)

    def refresh_saved(self):
        """Completes a file that was saved while recording."""
        if self.saved_as:
            self.save(self.saved_as)

    def remove(self):
        try:
            os.unlink(self.path)
        except OSError:
            pass


class Session:
    def __init__(self):
        self.library = library.Session()
        self.library.show_progress()
        self.watch = Watch()
        self.recording = None  # recording.Recording, while a process is recorded
        self.log = None  # the latest recording's
        self.folders = set()  # of temporary files
        atexit.register(self.close)
        exiting = getattr(gdb.events, "gdb_exiting", None)  # gdb 12
        if exiting is not None:
            exiting.connect(lambda _event: self.close())

    def close(self):
        recording, self.recording = self.recording, None
        if recording is not None:
            try:
                recording.close()
            except Exception:
                pass  # gdb is exiting; the written part of the log is readable
        if self.log is not None:
            self.log.remove()
            self.log = None
        while self.folders:
            shutil.rmtree(self.folders.pop(), ignore_errors=True)
        self.watch.forget(self.library)

    def use_log(self, log):
        """Makes this the recording of the questions. The previous one is deleted unless it was saved."""
        if self.log is not None:
            self.log.remove()
        self.log = log

    def ask(self, arguments, columns=None):
        """Runs a command of the core: (status, output, error lines). `columns` None: as wide as the terminal."""
        if self.recording is not None:
            self.recording.recorder.flush()
        thread = gdb.selected_thread()
        self.watch.inform(self.library)
        self.library.look_at(
            thread.ptid[1] if thread and thread.is_valid() else 0,
            self.log.path if self.log else None,
            debugger.columns() if columns is None else columns,
            selected_frame(),
        )
        answer = self.library.run(arguments)
        self.watch.after()
        return answer


def selected_frame():
    """The number of the Python frame that `gpumem up` and `down` selected."""
    from .python_frames import selected  # imported here, because it imports this module

    return selected().get()


_session = None


def session():
    global _session
    if _session is None:
        _session = Session()
    return _session
