"""Functions, methods, modules, descriptors, generators' names, exceptions and tracebacks."""

import functools
import sys
import types

import api
from agree import learns

SOURCE = """
def make(i):
    cell = object()
    def f%(i)d(a=object(), *, b=object()):
        "doc %(i)d"
        return cell
    f%(i)d.__annotations__ = {"a": %(i)d}
    f%(i)d.mark = i
    f%(i)d.__name__ = "name%(i)d"
    f%(i)d.__qualname__ = "qual.name%(i)d"
    f%(i)d.__module__ = "module%(i)d"
    return f%(i)d
"""


def functions_made(count):
    made = []
    for i in range(count):
        namespace = {
            "__builtins__": dict(vars(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
        }
        exec(SOURCE % {"i": i}, namespace)
        made.append(namespace["make"](i))
    return made


@learns("function_code", "function_globals", "function_name", "function_qualname", "function_module",
        "function_defaults", "function_kwdefaults", "function_closure", "function_dict", "function_doc",
        "function_annotations", "function_annotate", "function_builtins", "function_typeparams",
        "cell_content")  # fmt: skip
def functions(row):
    made = functions_made(8)

    def each(name, attribute, functions=made):
        pairs = [(id(f), id(getattr(f, attribute))) for f in functions]
        row.find(name, pairs, low=16, high=types.FunctionType.__basicsize__)

    for name, attribute in (("code", "code"), ("globals", "globals"), ("name", "name"), ("qualname", "qualname"),
                            ("module", "module"), ("defaults", "defaults"), ("kwdefaults", "kwdefaults"),
                            ("closure", "closure"), ("dict", "dict"), ("doc", "doc"),
                            ("annotations", "annotations")):  # fmt: skip
        each("function_" + name, "__%s__" % attribute)
    if hasattr(made[0], "__annotate__"):
        for f in made:
            f.__annotate__ = lambda format: {}
        each("function_annotate", "__annotate__")
    if hasattr(made[0], "__builtins__"):
        each("function_builtins", "__builtins__")
    if hasattr(made[0], "__type_params__"):
        generic = []
        for i in range(6):
            namespace = {}
            exec("def f[T%d](): pass" % i, namespace)
            generic.append(namespace["f"])
        each("function_typeparams", "__type_params__", generic)
    cells = [f.__closure__[0] for f in made]
    row.find(
        "cell_content",
        [(id(c), id(c.cell_contents)) for c in cells],
        low=16,
        high=types.CellType.__basicsize__,
    )


class Bound:
    def method(self):
        pass

    @classmethod
    def of_class(cls):
        pass


@learns("method_function", "method_self", "builtin_self", "builtin_module", "property_get", "property_name",
        "partial_function", "wrapper_callable")  # fmt: skip
def descriptors(row):
    functions = functions_made(8)
    things = [Bound() for _ in range(8)]
    methods = [types.MethodType(f, o) for f, o in zip(functions, things)]
    row.find(
        "method_function",
        [(id(m), id(m.__func__)) for m in methods],
        low=16,
        high=types.MethodType.__basicsize__,
    )
    row.find(
        "method_self", [(id(m), id(m.__self__)) for m in methods], low=16, high=types.MethodType.__basicsize__
    )
    lists = [[i] for i in range(6)]
    builtins = [v.append for v in lists] + [v.extend for v in lists]
    row.find(
        "builtin_self",
        [(id(b), id(b.__self__)) for b in builtins],
        low=16,
        high=types.BuiltinFunctionType.__basicsize__,
    )
    named = [
        len,
        sys.getsizeof,
        functools.reduce,
        sys.getrefcount,
        abs,
        functools.cmp_to_key,
        sys.intern,
        iter,
    ]
    row.find(
        "builtin_module",
        [(id(b), id(b.__module__)) for b in named],
        low=16,
        high=types.BuiltinFunctionType.__basicsize__,
    )
    properties = [property(f) for f in functions]
    row.find(
        "property_get",
        [(id(p), id(f)) for p, f in zip(properties, functions)],
        low=16,
        high=property.__basicsize__,
    )
    names = [sys.intern("property_%d" % i) for i in range(8)]
    type("Named", (), dict(zip(names, properties)))
    row.find(
        "property_name",
        [(id(p), id(n)) for p, n in zip(properties, names)],
        low=16,
        high=property.__basicsize__,
    )
    partials = [functools.partial(f, 1) for f in functions]
    row.find(
        "partial_function",
        [(id(p), id(f)) for p, f in zip(partials, functions)],
        low=16,
        high=functools.partial.__basicsize__,
    )
    wrappers = [(staticmethod if i & 2 else classmethod)(f) for i, f in enumerate(functions)]
    row.find(
        "wrapper_callable",
        [(id(w), id(f)) for w, f in zip(wrappers, functions)],
        low=16,
        high=classmethod.__basicsize__,
    )


@learns("module_dict", "module_state")
def modules(row):
    plain = [types.ModuleType("plain%d" % i) for i in range(8)]
    span = {"low": 16, "high": types.ModuleType.__basicsize__}
    row.find("module_dict", [(id(m), id(vars(m))) for m in plain], **span)
    loaded = [m for m in sys.modules.values() if type(m) is types.ModuleType]
    states = [(id(m), api.address("PyModule_GetState", m)) for m in loaded]
    stateful = [pair for pair in states if pair[1]]
    row.find("module_state", stateful + [pair for pair in states if not pair[1]][:8], **span)


@learns("exception_args", "exception_traceback", "exception_context", "exception_cause", "traceback_next",
        "traceback_frame")  # fmt: skip
def exceptions(row):
    made = []

    def deep(n, i):
        if n:
            deep(n - 1, i)
        raise (ValueError, KeyError, RuntimeError)[i % 3]("what", i)

    for i in range(8):
        try:
            try:
                deep(2, i)
            except Exception as first:
                before = first
                raise OSError(i, "second") from LookupError(i)
        except OSError as error:
            made.append(error)
            assert error.__context__ is before
    span = {"low": 16, "high": BaseException.__basicsize__}
    for name, get in (("args", "args"), ("traceback", "__traceback__"), ("context", "__context__"),
                      ("cause", "__cause__")):  # fmt: skip
        row.find("exception_" + name, [(id(e), id(getattr(e, get))) for e in made], **span)
    traces = []
    for i in range(8):
        try:
            functions = {}
            exec("def f():\n    raise ValueError", functions)
            functions["f"]()
        except ValueError as error:
            traces += [error.__traceback__]
    size = type(traces[0]).__basicsize__
    row.find("traceback_next", [(id(t), id(t.tb_next)) for t in traces], low=16, high=size)
    inner = [t.tb_next for t in traces]
    row.find("traceback_frame", [(id(t), id(t.tb_frame)) for t in inner], low=16, high=size)
