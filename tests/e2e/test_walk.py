"""Walking by conditions: gdb stops exactly at the events for which they hold in a complete recording."""

import operator
import os
import random
import re

import pytest

PROGRAM = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.ReLU(), torch.nn.Linear(300, 8)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
kept = []
def batch(size):
    return torch.randn(size, 64).cuda()
for step in range(3):
    x = batch(32 * (step + 1))
    kept.append(x)
    loss = model(x).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
del kept[0]
print("done")
"""
COLLECTIVES = """
import torch
import torch.distributed as dist
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(1000, device="cuda")
outputs = [torch.empty_like(x)]
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(100, 100)
    def forward(self, x):
        return self.inner(x) * 2
net = torch.nn.parallel.DistributedDataParallel(Net().cuda())
for step in range(3):
    dist.all_reduce(x)
    dist.all_gather(outputs, x)
    dist.all_gather_object([None], {"step": step})
    net(x[:100].reshape(1, 100)).sum().backward()
    dist.broadcast_object_list([step])
dist.destroy_process_group()
print("done")
"""
CONTINUE = "python exec(\"while gdb.selected_inferior() and gdb.selected_inferior().pid: gdb.execute('continue')\")"


# --- the value of a condition for an event, computed again from its JSON: True, False, or None if it is not known ----------

COMPARES = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def fact(event, name):
    if name == "address":
        return int(event["address"], 16)
    if name == "step":
        return event["step"] or 0
    if name == "requested":
        return event["requested"] or None
    if name in ("dtype", "shape"):
        return event.get(name)
    return event[{"event": "n"}.get(name, name)]


def with_tensors(events):
    """A free has the properties that the allocation of its block has."""
    allocated = {event["n"]: event for event in events if event["action"] == "alloc"}
    for event in events:
        of = allocated.get(event["block"], {})
        event.update({name: of[name] for name in ("dtype", "shape") if name in of})
    return events


def operators(event):
    return [found[1] for frame in event["native"] if (found := re.match(r"at::_ops::(\w+)::", frame["function"] or ""))]


def nodes(event):
    return [found[1] for frame in event["native"] if (found := re.search(r"torch::autograd::(?:\w+::)*(\w+)::apply\b", frame["function"] or ""))]


def modules(event):
    """Classes of the modules that are called: the forward() below each Module._call_impl."""
    classes, frames = [], event["python"]
    for inner, outer in zip(frames, frames[1:]):
        if inner["function"].endswith(".forward") and outer["file"].endswith("torch/nn/modules/module.py") and outer["function"].endswith("_call_impl"):
            classes.append(inner["function"].split(".")[-2])
    return classes


def collectives(event):
    found = [frame["function"].split(".")[-1] for frame in event["python"] if frame["file"].endswith("torch/distributed/distributed_c10d.py")]
    of_fsdp2 = [frame["function"] for frame in event["python"] if frame["file"].endswith("_fully_shard/_fsdp_collectives.py")]
    found += ["all_gather" for function in of_fsdp2 if function.startswith("foreach_all_gather")]
    found += ["reduce_scatter" for function in of_fsdp2 if function.startswith("foreach_reduce")]
    for frame in event["native"]:
        match = re.match(r"c10d::(?:\w+::)*(\w+)[(<]", frame["function"] or "")
        found += [match[1]] if match else []
    return [name.replace("_", "") for name in found] or ["none"]


def of_stacks(event, name, compare, value):
    if name == "module":
        return any(one == value for one in modules(event)) == (compare == "=") if event["python"] else None
    if name == "collective":
        return any(one == value.replace("_", "") for one in collectives(event)) == (compare == "=")
    if not event["native"]:
        return None
    found = operators(event)[-1:] if name == "operator" else nodes(event)[:1]  # the outermost one; the innermost one
    return (value.removeprefix("aten::") in found) == (compare == "=")


def holds(event, condition):
    kind, *parts = condition
    if kind == "not":
        value = holds(event, parts[0])
        return None if value is None else not value
    if kind in ("and", "or"):
        values = [holds(event, part) for part in parts]
        decides = kind == "or"
        return decides if decides in values else None if None in values else not decides
    name, compare, value = parts
    if name in ("operator", "node", "module", "collective"):
        return of_stacks(event, name, compare, value)
    if name in ("function", "line"):
        if not event["python"]:
            return None
        if name == "line":
            file, line = value.split(":")
            any_fits = any(frame["file"].endswith("/" + file) and frame["line"] == int(line) for frame in event["python"])
        else:
            any_fits = any(frame["function"] == value or frame["function"].endswith("." + value) for frame in event["python"])
        return any_fits == (compare == "=")
    known = fact(event, name)
    if name == "shape":
        return None if known is None else (known == value) == (compare == "=")
    return None if known is None else COMPARES[compare](known, value)


def text(condition):
    kind, *parts = condition
    if kind == "not":
        return f"not ({text(parts[0])})"
    if kind in ("and", "or"):
        return f" {kind} ".join(f"({text(part)})" for part in parts)
    name, compare, value = parts
    return f"{name}{compare}{value}".replace(" ", "") if name == "shape" else f"{name}{compare}{value}"


FACTS = ["size", "requested", "step", "stream", "address", "event", "block", "device", "allocated", "reserved", "action", "phase", "function", "line",
         "operator", "node", "module", "collective", "dtype", "shape"]  # fmt: skip


def random_condition(chance, events, depth=2, with_steps=True):
    kind = chance.choice(["clause"] * 2 + ["and", "or", "not"]) if depth else "clause"
    if kind == "not":
        return ("not", random_condition(chance, events, depth - 1, with_steps))
    if kind != "clause":
        return (kind, random_condition(chance, events, depth - 1, with_steps), random_condition(chance, events, depth - 1, with_steps))
    event = chance.choice(events)
    name = chance.choice(FACTS if with_steps else [fact for fact in FACTS if fact not in ("step", "phase")])
    if name in ("action", "phase"):
        return ("clause", name, chance.choice(["=", "!="]), event[name])
    if name in ("operator", "node", "module", "collective"):
        found = {"operator": operators, "node": nodes, "module": modules, "collective": collectives}[name](event) or ["nothing"]
        return ("clause", name, chance.choice(["=", "!="]), chance.choice(["aten::", ""] if name == "operator" else [""]) + chance.choice(found))
    if name in ("function", "line"):
        frames = [frame for frame in event["python"] if "<" not in frame["function"] and " " not in frame["file"]]
        if not frames:
            return ("clause", "function", "=", "batch")
        frame = chance.choice(frames)
        value = frame["function"].split(".")[-1] if name == "function" else f"{frame['file'].rsplit('/', 1)[1]}:{frame['line']}"
        return ("clause", name, chance.choice(["=", "!="]), value)
    value = fact(event, name)
    if name in ("dtype", "shape"):
        return ("clause", name, chance.choice(["=", "!="]), value or {"dtype": "float64", "shape": [3, 4]}[name])
    return ("clause", name, chance.choice(list(COMPARES)), 7 if value is None else value)


def random_conditions(chance, events, most, with_steps):
    """40 conditions that hold at some events, but at fewer than `most`."""
    conditions = []
    while len(conditions) < 40:
        condition = random_condition(chance, events, with_steps=with_steps)
        if 0 < sum(holds(event, condition) is True for event in events) < most:
            conditions.append(condition)
    return conditions


def check_stops(gdb, events, conditions):
    """Each condition was counted at the events at which it holds, and the program stopped there."""
    held = {int(number): int(count) for number, count in re.findall(r"^ +(\d+) +(\d+)  ", gdb["gpumem watch"], re.M)}
    assert len(held) == len(conditions), gdb["gpumem watch"]
    for number, condition in enumerate(conditions, 1):
        assert held[number] == sum(holds(event, condition) is True for event in events), text(condition)
    stops = [int(number) for number in re.findall(r"^ *#(\d+) +\w+ ", gdb["run"] + gdb[CONTINUE], re.M)]
    wanted = [event["n"] for event in events if any(holds(event, condition) is True for condition in conditions)]
    assert set(stops) <= set(wanted) and len(stops) > 20
    # a release is two events and one stop; so are a segment and the block it was allocated for
    together = {("free_requested", "free_completed"), ("segment_alloc", "alloc")}
    for number in set(wanted) - set(stops):
        assert (events[number - 1]["action"], events[number]["action"]) in together and number - 1 in stops, number


@pytest.mark.parametrize("code", [pytest.param(PROGRAM, id="training"), pytest.param(COLLECTIVES, id="collectives", marks=pytest.mark.long)])
def test_the_program_stops_where_a_recording_says_that_conditions_hold(run_gdb, tmp_path, code):
    program = tmp_path / "program.py"
    program.write_text(code)
    first = run_gdb(["gpumem record", "run", "gpumem events --json"], program)
    events = with_tensors(first["gpumem events --json"].json_lines())
    assert len(events) > 60
    if code == COLLECTIVES:
        assert {"allgatherobject", "broadcastobjectlist", "initializebuckets"} <= {name for event in events for name in collectives(event)}
    assert {"Linear"} < {name for event in events for name in modules(event)} and any(nodes(event) for event in events)
    # which loop has the steps is seen late in the other one: at the events before it they were counted otherwise
    conditions = random_conditions(random.Random(5), events, len(events) // 4, with_steps=code == PROGRAM)
    commands = ["gpumem record", *(f"gpumem watch {text(condition)}" for condition in conditions), "run", CONTINUE, "gpumem watch",
                "gpumem events --json"]  # fmt: skip
    gdb = run_gdb(commands, program)
    events = with_tensors(gdb["gpumem events --json"].json_lines())  # addresses are those of this run
    check_stops(gdb, events, conditions)


def test_watch_and_until_stop_and_watch_lists_its_conditions(run_gdb, program):
    gdb = run_gdb(
        ["gpumem record", "gpumem watch action=alloc and function=batch", "gpumem watch --once size>100GiB", "gpumem watch", "run",
         "gpumem until phase=backward", "gpumem watch delete 1", "gpumem until step=3 and line=program.py:8", "gpumem next-event",
         "gpumem until module=Linear and operator~linear and collective=none", "gpumem until allocated<1", "gpumem watch", "gpumem watch delete", "gpumem watch"],
        program,
    )  # fmt: skip
    lists = [gdb.sections[index] for index, command in enumerate(gdb.commands) if command == "gpumem watch"]
    assert re.search(r"^ +1 +0  action=alloc and function=batch\n +2 +0  size>100GiB \(once\)$", lists[0], re.M), gdb.out
    assert "condition 1 holds: action=alloc and function=batch" in gdb["run"]
    assert re.search(r"^ *#\d+ +alloc .* program.py:8 batch  ", gdb["run"], re.M), gdb["run"]
    assert re.search(r"^ *#\d+ .* step 1 +backward ", gdb["gpumem until phase=backward"], re.M), gdb.out
    at = re.search(r"^ *#(\d+) .* step 3 .* program.py:8 batch  ", gdb["gpumem until step=3 and line=program.py:8"], re.M)
    assert at, gdb.out
    assert re.search(rf"^ *#{int(at[1]) + 1} ", gdb["gpumem next-event"], re.M)
    assert re.search(r"^ *#\d+ .* step 3 +forward +.* program.py:12 ", gdb["gpumem until module=Linear and operator~linear and collective=none"], re.M), gdb.out
    assert "the program ended before 'allocated<1' held" in gdb["gpumem until allocated<1"]
    assert "condition 2 never held: size>100GiB" in gdb["gpumem until allocated<1"]
    assert "condition 1" not in gdb["gpumem until allocated<1"]
    assert re.search(r"^ +2 +0 ", lists[1], re.M) and "  1  " not in lists[1]
    assert "no conditions" in lists[2]


def test_conditions_are_kept_over_runs_and_once_stops_once(run_gdb, program):
    walk = ["gpumem watch --once function=batch", "gpumem watch size>100GiB", "run", CONTINUE, "run", "gpumem watch"]
    gdb = run_gdb(["gpumem record", *walk], program)
    runs = [gdb.sections[index] for index, command in enumerate(gdb.commands) if command == "run"]
    assert "condition 1 holds" in runs[0] and "condition 1 holds" not in gdb[CONTINUE]
    assert "never held: size>100GiB" in gdb[CONTINUE]
    assert "condition 1 holds" not in runs[1] and "exited normally" in runs[1]
    assert "never held: size>100GiB" in runs[1] and "condition 1 never" not in runs[1]
    assert re.search(r"^ +1 +1  function=batch \(once\)", gdb["gpumem watch"], re.M)


def test_where_shows_python_with_source_lines_then_native_frames(run_gdb, program, run_gpumem, tmp_path):
    saved = tmp_path / "run.gpumem"
    gdb = run_gdb(
        ["gpumem where", "gpumem record", "gpumem until action=free_requested and step=2", "gpumem where", "gpumem where #0", "continue",
         "gpumem events --json", f"gpumem record save {saved}", "gpumem where", "gpumem where x"],
        program,
    )  # fmt: skip
    wheres = [gdb.sections[index] for index, command in enumerate(gdb.commands) if command == "gpumem where"]
    at = int(re.search(r"^ *#(\d+) ", wheres[1], re.M)[1])
    events = gdb["gpumem events --json"].json_lines()
    assert events[at]["action"] == "free_requested" and events[at]["step"] == 2
    for shown, event in ((wheres[1], events[at]), (gdb["gpumem where #0"], events[0])):
        python, native = shown.split("native, innermost frame first:\n")
        frames = re.findall(r"^ +(\d+)  (.*):(\d+) in (.*)$", python, re.M)
        assert frames == [(str(index), frame["file"], str(frame["line"]), frame["function"]) for index, frame in enumerate(event["python"])]
        own = [frame for frame in event["python"] if frame["file"] == str(program)]
        assert own
        for frame in own:
            line = PROGRAM.splitlines()[frame["line"] - 1].strip()
            assert f"{program}:{frame['line']} in {frame['function']}\n        {line}\n" in python
        names = re.findall(r"^ +\d+  (.*?)(?: in \S+)?(?: at \S+:\d+)?$", native, re.M)
        assert len(names) == len(event["native"]) > 5
        long = [name for name, frame in zip(names, event["native"]) if frame["function"] and len(frame["function"]) < 60 and name != frame["function"]]
        assert long == []
    assert "nothing is recorded" in wheres[0] and "name an event" in wheres[2]
    assert "'x' is not a number" in gdb["gpumem where x"]
    shell = run_gpumem("events", saved, "--from", str(at), "--to", str(at), "--stacks").check().out
    assert shell.lstrip() == wheres[1].lstrip()


def test_a_recording_may_name_any_file_as_a_source(run_gpumem, python, tmp_path):
    """A path that is not a regular file, or a file without that line, is left out; gpumem does not wait for a FIFO."""
    program = tmp_path / "odd.py"
    fifo, short = tmp_path / "fifo.py", tmp_path / "short.py"
    os.mkfifo(fifo)
    short.write_text("one line\x1b[2J\n")
    allocate = "torch.empty(10, device='cuda')"
    code = "\n" * 3 + allocate
    codes = [(code, str(fifo)), (code, str(short)), (allocate, str(short)), (allocate, "/dev/zero")]
    program.write_text(f"import torch\ncodes = [compile(*code, 'exec') for code in {codes!r}]\nfor code in codes:\n    exec(code)\n")
    log = tmp_path / "odd.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", python, program).check()
    shown = run_gpumem("events", log, "--stacks").check().out
    assert f"{fifo}:4 in <module>\n   1  " in shown and f"{short}:4 in <module>\n   1  " in shown
    assert f"{short}:1 in <module>\n        one line\\x1b[2J\n" in shown and "\x1b" not in shown
    assert "/dev/zero:1 in <module>\n" in shown


WRONG = [
    ("gpumem watch sise>3", "  sise>3\n  ^\ngpumem: watch: 'sise>3', column 1: sise is not known: did you mean size?"),
    ("gpumem watch size>3 and (step=1", "  size>3 and (step=1\n                    ^\ngpumem: watch: '"),
    ("gpumem watch --once", "gpumem: watch: --once: CONDITION is missing: give one, as in "),
    ("gpumem watch category=gradient", "  category=gradient\n  ^\ngpumem: watch: 'category=gradient', column 1: category is not known at an event: it follows "),
    ("gpumem watch size>1 and label=x", "  size>1 and label=x\n             ^\ngpumem: watch: 'size>1 and label=x', column 12: label is not known at an event: "),
    ("gpumem until skipped=1", "  skipped=1\n  ^\ngpumem: until: 'skipped=1', column 1: skipped is not known at a breakpoint, which sees no values: the agent "),
    ("gpumem until overflow", "  overflow\n  ^\ngpumem: until: 'overflow', column 1: overflow is not known at a breakpoint, "),
    ("gpumem watch label=x", "  label=x\n  ^\ngpumem: watch: 'label=x', column 1: label is not known at an event: "),
    ("gpumem watch range=x", "  range=x\n  ^\ngpumem: watch: 'range=x', column 1: range is not known at an event: "),
    ("gpumem watch step=1 and step=2", "gpumem: watch: 'step=1 and step=2' can never hold: change it"),
    ("gpumem watch delete 7", "gpumem: watch delete 7: there is no condition of this number: "),
    ("gpumem watch delete x", "gpumem: watch: delete: 'x' is not a number: "),
    ("gpumem until phase=sleeping", "  phase=sleeping\n        ^\ngpumem: until: 'phase=sleeping', column 7: sleeping is not a phase: "),
    ("gpumem until", "gpumem: until: a condition is missing: "),
]


def test_an_error_in_a_condition_is_shown_at_its_token(run_gdb, program):
    later = ["gpumem until step=2", "gpumem until step=1 and size>3", "gpumem until event<3", "continue"]
    gdb = run_gdb(["gpumem record", *(command for command, _ in WRONG), *later], program)
    for command, line in WRONG:
        assert gdb[command].startswith(line), gdb[command]
    assert re.match(r"gpumem: until: 'step=1 and size>3' can never hold from here on \(step 2, event \d+\): ", gdb[later[1]])
    assert "can never hold" in gdb[later[2]]
    assert "exited normally" in gdb["continue"]


def test_blocks_are_selected_by_the_facts_of_stacks(run_gdb, run_gpumem, tmp_path):
    program, saved = tmp_path / "program.py", tmp_path / "run.gpumem"
    program.write_text(COLLECTIVES)
    events = run_gdb(["gpumem record", "run", "gpumem events --json", f"gpumem record save {saved}"], program)["gpumem events --json"].json_lines()
    live = [event for event in events if event["action"] == "alloc" and not any(free["block"] == event["n"] and free["action"] == "free_completed" for free in events)]
    count = 0
    for name, of in (("operator", operators), ("node", nodes), ("module", modules), ("collective", collectives)):
        for value in sorted({value for event in live for value in of(event)}):
            for compare in ("=", "!="):
                wanted = sum(event["size"] for event in live if of_stacks(event, name, compare, value) is True)
                shown = run_gpumem("blocks", saved, "--json", "--where", f"{name}{compare}{value}").check().json()
                assert shown["where"]["bytes"] == wanted, (name, compare, value)
                count += 1
    assert count > 10
    refused = run_gpumem("blocks", saved, "--where", "skipped=1")
    assert refused.status == 2 and "skipped is not a property of a block: `gpumem amp` shows " in refused.err


SCALED = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(6):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.ones(8 * (step + 1), 64, device="cuda")).float().sum()
    loss = loss + (model.bias * 2).sum()
    scaler.scale(loss * (float("inf") if step in (1, 4) else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print("done")
"""
THREADS = """
import threading, torch
def work(number):
    for step in range(60):
        kept = torch.empty(1000 * (number + 1), device="cuda")
        other = torch.empty(10, 20 + number, dtype=torch.float16, device="cuda")
        del kept
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""


def of_blocks(events):
    """The agent's events of releases do not repeat the properties of the allocation."""
    for event in events:
        if event["action"].startswith("free") and event["block"] is not None:
            event.update({name: events[event["block"]].get(name) for name in ("dtype", "shape")})
    return events


@pytest.mark.parametrize(
    "code", [pytest.param(PROGRAM, id="training", marks=pytest.mark.long), pytest.param(SCALED, id="scaled", marks=pytest.mark.long), pytest.param(THREADS, id="threads", marks=pytest.mark.long)]
)
def test_a_program_that_the_agent_records_stops_where_its_recording_says(run_gdb, tmp_path, code):
    """With several threads, events have different numbers in each run, so everything compared comes from one run."""
    program = tmp_path / "program.py"
    program.write_text(code)
    record = "gpumem record --engine agent"
    events = of_blocks(run_gdb([record, "run", "gpumem events --json"], program)["gpumem events --json"].json_lines())
    conditions = random_conditions(random.Random(11), events, len(events) // 8, with_steps=code == PROGRAM)
    watches = [f"gpumem watch {text(condition)}" for condition in conditions]
    gdb = run_gdb([record, *watches, "run", CONTINUE, "gpumem watch", "gpumem events --json"], program)
    events = of_blocks(gdb["gpumem events --json"].json_lines())
    check_stops(gdb, events, conditions)


def test_conditions_with_the_agent(run_gdb, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SCALED)
    gdb = run_gdb(
        ["gpumem watch overflow", "gpumem record --engine agent", "gpumem watch category=gradient", "gpumem watch --once size>100GiB",
         "gpumem until shape=[8,64] and dtype=float16", "gpumem until skipped", "gpumem amp --json", "gpumem until overflow", "gpumem until skipped",
         "gpumem until not skipped and line=program.py:12", "gpumem until block=1 and action=free_completed", "gpumem watch",
         "gpumem events --json"],
        program,
    )  # fmt: skip
    assert "overflow is not known at a breakpoint" in gdb["gpumem watch overflow"]
    assert "category is not known at an event" in gdb["gpumem watch category=gradient"]
    events = gdb["gpumem events --json"].json_lines()
    at = re.search(r"^#(\d+) .*\(8, 64\) float16", gdb["gpumem until shape=[8,64] and dtype=float16"], re.M)
    first = next(event["n"] for event in events if event.get("shape") == [8, 64] and event["dtype"] == "float16")
    assert at and int(at[1]) == first, gdb.out
    untils = [gdb.sections[index] for index, command in enumerate(gdb.commands) if command == "gpumem until skipped"]
    assert re.search(r"^#\d+ .*  step [23] ", untils[0], re.M), untils[0]
    assert re.search(r"^#\d+ .*  step [56] ", untils[1], re.M), untils[1]
    assert "the program ended before 'block=1 and action=free_completed' held" in gdb["gpumem until block=1 and action=free_completed"]
    assert "condition 1 never held: size>100GiB" in gdb["gpumem until block=1 and action=free_completed"]
    assert re.search(r"^ +1 +0  size>100GiB \(once\)$", gdb["gpumem watch"], re.M)


def test_a_condition_on_a_block_that_is_not_there_yet_holds_at_its_release(run_gdb, program):
    events = run_gdb(["gpumem record --engine agent", "run", "gpumem events --json"], program)["gpumem events --json"].json_lines()
    frees = [event for event in events if event["action"] == "free_completed" and event["step"] and event["step"] >= 2 and event["block"] > 40]
    chosen, at = [], 0
    for event in frees:  # each block comes after the stop before it
        if event["block"] > at:
            chosen.append(event)
            at = event["n"] + len(events) // 10
    assert len(chosen) >= 3
    untils = [f"gpumem until block={event['block']} and action=free_completed" for event in chosen]
    gdb = run_gdb(["gpumem record --engine agent", *untils, "continue"], program)
    for event, shown in zip(chosen, gdb.sections[1:]):
        assert re.search(rf"^#{event['n']} +free_completed ", shown, re.M), gdb.out
    assert "exited normally" in gdb["continue"]


@pytest.mark.every_debugger
def test_completion_offers_the_facts(run_gdb):
    gdb = run_gdb(["complete gpumem until ph", "complete gpumem watch size>3 and al", "complete gpumem next"], "/bin/true", sim=False)
    assert gdb[0].strip() == "gpumem until phase="
    assert gdb[1].strip() == "gpumem watch size>3 and allocated="
    assert gdb[2].strip() == "gpumem next-event"
