"""Attention through every backend, forward and backward, with masks and grouped heads; flex attention uncompiled."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

for backend in (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.MATH,
):
    for causal in (False, True):
        q, k, v = (torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        with sdpa_kernel(backend):
            scaled_dot_product_attention(q, k, v, is_causal=causal).sum().backward()
        print(backend.name, causal)
mask = torch.ones(64, 64, dtype=torch.bool, device="cuda").tril()
scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
layer = torch.nn.MultiheadAttention(64, 4, batch_first=True).cuda()
x = torch.randn(2, 10, 64, device="cuda")
layer(x, x, x, key_padding_mask=torch.zeros(2, 10, dtype=torch.bool, device="cuda"))[0].sum().backward()
with torch.inference_mode():
    torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda().eval()(x)
print("done")
