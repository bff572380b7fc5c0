"""A small Llama answers a batch of prompts."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=1000,
)
model = LlamaForCausalLM(config).eval()
with torch.no_grad():
    for length in (32, 48, 64):
        tokens = torch.randint(0, 1000, (4, length))
        model(tokens, use_cache=False)
