"""How long a process stands still for a question: who-holds and retained of the reference process copy what it can write to, continue it
and read the copy. Beside it one read of the same pages, a MiB at a time by as many threads, that looks at none of them."""

import json

import bench_memory

TITLE = "the pause of a live process of 1 GB, while its memory is copied"
UNIT = "s"


def pause(question):
    def measured(bench):
        pid, address = bench.target("reference")
        words = [address] if question == "who-holds" else ["--depth", "1"]
        out = bench.run([bench.gpumem, question, "--json", "--pid", pid, *words])
        pause = json.loads(out[out.index("{") : out.rindex("}") + 1])["pause"]
        if pause["state"] != "paused" or not pause["copied"]:
            raise bench.Failed(f"the process was not copied: {pause}")
        return pause["seconds"]

    return measured


def streaming(bench):
    return bench_memory.read_process(bench.target("reference")[0])[1]


CONTENDERS = {
    "the pause of who-holds": pause("who-holds"),
    "the pause of retained": pause("retained"),
    "one read of the same pages, same threads": streaming,
}
COMPARE = [
    ("the pause of who-holds", "one read of the same pages, same threads", "times one read (the goal: at most 1.2)"),
    ("the pause of retained", "one read of the same pages, same threads", "times one read (the goal: at most 1.2)"),
]
