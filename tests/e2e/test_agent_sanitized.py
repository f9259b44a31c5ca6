"""The agent under AddressSanitizer and UndefinedBehaviorSanitizer, in the programs of the agent's own tests.

It is the one library that runs in other people's programs, which have no sanitizer: so it gets a build of its own, and each
program has the sanitizer's runtime loaded before it (conftest.preloaded).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, run_process

FILES = ["attach", "agent", "agent_edges", "agent_live", "agent_marks", "agent_ends", "agent_stacks"]
# Debuggers do not start under the runtime, expandable segments find no address space beside its own, and limits on memory
# or files, and filters, meet it first.
LEFT_OUT = ["breakpoints", "filter", "that_released_it", "expandable", "cannot_be_attached", "limit", "musl", "cannot_be_written"]


def library(name):
    found = Path(subprocess.run(["cc", f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    if not found.is_absolute():
        pytest.skip(f"the compiler has no {name}")
    return found.resolve()


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_agent_is_clean_under_sanitizers(tmp_path):
    build = ROOT / "build-agent"
    run_process(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DGPUMEM_SANITIZE_AGENT=ON"]).check()
    run_process(["ninja", "-C", build], timeout=3600).check()
    # libstdc++: before it is there, the runtime cannot find what exceptions are thrown by
    loaded = f"{library('libasan.so')} {library('libstdc++.so')}"
    # the programs' own faults, leaks and large requests are part of these tests
    options = "detect_leaks=0 verify_asan_link_order=0 handle_segv=0 handle_sigbus=0 handle_sigfpe=0 allocator_may_return_null=1"
    logs = tmp_path / "logs"
    logs.mkdir()
    environment = {
        **os.environ,
        "GPUMEM_BUILD_DIR": str(build),
        "GPUMEM_TEST_PRELOAD": loaded,
        "ASAN_OPTIONS": ":".join([*options.split(), "alloc_dealloc_mismatch=0", f"log_path={logs}/asan"]),
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={logs}/ubsan",
    }
    files = [ROOT / "tests" / "e2e" / f"test_{name}.py" for name in FILES]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", " and ".join(f"not {word}" for word in LEFT_OUT)]
    run = run_process(words, timeout=7000, env=environment, cwd=ROOT, merge=True)
    told = "\n".join(path.read_text(errors="replace")[:3000] for path in sorted(logs.iterdir())[:5])
    assert not told, told
    run.check()
    assert " passed" in run.out
