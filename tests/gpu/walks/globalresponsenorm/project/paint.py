"""Paint pictures of tokens: a few steps of unmasking each, no gradients."""

import argparse

import torch
from diffusers import AmusedScheduler

from mosaic.model import MASK, make_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pictures", type=int, default=4)
    parser.add_argument("--side", type=int, default=16)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batches", type=int, default=100_000)
    options = parser.parse_args()

    model = make_model().to(options.device)
    scheduler = AmusedScheduler(mask_token_id=MASK)
    prompts = torch.randn(options.pictures, 12, 64, device=options.device)
    pooled = torch.randn(options.pictures, 64, device=options.device)
    sizes = torch.tensor([[512.0, 512.0, 0.0, 0.0, 6.0]], device=options.device).repeat(options.pictures, 1)
    with torch.no_grad():
        for number in range(options.batches):
            scheduler.set_timesteps(options.steps, temperature=(2, 0), device=options.device)
            tokens = torch.full((options.pictures, options.side, options.side), MASK, device=options.device)
            for step in scheduler.timesteps:
                logits = model(tokens, encoder_hidden_states=prompts, micro_conds=sizes, pooled_text_emb=pooled)
                tokens = scheduler.step(logits, step, tokens).prev_sample
            if number % 50 == 0:
                print(f"batch {number}: {tokens.unique().numel()} kinds of token", flush=True)


if __name__ == "__main__":
    main()
