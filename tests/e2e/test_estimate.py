"""gpumem estimate: the numbers of the texts and papers, the parameters of real models, what PyTorch keeps, hostile files."""

import json
import math
import random
import subprocess

import pytest
from conftest import EXAMPLES, PYTHON, ROOT

PROGRAMS = ROOT / "tests/e2e/programs"
CONFIG = EXAMPLES / "qwen2_config.json"
SMALL = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 100,
}  # fmt: skip
ARCHITECTURES = (
    "llama mistral qwen2 qwen3 phi3 granite smollm3 olmo2 gemma gemma2 gemma3_text starcoder2 phi gpt_neox gpt2 opt mixtral "
    "qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 gpt_oss"
).split()


@pytest.fixture(scope="module")
def estimate(run_gpumem):
    def estimate(*words, status=0):
        answer = run_gpumem("estimate", *words, "--json").check(status).json()
        answer["bytes"] = {term["kind"]: term["bytes"] for term in answer["terms"]}
        return answer

    return estimate


# --- the texts --------------------------------------------------------------------------------------


def test_seven_billion_parameters_take_112_gb(estimate):
    """"Optimizing GPU Memory for Deep Learning Workloads": parameters, gradients and Adam's two moments."""
    answer = estimate("--parameters=7e9")
    assert answer["model_states"] == 112_000_000_000
    assert (answer["bytes"]["parameters"], answer["bytes"]["gradients"], answer["bytes"]["optimizer_state"]) == (28e9, 28e9, 56e9)


def test_a_model_of_one_and_a_half_billion_parameters_takes_6_gb(estimate):
    """"Visualize and understand GPU memory in PyTorch": N x P, 2 x N x P, N x P, N x P."""
    found = estimate("--parameters=1.5e9")["bytes"]
    assert found["parameters"] == found["gradients"] == found["optimizer_intermediates"] == 6_000_000_000
    assert found["optimizer_state"] == 12_000_000_000


@pytest.mark.parametrize("batch, peak", [(16, "backward"), (2, "optimizer")])
def test_the_texts_total_is_that_of_the_higher_peak(estimate, batch, peak):
    """With a batch of 16 activations make the peak, with 2 the optimizer's step: both shown in the text for this model."""
    for way in ("text", "operators"):
        answer = estimate(CONFIG, f"--batch={batch}", "--sequence=256", f"--activations={way}")
        found = answer["bytes"]
        kept = found["parameters"] + found["optimizer_state"]
        backward = kept + found["activations"] + found.get("loss_backward", 0)
        optimizer = kept + found["gradients"] + found["optimizer_intermediates"]
        assert (answer["backward_peak"], answer["optimizer_peak"], answer["total"]) == (backward, optimizer, max(backward, optimizer))
        assert answer["peak"] == peak


def test_activations_by_the_text_are_its_line_times_batch_length_and_bytes(estimate):
    n = 1_543_714_304
    a = 4.6894e-4 * n + 1.8494e6
    answer = estimate(CONFIG, "--batch=16", "--sequence=256", "--activations=text")
    assert answer["model"]["parameters"] == n
    assert answer["bytes"]["activations"] == pytest.approx(a * 16 * 256 * 4, abs=1)
    ways = {one["way"]: one["activations"] for one in answer["by_way"]}
    assert ways["text-bytes"] == pytest.approx(a * 16 * 256, abs=1)
    assert list(ways) == ["operators", "paper", "text", "text-bytes"]


def test_errors_in_the_text_are_flagged(estimate):
    """A counts bytes and is multiplied by P again; the summary's maximum leaves a term out where the optimizer has the peak."""
    small, large = (estimate(CONFIG, f"--batch={batch}", "--sequence=256", "--activations=text") for batch in (2, 16))
    assert small["notes"] == ["text_a_counts_bytes", "text_totals_differ"]
    assert large["notes"] == ["text_a_counts_bytes"]
    states = small["bytes"]["parameters"] + small["bytes"]["optimizer_state"]
    largest = max(small["bytes"][kind] for kind in ("gradients", "optimizer_intermediates", "activations"))
    assert small["text_summary_total"] == states + largest < small["total"]
    assert large["text_summary_total"] == large["total"]


def test_mixed_precision_halves_no_parameter(estimate):
    """The text promises half of model and activation memory."""
    plain, mixed = (estimate(CONFIG, "--batch=16", "--sequence=256", *words) for words in ((), ("--autocast=bfloat16",)))
    assert mixed["bytes"]["parameters"] == plain["bytes"]["parameters"]
    assert mixed["bytes"]["autocast_copies"] == 2 * (1_543_714_304 - 87_552 - 28 * 2_048), "all but norms and biases"
    assert "autocast_keeps_parameters" in mixed["notes"]
    assert mixed["bytes"]["activations"] < plain["bytes"]["activations"]


def test_a_fused_optimizer_has_no_intermediates(estimate):
    """What one text calls fused AdamW's temporaries are those of the foreach one."""
    assert estimate(CONFIG, "--optimizer=adamw")["bytes"]["optimizer_intermediates"] == 4 * 1_543_714_304
    assert estimate(CONFIG, "--optimizer=adamw-fused")["bytes"]["optimizer_intermediates"] == 0


# --- the papers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage, gigabytes", [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_the_zero_papers_figure_1_is_reproduced(estimate, stage, gigabytes):
    """7.5 billion parameters on 64 GPUs: 120, 31.4, 16.6 and 1.9 GB."""
    words = ("--parameters=7.5e9", "--dtype=float16", "--master-weights", "--world=64", f"--zero={stage}")
    assert estimate(*words)["model_states"] / 1e9 == pytest.approx(gigabytes, rel=0.003)


@pytest.mark.parametrize("layers, hidden, heads, factor", [(96, 12288, 96, 80), (105, 20480, 128, 64)])
def test_activations_of_gpt_3_and_mt_nlg(estimate, layers, hidden, heads, factor):
    """Korthikanti et al.: s b h L (34 + 5 a s / h), and 70 % and 65 % less without the attention's matrices."""
    model = (f"--layers={layers}", f"--hidden={hidden}", f"--heads={heads}", "--vocab=51200", "--architecture=gpt2")
    words = (*model, "--dtype=float16", "--sequence=2048", "--activations=paper", "--attention=materialized")
    tokens = 2048 * hidden * layers
    assert 5 * heads * 2048 / hidden == factor
    assert estimate(*words)["bytes"]["activations"] == tokens * (34 + factor)
    assert estimate(*words, "--checkpointing=selective")["bytes"]["activations"] == tokens * 34
    assert estimate(*words, "--checkpointing=full")["bytes"]["activations"] == tokens * 2
    split = estimate(*words, "--tp=8")["bytes"]["activations"]
    assert split == tokens * (10 + (24 + factor) / 8)
    assert estimate(*words, "--tp=8", "--sequence-parallel")["bytes"]["activations"] == tokens * (34 + factor) / 8


def test_selective_checkpointing_saves_nothing_where_no_matrix_is_kept(estimate):
    plain, selective = (estimate(CONFIG, *words) for words in ((), ("--checkpointing=selective",)))
    assert plain["bytes"] == selective["bytes"]
    assert "selective_saves_nothing" in selective["notes"]


# --- the formulas -----------------------------------------------------------------------------------


def evaluated(term):
    names = {"ceil": lambda value: -int(-value // 1), "max": max, **term["operands"]}
    formula = term["formula"].replace("ceil(N / 256)", "-(-N // 256)")
    return eval(formula, {"__builtins__": {}}, names)  # noqa: S307


def settings(pick):
    words = [f"--batch={pick.randint(1, 9)}", f"--sequence={pick.choice([1, 77, 1024])}", f"--accumulation={pick.randint(1, 5)}"]
    tp, pp, cp, data = pick.choice([1, 2]), pick.choice([1, 2]), pick.choice([1, 2]), pick.choice([1, 3])
    words += [f"--tp={tp}", f"--pp={pp}", f"--cp={cp}", f"--world={tp * pp * cp * data}", f"--zero={pick.randint(0, 3)}"]
    words += [f"--dtype={pick.choice(['float32', 'bfloat16'])}", f"--attention={pick.choice(['efficient', 'materialized'])}"]
    words += [f"--optimizer={pick.choice(['adamw', 'adamw-fused', 'adamw-8bit', 'sgd', 'sgd-momentum', 'lion'])}"]
    words += [f"--checkpointing={pick.choice(['none', 'selective', 'full'])}"]
    words += pick.choice([[], ["--autocast=bfloat16"], ["--offload=optimizer"], ["--offload=activations"], ["--inference"]])
    if tp > 1 and pick.random() < 0.5:
        words.append("--sequence-parallel")
    return words


@pytest.mark.parametrize("seed", range(12))
def test_each_terms_formula_gives_its_bytes(estimate, seed):
    pick = random.Random(seed)
    way = [] if pick.random() < 0.7 else ["--activations=paper"]
    answer = estimate(CONFIG, *settings(pick), *way)
    assert len(answer["terms"]) >= 3
    for term in answer["terms"]:
        assert evaluated(term) == pytest.approx(term["bytes"] or term["host_bytes"], rel=1e-9), term


def test_ranks_together_have_the_whole_model(estimate):
    whole = estimate(CONFIG, "--dtype=bfloat16", "--master-weights")
    split = estimate(CONFIG, "--dtype=bfloat16", "--master-weights", "--world=8", "--zero=3")
    for kind in ("parameters", "gradients", "optimizer_state"):
        assert whole["bytes"][kind] <= 8 * split["bytes"][kind] < whole["bytes"][kind] + 8 * 16
    moved = estimate(CONFIG, "--offload=optimizer")
    plain = estimate(CONFIG)
    assert moved["host_bytes"] == plain["bytes"]["optimizer_state"] + plain["bytes"]["optimizer_intermediates"]
    assert moved["bytes"]["optimizer_state"] == 0


def test_the_budget_decides_the_exit_status(estimate, run_gpumem):
    total = estimate(CONFIG)["total"]
    assert estimate(CONFIG, f"--budget={total}")["fits"] is True
    assert estimate(CONFIG, f"--budget={total - 1}", status=1)["fits"] is False
    assert "does not fit" in run_gpumem("estimate", CONFIG, "--budget=1GiB").check(1).out
    for nothing in ("0", "0.5", "0GiB"):
        assert "less than a byte" in run_gpumem("estimate", CONFIG, f"--budget={nothing}").check(2).err
    assert estimate(CONFIG)["fits"] is None


# --- real models ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """{name: parameters} of models built on the meta device, and the folder of their configs."""
    folder = tmp_path_factory.mktemp("models")
    command = [PYTHON, PROGRAMS / "estimate_models.py", folder, "4", *ARCHITECTURES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    built = [json.loads(line) for line in done.stdout.splitlines()]
    return folder, {one["name"]: one["parameters"] for one in built}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_parameters_are_those_of_the_real_model(estimate, models, architecture):
    folder, built = models
    names = [name for name in built if name.rsplit("-", 1)[0] == architecture]
    assert len(names) == 4
    for name in names:
        model = estimate(folder / name)["model"]
        assert model["parameters"] == built[name], name
        parts = {part: count for part, count in model["by_part"].items() if part != "active"}
        assert sum(parts.values()) == built[name]


def test_help_names_every_architecture(run_gpumem):
    text = run_gpumem("estimate", "--help").check().out
    listed = text.split("The architectures:")[1].split(". With")[0].replace(",", " ").replace(".", " ").split()
    assert sorted(listed) == sorted(ARCHITECTURES)


@pytest.fixture(scope="module")
def kept(tmp_path_factory, sim_env):
    folder = tmp_path_factory.mktemp("kept")
    command = [PYTHON, PROGRAMS / "estimate_kept.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=sim_env())
    assert done.returncode == 0, done.stderr[-2000:]
    return folder, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_activations_are_what_pytorch_keeps_for_backward(estimate, kept):
    """Within half a percent: the allocator's rounding, and norms' weights as float32."""
    folder, cases = kept
    assert len(cases) > 25
    for case in cases:
        words = [f"--{name}={case[name]}" for name in ("batch", "sequence", "dtype", "attention")]
        autocast = [f"--autocast={case['autocast']}"] if case["autocast"] else []
        answer = estimate(folder / case["name"], *words, *autocast)
        found = answer["bytes"]["activations"] + answer["bytes"].get("autocast_copies", 0)
        assert found == pytest.approx(case["kept"], rel=0.005), case


CACHE = """
import json, os, sys
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch
from transformers import AutoConfig, AutoModelForCausalLM
for folder in sys.argv[1:]:
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        cache = model(torch.ones((3, 12), dtype=torch.long), use_cache=True).past_key_values
    print(json.dumps(sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))))
"""


@pytest.mark.long
def test_the_cache_is_as_large_as_the_one_of_transformers(estimate, models):
    folder, _ = models
    names = [f"{name}-{seed}" for name in ("llama", "qwen2", "qwen3", "gpt2", "opt") for seed in range(2)]
    done = subprocess.run([PYTHON, "-c", CACHE, *(folder / name for name in names)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, size in zip(names, done.stdout.split(), strict=True):
        answer = estimate(folder / name, "--inference", "--batch=3", "--sequence=12", "--dtype=float32")
        assert answer["bytes"]["kv_cache"] == int(size), name


SAVES = """
import os, sys
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch
from transformers import AutoConfig, AutoModelForCausalLM
model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(sys.argv[1]), dtype=torch.bfloat16)
model.save_pretrained(sys.argv[2])
model.save_pretrained(sys.argv[3], max_shard_size="40KB")
print(sum(p.numel() for p in model.parameters()))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model in one file, and in several with an index; how many parameters it has."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "config.json").write_text(json.dumps(SMALL))
    command = [PYTHON, "-c", SAVES, folder, folder / "one", folder / "several"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "one" / "model.safetensors", folder / "several" / "model.safetensors.index.json", int(done.stdout)


def test_a_safetensors_file_is_counted_by_its_header(estimate, saved, tmp_path):
    one, several, parameters = saved
    assert len(list(several.parent.glob("*.safetensors"))) > 2
    for path, kind in ((one, "safetensors"), (several, "safetensors_index")):
        answer = estimate(path)
        assert (answer["model"]["input"], answer["model"]["parameters"]) == (kind, parameters)
        assert answer["settings"]["dtype"] == "bfloat16"
        assert answer["model"]["architecture"] == "llama", "of the config beside it"
    alone = tmp_path / "alone.safetensors"
    alone.write_bytes(one.read_bytes())
    answer = estimate(alone)
    assert (answer["model"]["parameters"], answer["model"]["architecture"]) == (parameters, None)
    assert "activations_by_fit" in answer["notes"]


def test_an_index_without_its_files_is_trusted(estimate, saved, tmp_path, run_gpumem):
    _, several, _ = saved
    index = json.loads(several.read_text())
    path = tmp_path / "model.safetensors.index.json"
    index["metadata"]["total_parameters"] = 12345
    path.write_text(json.dumps(index))
    answer = estimate(path)
    assert (answer["model"]["parameters"], "index_alone" in answer["notes"]) == (12345, True)
    del index["metadata"]["total_parameters"]
    path.write_text(json.dumps(index))
    assert "total_parameters is not a number" in run_gpumem("estimate", path).check(3).err


# --- the model itself -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulate(estimate):
    def simulate(*words, status=0):
        return estimate(*words, "--method=simulate", f"--python={PYTHON}", status=status)

    return simulate


def config_file(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return path


def test_the_formula_agrees_with_the_model_that_is_built(simulate, tmp_path):
    """Large enough that cuBLAS's workspaces, which no formula has, are a small part."""
    wide = SMALL | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 4, "vocab_size": 32000, "num_attention_heads": 16}
    answer = simulate(config_file(tmp_path, **wide), "--batch=4", "--sequence=512")
    built, found = answer["simulated"], answer["bytes"]
    assert built["parameter_bytes"] == found["parameters"]
    assert (built["gradients"], built["optimizer_state"]) == (found["gradients"], found["optimizer_state"])
    assert built["activations"] == pytest.approx(found["activations"], rel=0.005)
    assert built["backward_peak"] == pytest.approx(answer["backward_peak"], rel=0.03)
    assert built["optimizer_peak"] == pytest.approx(answer["optimizer_peak"], rel=0.03)
    assert answer["total"] == built["total"] == max(built["backward_peak"], built["optimizer_peak"])
    assert (answer["method"], answer["formula_total"]) == ("simulate", max(answer["backward_peak"], answer["optimizer_peak"]))


def test_an_architecture_without_a_formula_is_built(simulate, run_gpumem, tmp_path):
    path = config_file(tmp_path, model_type="cohere", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
                       num_key_value_heads=4, vocab_size=1000, pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip
    assert "use --method simulate" in run_gpumem("estimate", path).check(3).err
    answer = simulate(path, "--sequence=64", "--budget=1GiB")
    assert (answer["terms"], answer["formula_total"], answer["fits"]) == ([], None, True)
    assert answer["simulated"]["parameter_bytes"] == 4 * answer["model"]["parameters"] > 0
    assert "does not know this architecture" in run_gpumem(
        "estimate", path, "--sequence=64", "--budget=1MiB", "--method=simulate", "--python", PYTHON
    ).check(1).out  # fmt: skip


@pytest.fixture(scope="module")
def hooks(estimate):
    def hooks(*words):
        return estimate(*words, "--method=hooks", f"--python={PYTHON}")

    return hooks


def test_hooks_count_what_the_text_counts(hooks):
    """"Visualize and understand GPU memory in PyTorch": 5,065,216 for one token of this model."""
    answer = hooks(CONFIG, "--batch=1", "--sequence=1")
    assert (answer["hooks"]["token_bytes"], answer["hooks"]["bytes"]) == (5_065_216, 5_065_216)
    assert (answer["method"], answer["bytes"]["activations"], answer["notes"]) == ("hooks", 5_065_216, ["hooks_count_outputs"])


def test_hooks_add_up_the_outputs_of_all_modules(hooks, estimate, tmp_path):
    """A llama's modules are known: what each returns for a token, and the tables of cosines and sines for a sequence."""
    random_of = random.Random(7)
    heads, per_head, layers = random_of.choice([2, 4]), random_of.choice([16, 32]), random_of.randrange(2, 5)
    width, inner, vocab = heads * per_head, random_of.randrange(40, 200), random_of.randrange(500, 2000)
    fields = {
        "model_type": "llama", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": 1,
        "intermediate_size": inner, "vocab_size": vocab, "head_dim": per_head, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    batch, sequence, size = 3, 17, 2
    words = [config_file(tmp_path, **fields), f"--batch={batch}", f"--sequence={sequence}", "--dtype=bfloat16", "--zero=1", "--world=2"]
    attention = width + 2 * per_head + 2 * width  # q; k and v; o, and the attention's own output
    mlp = 3 * inner + 2 * width  # gate, up, the function between; down, and the MLP's own
    token = width + layers * (2 * width + attention + mlp + width) + width + vocab
    answer = hooks(*words)
    assert answer["hooks"]["bytes"] == size * (batch * sequence * token + 2 * sequence * per_head)
    assert answer["hooks"]["token_bytes"] == size * (token + 2 * per_head)
    formula = estimate(*words)
    for kind in ("parameters", "gradients", "optimizer_state", "optimizer_intermediates"):
        assert answer["bytes"][kind] == formula["bytes"][kind]
    (own,) = [way for way in answer["by_way"] if way["way"] == "hooks"]
    assert (own["activations"], own["total"]) == (answer["hooks"]["bytes"], answer["total"])
    assert [way for way in answer["by_way"] if way["way"] != "hooks"] == formula["by_way"]


def test_a_model_that_looks_at_values_is_counted_on_the_simulated_device(hooks, tmp_path):
    fields = {"model_type": "gpt2", "vocab_size": 600, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64, "pad_token_id": 0}  # it looks for padding
    answer = hooks(config_file(tmp_path, **fields), "--batch=2", "--sequence=8")
    # of a token: the embeddings and their dropout; c_attn, c_proj, its dropout, attention; c_fc, the function, c_proj, dropout, MLP; norms
    layer = 64 * (3 + 1 + 1 + 1) + 64 * (4 + 4 + 1 + 1 + 1) + 2 * 64 + 64
    token = 64 + 64 + 2 * layer + 64 + 600
    positions = 8 * 64  # which all sequences share
    assert answer["hooks"]["device"] == "cuda"
    assert answer["hooks"]["bytes"] == 4 * (2 * 8 * token + positions)


def test_hooks_need_no_formula(hooks, run_gpumem, tmp_path):
    path = config_file(tmp_path, model_type="cohere", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
                       num_key_value_heads=4, vocab_size=1000, pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip
    answer = hooks(path, "--sequence=64")
    assert answer["bytes"]["parameters"] == 4 * answer["model"]["parameters"] > 0
    assert answer["bytes"]["activations"] == answer["hooks"]["bytes"] > 0


def test_code_that_a_config_names_is_not_loaded(run_gpumem, tmp_path):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    path = config_file(tmp_path, model_type="evil", auto_map={"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"})
    run = run_gpumem("estimate", path, "--method=simulate", "--python", PYTHON).check(3)
    assert "transformers does not build it" in run.err and str(path) in run.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("words, message", [(("--tp=2",), "on one GPU"), (("--inference",), "of training"), (("--layers=2",), "as it is")])
def test_what_hooks_cannot_count_is_refused(run_gpumem, words, message):
    run = run_gpumem("estimate", CONFIG, "--method=hooks", *words).check(2)
    assert message in run.err and "--method hooks" in run.err and run.err.count("\n") == 1


@pytest.mark.parametrize(
    "words, status, message",
    [
        (("--world=2",), 2, "it builds the model on one GPU"),
        (("--optimizer=lion",), 2, "it has the optimizers of PyTorch alone"),
        (("--checkpointing=selective",), 2, "no selective checkpointing"),
        (("--layers=2",), 2, "as it is"),
        (("--python=/nonexistent/python",), 4, "no such program"),
        (("--python=/bin/false",), 4, "ended without an answer"),
    ],
)
def test_what_cannot_be_built_is_refused(run_gpumem, words, status, message):
    run = run_gpumem("estimate", CONFIG, "--method=simulate", *words).check(status)
    assert message in run.err and run.err.count("\n") == 1


# --- hostile files ----------------------------------------------------------------------------------

MUCH = 10**30
HOSTILE = {
    "empty": ("", "neither JSON nor a safetensors file"),
    "cut": ('{"model_type": "llama", ', "it is not a JSON object"),
    "list": ("[1, 2]", "it is a JSON array, not an object"),
    "deep": ("[" * 100_000, "maximum parsing depth reached"),
    "twice": ('{"model_type": "llama", "model_type": "gpt2"}', "duplicate object key"),
    "nan": (json.dumps(SMALL).replace("96", "NaN"), "it is not a JSON object"),
    "much": (json.dumps(SMALL | {"hidden_size": MUCH}), "too big integer"),
    "large": (json.dumps(SMALL | {"hidden_size": 2**40}), "hidden_size: it is too large"),
    "negative": (json.dumps(SMALL | {"num_hidden_layers": -3}), "num_hidden_layers: it is negative"),
    "nought": (json.dumps(SMALL | {"num_attention_heads": 0}), "num_attention_heads: it is too small"),
    "text": (json.dumps(SMALL | {"vocab_size": "many"}), "vocab_size: it is not a whole number"),
    "fraction": (json.dumps(SMALL | {"vocab_size": 100.5}), "vocab_size: it is not a whole number"),
    "missing": (json.dumps({key: SMALL[key] for key in SMALL if key != "intermediate_size"}), "intermediate_size: it is missing"),
    "no type": (json.dumps({key: SMALL[key] for key in SMALL if key != "model_type"}), "model_type: it is missing"),
    "unknown": (json.dumps(SMALL | {"model_type": "mamba"}), "model_type: the formula does not know 'mamba'"),
    "heads": (json.dumps(SMALL | {"num_key_value_heads": 3}), "num_key_value_heads: it does not divide"),
    "wide": (json.dumps(SMALL | {"num_attention_heads": 128, "num_key_value_heads": 128}), "more heads than the model is wide"),
    "switch": (json.dumps(SMALL | {"attention_bias": "yes"}), "attention_bias: it is not true or false"),
    "experts": (
        json.dumps(SMALL | {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3}),
        "num_experts_per_tok: there are fewer experts",
    ),
    "dense": (
        json.dumps(SMALL | {"model_type": "qwen3_moe", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "mlp_only_layers": [-1]}),
        "mlp_only_layers: an item is not a layer's number",
    ),
    "opt": (json.dumps({"model_type": "opt", **SMALL, "ffn_dim": 8, "model_type": "opt", "word_embed_proj_dim": 32}), "word_embed_proj_dim"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_config_is_refused_with_file_and_field(run_gpumem, tmp_path, kind):
    text, message = HOSTILE[kind]
    path = tmp_path / "config.json"
    path.write_text(text)
    run = run_gpumem("estimate", path).check(3)
    assert run.err.startswith(f"gpumem: {path}: ") and message in run.err
    assert run.err.count("\n") == 1 and run.out == ""


def header(tensors, length=None):
    text = json.dumps(tensors).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text


TENSOR = {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}
DAMAGED = {
    "longer than the file": (header({"a": TENSOR}, 10_000), "more than the file"),
    "absurd": (header({"a": TENSOR}, 2**63), "more than gpumem reads"),
    "no dtype": (header({"a": {**TENSOR, "dtype": "Q4"}}), "tensor 'a': its dtype is missing or not known"),
    "negative": (header({"a": {**TENSOR, "shape": [-4, 8]}}), "its shape has something else than sizes"),
    "overflow": (header({"a": {**TENSOR, "shape": [2**40, 2**40]}}), "its shape and its offsets differ"),
    "offsets": (header({"a": {**TENSOR, "data_offsets": [64, 0]}}), "its offsets are not a beginning and an end"),
    "no tensors": (header({}), "it has no tensor of floating-point numbers"),
    "not an object": (header({"a": 5}), "its dtype is missing or not known"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_safetensors_header_is_refused(run_gpumem, tmp_path, kind):
    content, message = DAMAGED[kind]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    run = run_gpumem("estimate", path).check(3)
    assert str(path) in run.err and message in run.err


def test_an_index_cannot_name_files_elsewhere(run_gpumem, tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    assert "it is not a file name in the index's folder" in run_gpumem("estimate", path).check(3).err


def test_files_that_are_no_files_are_refused(run_gpumem, tmp_path):
    import os

    os.mkfifo(tmp_path / "config.json")
    assert "config.json" in run_gpumem("estimate", tmp_path).check(3).err
    assert run_gpumem("estimate", tmp_path / "none.json").status == 3


def test_a_config_of_a_gigabyte_is_not_read(run_gpumem, tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.write(b'{"model_type": "')
        file.truncate(1 << 30)
    run = run_gpumem("estimate", path).check(3)
    assert str(path) in run.err


def test_sums_beyond_64_bits_are_refused(run_gpumem, tmp_path):
    largest = 2**28
    config = {
        "model_type": "llama", "hidden_size": largest, "num_hidden_layers": 2**16, "num_attention_heads": largest,
        "num_key_value_heads": largest, "intermediate_size": largest, "vocab_size": largest, "head_dim": largest,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert "more parameters than 64 bits count" in run_gpumem("estimate", path).check(3).err
    path.write_text(json.dumps(SMALL))
    far = run_gpumem("estimate", path, f"--batch={2**30}", f"--sequence={2**30}", "--attention=materialized")
    assert "beyond 64 bits" in far.check(2).err


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "no model"),
        (("--parameters=7e9", "--inference"), "name a config.json"),
        (("--parameters=7e9", "--tp=2"), "only the number of parameters is known"),
        (("--parameters=7x9",), "is not a number"),
        (("--parameters=1e99",), "is out of range"),
        (("--layers=2",), "hidden_size: it is missing"),
        ((CONFIG, "--tp=2", "--world=3"), "--world: it is not a multiple"),
        ((CONFIG, "--tp=2", "--parameters=1e9"), "--parameters: with --tp"),
        ((CONFIG, "--tp=16"), "--tp: there are fewer heads"),
        ((CONFIG, "--pp=64"), "--pp: there are fewer layers"),
        ((CONFIG, "--ep=2", "--world=2"), "--ep: the model has no experts"),
        ((CONFIG, "--offload=parameters"), "it needs --zero 3"),
        ((CONFIG, "--master-weights"), "the parameters are float32 themselves"),
        ((CONFIG, "--sequence-parallel"), "add --tp"),
        ((CONFIG, "--dtype=int8"), "--dtype"),
        ((CONFIG, "--batch=0"), "--batch"),
        ((CONFIG, "--architecture=rwkv"), "does not know 'rwkv'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(run_gpumem, words, message):
    run = run_gpumem("estimate", *words).check(2)
    assert message in run.err and run.err.count("\n") == 1


def test_help_of_rounding():
    assert evaluated({"formula": "ceil(N / Z) * P", "operands": {"N": 7, "Z": 2, "P": 4}}) == 16 == math.ceil(3.5) * 4
