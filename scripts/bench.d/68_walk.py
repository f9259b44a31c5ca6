import time

TITLE = "A program of 169,000 events under gdb, recorded by the agent, stopped once at event 166,500: from gdb's start to the program's end"
UNIT = "s"


def walk(*commands):
    def measured(bench):
        bench.sim  # noqa: B018  found out outside the time that is taken
        start = time.monotonic()
        out = bench.our_gdb(["gpumem record --engine agent", *commands], bench.programs / "walked.py")
        seconds = time.monotonic() - start
        if "exited normally" not in out or (len(commands) > 1 and "(7, 11111) float32" not in out):
            raise bench.Failed(f"it did not stop at the event, or not end: …{' '.join(out.split())[-200:]}")
        return seconds

    return measured


CONTENDERS = {
    "not stopped": walk("run"),
    "until shape=[7, 11111] and function=special": walk("gpumem until shape=[7, 11111] and function=special", "continue"),
    "until size=311296 and line=walked.py": walk("gpumem until size=311296 and line=walked.py", "continue"),
    "until function=special": walk("gpumem until function=special", "continue"),
}
COMPARE = [(name, "not stopped", "of not stopped") for name in CONTENDERS if name != "not stopped"]
