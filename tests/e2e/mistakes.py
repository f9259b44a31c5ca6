"""Mistakes of somebody who begins with gpumem, and what the answer must name: the command that was meant, or what to do."""

# (words, the exit status, a part of the only line on stderr); RUN is a recording, TEXT a text file, DIR a folder
MISTAKES = [
    (["train.py"], 2, "to run it: `gpumem run -- python train.py`"),
    (["RUN"], 2, "a question comes before the file, as in `gpumem peak RUN`"),
    (["pek", "RUN"], 2, "did you mean `gpumem peak`?"),
    (["help", "pek"], 2, "did you mean `gpumem peak`?"),
    (["-v"], 2, "see `gpumem --help`"),
    (["run", "train.py"], 4, "start it with Python, as in `gpumem run -- python train.py`"),
    (["run", "TEXT.py"], 4, "start it with Python, as in `gpumem run -- python TEXT.py`"),
    (["run"], 2, "type `gpumem run --sim -- python train.py`"),
    (["run", "--sim", "--", "nosuch"], 4, "check the name, or give its path"),
    (["run", "--sim=a100", "--", "true"], 2, "did you mean a100-80gb?"),
    (["run", "-o", "/no/such/x.gpumem", "--", "true"], 2, "name a folder that exists"),
    (["run", "-o", "TEXT.py", "--", "true"], 2, "name another, or remove it"),
    (["peak"], 2, "name a FILE, --pid PID or --core CORE"),
    (["peak", "DIR"], 3, "name a file that `gpumem run` or `gpumem record` wrote"),
    (["peak", "TEXT.py"], 3, "name a file that `gpumem run` or `gpumem record` wrote"),
    (["peak", "none.gpumem"], 3, "check the name; a recording is written by `gpumem run`"),
    (["peak", "--by-line", "RUN"], 2, "did you mean --by=WHAT?"),
    (["why", "RUN"], 2, "give both, as in `gpumem why run.gpumem '#12'`"),
    (["why", "RUN", "nosuch"], 2, "name a block by 0x… or #N, as `gpumem blocks` does, or by FILE:LINE"),
    (["who-holds", "RUN", "output"], 2, "name one with --pid PID or --core CORE"),
    (["who-holds", "--pid", "abc", "x"], 2, "'abc' is not a number"),
    (["attach"], 2, "name one, as in `gpumem attach 4711`"),
    (["attach", "99999999"], 4, "give the id of a running process"),
    (["events", "RUN", "--from", "999999"], 2, "give one of them"),
    (["diff", "RUN"], 2, "name both, as in `gpumem diff A B`"),
    (["assert", "RUN"], 2, "give --peak, --growth, --leaks, --steps-equal or --no-oom"),
    (["assert", "RUN", "--peak", "20Gbytes"], 2, "give one such as '<20GiB' or 500MiB"),
    (["export", "RUN", "--to", "perfetto"], 2, "add -o OUT"),
    (["estimate", "none.json"], 3, "name a config.json or a safetensors file"),
    (["fit", "--", "true"], 2, "as in --vary batch=1..512"),
    (["gdb", "--", "nosuch"], 4, "check the name, or give its path"),
    (["core"], 2, "as in `gpumem core 4711`"),
]


def wrong_answers(call, recording, folder):
    """Those that are not answered so. call(words) -> conftest.Run; the folder is the current one of the command."""
    (folder / "text.py").write_text("print(1)\n" * 100)
    (folder / "folder").mkdir()
    names = {"RUN": str(recording), "TEXT.py": "text.py", "DIR": "folder"}
    wrong = []
    for words, status, told in MISTAKES:
        answer = call(*[names.get(word, word) for word in words])
        for short, name in names.items():
            told = told.replace(short, name)
        lines = answer.err.splitlines()
        if answer.status != status or len(lines) != 1 or not lines[0].startswith("gpumem: ") or told not in lines[0] or answer.out:
            wrong.append((words, answer.status, answer.err, told))
    return wrong
