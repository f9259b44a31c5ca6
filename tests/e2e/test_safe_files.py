"""Files that gpumem writes: only regular files are replaced, and nothing that others put beside them is touched or followed."""

import json
import os
import stat
import sys

import pytest


@pytest.fixture(scope="module")
def recording(tmp_path_factory, run_gpumem):
    log = tmp_path_factory.mktemp("recording") / "run.gpumem"
    program = "import torch\na = torch.empty(1 << 20, dtype=torch.uint8, device='cuda')\ndel a\n"
    run_gpumem("run", "--sim", "-o", log, "--", sys.executable, "-c", program).check()
    return log


@pytest.mark.parametrize("form", ["csv", "pytorch", "sqlite"])
def test_an_export_into_a_fifo_or_a_device_does_not_replace_it(run_gpumem, recording, tmp_path, form):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    done = run_gpumem("export", recording, "--to", form, "-o", fifo)
    if form == "sqlite":  # SQLite needs a file that can be read again
        done.check(4)
    else:
        done.check()
        assert os.read(reader, 1 << 16) == exported(run_gpumem, recording, tmp_path / "file", form)
    os.close(reader)
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


def exported(run_gpumem, recording, path, form):
    run_gpumem("export", recording, "--to", form, "-o", path).check()
    return path.read_bytes()


def test_an_export_as_root_leaves_a_device_node_as_it_is(run_gpumem, recording, tmp_path):
    node = tmp_path / "null"
    try:
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        node.open("w").close()
    except OSError as error:
        pytest.skip(f"no device node can be made here: {error}")
    before = node.stat()
    run_gpumem("export", recording, "--to", "csv", "-o", node).check()
    after = node.stat()
    assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)


def of_others(folder, names):
    """A file of the user, and a link to it under each name that a temporary file could have."""
    victim = folder / "victim"
    victim.write_text("precious")
    for name in names:
        (folder / name).symlink_to(victim)
    return victim


def all_untouched(folder, victim, names):
    assert victim.read_text() == "precious"
    assert all((folder / name).is_symlink() for name in names)
    assert not list(folder.glob(".*"))


def test_an_export_follows_no_link_beside_it(run_gpumem, recording, tmp_path):
    names = ["out.csv.part", "out.csv.tmp", "out.csv.partial"]
    victim = of_others(tmp_path, names)
    run_gpumem("export", recording, "--to", "csv", "-o", tmp_path / "out.csv").check()
    all_untouched(tmp_path, victim, names)


def test_packing_follows_no_link_beside_the_recording(run_gpumem, recording, tmp_path):
    names = ["run.gpumem.part", "run.gpumem.tmp", "run.gpumem.partial"]
    victim = of_others(tmp_path, names)
    log = tmp_path / "run.gpumem"
    run_gpumem("run", "--sim", "-o", log, "--", sys.executable, "-c", "import torch; torch.empty(1, device='cuda')").check()
    assert log.read_bytes()[:7] == b"\x89GPUMEM" and not log.is_symlink()
    all_untouched(tmp_path, victim, names)


def test_a_core_follows_no_link_beside_it(spawn, run_gpumem, tmp_path):
    names = ["core.part", "core.tmp", "core.partial"]
    victim = of_others(tmp_path, names)
    (tmp_path / "core").write_text("old")
    process = spawn(["sleep", "1000"])
    run_gpumem("core", process.pid, "-o", tmp_path / "core").check()
    assert (tmp_path / "core").read_bytes()[:4] == b"\x7fELF"
    all_untouched(tmp_path, victim, names)


# --- the account of the simulated device -------------------------------------------------------------------------------

ALLOCATES = "import torch; torch.empty(1, device='cuda')"
NOBODY = 65534


def account(run_gpumem, path, **keys):
    return run_gpumem("run", "--sim", "--no-record", "--json", path, "--", sys.executable, "-c", ALLOCATES, **keys)


@pytest.fixture
def shared(tmp_path):
    """A folder that all may write to, with a file of root's, and what another user puts beside it."""
    if os.geteuid() != 0:
        pytest.skip("needs a file of another user: run the tests as root")
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    return folder, victim


def test_an_account_is_written_through_no_link_of_another_user(run_gpumem, shared):
    folder, victim = shared
    (folder / "account").symlink_to(victim)
    os.lchown(folder / "account", NOBODY, NOBODY)
    assert "another user's symbolic link" in account(run_gpumem, folder / "account").check(4).err
    assert victim.read_text() == "precious"


def test_an_account_is_not_written_into_a_file_that_has_another_name_too(run_gpumem, shared):
    folder, victim = shared
    os.link(victim, folder / "account")
    account(run_gpumem, folder / "account").check()
    assert victim.read_text() == "precious"
    assert json.loads((folder / "account").read_text())["devices"]


def test_a_link_that_comes_meanwhile_is_not_followed_by_the_program(run, shared, sim_env):
    folder, victim = shared
    (folder / "account").symlink_to(victim)
    os.lchown(folder / "account", NOBODY, NOBODY)
    done = run([sys.executable, "-c", ALLOCATES], env={**sim_env(), "GPUMEM_SIM_JSON": str(folder / "account")})
    assert "cannot write the summary of its memory" in done.check().err
    assert victim.read_text() == "precious"


def test_an_account_is_written_into_a_fifo_that_stays_one(run_gpumem, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    account(run_gpumem, fifo).check()
    assert json.loads(os.read(reader, 1 << 16))["devices"]
    os.close(reader)
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
