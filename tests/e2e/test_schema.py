"""What every question says as JSON, of recordings, a snapshot, a process and a core, is what docs/schema/ says it is. Fields may
be added; one that is renamed or gone fails here."""

import json
import subprocess

import pytest
from conftest import BUILD, EXAMPLES, PYTHON, ROOT, Started
from jsonschema import Draft202012Validator
from schemas import SCHEMAS, fields, keys, problems

# tests/e2e/test_python_frames.py has the answers of `at`, which is in gdb alone, and test_ranks_schema.py those of gpumem-ranks.
QUESTIONS = [name for name in SCHEMAS if name not in ("common", "at", "ranks")]
# They occur in what these programs do not do: other libraries' memory, labels, trainers, out of memory in several processes, …
RARE = {
    "owner", "forward", "forward_site", "labels", "called_by", "by_module", "at", "also", "by", "equal_at_batch_times", "others", "more",
    "python_refused", "number", "counts", "last_overflow", "scale_window", "scale_factor",
}  # fmt: skip

COLLECTIVES = ROOT / "tests" / "e2e" / "programs" / "collectives.py"

# CUDA's own call, found in the preloaded library.
TAKES = """
import ctypes, sys
cuda, at = ctypes.CDLL(None), ctypes.c_void_p()
sys.exit(cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[1]) << 20)))
"""

SNAPSHOT = """
import sys, torch
torch.cuda.memory._record_memory_history()
net = torch.nn.Linear(256, 512).cuda()
kept = []
for step in range(4):
    kept.append(torch.relu(net(torch.randn(64, 256, device="cuda"))))
    kept[-1].sum().backward()
torch.cuda.memory._dump_snapshot(sys.argv[1])
"""

# A buffer that is not full yet.
FILLING = """
import collections, os, sys, torch
net, kept = torch.nn.Linear(64, 64).cuda(), collections.deque(maxlen=100)
for step in range(8):
    kept.append(net(torch.randn(8, 64, device="cuda")).detach())
    net(kept[-1]).sum().backward()
print(os.getpid(), flush=True)
sys.stdin.read()
"""

HELD = """
import sys, torch, torch.distributed.optim

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.kept = torch.nn.Linear(256, 512), torch.nn.Linear(512, 10), []

    def forward(self, x):
        self.kept.append(torch.relu(self.a(x)))
        return self.b(self.kept[-1])

def hold(kept, names):
    inner = kept[0] * 2
    print(hex(kept[0].data_ptr()), hex(inner.data_ptr()), flush=True)
    sys.stdin.readline()
    more = kept[0] * 3
    sharded.zero_grad()
    print("more", flush=True)
    sys.stdin.readline()

net = Net().cuda()
optimizer, scaler = torch.optim.Adam(net.parameters()), torch.amp.GradScaler("cuda")
for step in range(3):
    net(torch.randn(64, 256, device="cuda")).sum().backward()
    optimizer.step()
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
parallel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
sharded = torch.distributed.optim.ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam)
parallel(torch.ones(2, 8, device="cuda")).sum().backward()
sharded.step()
hold(net.kept, {"same": net.kept[0]})
"""


OPTIONAL = {"owner", "forward", "blocks", "tree", "request", "pause", "by_module", "allocated_blocks", "allocator", "python_refused",
            "by_named_kind", ("info", "settings"), ("events", "name"), ("export", "name"), ("timeline", "collectives")}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory, run_gpumem):
    """Recordings by name, and a snapshot."""
    folder = tmp_path_factory.mktemp("files")
    made = {}
    for name, status in (("leak", 0), ("oom", 1), ("amp", 0)):
        made[name] = folder / f"{name}.gpumem"
        account = folder / f"{name}.account"
        simulated = ("--sim", "--names", "--overflow-at=1", "--json", account)
        run_gpumem("run", *simulated, "-o", made[name], "--", PYTHON, EXAMPLES / f"{name}.py").check(status)
    script = folder / "snapshot.py"
    script.write_text(SNAPSHOT)
    made["collectives"] = folder / "collectives.gpumem"
    simulated = ("--sim=h100-80gbx2", "--rank=0", "--world=2", "-o", made["collectives"])
    run_gpumem("run", *simulated, "--", PYTHON, COLLECTIVES, folder / "told", 3).check()
    made["snapshot"] = folder / "snapshot.pickle"
    run_gpumem("run", "--sim", "--no-record", "--", PYTHON, script, made["snapshot"]).check()
    return made


def ask_others(ask, lines_of, files, folder, run_gpumem):
    """What commands say that start or write something."""
    lines_of("run", files["leak"].with_suffix(".account"))
    written = folder / "events.json"
    run_gpumem("export", files["leak"], "--to=json", "-o", written).check()
    lines_of("export", written)
    fitted = folder / "fit.json"
    words = ("--sim=512MiB", "--vary=n=1..2", "--json", "--", PYTHON, "-c", TAKES, "{n}")
    fitted.write_text(run_gpumem("fit", *words).check().out)
    lines_of("fit", fitted)
    words = ("--sim=512MiB,1GiB", "--vary=n=1,2", "--with=autocast", "--json", "--", PYTHON, "-c", TAKES, "{n}")
    fitted.write_text(run_gpumem("fit", *words).check().out)
    lines_of("fit", fitted)
    command = [BUILD / "bin" / "gpumem", "run", "--sim", "-o", folder / "filling.gpumem", "--", PYTHON, "-c", FILLING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        ask("leaks", "--pid", process.stdout.readline().strip())
        process.stdin.close()
    tight = ("--sim=1GiB", "--alloc-conf", "", "--alloc-conf", "no_such:1")
    ask("replay", files["leak"], *tight, timeout=600)
    config = EXAMPLES / "qwen2_config.json"
    ask("estimate", config, "--autocast=bfloat16", "--budget=24GiB")
    ask("estimate", config, "--inference", "--offload=parameters")
    small = folder / "config.json"
    small.write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}))
    ask("estimate", small, "--method=simulate", "--python", PYTHON, "--sequence=64", timeout=600)
    ask("estimate", "--parameters=7e9", "--world=8", "--zero=3")
    ask("learn", PYTHON, "-o", folder / "layouts", timeout=600)


@pytest.fixture(scope="module")
def answers(files, run_gpumem, sim_env, tmp_path_factory):
    """[(question, words, answer)] of everything that is asked here."""
    folder, asked = tmp_path_factory.mktemp("target"), []

    def lines_of(question, path):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert found
        asked.extend((question, (question, path), answer) for answer in found)

    def ask(*words, **more):
        finished = run_gpumem(*words, "--json", **more)
        assert finished.status <= 1, f"{words}: {finished.err}"
        lines = finished.out.splitlines() if words[0] == "events" else [finished.out]
        found = [json.loads(line) for line in lines]
        asked.extend((words[0], words, answer) for answer in found)
        return found[0]

    for name, path in files.items():
        first = ask("events", path)
        for question in ("info", "blocks", "timeline", "peak", "steps", "phases", "leaks", "segments", "amp", "advise"):
            ask(question, path)
        ask("blocks", path, "--by=line")
        ask("blocks", path, "--at-peak", "--explain")
        ask("blocks", path, f"--history={first['address']}")
        ask("peak", path, "--tree")
        ask("segments", path, "--request=1GiB")
        for number in sorted({answer["block"] for question, words, answer in asked if question == "events" and words[1] == path and answer["block"]})[:40]:
            ask("why", path, f"#{number}")
    ask("events", files["collectives"], "--collectives")
    ask("zero", files["collectives"])
    ask("oom", files["oom"])
    message = folder / "message"
    message.write_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.19 GiB of "
        "which 2.00 MiB is free. Including non-PyTorch memory, this process has 79.00 GiB memory in use. Of the allocated memory "
        "78.44 GiB is allocated by PyTorch, and 17.88 MiB is reserved by PyTorch but unallocated.\n"
    )
    ask("oom", "--text", message)
    ask("diff", files["leak"], files["oom"])
    ask("diff", files["leak"], files["oom"], files["snapshot"])
    ask("assert", files["leak"], files["oom"], "--peak=1GiB", "--leaks=none", "--steps-equal", "--no-oom", "--baseline", files["leak"], "--growth=5%")
    ask("info", files["leak"], files["oom"])
    ask("peak", files["leak"], files["oom"])
    ask("doctor")
    ask("sim", "list")
    ask("view", files["leak"], "-o", folder / "page.html")
    ask("view", files["leak"], files["amp"], "-o", folder / "compared.html")
    ask("view", files["leak"], "--svg", folder / "picture.svg")
    ask_others(ask, lines_of, files, folder, run_gpumem)

    script = folder / "held.py"
    script.write_text(HELD)
    with Started(
        [PYTHON, script], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            blocks = process.stdout.readline().split()
            pid, core = f"--pid={process.pid}", folder / "core"
            by_shape = folder / "shapes.json"
            by_shape.write_text(json.dumps(ask("blocks", pid, "--by=shape")))
            ask("core", str(process.pid), "-o", core)
            for target in (pid, f"--core={core}"):
                for question in ("info", "blocks", "segments", "retained", "doctor", "amp", "zero", "frames", "locals"):
                    ask(question, target)
                for block in (*blocks, "net.a.weight"):
                    ask("who-holds", target, block)
            ask("retained", pid, f"--save={folder / 'before'}")
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "more\n"
            ask("retained", f"--diff={folder / 'before'}", pid)
            ask("blocks", pid, "--by=shape", f"--since={by_shape}")
            ask("core", str(process.pid), "-o", folder / "later")
            ask("zero", core, folder / "later")
            ask("attach", process.pid, "--timeout=600", "-o", folder / "attached.gpumem")
            ask("detach", process.pid, "--timeout=600")
        finally:
            process.kill()
    ask("retained", f"--core={core}", "--cpu")
    return asked


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_what_the_schema_says(answers, question):
    mine = [(words, answer) for name, words, answer in answers if name == question]
    assert mine, "no answer was asked for"
    for words, answer in mine:
        assert problems(question, answer) == [], words


@pytest.mark.parametrize("question", QUESTIONS)
def test_renamed_field_fails(answers, question):
    _, words, answer = next(one for one in answers if one[0] == question)
    named = fields(SCHEMAS[question]) | fields(SCHEMAS["common"])
    assert named & set(answer)
    for name in answer:
        # what was added since is in no schema yet; these need not be there
        if name not in named or {name, (question, name)} & OPTIONAL:
            continue
        renamed = {f"{key}_" if key == name else key: value for key, value in answer.items()}
        assert problems(question, renamed), f"{name} of {words}"


def test_every_field_of_the_schemas_is_in_some_answer(answers):
    seen = keys([answer for _, _, answer in answers])
    named = set().union(*(fields(schema) for name, schema in SCHEMAS.items() if name != "ranks"))
    assert len(named) > 200
    assert named - seen - RARE == set(), "a field that was renamed, or that these answers do not have"


def test_schemas_are_schemas_and_have_their_version():
    for name, schema in SCHEMAS.items():
        Draft202012Validator.check_schema(schema)
        assert schema["$id"].endswith(f"/v1/{name}.json")


def test_every_question_has_a_schema(run_gpumem):
    """Those of `top` and `gdb` are screens; `mcp` speaks a protocol."""
    import re

    names = set(re.findall(r"^  ([a-z-]+) ", run_gpumem("--help").check().out, re.M))
    assert names - set(SCHEMAS) == {"top", "gdb", "mcp"}
