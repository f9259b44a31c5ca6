"""generate() with a KV cache: greedy, sampled, beams, a static cache; it must stop where its rules say."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=1000,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=2,
        pad_token_id=3,
    )
)
gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_embd=128, n_layer=2, n_head=4, eos_token_id=2, pad_token_id=3))
for model in (llama, gpt2):
    model = model.cuda().eval()
    prompt = torch.randint(5, 1000, (3, 10), device="cuda")
    mask = torch.ones_like(prompt)
    mask[0, :4] = 0
    name = type(model).__name__
    for how in (
        dict(),
        dict(do_sample=True, top_k=20, top_p=0.9, temperature=0.7),
        dict(num_beams=3),
        dict(cache_implementation="static", disable_compile=True),
    ):
        made = model.generate(input_ids=prompt, attention_mask=mask, max_new_tokens=12, **how)
        assert torch.equal(made[:, :10].cpu(), prompt.cpu()), "the prompt is kept"
        print(name, how, tuple(made.shape))
