"""The whole step in a function that the loop calls: the loop's own frame never moves."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_one(model, batch):
    x = batch[0].cuda()
    loss = model(x).sum()
    loss.backward()
    return loss


def main():
    model = nn.Linear(64, 64).cuda()
    ds = TensorDataset(torch.randn(64, 64))
    hist = []
    for epoch in range(2):
        for batch in DataLoader(ds, batch_size=16):
            loss = train_one(model, batch)
            hist.append(loss.detach())


main()
