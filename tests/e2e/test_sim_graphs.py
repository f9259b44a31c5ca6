"""CUDA graphs on the simulated device: captured into private pools, replayed; copies move bytes, small kernels are computed."""

import json
from pathlib import Path

import pytest
from conftest import PYTHON

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def ran(run_gpumem, tmp_path_factory):
    account = tmp_path_factory.mktemp("graphs") / "account.json"
    finished = run_gpumem("run", "--sim", "--json", account, "--", PYTHON, PROGRAMS / "sim_graphs.py")
    return finished.check(), json.loads(account.read_text())


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("capturing", True),
        ("after", False),
        ("grew", True),
        ("private_pools", 1),
        ("joined", True),
        ("before_replay", 0.0),
        ("after_replay", 7.0),
        ("loss", 0.0),
        ("computed", [True] * 3),
        ("drawn", [True] * 4),
        ("goes_on", 3.0),
        ("graphed", [4, 8]),
        ("agree", True),
    ],
)
def test_a_graph(ran, fact, expected):
    assert ran[0].out.json()[fact] == expected


def test_reading_a_value_while_capturing_is_refused_as_on_a_gpu(ran):
    assert "previous error during capture" in ran[0].out.json()["refused"]


def test_kernels_of_replays_are_counted(ran):
    assert ran[1]["launches"] == sum(ran[1]["kernels"].values()) > 50
    assert ran[1]["calls_not_simulated"] == 0


def test_kernels_that_a_replay_computed_are_counted_as_such(ran):
    assert any("vectorized_elementwise" in name for name in ran[1]["computed"])
    assert ran[1]["kernels_not_computed"] == ran[1]["launches"] - sum(ran[1]["computed"].values())


def test_no_graph_is_empty_a_library_s_call_is_work_too(ran):
    assert "Graph is empty" not in ran[0].err
