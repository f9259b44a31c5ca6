"""The measures of `gpumem advise` applied to the examples: what was predicted, and what the changed example needs.

A base is an example, perhaps with larger numbers, so that the peak is where the measure works. A case is a base with the measure
applied by hand, as edits of its text. All run on the simulated device; the peaks are PyTorch's own.
"""

import json
import re
from dataclasses import dataclass

from conftest import EXAMPLES, PYTHON, ROOT

PEAKS = ROOT / "tests" / "e2e" / "programs" / "peaks.py"
MODEL = "nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)"
DEEP = ((MODEL, "*(nn.Linear(1024, 1024) for _ in range(12))"), (", 512, device", ", 1024, device"))
FUSED = (("lr=1e-3)", "lr=1e-3, fused=True)"),)
LARGER = (("randn(64,", "randn(2048,"),)
ADAMW = "torch.optim.AdamW(model.parameters(), lr=1e-3)"
ZERO = "        optimizer.zero_grad()\n"
STEP = "        optimizer.step()\n"
BACKWARD = "        loss.backward()\n"
CHUNKED = """
            def part(x, words):
                return F.cross_entropy(model.head(x), words, reduction="sum")

            pairs = zip(logits.flatten(0, 1).chunk(8), tokens.flatten().chunk(8))
            loss = sum(checkpoint(part, x, words, use_reentrant=False) for x, words in pairs) / tokens.numel()"""


# A stage of four: two of the eight layers; forward of all micro-batches, then backward of each.
PIPELINE = (
    ("LAYERS, BATCH, LENGTH = 512, 8, 8, 16,", "LAYERS, BATCH, LENGTH = 512, 8, 2, 4,"),
    ("        for _ in range(parts):\n            data = ", "        losses = []\n        for _ in range(4):\n            data = "),
    ("mean() / parts\n            scaler.scale(loss).backward()\n", "mean() / 4\n            losses.append(scaler.scale(loss))\n        for loss in losses:\n            loss.backward()\n"),
)  # fmt: skip


@dataclass
class Base:
    example: str
    what: str = ""  # how it differs from the example
    edits: tuple = ()
    arguments: str = ""
    options: tuple = ()  # of advise


@dataclass
class Case:
    base: str
    measure: str
    edits: tuple
    name: str = ""  # of several pieces of advice of the measure
    claim: str = ""  # what texts say of it
    within: bool = True  # the prediction is within 5 %; else only its range is
    long: bool = False


BASES = {
    "linear_loop": Base("linear_loop.py"),
    "leak": Base("leak.py"),
    "deep": Base("train_mlp.py", "12 layers of 1024", DEEP, options=("--world=4",)),
    "late_zero": Base(
        "train_mlp.py",
        "12 layers of 1024, batch 2048, fused, zero_grad() before backward()",
        DEEP + FUSED + LARGER + ((ZERO, ""), (BACKWARD, ZERO + BACKWARD)),
    ),
    "kept_zero": Base(
        "train_mlp.py",
        "12 layers of 1024, batch 2048, fused, zero_grad(set_to_none=False)",
        DEEP + FUSED + LARGER + (("zero_grad()", "zero_grad(set_to_none=False)"),),
    ),
    "techniques": Base("techniques.py", options=("--world=4",)),
    "gpt": Base("gpt.py"),
}

CASES = [
    Case("linear_loop", "release_variable", ((', flush=True)\n\nstats', '); del outputs\n\nstats'),), "outputs"),
    Case("leak", "release_all_held", (("append(loss)", "append(loss.item())"), (ZERO, ZERO + "        del loss, inputs\n"))),
    Case("deep", "for_loop_optimizer", (("lr=1e-3)", "lr=1e-3, foreach=False)"),)),
    Case("deep", "fused_optimizer", FUSED),
    Case("deep", "states_8bit", ((ADAMW, "__import__('optimizers').Adam8bit(model.parameters())"),)),
    Case("deep", "offload_optimizer", ((ADAMW, "__import__('optimizers').HostAdam(model.parameters())"),)),
    Case("late_zero", "zero_grad_earlier", ((ZERO, ""), (STEP, STEP + ZERO))),
    Case("kept_zero", "set_to_none", (("set_to_none=False", ""),)),
    Case("techniques", "smaller_batch", (("BATCH, LENGTH = 512, 8, 8, 16,", "BATCH, LENGTH = 512, 8, 8, 8,"),)),
    Case("techniques", "accumulate", (("BATCH, LENGTH = 512, 8, 8, 16,", "BATCH, LENGTH = 512, 8, 8, 8,"), ("parts = 4 if way == \"accumulate\" else 1", "parts = 2"))),
    Case("techniques", "checkpoint", (('else "plain"', 'else "checkpoint"'),), "Block.forward", "activations fall to 10 % or less; a third more compute"),
    Case("techniques", "attention_without_scores", (("torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v", "nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)"),), claim="O(n²) becomes O(n)"),
    Case("techniques", "autocast", (('else "plain"', 'else "autocast"'),), claim="about half of model and activations", within=False),
    Case("techniques", "tensor_parallel", (("3 * HEADS, WIDTH // HEADS", "3 * HEADS // 4, WIDTH // HEADS"), ('Model(way).to("cuda")', 'SHARDED.tensor(Model(way).to("cuda"))'), ("Adam(model.parameters())", "Adam(SHARDED.split_or_whole(model))"), ("def train(", "SHARDED = __import__('sharded_training')\n\n\ndef train("))),
    Case("techniques", "pipeline_parallel", PIPELINE),
    Case("gpt", "chunked_loss", (("return self.head(x)", "return x"), ("loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())", CHUNKED))),
    Case("techniques", "offload_activations", (("with precision:", "with precision, torch.autograd.graph.save_on_cpu():"),)),
    Case("deep", "offload_parameters", (("train(make_model())", "train(__import__('sharded_training').in_host_memory(make_model()))"),)),
    Case("deep", "zero1", ((ADAMW, "__import__('sharded_training').stage1(model.parameters())"),), claim="the state is divided by N (here 4)"),
    Case("deep", "zero2", ((ADAMW, "__import__('sharded_training').Stage2(model.parameters())"),), claim="the gradients too"),
    Case("deep", "zero3", (('.to("cuda")', '.to("cuda")\n'), ("train(make_model())", "train(__import__('sharded_training').stage3(make_model()))")), claim="the parameters too"),
]  # fmt: skip

# The first few of a base that are put together: the measures in their order, and all their edits.
TOGETHER = ("gpt", ("chunked_loss", "fused_optimizer", "zero_grad_earlier"),
            next(case.edits for case in CASES if case.measure == "chunked_loss")
            + (("fused=fused)", "fused=True)"), (ZERO, ""), (STEP, STEP + ZERO)))  # fmt: skip


def edited(text, edits):
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@dataclass
class Outcome:
    case: Case
    advice: dict
    before: int  # peaks
    after: int

    @property
    def predicted(self):
        return self.advice["saved"]

    @property
    def saved(self):
        return self.before - self.after


def pick(answer, case):
    found = [one for one in answer["advice"] if one["measure"] == case.measure and (not case.name or one["name"] == case.name)]
    assert found, (case.measure, [one["measure"] for one in answer["advice"]], [(one["text"], one["verdict"], one["peak"]) for one in answer["not_advised"] if one["measure"] == case.measure])
    return found[0]


def outcomes(run_gpumem, folder, cases):
    """(answers by base, [Outcome], the peak with those of TOGETHER)."""
    bases = {case.base: BASES[case.base] for case in cases}
    answers, programs = {}, []
    for name, base in bases.items():
        path = folder / f"{name}.py"
        path.write_text(edited((EXAMPLES / base.example).read_text(), base.edits))
        run_gpumem("run", "--sim", "-o", folder / f"{name}.gpumem", "--", PYTHON, path, *base.arguments.split()).check()
        answers[name] = run_gpumem("advise", folder / f"{name}.gpumem", "--json", *base.options).check().json()
        programs.append(f"{path} {base.arguments}")
    together = folder / "together.py"
    together.write_text(edited((EXAMPLES / BASES[TOGETHER[0]].example).read_text(), TOGETHER[2]))
    programs.append(str(together))
    for number, case in enumerate(cases):  # FSDP keeps some memory for good: it comes last
        path = folder / f"{number}_{case.measure}.py"
        path.write_text(edited((folder / f"{case.base}.py").read_text(), case.edits))
        programs.append(f"{path} {bases[case.base].arguments}")
    done = run_gpumem("run", "--sim=h100-80gbx4", "--rank=0", "--world=4", "--no-record", "--", PYTHON, PEAKS, *programs).check()
    peaks = json.loads(re.search(r"^\[[\d, ]+\]$", done.out, re.M)[0])
    before = dict(zip(bases, peaks))
    together, *after = peaks[len(bases):]
    for name, peak in before.items():
        assert answers[name]["peak"]["bytes"] == peak, name
    found = [Outcome(case, pick(answers[case.base], case), before[case.base], peak) for case, peak in zip(cases, after)]
    return answers, found, together


def size(count):
    return f"{count / 2**20:,.1f} MiB"


def row(outcome):
    base = BASES[outcome.case.base]
    error = round(100 * (outcome.predicted - outcome.saved) / outcome.saved, 1) + 0.0
    share = f"{100 * outcome.saved / outcome.before:.0f} %"
    example = f"`{base.example}`" + (f", {base.what}" if base.what else "")
    return (
        f"| `{outcome.case.measure}` | {example} | {size(outcome.before)} | {size(outcome.predicted)} | {size(outcome.saved)} | {error:+.1f} % | {share} | {outcome.case.claim} |"
    )


HEAD = "| measure | example | peak | predicted saving | measured saving | prediction is | of the peak | what texts say |\n|---|---|---|---|---|---|---|---|"
