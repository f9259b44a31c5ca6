"""A causal language model from its config, trained by transformers' Trainer: `trainer_causal_lm.py bf16|fp16`."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count=64, length=128, vocabulary=1000):
        self.rows = torch.randint(5, vocabulary, (count, length), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row}


precision = sys.argv[1] if len(sys.argv) > 1 else "bf16"
config = LlamaConfig(
    vocab_size=1000,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
trainer = Trainer(
    model=LlamaForCausalLM(config),
    args=TrainingArguments(
        output_dir=sys.argv[2] if len(sys.argv) > 2 else "out",
        per_device_train_batch_size=8,
        max_steps=4,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        eval_strategy="steps",
        eval_steps=2,
        gradient_accumulation_steps=2,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
    ),
    train_dataset=Tokens(),
    eval_dataset=Tokens(16),
)
trainer.train()
print("steps", trainer.state.global_step)
