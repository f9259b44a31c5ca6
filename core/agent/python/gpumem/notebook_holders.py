"""What holds a tensor in a notebook, in a notebook's words.

A kernel refers to one value in many ways: `x` is also Out[3], `_3` and `_`, IPython has copies of these that `%reset` leaves, and the
traceback of the last error keeps the variables of each function in it. The paths of `gpumem who-holds` end at these places; this
module finds them in the paths, and says how each is released.
"""

import gc
import re
import sys
import traceback

from .asking import size_text
from .notebook_answers import Answer, table

SHELLS = re.compile(r".*InteractiveShell$")
HOOKS = re.compile(r".*DisplayHook$|.*DisplayFormatter$")
TRACEBACKS = re.compile(r".*TB$")  # IPython's formatters of tracebacks
NAMESPACES = ("user_ns", "user_ns_hidden", "user_global_ns")
LAST = {"last_traceback", "last_value", "last_exc"}
RESULTS = {"_": "the last result", "__": "the last result but one", "___": "the last result but two"}
FORGET = "%gpumem forget"
OTHERS = 8


def parts_of(path):
    """(where, name, the steps from there to the tensor): "variable", "output", "error", "local" or "other"."""
    steps = [step for step in path if step.get("kind") not in ("tensor", "storage")]
    for at in range(len(steps) - 1, -1, -1):
        step, before = steps[at], steps[at - 1] if at else {}
        kind, name, of = step.get("kind"), step.get("name"), step.get("type", "")
        if kind == "attribute" and TRACEBACKS.match(of) and name in ("tb", "evalue", "value"):
            return "error", name, steps[at + 1 :]
        if kind == "attribute" and of == "ExecutionResult":
            return ("error" if name.startswith("error") else "output"), "_", steps[at + 1 :]
        if kind == "key" and before.get("kind") == "attribute" and before.get("name") in NAMESPACES and SHELLS.match(before.get("type", "")):
            return of_name(name, steps[at + 1 :])
        if kind == "attribute" and HOOKS.match(of) and name in RESULTS:
            return of_name(name, steps[at + 1 :])
    first = steps[0] if steps else {}
    if first.get("kind") == "global" and first.get("module") == "sys" and first.get("name") in LAST:
        return "error", first["name"], steps[1:]
    if first.get("kind") == "global" and first.get("module") == "__main__":
        return of_name(first.get("name"), steps[1:])
    if first.get("kind") in ("local", "argument") and first.get("function"):
        return "local", first["function"], steps
    return "other", None, steps


def of_name(name, steps):
    """Of a name in the notebook's namespace."""
    numbered = re.fullmatch(r"_(\d+)", name or "")
    if name in ("Out", "_oh") and steps and steps[0].get("kind") == "key":
        return "output", str(steps[0].get("name")), steps[1:]
    if numbered:
        return "output", numbered[1], steps
    if name in RESULTS:
        return "output", name, steps
    return "variable", name, steps


def inside(steps):
    """As Python would write the way into a value: .weight, ['key'], [3]."""
    text = ""
    for step in steps:
        kind, name = step.get("kind"), step.get("name")
        if kind == "attribute":
            text += f".{name}"
        elif kind == "key":
            text += f"[{name!r}]"
        elif kind == "item":
            text += f"[{step.get('index')}]"
        elif kind == "traceback" or (kind == "local" and step.get("function")):
            text += f", local {name} of {step.get('function', '?')}()" if name else ""
        else:
            text += f", {kind}{f' {name}' if name else ''}"
    return text


def described(holder):
    """(what, how it is released) of one of who-holds' holders; what is None where it has no words of a notebook."""
    where, name, steps = parts_of(holder["path"])
    if where == "variable":
        deeper = inside(steps)
        return f"variable {name}{deeper}", f"del {name}" if not deeper else "del, or another value"
    if where == "output" and name in RESULTS:
        return f"{name}, {RESULTS[name]}{inside(steps)}", FORGET
    if where == "output":
        return f"Out[{name}], also called _{name}{inside(steps)}", FORGET
    if where == "error":
        frames = [step for step in steps if step.get("name") and (step.get("function") or step.get("type", "").startswith("frame"))]
        held = f": local {frames[-1]['name']} of {function_of(frames[-1])}" if frames else ""
        return f"the traceback of the last error{held}", FORGET
    return None, ""


def function_of(step):
    return f"{step.get('function') or step.get('type', '').removeprefix('frame ')}()"


def answer(name, found, more):
    """The Answer for who-holds' JSON. `more`: what is told beside it."""
    block = found["block"]
    rows, others = {}, []
    for holder in found["holders"]:
        what, how = described(holder)
        if what:
            rows.setdefault(what, how)
        elif holder["text"] not in others:
            others.append(holder["text"])
    named = bool(rows)
    shown = others[: OTHERS if named else 2 * OTHERS]
    left = len(others) - len(shown) + (0 if named else found.get("omitted", 0))
    references = "; ".join(f"{one['found']} of {one['refcount']} references found" for one in found["storages"])
    order = sorted(rows.items(), key=lambda one: (not one[0].startswith("variable"), one[0]))
    parts = [
        f"{name}: {size_text(block['size'])} on cuda:{block['device']}, {block.get('tensor') or 'no tensor'}; {references}",
        *more,
        *table(["held by", "released by"], order, 50),
    ]
    if shown:
        parts += table(["also held by" if named else "held by"], ([text] for text in shown), 50)
    if left > 0:
        parts.append(f"… and {left:,} more ways, mostly through objects of the kernel")
    if not found["holders"]:
        parts.append("No holder was found.")
    if not named and not others:
        parts += found.get("notes", [])
    return Answer(*parts)


# ---- releasing what IPython keeps ----


def allocated():
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return sum(map(cuda.memory_allocated, range(cuda.device_count()))) if cuda and cuda.is_initialized() else 0


def forget(shell, outputs, errors):
    """Releases the outputs and the last error that IPython keeps; the Answer says how much memory that was."""
    before, said = allocated(), []
    if outputs:
        said.append(forget_outputs(shell))
    if errors:
        said.append(forget_errors(shell))
    gc.collect()
    after = allocated()
    return Answer(f"Forgot {' and '.join(said)}: {size_text(max(0, before - after))} of device memory was released, {size_text(after)} is allocated.")


def forget_outputs(shell):
    hook, hidden = shell.displayhook, shell.user_ns_hidden
    count = len(shell.user_ns.get("_oh", ()))
    shown = [kept for name in RESULTS for kept in (getattr(hook, name, None), hidden.get(name))]
    hook.flush()
    # which flush() and so %reset leave
    for name in RESULTS:
        for names in (hidden, shell.user_ns):
            if name in names and any(names[name] is value for value in shown):
                names[name] = ""
    for name in [name for name in hidden if re.fullmatch(r"_\d+", str(name))]:
        del hidden[name]
    last = getattr(shell, "last_execution_result", None)
    if last is not None:
        last.result = None
    return f"{count} output{'' if count == 1 else 's'}"


def forget_errors(shell):
    last = getattr(shell, "last_execution_result", None)
    errors = [getattr(sys, "last_exc", None), getattr(sys, "last_value", None), getattr(last, "error_in_exec", None)]
    tracebacks = [getattr(sys, "last_traceback", None), *(error.__traceback__ for error in errors if isinstance(error, BaseException))]
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    for formatter in vars(shell).values():
        if TRACEBACKS.match(type(formatter).__name__):
            tracebacks.append(getattr(formatter, "tb", None))
            for name in ("tb", "evalue", "value", "etype"):
                if getattr(formatter, name, None) is not None:
                    setattr(formatter, name, None)
    if last is not None and last.error_in_exec is not None:
        last.error_in_exec = None
    for one in tracebacks:
        if one is not None:
            traceback.clear_frames(one)  # whoever else keeps it
    return "the last error"
