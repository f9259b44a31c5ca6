"""Two training steps with all that mixed precision and a data loader's processes bring; prints its figures."""

import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Dropout(0.1), nn.Linear(1024, 10))
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    data = TensorDataset(torch.randn(128, 256), torch.randint(0, 10, (128,)))
    loader = DataLoader(data, batch_size=64, num_workers=2, pin_memory=True)
    steps = 0
    for inputs, labels in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(inputs.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        steps += 1
    print(
        json.dumps(
            {
                "steps": steps,
                "loss": loss.item(),
                "peak_allocated": torch.cuda.max_memory_allocated(),
                "peak_reserved": torch.cuda.max_memory_reserved(),
                "state": len(optimizer.state),
            }
        )
    )


if __name__ == "__main__":
    main()
