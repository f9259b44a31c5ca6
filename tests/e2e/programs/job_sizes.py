"""A rank of a job that allocates by its place: half of the ranks a megabyte more; the last rank asks for more than there is."""

import os

import torch

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
sizes = [8, 8 if rank < world // 2 else 9]
kept = [torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in sizes]
print("MPI's variables:", sorted(name for name in os.environ if name.startswith(("OMPI_", "PMI", "PMIX", "SLURM_"))))
if rank == world - 1:
    kept.append(torch.empty(1 << 40, dtype=torch.uint8, device="cuda"))
