"""A U-Net with transposed convolutions and skips, batch and group norms, trained for segmentation."""

import torch
from torch import nn


def block(i, o, norm):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1), norm(o), nn.ReLU(inplace=True), nn.Conv2d(o, o, 3, padding=1), norm(o), nn.SiLU()
    )


class UNet(nn.Module):
    def __init__(self, channels=(3, 16, 32, 64), norm=nn.BatchNorm2d):
        super().__init__()
        self.down = nn.ModuleList(block(i, o, norm) for i, o in zip(channels, channels[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in zip(channels[1:], channels[2:]))
        self.merge = nn.ModuleList(block(2 * i, i, norm) for i in channels[1:-1])
        self.head = nn.Conv2d(channels[1], 2, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(x)
            if i < len(self.down) - 1:
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
        for up, merge in zip(reversed(self.up), reversed(self.merge)):
            x = merge(torch.cat([up(x), kept.pop()], 1))
        return nn.functional.interpolate(self.head(x), scale_factor=2, mode="bilinear")


for norm in (nn.BatchNorm2d, lambda n: nn.GroupNorm(4, n)):
    model = UNet(norm=norm).cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for step in range(3):
        images = torch.randn(2, 3, 64, 64, device="cuda")
        target = torch.randint(0, 2, (2, 128, 128), device="cuda")
        out = torch.utils.checkpoint.checkpoint(model, images, use_reentrant=False)
        loss = nn.functional.cross_entropy(out, target, ignore_index=255)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("steps", step + 1)
