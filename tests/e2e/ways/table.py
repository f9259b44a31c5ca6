"""The table of ways, read from their source without running it: what is held how, and what gpumem must say."""

import ast
import re
import collections
from pathlib import Path

HERE = Path(__file__).parent
MODULES = ["native", "containers", "views", "objects", "flow", "autograd", "training"]

Way = collections.namedtuple("Way", "module name expected until_310 since_313 since_314 since_315 running waits complete some classes source title")


def _stay_line(function):
    """Where a @running function stands: its own call of stay(), or that of a function within."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "stay":
            owner = function
            for inner in ast.walk(function):
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and node in ast.walk(inner):
                    owner = inner
            return owner.name, node.lineno
    return function.name, function.lineno


def rows(modules=MODULES):
    """All ways of the modules."""
    found = []
    for module in modules:
        text = (HERE / f"{module}.py").read_text()
        for node in ast.parse(text).body:
            for decorator in getattr(node, "decorator_list", []):
                if not isinstance(decorator, ast.Call) or getattr(decorator.func, "id", "") not in ("way", "running"):
                    continue
                expected = [ast.literal_eval(argument) for argument in decorator.args]
                facts = {keyword.arg: ast.literal_eval(keyword.value) for keyword in decorator.keywords}
                frame, line = _stay_line(node)
                known = {"g": f"global '{node.name}' of module {module}", "f": f"{frame}() at {module}.py:{line}",
                         "caller": f"{node.name}() at {module}.py:{node.body[-1].lineno}"}  # fmt: skip
                body = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
                found.append(
                    Way(
                        module,
                        node.name,
                        [text_.format(**known) for text_ in expected],
                        [text_.format(**known) for text_ in facts.get("until_310", [])],
                        [text_.format(**known) for text_ in facts.get("since_313", [])],
                        [text_.format(**known) for text_ in facts.get("since_314", [])],
                        [text_.format(**known) for text_ in facts.get("since_315", [])],
                        decorator.func.id == "running",
                        facts.get("waits"),
                        facts.get("complete", True),
                        facts.get("some", False),
                        facts.get("classes", ["proven"]),
                        body,
                        facts.get("title") or node.name.replace("_", " "),
                    )
                )
    return found


def plain(text):
    """Without the names of the functions that a function stands in, which Python keeps since 3.11 only, without the
    numbers by which PyTorch keeps hooks, and without the place in the tree of a context, which is a hash's."""
    text = re.sub(r"key '\d+' of OrderedDict", "key of OrderedDict", text)
    text = re.sub(r"(item \d+ of hamt_\w+: )+root of hamt", "item of hamt", text)
    # the latest of what atexit calls is the first of its list (3.14)
    text = re.sub(r"item \d+ of list: the Python interpreter's", "item of list: the Python interpreter's", text)
    # a checkpoint's two closures share a cell: either is a way to it
    text = text.replace("unpack_hook()", "pack_hook()")
    # until 3.10 a generator's frame is an object of its own
    text = re.sub(r"([\w.<>]+\(\)): \w+_frame of (generator|coroutine|async_generator)\b", r"\2 \1", text)
    text = re.sub(r"thread \d+", "thread N", re.sub(r"of \d+ bytes", "of N bytes", text))
    return re.sub(r"[\w.<>]+\.<locals>\.", "", text)


def expected_on(way, python):
    """What gpumem must say on a version of Python: [3, 9]."""
    if way.until_310 and python <= [3, 10]:
        return way.until_310
    if way.since_315 and python >= [3, 15]:
        return way.since_315
    if way.since_314 and python >= [3, 14]:
        return way.since_314
    if way.since_313 and python >= [3, 13]:
        return way.since_313
    return way.expected


def classes_on(way, python):
    # what is otherwise told from 3.14 on is told of fields that are known
    return ["proven"] if way.since_314 and python >= [3, 14] else way.classes


def wrong(way, answer, python):
    """What is wrong with gpumem's answer; empty: nothing."""
    found = []
    texts = sorted(plain(holder["text"]) for holder in answer["holders"])
    expected = sorted(map(plain, expected_on(way, python)))
    # where not all is found, other words that may hold it are listed too
    some = way.some or not way.complete
    if texts != expected and not (some and set(expected) <= set(texts)):
        found.append(f"holders {texts}, not {expected}")
    if answer["complete"] is not way.complete:
        found.append(f"complete: {answer['complete']}")
    if way.complete:
        classes = sorted({holder["class"] for holder in answer["holders"]})
        if classes != classes_on(way, python) and not (some and set(classes) <= set(classes_on(way, python))):
            found.append(f"holders that are {classes}, not {classes_on(way, python)}")
        if answer["notes"]:
            found.append(f"notes {answer['notes']}")
        for storage in answer["storages"]:
            if storage["found"] != storage["refcount"]:
                found.append(f"{storage['found']} of {storage['refcount']} references")
    return found
