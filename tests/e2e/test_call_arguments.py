"""Tensors that are arguments of calls under way: CPython has arrays of its own for calls with keywords, each with a reference
of its own to each argument. Modules that call modules, at random, each thread stopped within the innermost one."""

import json
import subprocess

import pytest

LEAST = 0.5  # of the answers are complete, of each program: docs/truth.md says which are not
PROGRAM = """
import json, os, random, sys, threading, time
import torch
from torch import nn

random.seed(int(sys.argv[1]))
started = threading.Semaphore(0)


class Inner(nn.Module):
    def forward(self, *args, **keys):
        started.release()
        time.sleep(1000)


class Outer(nn.Module):
    def __init__(self, inner, how):
        super().__init__()
        self.inner, self.how = inner, how

    def forward(self, *args, **keys):
        if self.how == "keywords":
            return self.inner(*args, **keys)
        if self.how == "method":
            return self.inner.forward(*args, **keys)
        if self.how == "function":
            return (lambda *more, **named: self.inner(*more, **named))(*args, **keys)
        return self.inner(*args, *keys.values())


def run(model, args, keys):
    model(*args, **keys)


asked = []
for _ in range(10):
    model = Inner()
    for _ in range(random.randrange(4)):
        model = Outer(model, random.choice(["keywords", "method", "function", "positional"]))
    tensors = [torch.ones(1000, device="cuda") for _ in range(random.randrange(1, 5))]
    asked += [tensor.data_ptr() for tensor in random.sample(tensors, min(2, len(tensors)))]
    cut = random.randrange(len(tensors) + 1)
    keys = {f"key{i}": tensor for i, tensor in enumerate(tensors[cut:])}
    threading.Thread(target=run, args=(model, tensors[:cut], keys), daemon=True).start()
    started.acquire()
    del tensors, keys, model
print(json.dumps(asked), flush=True)
time.sleep(1000)
"""


def check(spawn, run_gpumem, python, sim_env, folder, seed):
    (folder / "calls.py").write_text(PROGRAM)
    process = spawn([python, "-W", "ignore", folder / "calls.py", str(seed)], env=sim_env(), stdout=subprocess.PIPE)
    asked = json.loads(process.stdout.readline())
    assert len(asked) >= 10
    complete = 0
    for block in asked:
        answer = run_gpumem("who-holds", "--pid", process.pid, hex(block), "--json").check().json()
        complete += answer["complete"]
        assert all(one["found"] == one["refcount"] for one in answer["storages"])
        assert any(holder["path"][0].get("function", "").endswith("forward") for holder in answer["holders"]), answer
    retained = run_gpumem("retained", "--pid", process.pid, "--json").check().json()
    assert retained["unknown"] == 0, (seed, retained)
    process.kill()
    return complete / len(asked)


def test_arguments_of_calls_in_progress_are_found(spawn, run_gpumem, python, sim_env, tmp_path):
    assert check(spawn, run_gpumem, python, sim_env, tmp_path, 1) > LEAST


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 42))
def test_arguments_of_many_calls_in_progress_are_found(spawn, run_gpumem, python, sim_env, tmp_path, seed):
    assert check(spawn, run_gpumem, python, sim_env, tmp_path, seed) > LEAST
