"""`steps --loop FILE:LINE`: the steps are the iterations of the loop that is named, whichever it is.

Programs of nested loops are made at random, some of them within functions; each iteration allocates a block of a size of
its own, so that the truth is known.
"""

import random

import pytest

STEP = 512  # the allocator's sizes are multiples of it


class Nest:
    """A program, and of each loop's line the bytes that each of its iterations allocates."""

    def __init__(self, seed):
        self.some = random.Random(seed)
        self.bytes = 0
        self.functions, self.main = [], []
        self.loops = []
        tree = self.make_loop(self.some.randrange(2, 4))
        self.write(tree)

    def make_loop(self, depth):
        loops = self.some.randrange(1, 3) if depth else 0
        return {
            "count": self.some.randrange(1, 4) if loops else self.some.randrange(2, 4),
            "while": self.some.random() < 0.3,
            "function": self.some.random() < 0.4,
            "loops": [self.make_loop(depth - 1) for _ in range(loops)],
        }

    def write(self, tree):
        lines = ["import torch"]
        pending = []

        def allocate(indent):
            pending.append(self.some.randrange(1, 50) * STEP)
            lines.append(f"{indent}torch.empty({pending[-1]}, dtype=torch.uint8, device='cuda')")
            return pending[-1]

        def put(loop, indent):
            """Writes a loop; what one entry into it allocates."""
            index = f"i{len(lines)}"
            if loop["while"]:
                lines.append(f"{indent}{index} = 0")
                lines.append(f"{indent}while {index} < {loop['count']}:")
            else:
                lines.append(f"{indent}for {index} in range({loop['count']}):")
            loop["line"] = len(lines)
            # nothing may happen between two entries into a loop; around it a `while`, without an iterator, is not seen to go on
            own = not loop["loops"] or loop["while"] or self.some.random() < 0.5
            each = allocate(indent + "    ") if own else 0
            for inner in loop["loops"]:
                if "name" in inner:
                    lines.append(f"{indent}    {inner['name']}()")
                    each += inner["bytes"]
                else:
                    each += put(inner, indent + "    ")
                if self.some.random() < 0.5:
                    each += allocate(indent + "    ")
            if loop["while"]:
                lines.append(f"{indent}    {index} += 1")
            loop["each"], loop["bytes"] = each, each * loop["count"]
            return loop["bytes"]

        def put_functions(loop):
            for inner in loop["loops"]:
                put_functions(inner)
                if inner["function"]:
                    inner["name"] = f"function{len(lines)}"
                    lines.append(f"def {inner['name']}():")
                    put(inner, "    ")

        def tell(loop, entered):
            self.loops.append((loop["line"], [loop["each"]] * (loop["count"] * entered)))
            for inner in loop["loops"]:
                tell(inner, loop["count"] * entered)

        put_functions(tree)
        put(tree, "")
        tell(tree, 1)
        self.text = "\n".join(lines) + "\n"


def check(seed, gpumem, run, run_gpumem, python, folder):
    """The program is a script; or part of an installed package; or run by pytest, whose own loops are around it."""
    nest = Nest(seed)
    folder = folder / "site-packages" if seed % 3 == 1 else folder
    folder.mkdir(exist_ok=True)
    (folder / "nest.py").write_text(nest.text)
    (folder / "script.py").write_text("import nest\n")
    command = [["nest.py"], ["script.py"], ["-c", "import pytest; pytest.main(['nest.py', '-p', 'no:cacheprovider'])"]][seed % 3]
    file = folder / "run.gpumem"
    run([gpumem, "run", "--sim", "-o", file, "--", python, *command], cwd=folder).check()
    for line, truth in nest.loops:
        answer = run_gpumem("steps", file, "--loop", f"nest.py:{line}", "--json").check().json()
        assert answer["told_by"] == "chosen" and answer["loop"]["line"] == line, nest.text
        steps = [stretch["bytes"] for stretch in answer["steps"] if stretch["step"]]
        assert steps == truth, (line, nest.text)


# 121: loops of a package, whose iterations only their iterators show
@pytest.mark.parametrize("seed", [0, 121, 2, pytest.param(3, marks=pytest.mark.long)])
def test_the_chosen_loop_has_the_steps(seed, gpumem, run, run_gpumem, python, tmp_path):
    check(seed, gpumem, run, run_gpumem, python, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_loops_of_many_programs_can_be_chosen(seed, gpumem, run, run_gpumem, python, tmp_path):
    check(seed, gpumem, run, run_gpumem, python, tmp_path)


def test_a_line_without_a_loop_is_refused(gpumem, run, run_gpumem, python, tmp_path):
    (tmp_path / "nest.py").write_text(Nest(0).text)
    run([gpumem, "run", "--sim", "-o", tmp_path / "run.gpumem", "--", python, tmp_path / "nest.py"]).check()
    refused = run_gpumem("steps", tmp_path / "run.gpumem", "--loop", "nest.py:1")
    assert refused.status == 2 and "nest.py:1: no recorded stack has a loop with that line" in refused.err
