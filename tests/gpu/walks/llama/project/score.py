"""Score texts by their perplexity under a Llama: a forward pass a batch, no gradients."""

import argparse

import torch

from warmtext.model import make_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--batches", type=int, default=100_000)
    options = parser.parse_args()

    dtype = torch.bfloat16 if options.device.startswith("cuda") else torch.float32
    model = make_model(options.hidden, options.layers).to(options.device, dtype)
    texts = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for number in range(options.batches):
            ids = torch.randint(0, 2048, (options.batch, options.tokens), generator=texts).to(options.device)
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            if number % 50 == 0:
                print(f"batch {number}: perplexity {loss.exp().item():.2f}", flush=True)


if __name__ == "__main__":
    main()
