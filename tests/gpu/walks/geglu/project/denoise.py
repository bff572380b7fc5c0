"""Make pictures from noise: a denoising loop of DDIM, no gradients."""

import argparse

import torch
from diffusers import DDIMScheduler

from dreamer.model import make_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pictures", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    options = parser.parse_args()

    model, scheduler = make_model().to(options.device), DDIMScheduler()
    scheduler.set_timesteps(20)
    words = torch.randn(options.pictures, 16, 64, device=options.device)
    with torch.no_grad():
        for number in range(options.rounds):
            picture = torch.randn(options.pictures, 4, 32, 32, device=options.device)
            for step in scheduler.timesteps:
                noise = model(picture, step, encoder_hidden_states=words).sample
                picture = scheduler.step(noise, step, picture).prev_sample
            print(f"round {number}: {picture.abs().mean().item():.3f}", flush=True)


if __name__ == "__main__":
    main()
