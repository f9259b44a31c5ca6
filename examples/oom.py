"""A leak that ends in torch.OutOfMemoryError: a list keeps every output, and with it every graph.

`Evaluation` means to keep a few numbers for a plot and keeps tensors instead. The device fills, pass by
pass, until PyTorch gives up. The list is the answer; the line that fails is not.

    build/bin/gpumem gdb --sim=8GiB -- .venv/bin/python examples/oom.py
"""

import torch
from torch import nn


class Evaluation:
    def __init__(self):
        self.model = nn.Linear(4_096, 16_384, device="cuda")
        self.history = []

    def run(self):
        while True:
            batch = torch.randn(4_096, 4_096, device="cuda")
            scores = self.model(batch)
            self.history.append(scores)  # meant: scores.mean().item()


if __name__ == "__main__":
    Evaluation().run()
