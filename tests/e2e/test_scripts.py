"""Programs over other people's libraries run to their end on the simulated device, unedited.

The short ones run under ./scripts/test, those that take longer under --all. docs/scripts.md says what each took.
"""

import json
import re
from pathlib import Path

import pytest
from conftest import PYTHON, ROOT

SCRIPTS = Path(__file__).parent / "programs" / "scripts"


def run_script(run_gpumem, tmp_path, name, *arguments, needs=(), timeout=600):
    for library in needs:
        pytest.importorskip(library, reason=f"{library} is not installed in the private Python")
    account = tmp_path / "account.json"
    words = ["run", "--sim", "--json", account, "--", PYTHON, SCRIPTS / f"{name}.py", *arguments]
    finished = run_gpumem(*words, cwd=tmp_path, timeout=timeout).check()
    (counted,) = [json.loads(line) for line in account.read_text().splitlines()]
    assert counted["calls_not_simulated"] == 0, finished.err
    assert counted["devices"][0]["out_of_memory"] == 0
    assert counted["devices"][0]["peak_reserved"] >= counted["devices"][0]["peak_allocated"] > 0
    return finished, counted


@pytest.mark.parametrize(
    ("name", "last"),
    [pytest.param("unet", "steps 3", marks=pytest.mark.long), pytest.param("lstm", "length 20", marks=pytest.mark.long), ("cuda_graphs", "replays 5")],
)
def test_a_script_over_torch_alone_runs_to_its_end(run_gpumem, tmp_path, name, last):
    finished, _ = run_script(run_gpumem, tmp_path, name)
    assert finished.out.splitlines()[-1] == last


def test_attention_goes_through_every_backend(run_gpumem, tmp_path):
    finished, _ = run_script(run_gpumem, tmp_path, "sdpa")
    assert finished.out.splitlines()[-1] == "done"
    for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
        assert f"{backend} False\n{backend} True\n" in finished.out


def test_accelerate_s_loop_makes_every_update(run_gpumem, tmp_path):
    finished, _ = run_script(run_gpumem, tmp_path, "accelerate_loop", needs=["accelerate"])
    assert "updates 4 device cuda" in finished.out


@pytest.mark.long
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_transformers_trainer_trains_a_causal_language_model(run_gpumem, tmp_path, precision):
    needs = ["transformers", "accelerate"]
    finished, _ = run_script(run_gpumem, tmp_path, "trainer_causal_lm", precision, tmp_path / "out", needs=needs)
    assert "steps 4" in finished.out


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "needs", "last"),
    [
        ("seq2seq", ["transformers"], "BartForConditionalGeneration 4"),
        ("vit", ["transformers", "torchvision"], "VisionTransformer 3"),
        ("lora", ["transformers", "peft"], "merged Qwen2ForCausalLM"),
        ("compiled", ["triton"], "steps 4"),
    ],
)
def test_a_script_runs_to_its_end(run_gpumem, tmp_path, name, needs, last):
    finished, _ = run_script(run_gpumem, tmp_path, name, needs=needs)
    assert finished.out.splitlines()[-1] == last


@pytest.mark.long
def test_resnet_50_keeps_a_real_scale(run_gpumem, tmp_path):
    finished, _ = run_script(run_gpumem, tmp_path, "resnet50", needs=["torchvision"])
    assert "scale 65536.0 correct" in finished.out


@pytest.mark.long
def test_generate_stops_where_its_rules_say(run_gpumem, tmp_path):
    finished, _ = run_script(run_gpumem, tmp_path, "generate", needs=["transformers"])
    shapes = re.findall(r"^(\w+) (\{.*\}) \(3, (\d+)\)$", finished.out, re.M)
    assert len(shapes) == 8
    for _, how, length in shapes:
        # Logits that nothing computed are equal: the beams hold tokens 0, 1 and 2, and 2 ends a sentence.
        assert int(length) == (11 if "num_beams" in how else 22)


@pytest.mark.long
def test_a_model_of_1_5_billion_parameters_takes_three_steps(run_gpumem, tmp_path):
    finished, counted = run_script(run_gpumem, tmp_path, "qwen2_steps", needs=["transformers"])
    assert re.match(r"steps 3 in [\d.]+ s 1543714304", finished.out)
    # Weights and gradients in two bytes each, and two moments.
    assert counted["devices"][0]["peak_allocated"] > 4 * 2 * 1543714304


@pytest.mark.long
@pytest.mark.parametrize("name", ["test_ops", "test_sync"])
def test_accelerate_s_own_test_scripts_pass(run_gpumem, name):
    scripts = pytest.importorskip("accelerate.test_utils", reason="accelerate is not installed").__path__[0]
    run_gpumem("run", "--sim", "--", PYTHON, Path(scripts) / "scripts" / f"{name}.py").check()


@pytest.mark.long
@pytest.mark.parametrize("name", ["test_ops", "test_ddp_comm_hook"])
def test_accelerate_s_own_test_scripts_pass_in_two_processes(run_gpumem, name):
    scripts = pytest.importorskip("accelerate.test_utils", reason="accelerate is not installed").__path__[0]
    launch = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ["--sim=h100-80gbx2", "--compute-below", "16MiB"]  # nonzero of 4 MiB has to be computed
    run_gpumem("run", *options, "--", *launch, Path(scripts) / "scripts" / f"{name}.py").check()


def test_the_page_has_a_row_for_every_script():
    page = (ROOT / "docs" / "scripts.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)", page, re.M)
    assert set(rows) == {path.stem for path in SCRIPTS.glob("*.py")}
