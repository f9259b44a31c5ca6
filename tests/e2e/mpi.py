"""Starts gpumem-ranks over an MPI, or over none."""

import shutil

import pytest

from conftest import BUILD


def start_of(mpi, processes):
    """What starts gpumem-ranks in so many processes."""
    program = BUILD / "tests" / f"ranks-{mpi}" / "gpumem-ranks"
    if mpi == "one":
        return [program]
    launcher = shutil.which(f"mpirun.{mpi}")
    if not program.exists() or not launcher:
        pytest.skip(f"{mpi} is not installed: ./scripts/setup --with-tests gets it")
    return [launcher, *(["--oversubscribe"] if mpi == "openmpi" else []), "-n", str(processes), program]
