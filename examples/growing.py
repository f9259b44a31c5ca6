"""A buffer that is made anew, larger, for each longer input, and small results that stay: its old places fit no new one.

    gpumem run --sim=8GiB -o growing.gpumem -- python examples/growing.py

`gpumem replay growing.gpumem` then shows which allocator setting needs less. docs/replay.md goes through it.
"""

import torch

MIB = 1 << 20


def main():
    results = []
    for length in range(400, 2000, 100):
        cache = torch.empty(length * MIB, dtype=torch.uint8, device="cuda")
        del cache
        results.append(torch.empty(30 * MIB, dtype=torch.uint8, device="cuda"))
    print(f"{len(results)} results, {sum(r.numel() for r in results) // MIB} MiB")


main()
