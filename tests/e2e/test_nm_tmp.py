from test_no_memory import *
@pytest.mark.parametrize(("target","question"),[c for c in CASES if c[0] in ("process",)])
def test_some(gpumem, targets, tmp_path, target, question):
    some = random.Random(os.environ.get("SEED","1")+f"{target} {question}")
    bad=[]
    where, block = targets[target]
    name, *rest = [{"BLOCK": block, "FILE": where[0]}.get(word, word) for word in question]
    command = [name, *where, *rest]
    good = ask(gpumem, command, ALLOCATIONS=tmp_path / "ways")
    ways = sorted(int(line) for line in (tmp_path / "ways").read_text().split())
    for number in some.sample(ways, min(int(os.environ.get("N","60")),len(ways))):
        on=some.random()<.3
        run = ask(gpumem, command, FAIL_AT=number, **({"FAIL_ON": 1} if on else {}))
        if run.returncode == good.returncode:
            if answer(run)!=answer(good): bad.append((number,on)); open(f"/tmp/st2/nm-{name}-{number}-{int(on)}.json","w").write(run.stdout); open(f"/tmp/st2/nm-{name}-good.json","w").write(good.stdout)
        elif run.returncode not in (3,4,5) or run.stdout or run.stderr.count("\n")!=1: bad.append((number,on,run))
    open("/tmp/st2/nm.res","a").write(f"{name} {len(ways)} {bad}\n")
    assert not bad, bad
