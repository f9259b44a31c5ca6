"""Children that are forked while the agent starts or ends in their parent: each loads libraries of its own and ends."""

import pytest

from test_attach import again_and_again, start

# Until something is written to its standard input. A child that does not end within a minute hangs.
FORKS = """
import _ctypes, os, select, time
import torch  # the more libraries, the longer the agent looks at them
libraries = ["libz.so.1", "libexpat.so.1", "liblzma.so.5", "libbz2.so.1.0"]
print("begun", flush=True)
forked = hung = 0
while not select.select([0], [], [], 0)[0]:
    children = []
    for _ in range(4):
        if not (child := os.fork()):
            for name in libraries:
                try:
                    _ctypes.dlopen(name, 2)
                except OSError:
                    pass
            os._exit(0)
        children.append(child)
    forked += len(children)
    end = time.monotonic() + 60
    while children:
        children = [child for child in children if os.waitpid(child, os.WNOHANG)[0] == 0]
        if children and time.monotonic() > end:
            hung += len(children)
            for child in children:
                os.kill(child, 9)
                os.waitpid(child, 0)
            break
        time.sleep(0.0005)
print(forked, hung)
"""


@pytest.mark.parametrize("times", [4, pytest.param(60, marks=pytest.mark.long)])
def test_children_forked_meanwhile_load_libraries(spawn, run_gpumem, tmp_path, python, sim_env, times):
    process = start(spawn, [python, "-c", FORKS], env=sim_env())
    again_and_again(run_gpumem, process, tmp_path, times)
    out, _ = process.communicate("x", timeout=600)
    forked, hung = map(int, out.split())
    assert forked > 4 * times and hung == 0, out
