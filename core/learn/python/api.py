"""CPython's C functions that tell addresses. They are the facts that fields of C structs are compared with."""

import ctypes


def address(name, *arguments):
    """Calls a function of CPython that returns a pointer; 0 for NULL."""
    function = getattr(ctypes.pythonapi, name)
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p if isinstance(a, int) else ctypes.py_object for a in arguments]
    return function(*arguments) or 0


def symbol(name):
    """The address of a variable of CPython; None where it has none of that name."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    except ValueError:
        return None
