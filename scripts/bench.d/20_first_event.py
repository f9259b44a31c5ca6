import time

TITLE = "From gdb's start to the first event"
UNIT = "s"


def timed(run):
    def measured(bench):
        bench.sim  # noqa: B018  found out outside the time that is taken
        start = time.monotonic()
        out = run(bench)
        seconds = time.monotonic() - start
        if out is not None and "STOPPED" not in out:
            raise bench.Failed(f"it did not stop at an event: …{' '.join(out.split())[-200:]}")
        return seconds

    return measured


# The program must still be there: its thread says so.
SAY = "python print('STOPPED' if gdb.selected_inferior().pid else 'ended')"


def bare(bench):
    bench.run([bench.python, bench.programs / "first_event.py"], env=bench.sim)


def ours(bench):
    return bench.our_gdb(["gpumem record", "starti", "gpumem step", SAY, "kill"], bench.programs / "first_event.py")


def plain(bench):
    commands = ["break _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", "run", SAY, "kill"]
    return bench.plain_gdb(["set breakpoint pending on"], commands, bench.programs / "first_event.py")


CONTENDERS = {
    "the program alone, to its end": timed(bare),
    "gpumem gdb": timed(ours),
    "plain gdb, default symbol loading": timed(plain),
}
COMPARE = [("gpumem gdb", "plain gdb, default symbol loading", "of plain gdb's time")]
