#!/usr/bin/env python3
"""Runs gpumem's checks on a machine with a GPU, and keeps what they gave: for a comparison with the simulated device.

    run.py -o OUT [--gpumem PATH] [--python PATH] [--jobs N] [--only PART,…]

Parts: facts, memory, workspaces, programs, cupti, live, gdb, others, libraries, oom, overhead. The first two and the last
two run alone, as free memory and time are measured; the others side by side. `libraries` takes --seconds. OUT gets a folder of results and results.json.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS, EXAMPLES = ROOT / "tests/e2e/programs", ROOT / "examples"
results = {}


def call(name, words, limit=120, **options):
    started = time.monotonic()
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", **options.pop("env", {})}
    try:
        done = subprocess.run([str(w) for w in words], capture_output=True, timeout=limit, env=env, stdin=options.pop("stdin", subprocess.DEVNULL), **options)
        status, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        status, out, err = "timeout", error.stdout or b"", error.stderr or b""
    except OSError as error:
        status, out, err = str(error), b"", b""
    results[name] = {
        "status": status,
        "seconds": round(time.monotonic() - started, 1),
        "out": out.decode("utf-8", "replace")[-20000:],
        "err": err.decode("utf-8", "replace")[-6000:],
    }
    if status:
        print(f"{name}: {status}: {(out if name.startswith('memory') else err or out).decode('utf-8', 'replace').strip().splitlines()[-16 if name.startswith('memory') else -1:]}", flush=True)
    return results[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", required=True)
    parser.add_argument("--gpumem", default=ROOT / "build/bin/gpumem")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--only", default="facts,memory,workspaces,programs,cupti,live,gdb,others,oom,overhead")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    only, python, gpumem = options.only.split(","), options.python, options.gpumem
    out = Path(options.o)
    out.mkdir(parents=True, exist_ok=True)

    def ask(name, *words, **more):
        return call(name, [gpumem, *words], **more)

    def facts():
        call("nvidia-smi", ["nvidia-smi"])
        call("facts", [python, "-W", "ignore", HERE / "facts.py", out / "facts.json"])
        call("facts eager", [python, "-W", "ignore", HERE / "facts.py", out / "facts_eager.json"], env={"CUDA_MODULE_LOADING": "EAGER"})
        ask("doctor", "doctor")

    def memory():
        built = out / "sim_memory"
        call("memory build", ["nvcc", "-cudart", "shared", "-w", "-o", built, PROGRAMS / "sim_memory.c", "-lcuda"])
        for part in ("plain", "pitched", "arrays", "host", "managed", "pools", "driver"):
            call(f"memory {part}", [built, part], limit=30)

    def recorded(name, program, *arguments, env=None, limit=150):
        place = out / name
        words = ["run", "-o", f"{place}.gpumem", "--", python, "-W", "ignore", HERE / "with_recorder.py", place, program, *arguments]
        ask(f"program {name}", *words, env=env or {}, limit=limit, cwd=out)
        for question in ("info", "peak", "steps", "phases"):
            ask(f"{question} {name}", question, f"{place}.gpumem", "--json")

    def programs():
        tasks = []
        for name, program, *words in (
            ("linear_loop", EXAMPLES / "linear_loop.py"), ("linear_loop_no_grad", EXAMPLES / "linear_loop.py", "--no-grad"),
            ("train_mlp", EXAMPLES / "train_mlp.py"), ("gpt", EXAMPLES / "gpt.py"), ("gpt_bf16", EXAMPLES / "gpt.py", "bf16"),
            ("gpt_fused", EXAMPLES / "gpt.py", "fused"), ("leak", EXAMPLES / "leak.py"), ("who_keeps", EXAMPLES / "who_keeps.py"),
            ("amp", EXAMPLES / "amp.py"), ("growing", EXAMPLES / "growing.py"), ("qwen2", EXAMPLES / "qwen2.py"),
            *((f"techniques_{w}", EXAMPLES / "techniques.py", w) for w in ("plain", "checkpoint", "autocast", "offload", "accumulate", "chunked")),
            *((p.stem, p) for p in sorted((PROGRAMS / "scripts").glob("*.py")) if p.stem != "trainer_causal_lm"),
            ("trainer", PROGRAMS / "scripts/trainer_causal_lm.py", "bf16", out / "trainer"),
        ):  # fmt: skip
            tasks.append(lambda n=name, p=program, w=words: recorded(n, p, *w))
        listed = subprocess.run([python, HERE / "models.py", "--list"], capture_output=True, text=True).stdout.split()
        scripts = {p.stem for p in (PROGRAMS / "scripts").glob("*.py")}
        for name in listed:
            tasks.append(lambda n=name: recorded(f"model_{n}" if n in scripts else n, HERE / "models.py", n))
        tasks.append(lambda: recorded("expandable", EXAMPLES / "train_mlp.py", env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}))
        tasks.append(lambda: recorded("malloc_async", EXAMPLES / "train_mlp.py", env={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}))
        return tasks

    def workspaces():
        return [lambda i=i: call(f"workspaces {i}", [python, "-W", "ignore", HERE / "workspaces.py", out / f"workspaces{i}.json", i, "of", 6], limit=240) for i in range(6)]

    def cupti():
        def static():
            built = out / "static"
            call("static build", ["nvcc", "-w", "-o", built, HERE / "static.cu"])
            for mode, env in (("cupti", {}), ("off", {"GPUMEM_CUPTI": "off"})):
                log = out / f"static_{mode}.gpumem"
                ask(f"static {mode}", "run", "-o", log, "--", built, env=env)
                ask(f"static {mode} events", "events", log, "--json")
                ask(f"static {mode} info", "info", log)

        def nccl(*words):
            name = "nccl " + " ".join(words)
            log = out / f"nccl{''.join(words)}.gpumem"
            ask(name, "run", "-o", log, "--", python, HERE / "cupti.py", *words)
            for question in (["info"], ["info", "--json"], ["peak"], ["blocks"]):
                ask(f"{name} {' '.join(question)}", *question, log)

        return [static, nccl, lambda: nccl("profiler")]

    def live():
        def holders():
            program = subprocess.Popen([python, HERE / "live.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            state = json.loads(program.stdout.readline())
            (out / "live.json").write_text(json.dumps(state))
            pid = state["pid"]
            for question in (["info"], ["blocks", "--json"], ["retained"], ["segments"]):
                ask(f"live {' '.join(question)}", *question, "--pid", pid)
            for name, address in state["tensors"].items():
                ask(f"live who-holds {name}", "who-holds", address, "--pid", pid)
            core = out / "live_core"
            for kind, words in (
                ("core", [gpumem, "core", pid, "-o", core]),
                ("gcore", ["cuda-gdb", "-batch", "-nx", "-p", pid, "-ex", f"generate-core-file {core}"]),
            ):
                call(f"live {kind}", words, limit=100)
                if core.exists():
                    results[f"live {kind}"]["bytes"] = core.stat().st_size
                    ask(f"{kind} info", "info", core)
                    for name, address in state["tensors"].items():
                        ask(f"{kind} who-holds {name}", "who-holds", core, address)
                    core.unlink()
            program.communicate("x")

        def attached():
            program = subprocess.Popen([python, HERE / "live.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            pid = json.loads(program.stdout.readline())["pid"]
            ask("attach", "attach", pid, "-o", out / "attached.gpumem")
            program.communicate("x")
            results["attach exit"] = {"status": program.returncode}
            ask("attach info", "info", out / "attached.gpumem")

        def simulated():
            ask("sim beside a GPU", "run", "--sim=t4-16gb", "--no-record", "--", python, EXAMPLES / "train_mlp.py")

        return [holders, attached, simulated]

    def gdb():
        def session(program, commands):
            words = [w for c in commands for w in ("-ex", c)]
            call(f"gdb {program.stem}", [gpumem, "gdb", "--cuda-gdb", "-batch", *words, "--", python, "-W", "ignore", program], limit=170)

        asked = ["set pagination off", "gpumem record", "tbreak Py_RunMain", "run", "gpumem until step=2", "gpumem who-holds outputs", "gpumem who-holds inputs", "gpumem blocks", "continue", "gpumem info", "gpumem steps", "gpumem peak", "gpumem why #5"]
        plain = ["set pagination off", "gpumem record", "run", "gpumem info --json", "gpumem peak", "gpumem steps"]
        return [
            lambda: session(EXAMPLES / "linear_loop.py", asked),
            lambda: session(EXAMPLES / "train_mlp.py", plain),
            lambda: call("gdb version", ["cuda-gdb", "-batch", "-nx", "-ex", "python import sys, gdb; print(sys.version, gdb.VERSION)"]),
            lambda: call("gdb kernel", [gpumem, "gdb", "--gdb", "cuda-gdb", "-batch", "-ex", "break fill", "-ex", "gpumem record", "-ex", "run", "-ex", "gpumem blocks", "-ex", "info cuda kernels", "-ex", "kill", "--", out / "static_g"], limit=100)
            if not call("gdb kernel build", ["nvcc", "-g", "-G", "-cudart", "shared", "-w", "-o", out / "static_g", HERE / "static.cu"])["status"]
            else None,
        ]

    def others():
        def recorded_other(name, *before, env=None):
            log = out / f"other_{name}.gpumem"
            ask(f"other {name}", "run", "-o", log, "--", *before, python, "-W", "ignore", HERE / "others.py", name, env=env or {}, cwd=out, limit=100)
            for question in (["info"], ["info", "--json"], ["peak"], ["blocks"], ["segments"]):
                ask(f"other {name} {' '.join(question)}", *question, log)

        def observed():
            program = subprocess.Popen([python, HERE / "others.py", "busy"], stdout=subprocess.PIPE, text=True)
            state = json.loads(program.stdout.readline())
            time.sleep(1.5)
            pid = state["pid"]
            for turn in range(3):
                ask(f"busy who-holds {turn}", "who-holds", state["weight"], "--pid", pid)
                ask(f"busy info {turn}", "info", "--pid", pid)
            ask("busy blocks", "blocks", "--pid", pid)
            ask("busy attach", "attach", pid, "-o", out / "busy.gpumem")
            results["busy program"] = {"status": 0, "out": program.communicate()[0]}
            results["busy program"]["status"] = program.returncode
            for question in (["info", "--json"], ["steps"], ["peak"]):
                ask(f"busy recording {' '.join(question)}", *question, out / "busy.gpumem")

        def stopped():
            commands = ["set pagination off", "set breakpoint pending on", "break stop_here", "gpumem record", "run", "info cuda kernels", "print *to@4", "gpumem blocks", "gpumem who-holds to", "gpumem info", "delete", "continue", "gpumem peak"]
            words = [w for c in commands for w in ("-ex", c)]
            call("gdb torch kernel", [gpumem, "gdb", "--gdb", "cuda-gdb", "-batch", *words, "--", python, "-W", "ignore", HERE / "others.py", "kernel"], limit=170, env={"TORCH_EXTENSIONS_DIR": str(out / "extensions")}, cwd=out)
            shutil.rmtree(out / "extensions", ignore_errors=True)

        def beside():
            built = out / "static_beside"
            call("beside build", ["nvcc", "-w", "-o", built, HERE / "static.cu"])
            for name, words in (("ncu", ["ncu", "--target-processes", "all"]), ("sanitizer", ["compute-sanitizer", "--target-processes", "all"])):
                call(f"beside {name} plain", [*words, built])
                call(f"beside {name} outside", [*words, gpumem, "run", "-o", out / f"{name}_outside.gpumem", "--", built])
                ask(f"beside {name} inside", "run", "-o", out / f"{name}_inside.gpumem", "--", *words, built)
                for where in "outside", "inside":
                    ask(f"beside {name} {where} info", "info", out / f"{name}_{where}.gpumem")
                    ask(f"beside {name} {where} blocks", "blocks", out / f"{name}_{where}.gpumem")
            built.unlink(missing_ok=True)
            profiled = ["ncu", "--target-processes", "all", "--launch-count", "3"]
            program = [python, "-W", "ignore", EXAMPLES / "train_mlp.py"]
            call("beside ncu torch outside", [*profiled, gpumem, "run", "-o", out / "ncu_torch.gpumem", "--", *program])
            ask("beside ncu torch info", "info", out / "ncu_torch.gpumem")
            ask("beside ncu torch inside", "run", "-o", out / "ncu_torch_inside.gpumem", "--", *profiled, *program)
            ask("beside ncu torch inside info", "info", out / "ncu_torch_inside.gpumem")

        names = ("cupy", "jax", "numba", "assert", "illegal", "capture")
        return [stopped, observed, beside, *(lambda n=n: recorded_other(n) for n in names),
                lambda: [call(f"other alone {n}", [python, "-W", "ignore", HERE / "others.py", n]) for n in ("cupy", "jax", "numba", "assert")],
                lambda: call("other illegal core", [gpumem, "run", "-o", out / "dumped.gpumem", "--", python, "-W", "ignore", HERE / "others.py", "illegal"], env={"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": str(out / "dumped.cudacore")}, cwd=out)]  # fmt: skip

    def libraries():
        seconds = options.seconds
        return [lambda i=i: call(f"libraries {i}", [python, "-W", "ignore", HERE / "libraries.py", out / f"libraries{i}.json.gz", i, seconds], limit=seconds + 60) for i in range(14)]

    def oom():
        ask("oom run", "run", "-o", out / "oom.gpumem", "--on-oom", "report", "--", python, EXAMPLES / "oom.py")
        ask("oom answer", "oom", out / "oom.gpumem")
        ask("oom answer json", "oom", out / "oom.gpumem", "--json")

    def overhead():
        for turn in range(2):
            for name, env, words in (
                ("none", {}, []),
                ("agent", {}, [gpumem, "run", "-o", out / f"overhead{turn}.gpumem", "--"]),
                ("agent without CUPTI", {"GPUMEM_CUPTI": "off"}, [gpumem, "run", "-o", out / f"overhead_off{turn}.gpumem", "--"]),
                ("torch", {}, []),
            ):
                call(f"overhead {name} {turn}", [*words, python, "-W", "ignore", HERE / "overhead.py", *(["torch"] if name == "torch" else [])], env=env)
                save()

    def save():
        (out / "results.json").write_text(json.dumps(dict(results), indent=1))

    begun = time.monotonic()
    for part in (facts, memory):
        if part.__name__ in only:
            part()
            save()
            print(f"{part.__name__}: {time.monotonic() - begun:.0f} s", flush=True)
    tasks = [task for part in (libraries, workspaces, cupti, live, gdb, others, programs) if part.__name__ in only for task in part()]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(task) for task in tasks]):
            try:
                done.result()
            except Exception as error:  # noqa: BLE001 - the others are wanted all the same
                print(f"a task failed: {type(error).__name__}: {error}", flush=True)
            save()
    print(f"side by side: {time.monotonic() - begun:.0f} s", flush=True)
    for part in (oom, overhead):
        if part.__name__ in only:
            part()
            save()
            print(f"{part.__name__}: {time.monotonic() - begun:.0f} s", flush=True)
    for stale in ("sim_memory", "static", "static_g"):
        (out / stale).unlink(missing_ok=True)
    shutil.rmtree(out / "trainer", ignore_errors=True)


if __name__ == "__main__":
    main()
