"""A deep graph network: convolutions over neighbours, kept apart by this project's own copy of PairNorm."""

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from deepgraph.norm import PairNorm


class DeepGCN(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [features] + [hidden] * (layers - 1)
        self.convs = nn.ModuleList([GCNConv(a, b) for a, b in zip(widths, widths[1:] + [classes])])
        self.norms = nn.ModuleList([PairNorm() for _ in range(layers - 1)])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(x, edges)).relu()
        return self.convs[-1](x, edges)
