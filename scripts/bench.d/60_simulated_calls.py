TITLE = "A call to the simulated device, beside one that does nothing (the goal: at most 2 us more)"
UNIT = "ns"


def timed(name):
    def measured(bench):
        program = bench.root / "build" / "sim_calls"
        source = bench.programs / "sim_calls.c"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            bench.run(["cc", "-O2", source, "-o", program])
        return bench.figure(bench.run([program, name], env=bench.sim), "ns per call")

    return measured


CONTENDERS = {
    "nothing": timed("nothing"),
    "a kernel's launch": timed("launch"),
    "an event recorded": timed("event"),
    "4 KiB to the device": timed("copy"),
    "4 KiB set": timed("fill"),
    "cudaFree and cudaMalloc": timed("malloc"),
}
LESS = "nothing"
COMPARE = []
