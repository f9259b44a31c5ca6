TITLE = "Recording at breakpoints, 20 Python frames deep, both stacks: time an event"
UNIT = "us"


def bare(bench):
    out = bench.run([bench.python, bench.programs / "events.py", "20000"], env=bench.sim)
    return bench.figure(out, "us per event")


def ours(bench):
    out = bench.our_gdb(["gpumem record", "run"], bench.programs / "events.py")
    return bench.figure(out, "us per event")


def naive(settings, read):
    def measured(bench):
        before = ["set breakpoint pending on", *settings, f"python import os; os.environ['NAIVE_READ'] = '{read}'"]
        commands = [f"source {bench.programs}/naive.py", "run"]
        if settings:  # nothing is loaded by itself: wait for the library, then load it alone
            commands = ["catch load libc10.so", "run", "sharedlibrary libc10.so", commands[0], "delete 1", "continue"]
        out = bench.plain_gdb(before, commands, bench.programs / "events.py")
        return bench.figure(out, "us per event")

    return measured


CONTENDERS = {
    "without a debugger": bare,
    "gpumem record": ours,
    "plain gdb, parse_and_eval": naive([], "parse_and_eval"),
    "plain gdb, newest_frame": naive([], "newest_frame"),
    "gdb, auto-solib-add off, parse_and_eval": naive(["set auto-solib-add off"], "parse_and_eval"),
    "gdb, auto-solib-add off, newest_frame": naive(["set auto-solib-add off"], "newest_frame"),
}
COMPARE = [
    ("gpumem record", rival, f"times {rival} (no stack)") for rival in list(CONTENDERS)[2:]
]
