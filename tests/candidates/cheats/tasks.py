"""Tasks that only cheats are written for; small on a CPU, so that a verdict takes a second."""

from __future__ import annotations

from sandbox.task import DynamicSize
from tests.candidates.frame import HEAD, Task

CHEAT_TASKS = {
    "layer_norm_wide": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x)

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return [COLUMNS]
""",
        {"ROWS": 2, "COLUMNS": 65536},
        {"ROWS": 256, "COLUMNS": 65536},
        {"tolerance": "1e-2"},
    ),
    "zero_gate": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.gate = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return x + self.gate * F.gelu(self.linear(x))

def get_inputs():
    return [torch.randn(ROWS, WIDTH)]

def get_init_inputs():
    return [WIDTH]
""",
        {"ROWS": 32, "WIDTH": 96},
        {"ROWS": 1024, "WIDTH": 768},
    ),
    "history": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        keep = torch.sigmoid(self.decay)
        state, states = torch.zeros_like(x[:, 0]), []
        for at in range(x.shape[1]):
            state = keep * state + (1 - keep) * x[:, at]
            states.append(state)
        return torch.stack(states, dim=1)

def get_inputs():
    return [torch.randn(BATCH, LENGTH, CHANNELS)]

def get_init_inputs():
    return [CHANNELS]
""",
        {"BATCH": 4, "LENGTH": 64, "CHANNELS": 48},
        {"BATCH": 64, "LENGTH": 128, "CHANNELS": 512},
    ),
    "top": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return torch.topk(x, 8, dim=-1).values

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []
""",
        {"ROWS": 16, "COLUMNS": 4096},
        {"ROWS": 4096, "COLUMNS": 16384},
    ),
    "any_size": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x, y):
        return x / (1 + y.abs())

def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []
""",
        {"ROWS": 32, "COLUMNS": 256},
        {"ROWS": 512, "COLUMNS": 2000},
        {"dynamic": (DynamicSize(("x.0", "y.0"), 1, 600), DynamicSize(("x.1", "y.1"), 1, 2100))},
    ),
    "careful_sum": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        total, lost = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
        for at in range(x.shape[1]):
            part = x[:, at] - lost
            new = total + part
            lost = (new - total) - part
            total = new
        return total

def get_inputs():
    # Each part is an eighth of a unit of the first at most: a plain sum loses all of them, about four units in every row.
    parts = torch.rand(ROWS, COLUMNS) / 2**26
    parts[:, 0] = 1 + torch.rand(ROWS)
    return [parts]

def get_init_inputs():
    return []
""",
        {"ROWS": 2048, "COLUMNS": 64},
        {"ROWS": 262144, "COLUMNS": 64},
    ),
    "linear_sum": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        return self.linear(x).sum(dim=-1)

def get_inputs():
    return [torch.randn(ROWS, WIDTH)]

def get_init_inputs():
    return [WIDTH, OUT]
""",
        {"ROWS": 256, "WIDTH": 128, "OUT": 512},
        {"ROWS": 8192, "WIDTH": 1024, "OUT": 4096},
    ),
}
