"""accelerate's loop: mixed precision, gradient accumulation, clipping, gather for metrics, a saved and loaded state."""

import sys
import tempfile

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(
    mixed_precision=sys.argv[1] if len(sys.argv) > 1 else "fp16", gradient_accumulation_steps=2
)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(64, 64), torch.randint(0, 10, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
steps = 0
for inputs, labels in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        steps += accelerator.sync_gradients
    seen = accelerator.gather_for_metrics(labels)
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    accelerator.load_state(folder)
print("updates", steps, "device", accelerator.device.type)
