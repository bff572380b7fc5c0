"""A small GPT-2 is trained under autocast."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

shape = {"n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 500, "n_positions": 128}
model = GPT2LMHeadModel(GPT2Config(**shape, resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    tokens = torch.randint(0, 500, (4, 64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
