"""A vision transformer of transformers and one of torchvision, trained for three steps each."""

import torch
import torchvision
from transformers import ViTConfig, ViTForImageClassification

ours = ViTForImageClassification(
    ViTConfig(
        image_size=96, patch_size=16, hidden_size=192, num_hidden_layers=3, num_attention_heads=3, intermediate_size=384
    )
)
for model in (ours, torchvision.models.vit_b_16(weights=None)):
    model = model.cuda().train()
    size = 96 if model is ours else 224
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(3):
        images = torch.randn(4, 3, size, size, device="cuda")
        labels = torch.randint(0, 2, (4,), device="cuda")
        out = model(images)
        loss = torch.nn.functional.cross_entropy(getattr(out, "logits", out), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(type(model).__name__, step + 1)
