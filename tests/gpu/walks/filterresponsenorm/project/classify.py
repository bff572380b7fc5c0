"""Classify pictures: a forward pass a batch, no gradients."""

import argparse

import torch

from pictures.model import make_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pictures", type=int, default=4)
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--batches", type=int, default=1_000_000)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = make_model(options.blocks).to(options.device)
    with torch.no_grad():
        for number in range(options.batches):
            logits = model(torch.randn(options.pictures, 3, options.side, options.side, device=options.device))
            if number % 50 == 0:
                print(f"batch {number}: class {logits[0].argmax().item()}", flush=True)


if __name__ == "__main__":
    main()
