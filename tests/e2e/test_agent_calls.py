"""The system calls of the agent: `attach` knows them all, so that no seccomp filter ends a program at one of them."""

import os
import re
import subprocess

import pytest

# What each libc calls otherwise, or is called only where something goes wrong.
ALWAYS = {"mmap", "munmap", "openat", "prctl", "mremap", "uname", "clock_nanosleep", "access", "fallocate", "fcntl", "gettid", "prlimit64"}


@pytest.fixture(scope="module")
def listed(build_dir):
    """By number: at these, a filter that ends the program makes `attach` refuse it."""
    done = subprocess.run([build_dir / "tests" / "filter_calls"], check=True, capture_output=True, text=True)
    return {int(number): name for number, name in (line.split() for line in done.stdout.splitlines())}


@pytest.fixture(scope="module")
def made(tmp_path_factory, root, build_dir, sim_env):
    """What a program calls while a recording is made in it twice: with the names of a rank and a host, and of a file that exists."""
    folder = tmp_path_factory.mktemp("agent-calls")
    source, library = root / "tests/e2e/programs/agent_calls.c", build_dir / "lib/libgpumem-sim.so"
    options = ["-std=gnu17", "-O2", f"-I{root}/core", "-include", "stdbool.h", "-pthread", "-o", folder / "agent_calls"]
    subprocess.run(["cc", *options, source, library, f"-Wl,-rpath,{library.parent}", "-ldl"], check=True)
    settings = f"out={folder}/run-%h.gpumem;devices=cuda,cpu;stacks=python,native;on_oom=none;existing=1;gpumem={build_dir}/bin/gpumem"
    command = [folder / "agent_calls", build_dir / "lib/libgpumem-agent.so", settings, settings]
    done = subprocess.run(command, env={**sim_env(), "RANK": "1", "WORLD_SIZE": "2"}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("run-*"))) == 2
    return {int(number) for number in done.stdout.split()}


def test_attach_refuses_a_filter_that_ends_the_program_at_any_call_of_the_agent(listed, made):
    assert sorted(made - set(listed)) == []
    assert ALWAYS <= {listed[number] for number in made}


def test_the_documentation_names_these_calls(root, listed, made):
    text = (root / "docs/agent.md").read_text()
    names = set(re.findall(r"`(\w+)`", re.search(r"A filter that kills the process at unknown calls must allow (.*?);", text, re.DOTALL)[1]))
    assert {listed[number] for number in made} <= names
