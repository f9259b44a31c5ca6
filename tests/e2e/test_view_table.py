"""The page's search and table: they select what `gpumem blocks --where` selects, and rows and picture can be saved."""

import csv
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import Opened  # noqa: E402
from hostile import check_text, hostile  # noqa: E402
from pages import CARD, FOUND, blocks_at, check_condition, entry, snapshot, ten_moments, view  # noqa: E402
from view_page import opened, page, recording  # noqa: E402, F401

CONDITIONS = [
    "size>1MiB",
    "size<=8KiB and not phase=init",
    "size='1.5 MiB' or requested!=4194304",
    "category=optimizer_state",
    "category!=optimizer_state and category!=parameter",
    "category~grad",
    "dtype=float32 and shape=[*, 512]",
    "shape!=(2048, ...)",
    "shape=[...]",
    "dtype~float",
    "step=0 or step>2",
    "step>=1 and step<0x3",
    "step>=01 and size<=0100kib",
    "phase=backward",
    "function=train",
    "function!=train",
    "function~make",
    "line=train_mlp.py:14",
    "line!=train_mlp.py",
    "line~torch/",
    "operator=mm or operator=aten::addmm",
    "operator!=mm",
    "node=AddmmBackward0",
    "node~Relu",
    "name=*.weight",
    "name=exp_avg*bias",
    "name!=*.weight",
    "name~avg",
    "not (name~avg or name~weight) and size>=512",
    "label=x or size>2MiB",
    "not label=x",
    "range=Optimizer.step*",
    "range!=Optimizer.*",
    "not range~Optimizer",
    "stream=0",
    "address>0x6d0021a00000",
    "address=0",
    "not not size>1MiB and(size<5MiB)",
    "module=Linear",
    "module!=Linear",
    "module~Re or module=MSELoss",
    "collective=none",
    "collective!=none",
    "not collective=all_reduce",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_selects_the_blocks_of_where(condition, opened, recording, run_gpumem):
    for event in ten_moments(recording, run_gpumem)[3::3]:
        check_condition(opened, recording, run_gpumem, condition, event)


MODULE = "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"
DISTRIBUTED = "/usr/lib/python3/dist-packages/torch/distributed/"
FSDP2 = DISTRIBUTED + "fsdp/_fully_shard/_fsdp_collectives.py"
STACKS = [
    [("a.py", 1, "Net.forward"), (MODULE, 9, "Module._call_impl"), ("a.py", 2, "main")],
    [("a.py", 1, "Inner.forward"), (MODULE, 9, "_call_impl"), ("a.py", 5, "f.<locals>.Net.forward"), (MODULE, 8, "_wrapped_call_impl")],
    [("a.py", 1, "forward"), (MODULE, 9, "_call_impl")],  # of a Python that qualifies no names
    [("a.py", 1, "f.<locals>.forward"), (MODULE, 9, "_call_impl")],
    [("a.py", 1, "Net.forward"), ("a.py", 3, "call")],  # no module's
    [],
    [("??", 0, "c10d::ProcessGroupNCCL::allreduce(std::vector<at::Tensor>&)"), ("a.py", 7, "step")],
    [("??", 0, "at::native::add(at::Tensor)"), (DISTRIBUTED + "distributed_c10d.py", 7, "all_reduce"), ("a.py", 7, "step")],
    [("??", 0, "at::native::add(at::Tensor)"), ("a.py", 7, "step")],
    [(DISTRIBUTED + "_functional_collectives.py", 7, "all_gather_tensor"), ("a.py", 7, "step")],
    [("??", 0, "c10d::ProcessGroupNCCL::~ProcessGroupNCCL()"), ("a.py", 7, "step")],
    [("??", 0, "at::empty()"), (FSDP2, 55, "DefaultAllocMixin.allocate"), (FSDP2, 351, "foreach_all_gather"), ("a.py", 7, "step")],
    [("??", 0, "at::empty()"), (FSDP2, 55, "DefaultAllocMixin.allocate"), (FSDP2, 604, "foreach_reduce"), ("a.py", 7, "step")],
    [("??", 0, "at::empty()"), (FSDP2, 287, "split_with_sizes_copy"), ("a.py", 7, "step")],
]


def test_modules_and_collectives_are_those_of_where(chromium, run_gpumem, tmp_path):
    path = snapshot(tmp_path / "stacks.pickle", [entry("alloc", 4096 * (i + 1), 512, *frames) for i, frames in enumerate(STACKS)])
    last, results = len(STACKS) - 1, set()
    with Opened(chromium, view(run_gpumem, path)) as shown:
        for value in ("Net", "Inner", "forward", "none", "all_reduce", "allreduce", "all_gather_tensor", "all_gather", "reduce_scatter", "a", "Process"):
            for clause in (f"{fact}{compare}{value}" for fact in ("module", "collective") for compare in ("=", "!=", "~")):
                told = blocks_at(run_gpumem, path, last, f"--where={clause}")
                found = shown.evaluate(FOUND, [clause, last])
                assert sorted(found["numbers"]) == sorted(block["allocated"] for block in told["blocks"]), clause
                assert found["unknownBlocks"] == told["where"]["unknown_blocks"], clause
                results.add((tuple(sorted(found["numbers"])), found["unknownBlocks"]))
        assert len(results) > 10 and shown.said == []


def test_the_conditions_select_some_blocks_and_not_all(opened, recording, run_gpumem):
    """Else the comparison above would say nothing."""
    moment = ten_moments(recording, run_gpumem)[6]
    some = [shown for shown in (opened.evaluate(FOUND, [condition, moment]) for condition in CONDITIONS) if 0 < shown["bytes"] < shown["allBytes"]]
    assert len(some) > len(CONDITIONS) // 2


WRONG = [
    "",
    "size",
    "size>",
    "size>1MiBy",
    "size=0x10",
    "size~1",
    "sise>1",
    "colour=1",
    "categry=parameter",
    "category=paramter",
    "dtype=flaot32",
    "phase=unheard_of",
    "step=one",
    "category=gradients",
    "category<gradient",
    "phase=forwards",
    "dtype=float33",
    "line=train.py:",
    "name='x",
    "name=''",
    "shape=512",
    "shape=[1, x]",
    "shape~[1]",
    "shape=[1 2]",
    "(size>1",
    "size>1 size<2",
    "size>1 and",
    "not",
    "event=3",
    "(" * 70 + "size>1",
    "shape=[" + "1," * 33 + "]",
]


@pytest.mark.parametrize("condition", WRONG)
def test_a_malformed_condition_is_refused_with_the_column_and_the_reason_of_where(condition, opened, recording, run_gpumem):
    said = run_gpumem("blocks", recording, f"--where={condition}").check(2).err
    column, why = re.search(r", column (\d+): (.*?)(?:: see|(?<=\?) see|$)", said.strip(), re.S).groups()
    shown = opened.evaluate(
        """async (text) => {
            const { parseCondition } = gpumem;
            try { parseCondition(text, gpumem.recording.head.facts); } catch (error) { return [error.column, error.message]; }
            return null;
        }""",
        condition,
    )
    assert shown[0] == int(column)
    # a fact that is known only of something else is said to be so by the command
    assert shown[1] == why or condition == "event=3"


def test_the_place_of_a_mistake_is_shown_below_what_was_typed(opened):
    shown = opened.evaluate(FOUND, ["size>1MiB and sise<2", None])
    first, second = shown["problem"].splitlines()
    assert first == "size>1MiB and sise<2" and second.startswith(" " * 14 + "^ column 15: sise is not known")
    assert opened.locator("#filter-text").get_attribute("aria-invalid") == "true"
    opened.evaluate(FOUND, ["size>1MiB", None])
    assert opened.locator("#filter-problem").is_hidden()


@pytest.mark.parametrize(
    "typed", ["train_mlp.py:14", "4.00 MiB", "64 KiB", "512B", "0x6d0021200000", "make_model", "exp_avg", "(2048, 512)", "[*, 512]", "weight train", "mm", "backward", "don't"]
)
def test_a_search_without_a_comparison_is_a_condition_that_where_takes(typed, opened, recording, run_gpumem):
    moment = ten_moments(recording, run_gpumem)[6]
    shown = opened.evaluate(FOUND, [typed, moment])
    told = blocks_at(run_gpumem, recording, moment, f"--where={shown['condition']}")
    assert (shown["problem"], shown["bytes"]) == ("", told["where"]["bytes"])
    assert typed in ("64 KiB", "512B", "don't", "mm", "backward") or 0 < shown["bytes"] < shown["allBytes"]
    command = opened.locator("#filter-command").inner_text()
    assert run_gpumem(*shlex.split(command)[1:], "--json", cwd=recording.parent).check().json()["where"] == told["where"]


def test_the_number_of_a_block_leads_to_its_card(opened, recording, run_gpumem):
    opened.evaluate(FOUND, ["#1", None])
    opened.wait(CARD, "Block #1,")
    assert "no block was allocated" in opened.evaluate(FOUND, ["#99999999", None])["problem"]


def test_the_whole_recording_has_each_allocation_once(opened, recording, run_gpumem):
    allocs = [event for event in run_gpumem("events", recording, "--json").json_lines() if event["action"] == "alloc"]
    shown = opened.evaluate(FOUND, ["", None])
    assert sorted(shown["numbers"]) == [event["n"] for event in allocs]
    assert shown["bytes"] == sum(event["size"] for event in allocs)
    steps = opened.evaluate(FOUND, ["step=2", None])
    assert steps["bytes"] == sum(event["size"] for event in allocs if event["step"] == 2) > 0


def rows(opened):
    return [row.split("\t") for row in opened.locator("#table tbody").inner_text().splitlines()]


def choose(opened, rows, moment, text):
    opened.locator("#table-rows").select_option(rows)
    return opened.evaluate(FOUND, [text, moment])


def test_columns_sort_both_ways(opened, recording, run_gpumem):
    moment = ten_moments(recording, run_gpumem)[6]
    choose(opened, "blocks", moment, "")
    head = opened.locator("#table th", has_text="size")
    for order in ("ascending", "descending"):
        if head.get_attribute("aria-sort") != order:
            head.locator("button").click()
            opened.wait("order => document.querySelector('#table th[aria-sort]')?.ariaSort === order", order)
        sizes = opened.evaluate("[...document.querySelectorAll('#table [data-block]')].map((one) => gpumem.view.device.size[one.dataset.block])")
        assert sizes == sorted(sizes, reverse=order == "descending") and len(set(sizes)) > 3
    opened.locator("#table th button", has_text="category").click()
    opened.wait("() => document.querySelectorAll('#table th')[2].ariaSort === 'ascending'")
    categories = [row[2] for row in rows(opened)]
    assert categories == sorted(categories)


def test_lines_add_up_to_the_blocks(opened, recording, run_gpumem):
    moment = ten_moments(recording, run_gpumem)[6]
    choose(opened, "lines", moment, "size>=512KiB")
    told = blocks_at(run_gpumem, recording, moment, "--where=size>=512KiB")
    found = opened.evaluate("gpumem.table.find()")
    assert sum(row["bytes"] for row in found["rows"]) == told["where"]["bytes"]
    assert sum(row["blocks"] for row in found["rows"]) == told["where"]["blocks"]
    assert len(rows(opened)) == len(found["rows"]) > 1


def saved(opened, button):
    with opened.page.expect_download() as waiting:
        opened.locator(button).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_rows_are_saved_as_csv(opened, recording, run_gpumem):
    moment = ten_moments(recording, run_gpumem)[6]
    choose(opened, "blocks", moment, "category=parameter")
    name, data = saved(opened, "#table-csv")
    assert name == "mlp.gpumem.blocks.csv"
    told = blocks_at(run_gpumem, recording, moment, "--where=category=parameter")["blocks"]
    read = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    facts = {(int(row["block"]), row["address"], int(row["size"]), row["name"]) for row in read}
    assert facts == {(block["allocated"], block["address"], block["size"], block["name"] or "") for block in told} and facts
    choose(opened, "lines", None, "")
    name, data = saved(opened, "#table-csv")
    read = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    assert name == "mlp.gpumem.lines.csv"
    assert sum(int(row["bytes"]) for row in read) == opened.evaluate(FOUND, ["", None])["bytes"]


def test_the_plot_is_saved_as_a_picture(opened):
    name, data = saved(opened, "#picture")
    assert name == "mlp.gpumem.png" and data.startswith(b"\x89PNG\r\n")
    assert opened.said == []


def test_a_hostile_name_is_text_in_the_table_and_no_formula_in_csv(chromium, run_gpumem, tmp_path):
    names = ["=1+1", '"quoted", comma', hostile("name"), "<img src=x onerror=done=1>"]
    trace = [entry("alloc", 4096 * n, 512, (name, 1, "f")) for n, name in enumerate(names, 1)]
    with Opened(chromium, view(run_gpumem, snapshot(tmp_path / "hostile.pickle", trace))) as shown:
        assert len(shown.evaluate(FOUND, ["", None])["numbers"]) == len(names)
        check_text(shown.locator("#table").text_content().encode())
        assert shown.locator("#table img").count() == 0
        _, data = saved(shown, "#table-csv")
        sites = [row["allocated_at"] for row in csv.DictReader(io.StringIO(data.decode(), newline=""))]
        assert sites[0].startswith("'=1+1:1") and sites[1].startswith('"quoted", comma:1')
        check_text(data.replace(b"\r\n", b"\n"))
        assert len(shown.evaluate(FOUND, ["line~<img", None])["numbers"]) == 1
        assert shown.said == []


def test_rows_beyond_the_first_are_shown_when_asked_for(chromium, run_gpumem, tmp_path):
    sizes = [512 * (1 + n * 7919 % 1000) for n in range(1000)]
    trace = [entry("alloc", 1 << 20 | n << 10, size, ("a.py", 1, "f")) for n, size in enumerate(sizes)]
    with Opened(chromium, view(run_gpumem, snapshot(tmp_path / "many.pickle", trace))) as shown:
        shown.evaluate(FOUND, ["", None])
        assert shown.locator("#table tbody tr").count() == 200
        largest = "[...document.querySelectorAll('#table [data-block]')].map((one) => gpumem.view.device.size[one.dataset.block])"
        assert shown.evaluate(largest) == sorted(sizes, reverse=True)[:200]
        shown.locator("#table > button").click()
        shown.wait("() => document.querySelectorAll('#table tbody tr').length === 800")
        assert shown.evaluate(largest) == sorted(sizes, reverse=True)[:800]


def test_the_table_is_of_the_chosen_device(chromium, run_gpumem, tmp_path):
    path = snapshot(tmp_path / "two.pickle", [entry("alloc", 4096, 4096)], [entry("alloc", 4096, 1024), entry("alloc", 8192, 2048)])
    with Opened(chromium, view(run_gpumem, path)) as shown:
        assert shown.evaluate(FOUND, ["size>=512", 2])["bytes"] == 4096  # the device with the highest peak
        shown.locator("#device").select_option(label="cuda:1")
        shown.wait("() => gpumem.recording.device.facts.name === 'cuda:1' && gpumem.recording.device.detailed")
        for event in (1, 2):
            found = shown.evaluate("async (event) => (gpumem.view.setMoment(event), (await gpumem.table.find()).bytes)", event)
            assert found == blocks_at(run_gpumem, path, event, "--device=1", "--where=size>=512")["where"]["bytes"]
