"""`oom --text`: figures and verdicts of messages that people were given, in each of PyTorch's wordings."""

import pytest

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
END = (
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management"
)


def of_old(asked, total, allocated, free, rest):
    """Until 2.0; `rest` is "U cached" or "[L allowed; ]R reserved in total by PyTorch"."""
    return f"CUDA out of memory. Tried to allocate {asked} (GPU 0; {total} total capacity; {allocated} already allocated; {free} free; {rest})"


def of_now(asked, total, free, allocated, unallocated, between="", platform="CUDA", private="", device=0, capacity="capacity"):
    return (
        f"{platform} out of memory. Tried to allocate {asked}. GPU {device} has a total {capacity} of {total} of which {free} is "
        f"free. {between}Of the allocated memory {allocated} is allocated by PyTorch, {private}and {unallocated} is reserved by "
        f"PyTorch but unallocated. {END}"
    )


# Figures as they stand in public issues; what is left to say of them is arithmetic, done here by hand.
MESSAGES = [
    # 1.0 to 1.3: the cache without the tensors
    (of_old("12.50 MiB", "10.92 GiB", "8.57 MiB", "9.28 GiB", "4.68 MiB cached"), "unknown", {"unallocated": 4.68 * MIB}),
    (of_old("26.00 MiB", "1024.00 MiB", "435.61 MiB", "24.17 MiB", "26.39 MiB cached"), "fragmentation", {"missing": 1.83 * MIB}),
    (of_old("8.13 GiB", "10.76 GiB", "643.57 MiB", "8.20 GiB", "32.43 MiB cached"), "unknown", {"missing": 0}),
    # 1.4 to 2.0
    (of_old("512.00 MiB", "15.90 GiB", "13.13 GiB", "415.88 MiB", "14.80 GiB reserved in total by PyTorch"),
     "fragmentation", {"unallocated": 1.67 * GIB, "missing": 96.12 * MIB}),
    (of_old("2.87 GiB", "14.76 GiB", "8.77 GiB", "19.75 MiB", "13.71 GiB reserved in total by PyTorch"),
     "fragmentation", {"unallocated": 4.94 * GIB}),
    (of_old("264.00 MiB", "2.00 GiB", "788.51 MiB", "145.93 MiB", "1.02 GiB reserved in total by PyTorch"), "fragmentation", {}),
    (of_old("74.00 MiB", "11.91 GiB", "10.79 GiB", "12.94 MiB", "11.21 GiB reserved in total by PyTorch"), "fragmentation", {}),
    (of_old("236.00 MiB", "15.78 GiB", "14.25 GiB", "183.50 MiB", "14.34 GiB reserved in total by PyTorch"), "capacity", {"missing": 52.5 * MIB}),
    (of_old("20.00 MiB", "3.82 GiB", "1.99 GiB", "16.00 MiB", "2.00 GiB reserved in total by PyTorch"),
     "outside", {"outside": 1.82 * GIB - 16 * MIB}),
    (of_old("2.26 GiB", "6.00 GiB", "781.59 MiB", "3.03 GiB", "1.24 GiB reserved in total by PyTorch"), "unknown", {}),
    # 2.1, with the spelling of that version
    (of_now("3.00 GiB", "23.65 GiB", "1.66 GiB", "12.09 GiB", "4.84 GiB",
            "Including non-PyTorch memory, this process has 20.81 GiB memory in use. ", capacity="capacty"),
     "fragmentation", {"process": 20.81 * GIB, "reserved": 16.93 * GIB}),
    (of_now("55.57 GiB", "12.00 GiB", "9.02 GiB", "984.52 MiB", "463.48 MiB", capacity="capacty"), "capacity", {"missing": 46.55 * GIB}),
    (of_now("1.70 GiB", "6.00 GiB", "0 bytes", "2.93 GiB", "2.30 GiB", capacity="capacty"), "fragmentation", {"free": 0}),
    (of_now("2.00 GiB", "4.00 GiB", "2.80 GiB", "0 bytes", "0 bytes", capacity="capacty"), "unknown", {"allocated": 0}),
    # 2.2 on
    (of_now("22.78 GiB", "31.47 GiB", "12.73 GiB", "9.08 GiB", "9.35 GiB",
            "Including non-PyTorch memory, this process has 18.73 GiB memory in use. "), "capacity", {"missing": 10.05 * GIB}),
    (of_now("22.00 MiB", "23.65 GiB", "11.06 MiB", "22.90 GiB", "194.87 MiB",
            "Including non-PyTorch memory, this process has 23.60 GiB memory in use. "), "capacity", {}),
    (of_now("2.00 MiB", "255.98 GiB", "244.65 GiB", "1017.01 MiB", "54.99 MiB", "1.05 GiB allowed; ", "HIP",
            "with 17.00 MiB allocated in private pools (e.g., HIP Graphs), "),
     "capacity", {"limit": 1.05 * GIB, "private_pools": 17 * MIB}),
    (of_now("16.00 GiB", "15.24 GiB", "15.09 GiB", "0 bytes", "0 bytes", platform="HIP"), "capacity", {}),
    (of_now("2.00 MiB", "287.98 GiB", "203.49 GiB", "68.63 GiB", "14.93 GiB", platform="HIP", device=7), "unknown", {"device": 7}),
    (of_now("6.64 GiB", "19.92 GiB", "6.22 GiB", "5.34 GiB", "7.10 GiB", platform="HIP"), "fragmentation", {}),
    (of_now("4.66 GiB", "5.65 GiB", "5.65 GiB", "195.50 KiB", "1.81 MiB", platform="XPU"), "unknown", {"allocated": 195.5 * KIB}),
    ("XPU out of memory. Tried to allocate 1.71 GiB (GPU  0; 15.56 GiB total capacity; 176.00 MiB already allocated; 176.00 MiB "
     "reserved in total by PyTorch)", "capacity", {"free": None, "device": 0}),
    ("MPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max allowed: 27.20 GiB). Tried to allocate "
     "292.50 MiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit", "outside", {"limit": 27.2 * GIB}),
    ("MPS backend out of memory (MPS allocated: 17.68 GB, other allocations: 3.95 MB, max allowed: 18.13 GB). Tried to allocate "
     "1024.00 MB on private pool.", "capacity", {"allocated": 17.68 * GIB}),
]  # fmt: skip


@pytest.fixture
def explain(run_gpumem, tmp_path):
    def call(text, status=0):
        path = tmp_path / "error.txt"
        path.write_text(text)
        return run_gpumem("oom", "--text", path, "--json").check(status).json()["messages"]

    return call


def size(text):
    number, unit = text.split()
    return round(float(number) * {"bytes": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "MB": MIB, "GB": GIB}[unit])


@pytest.mark.parametrize("text, verdict, figures", MESSAGES, ids=range(len(MESSAGES)))
def test_figures_and_verdict_of_a_message(explain, text, verdict, figures):
    (message,) = explain(text)
    words = text.split("Tried to allocate ")[1].split()
    assert message["requested"] == size(f"{words[0]} {words[1].rstrip('.')}")
    assert message["platform"] == text.split()[0]
    for key, value in figures.items():
        assert message[key] == (value if value is None else pytest.approx(value, abs=0.02 * MIB)), key
    assert message["verdict"] == verdict, message["sentence"]
    if message["missing"] and message["free"] is not None and not message["limit"]:
        assert message["missing"] == message["requested"] - message["free"]


@pytest.mark.parametrize("text", [text for text, _, _ in MESSAGES], ids=range(len(MESSAGES)))
def test_the_arithmetic_adds_up(explain, text):
    (message,) = explain(text)
    if message["outside"] == 0:  # two digits: the parts may make more than the whole
        return
    lines = message["arithmetic"]
    if not any(line["sign"] == "=" for line in lines):
        return
    total = lines[0]["bytes"] - sum(line["bytes"] for line in lines if line["sign"] == "-")
    assert total == pytest.approx(next(line["bytes"] for line in lines if line["sign"] == "="), abs=1)


@pytest.mark.parametrize("word", ["total capability", "Total capability", "Total capacity", "total capacty", "total capabilty"])
@pytest.mark.parametrize("old", [True, False], ids=["old", "now"])
def test_the_devices_size_is_read_in_any_spelling(word, old, explain):
    if old:
        text = of_old("236.00 MiB", "15.78 GiB", "14.25 GiB", "183.50 MiB", "14.34 GiB reserved in total by PyTorch")
    else:
        text = of_now("22.00 MiB", "23.65 GiB", "11.06 MiB", "22.90 GiB", "194.87 MiB")
    (usual,), (message,) = explain(text), explain(text.replace("total capacity", word))
    assert message == usual and message["total"] and message["arithmetic"][0]["bytes"] == message["total"]
    assert message["device"] == 0


def test_other_processes_are_named_and_blamed(explain):
    between = (
        "Process 1117 has 60.25 GiB memory in use. Process 2203 has 4.00 GiB memory in use. Including non-PyTorch memory, this "
        "process has 14.50 GiB memory in use. "
    )
    (message,) = explain(of_now("1.00 GiB", "79.15 GiB", "412.00 MiB", "13.60 GiB", "100.00 MiB", between))
    assert message["verdict"] == "outside"
    assert message["processes"] == [{"pid": 1117, "bytes": 60.25 * GIB}, {"pid": 2203, "bytes": 4 * GIB}]
    assert "64.25 GiB" in message["sentence"] and "Other processes" in message["sentence"]


def test_a_log_of_several_ranks_with_colours_and_tracebacks(run_gpumem, tmp_path):
    first = of_now("1.00 GiB", "79.15 GiB", "412.00 MiB", "77.60 GiB", "100.00 MiB")
    second = of_now("1.00 GiB", "79.15 GiB", "200.00 MiB", "66.60 GiB", "11.00 GiB", device=1)
    path = tmp_path / "train.log"
    path.write_text(
        "step 1 loss 2.0\n"
        f"[rank0]: Traceback (most recent call last):\n[rank0]:   File \"train.py\", line 3\n"
        f"\033[31m[rank0]: torch.OutOfMemoryError: \033[1mCUDA\033[0m out of memory. {first.split('memory. ', 1)[1]}\n"
        f"[rank1]: torch.OutOfMemoryError: {second}\n"
        f"[rank0]: During handling of the above exception\n[rank0]: torch.OutOfMemoryError: {first}\n"
    )  # fmt: skip
    messages = run_gpumem("oom", "--text", path, "--json").check().json()["messages"]
    assert [(one["label"], one["line"], one["repeats"], one["verdict"]) for one in messages] == [
        ("rank 0", 4, 2, "capacity"),
        ("rank 1", 5, 1, "fragmentation"),
    ]
    text = run_gpumem("oom", "--text", path).check().out
    assert "rank 0, line 4: CUDA on GPU 0: 1.00 GiB did not fit" in text


def test_a_message_broken_over_lines_is_read(explain):
    text = of_now("226.00 MiB", "15.70 GiB", "210.38 MiB", "14.81 GiB", "336.73 MiB").replace(" of ", "\n   of ").replace(" is ", " is\n")
    (message,) = explain(text)
    assert message["free"] == size("210.38 MiB") and message["unallocated"] == size("336.73 MiB")


def test_it_is_read_from_standard_input_too(gpumem, run, tmp_path):
    path = tmp_path / "text"
    path.write_text(MESSAGES[0][0])
    with open(path) as typed:
        assert "line 1: CUDA on GPU 0: 12.50 MiB" in run([gpumem, "oom", "--text"], stdin=typed).check().out
    with open(path) as typed:
        assert "line 1: CUDA on GPU 0: 12.50 MiB" in run([gpumem, "oom", "--text", "-"], stdin=typed).check().out


def test_text_without_a_message_is_a_negative_answer(run_gpumem, tmp_path):
    path = tmp_path / "text"
    path.write_text("loss 3.1\nRuntimeError: CUDA error: out of memory\n")
    run = run_gpumem("oom", "--text", path).check(1)
    assert "a CUDA call failed outside the allocator" in run.err
    path.write_text("ValueError: wrong shape\nTried to allocate nothing\n")
    run = run_gpumem("oom", "--text", path).check(1)
    assert "contains no out-of-memory message of PyTorch" in run.err
    run = run_gpumem("oom", "--text", tmp_path / "none").check(3)
    assert "none: cannot be read: No such file" in run.err


@pytest.mark.parametrize("more", [0, 1, 3])
def test_messages_beyond_the_most_that_are_read_are_counted(run_gpumem, tmp_path, more):
    path = tmp_path / "train.log"
    different = [of_now(f"{number + 1}.00 MiB", "79.15 GiB", "412.00 MiB", "77.60 GiB", "100.00 MiB") for number in range(4096 + more)]
    path.write_text("\n".join([different[0], *different]) + "\n")
    answer = run_gpumem("oom", "--text", path, "--json").check().json()
    assert len(answer["messages"]) == 4096 and answer["left_out"] == more
    assert answer["messages"][0]["repeats"] == 2
    text = run_gpumem("oom", "--text", path).check().out
    told = {0: "", 1: "1 more message is left out", 3: "3 more messages are left out"}[more]
    assert told in text and ("left out" in text) == bool(more)
