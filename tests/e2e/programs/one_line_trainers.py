"""Trains by a library's loops, all of it in one line of this program, and prints what it keeps.

one_line_trainers.py SEED: one model or several in turn, of random sizes and optimizers; nothing is kept, or a loss of each step, or
a batch of each round.
"""

import json
import random
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent / "site-packages"))
from simple_trainer import Trainer  # noqa: E402

seed = int(sys.argv[1])
rng = random.Random(seed)
keeps = ("nothing", "losses", "batches")[seed % 3]
losses, batches, trainers = [], [], []
epochs, number, rounds, models = rng.choice((1, 2, 3)), rng.choice((1, 2, 4)), rng.randrange(8, 13), rng.choice((1, 1, 2, 3))
for _ in range(models):
    width = rng.choice((64, 96, 200))
    layers = [torch.nn.Linear(width, width) for _ in range(rng.choice((1, 2, 3)))]
    model = torch.nn.Sequential(*layers).cuda()
    kind = rng.choice((torch.optim.Adam, torch.optim.AdamW, lambda of: torch.optim.SGD(of, 0.1, momentum=0.9)))
    on_step, on_round = losses.append if keeps == "losses" else None, batches.append if keeps == "batches" else None
    trainers.append(Trainer(model, kind(model.parameters()), epochs, number, width, on_step, on_round))
if models == 1:
    trainers[0].learn(rounds)  # THE LINE
else:
    for _ in range(rounds):
        for trainer in trainers: trainer.round()  # THE LINE # noqa: E701
kept = losses + batches
print(json.dumps({"keeps": keeps, "blocks": len(kept), "sizes": sorted({(t.nbytes + 511) // 512 * 512 for t in kept}), "models": models}))
