"""PyTorch's object behind a Python tensor, for C++ code that keeps it."""

import ctypes


def implementation(tensor):
    """The TensorImpl behind a Python tensor: THPVariable.cdata, behind a flag word before 2.9."""
    words = ctypes.cast(id(tensor), ctypes.POINTER(ctypes.c_uint64))
    made = ctypes.c_void_p(words[2] if words[2] > 1 else words[3])
    counts = ctypes.cast(made, ctypes.POINTER(ctypes.c_uint64))[1]
    if counts >> 63:  # from 2.10 on: it owns its Python object as soon as something else owns it
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    return made
