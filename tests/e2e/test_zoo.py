"""`gpumem attach` to many unusual programs: it records or says why not, and the program runs as before. See zoo.py."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import zoo


@pytest.fixture(scope="module")
def programs(tmp_path_factory, root):
    folder = tmp_path_factory.mktemp("zoo")
    folder.chmod(0o755)
    return zoo.build(folder, root / "tests/e2e/programs/zoo")


def visit_all(gpumem, programs, seed, count, **keys):
    animals = zoo.make(seed, count)
    with ThreadPoolExecutor(4) as pool:
        visits = [pool.submit(zoo.visit, gpumem, programs, animal, **keys) for animal in animals]
    wrong = [f"{animal}: {visit.exception()!r}" for animal, visit in zip(animals, visits) if visit.exception()]
    assert not wrong, f"{len(wrong)} of {count}, seed {seed}:\n" + "\n".join(wrong)
    return {str(animal): visit.result() for animal, visit in zip(animals, visits)}


def test_a_hundred_unusual_programs_run_as_without_gpumem(gpumem, programs):
    said = visit_all(gpumem, programs, 1, 100, seconds=2)
    assert None in said.values(), said  # if all were refused, the test would show nothing
    assert "no C library" in said["bare"]


@pytest.mark.long
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("seed", range(2, 22))
def test_two_thousand_unusual_programs_run_as_without_gpumem(gpumem, programs, seed):
    visit_all(gpumem, programs, seed, 100)


@pytest.mark.parametrize(
    "animal, reason",
    [
        (zoo.Animal("dynamic", ["work=sleep", "dispatch"]), "handles its own system calls"),
        (zoo.Animal("dynamic", ["work=spin", "notsc"]), "may not read the processor's time stamp counter"),
        (zoo.Animal("dynamic", ["work=sleep"], "freezer"), "is frozen"),
        (zoo.Animal("dynamic", ["work=sleep"], "freeze"), "is frozen"),
    ],
    ids=str,
)
def test_a_target_that_attaching_would_harm_is_refused_by_name(gpumem, programs, animal, reason):
    why_not = zoo.not_possible(animal)
    if why_not:
        pytest.skip(why_not)
    assert reason in (zoo.visit(gpumem, programs, animal, seconds=600) or "recorded")


def test_a_thread_that_the_c_library_did_not_make_is_not_used(gpumem, programs):
    for _ in range(3):
        assert zoo.visit(gpumem, programs, zoo.Animal("dynamic", ["work=raw"]), seconds=600) is None
