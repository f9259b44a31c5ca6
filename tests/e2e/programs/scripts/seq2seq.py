"""T5 and BART from their configs: three steps each of training, then beam search."""

import torch
from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

t5 = T5ForConditionalGeneration(
    T5Config(vocab_size=500, d_model=128, d_ff=256, d_kv=32, num_layers=2, num_heads=4, decoder_start_token_id=0)
)
bart = BartForConditionalGeneration(
    BartConfig(
        vocab_size=500,
        d_model=128,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_position_embeddings=128,
    )
)
for model in (t5, bart):
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(3):
        source = torch.randint(3, 500, (4, 48), device="cuda")
        target = torch.randint(3, 500, (4, 24), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=source, labels=target).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        made = model.eval().generate(input_ids=source, max_new_tokens=8, num_beams=2)
    print(type(model).__name__, tuple(made.shape)[0])
