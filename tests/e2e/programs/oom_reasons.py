"""oom_reasons.py SEED...: programs made at random that run out of memory for a reason that is known.

Each runs in processes of its own, forked one after the other, and makes the same requests in all of them:

  base        tells of the error, waits for a line with addresses, releases the tensors there and repeats the request
  stop        releases what its loop kept of earlier iterations, and repeats the request
  expandable  runs under expandable_segments:True, and tells how far it came

One line of JSON on stdout for each.
"""

import json
import os
import random
import sys

import torch

MIB = 1 << 20
KINDS = ["keeps", "joins", "keeps after churn", "fragmented", "keeps little", "too large", "fragmented", "keeps a few"]
LONGER = 30  # so many times the iterations of the base: then it is taken to go on for good


class Program:
    def __init__(self, seed, most):
        self.rng = random.Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.others, self.kept, self.iteration, self.most = [], [], 0, most
        self.request = 0

    def churn(self):
        """Leaves holes: as a training does whose gradients are gone."""
        size = self.rng.choice([3, 5, 7]) * MIB
        made = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(self.rng.randrange(20, 60))]
        self.others += made[:: self.rng.choice([2, 3, 4])]

    def goes_on(self):
        self.iteration += 1
        return not self.most or self.iteration <= self.most

    def keep(self, size, temporary):
        while self.goes_on():
            batch = torch.empty(temporary * MIB, dtype=torch.uint8, device="cuda")
            self.request = size
            self.kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))  # grows
            self.request = temporary * MIB
            del batch

    def join(self, size):
        self.kept = [torch.empty(size, dtype=torch.uint8, device="cuda")]
        while self.goes_on():
            self.request = size
            part = torch.empty(size, dtype=torch.uint8, device="cuda")
            self.request = size + self.kept[0].numel()
            self.kept = [torch.cat([self.kept[0], part])]  # grows

    def fragment(self):
        """Small tensors stay in the place of a large one, which then is asked for again."""
        large = self.rng.randrange(900, 1300) * MIB
        big = torch.empty(large, dtype=torch.uint8, device="cuda")
        del big
        for _ in range(self.rng.randrange(1, 6)):
            batch = torch.empty(self.rng.randrange(60, 150) * MIB, dtype=torch.uint8, device="cuda")
            self.others.append(torch.empty(self.rng.randrange(12, 30) * MIB, dtype=torch.uint8, device="cuda"))
            del batch
        self.iteration, self.request = 1, large
        return torch.empty(large, dtype=torch.uint8, device="cuda")

    def keep_little(self):
        """Each iteration needs a little more than the one before, and what it keeps lies in the place of that."""
        size, large = self.rng.randrange(2, 6) * MIB // 2, self.rng.randrange(200, 300) * MIB
        while self.goes_on():
            self.request = large + min(self.iteration, 12) * 40 * MIB
            batch = torch.empty(self.request, dtype=torch.uint8, device="cuda")
            del batch
            self.request = size
            self.kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))  # grows

    def run(self):
        rng, kind = self.rng, self.kind
        if kind == "too large":
            self.churn()
            self.iteration, self.request = 1, rng.choice([1990, 4000]) * MIB  # with CUDA's context, or alone
            self.others.append(torch.empty(self.request, dtype=torch.uint8, device="cuda"))
        elif kind == "fragmented":
            self.fragment()
        elif kind == "keeps little":
            self.keep_little()
        elif kind == "joins":
            self.join(rng.randrange(8, 60) * MIB)
        else:
            if kind == "keeps after churn":
                self.churn()
            self.keep((rng.randrange(200, 350) if kind == "keeps a few" else rng.randrange(4, 60)) * MIB, rng.randrange(1, 40))


def fails(size):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
        return False
    except torch.OutOfMemoryError:
        return True


def tell(**told):
    print(json.dumps(told), flush=True)


def child(seed, mode, most):
    program = Program(seed, most)
    if mode == "expandable":
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    try:
        program.run()
        error = False
    except torch.OutOfMemoryError:
        error = True
    told = {"seed": seed, "kind": program.kind, "mode": mode, "error": error, "iterations": program.iteration, "pid": os.getpid()}
    if mode == "expandable":
        tell(**told)
        return
    assert error, told
    told |= {"request": program.request, "allocated": torch.cuda.memory_allocated(), "kept": len(program.kept)}
    if mode == "base":
        tell(**told)
        wanted = set(json.loads(sys.stdin.readline()))
        for tensors in (program.kept, program.others):
            tensors[:] = [one for one in tensors if one.data_ptr() not in wanted]
    else:
        program.kept.clear()
    tell(**told, fails_now=fails(program.request))


def main():
    for seed in map(int, sys.argv[1:]):
        for mode in ("base", "stop", "expandable"):
            most = 0
            if mode == "expandable":  # told by the base
                most = int(sys.stdin.readline()) * LONGER
            process = os.fork()
            if not process:
                child(seed, mode, most)
                sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(process, 0)[1] == 0, (seed, mode)


if __name__ == "__main__":
    main()
