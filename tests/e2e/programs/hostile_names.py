"""hostile_names.py OUT [wait]: holds and frees memory under hostile names of every kind (tests/e2e/hostile.py), writes a
snapshot to OUT, and with a second word waits then."""

import ctypes
import sys
import threading
import types
from pathlib import Path

import torch
from torch import nn
from torch.profiler import record_function

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hostile import hostile, short  # noqa: E402

torch.cuda.memory._record_memory_history(context="all", stacks="all", global_record_annotations=True)
ctypes.CDLL(None).prctl(15, short("process").encode()[:15])


def named(source, kind, module="__main__", **names):
    """The function `made` of a source, whose file and name are hostile; the names of variables in it too."""
    scope = {"torch": torch, "__name__": module, **names}
    code = compile(source, f"/srv/{hostile('file', 3000)}.py", "exec")
    exec(code, scope)
    function = scope["made"]
    local = {"local": hostile("variable"), "other": hostile("another variable")}
    inner = function.__code__
    name = hostile(f"function {kind}", 65536 if kind == "of an attribute" else 0)
    function.__code__ = inner.replace(
        co_name=name,
        co_varnames=tuple(local.get(name, name) for name in inner.co_varnames),
        **({"co_qualname": name} if hasattr(inner, "co_qualname") else {}),
    )
    return function


module = types.ModuleType(hostile("module"))
sys.modules[hostile("module")] = module
exec("import torch\ndef made():\n    local = torch.zeros(300_000, device='cuda')\n    return local", module.__dict__)
setattr(module, hostile("global"), torch.zeros(1_000_000, device="cuda"))

Class = type(hostile("class"), (), {})
held = Class()
setattr(held, hostile("attribute"), torch.zeros(2_000_000, device="cuda"))
setattr(Class, hostile("class attribute"), torch.zeros(500_000, device="cuda"))
globals()[hostile("variable of main")] = torch.zeros(700_000, device="cuda")
keys = {hostile("key"): torch.zeros(3_000_000, device="cuda"), hostile("long key", 65536): torch.zeros(600_000, device="cuda")}
function = named("def made():\n    local = torch.zeros(400_000, device='cuda')\n    return local", "of an attribute")
setattr(function, hostile("function attribute"), torch.zeros(800_000, device="cuda"))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for kind in ("first", "second"):
            self.add_module(hostile(f"layer {kind}").replace(".", "_"), nn.Linear(512, 512))

    def forward(self, value):
        for layer in self.children():
            value = layer(value).relu()
        return value


Net.__name__ = Net.__qualname__ = hostile("class of a module")
net = Net().to("cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
step = named(
    "def made(net, optimizer, record, text, keep):\n"
    "    local = None\n"
    "    for other in range(4):\n"
    "        with record(text):\n"
    "            local = torch.ones(256, 512, device='cuda')\n"
    "            keep.append(torch.zeros(100_000, device='cuda'))\n"
    "            net(local).sum().backward()\n"
    "        optimizer.step()\n"
    "        optimizer.zero_grad()\n",
    "of steps",
)
grown = []
torch.cuda.memory._set_memory_metadata(hostile("metadata"))
step(net, optimizer, record_function, hostile("range"), grown)
torch.cuda.memory._set_memory_metadata("")

generator = named("def made():\n    local = torch.zeros(900_000, device='cuda')\n    yield local", "of a generator")()
next(generator)
ready, end = threading.Event(), threading.Event()
waits = named(
    "def made(ready, end):\n    local = torch.zeros(1_200_000, device='cuda')\n    ready.set()\n    end.wait()", "of a thread"
)
thread = threading.Thread(target=waits, args=(ready, end), name=hostile("thread"), daemon=True)
thread.start()
ready.wait()
Path(f"/proc/self/task/{thread.native_id}/comm").write_bytes(short("thread").encode()[:15])
torch.cuda.memory._dump_snapshot(sys.argv[1])
try:
    torch.zeros(1 << 45, device="cuda")
except torch.OutOfMemoryError as error:
    print(error)
print("ready", flush=True)
if len(sys.argv) > 2:
    sys.stdin.read()
