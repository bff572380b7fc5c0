"""Classify the nodes of a graph whose features change from day to day: a forward pass a day, no gradients."""

import argparse

import torch
from torch.nn import functional as F

from deepgraph.model import DeepGCN


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=20_000)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--days", type=int, default=1_000_000)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = DeepGCN(64, options.hidden, 16, options.layers).eval().to(options.device)
    edges = torch.randint(0, options.nodes, (2, options.edges), device=options.device)
    truth = torch.randint(0, 16, (options.nodes,), device=options.device)
    with torch.no_grad():
        for day in range(options.days):
            x = torch.randn(options.nodes, 64, device=options.device)
            loss = F.cross_entropy(model(x, edges), truth)
            if day % 50 == 0:
                print(f"day {day}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
