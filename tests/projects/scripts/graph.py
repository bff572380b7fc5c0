"""A graph network of torch-geometric is trained on graphs of different sizes."""

import torch
from torch_geometric.nn import GATConv, GCNConv


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GCNConv(16, 32)
        self.second = GATConv(32, 8, heads=2)

    def forward(self, x, edges):
        return self.second(torch.relu(self.first(x, edges)), edges)


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for nodes in (100, 120, 120):
        x, edges = torch.randn(nodes, 16), torch.randint(0, nodes, (2, 4 * nodes))
        model(x, edges).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
