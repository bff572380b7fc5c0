"""Tasks that only honest candidates are written for; small on a CPU, so that a verdict takes a second."""

from __future__ import annotations

from tests.candidates.frame import HEAD, Task

HONEST_TASKS = {
    "linear_bf16": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(ROWS, WIDTH)]

def get_init_inputs():
    return [WIDTH, OUT]
""",
        {"ROWS": 32, "WIDTH": 128, "OUT": 64},
        {"ROWS": 2048, "WIDTH": 2048, "OUT": 2048},
        {"dtype": "bfloat16"},
    ),
    "mlp": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x))) + x

def get_inputs():
    return [torch.randn(ROWS, WIDTH)]

def get_init_inputs():
    return [WIDTH, HIDDEN]
""",
        {"ROWS": 32, "WIDTH": 64, "HIDDEN": 128},
        {"ROWS": 1024, "WIDTH": 512, "HIDDEN": 1024},
    ),
    "conv_relu": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))

def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]

def get_init_inputs():
    return [CHANNELS, OUT]
""",
        {"BATCH": 2, "CHANNELS": 4, "SIZE": 18, "OUT": 8},
        {"BATCH": 16, "CHANNELS": 16, "SIZE": 128, "OUT": 32},
    ),
    "attention": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        batch, length, _ = qkv.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, -1)

def get_inputs():
    return [torch.randn(BATCH, LENGTH, 3 * HEADS * 64)]

def get_init_inputs():
    return [HEADS]
""",
        {"BATCH": 2, "LENGTH": 40, "HEADS": 2},
        {"BATCH": 4, "LENGTH": 512, "HEADS": 8},
    ),
    "scan": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=-1)

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []
""",
        {"ROWS": 16, "COLUMNS": 1000},
        {"ROWS": 1024, "COLUMNS": 8192},
    ),
    "embedding": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, words, width, length):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions

def get_inputs():
    return [torch.randint(0, WORDS, (BATCH, LENGTH))]

def get_init_inputs():
    return [WORDS, WIDTH, LENGTH]
""",
        {"WORDS": 100, "WIDTH": 64, "BATCH": 8, "LENGTH": 32},
        {"WORDS": 32000, "WIDTH": 768, "BATCH": 16, "LENGTH": 512},
    ),
    "best": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        values, indices = x.max(dim=-1)
        return {{"values": values, "indices": indices, "mean": x.mean(dim=-1)}}

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []
""",
        {"ROWS": 64, "COLUMNS": 333},
        {"ROWS": 8192, "COLUMNS": 2000},
    ),
    "in_place": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x, y):
        x.mul_(0.5).add_(y)
        return x

def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []
""",
        {"ROWS": 32, "COLUMNS": 256},
        {"ROWS": 4096, "COLUMNS": 2048},
    ),
    "batch_norm": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(x))

def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]

def get_init_inputs():
    return [CHANNELS]
""",
        {"BATCH": 4, "CHANNELS": 6, "SIZE": 10},
        {"BATCH": 32, "CHANNELS": 64, "SIZE": 56},
        {"training": True},
    ),
    "integer": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x, salt):
        mixed = (x ^ (x >> 3)) * 31 + salt
        return mixed, (mixed & 1).sum(dtype=torch.int64)

def get_inputs():
    return [
        torch.randint(0, 1 << 20, (COUNT,), dtype=torch.int32),
        torch.randint(0, 1 << 10, (COUNT,), dtype=torch.int32),
    ]

def get_init_inputs():
    return []
""",
        {"COUNT": 4099},
        {"COUNT": 16 * 1024 * 1024 + 3},
    ),
    "swiglu": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, gate, up):
        return F.silu(gate) * up

def get_inputs():
    return [torch.randn(ROWS, COLUMNS, dtype=torch.bfloat16), torch.randn(ROWS, COLUMNS, dtype=torch.bfloat16)]

def get_init_inputs():
    return []
""",
        {"ROWS": 33, "COLUMNS": 258},
        {"ROWS": 2048, "COLUMNS": 2818},
    ),
    "rms_half": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, dtype=torch.float16))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (wide * self.weight.float()).half()

def get_inputs():
    return [torch.randn(ROWS, SIZE, dtype=torch.float16)]

def get_init_inputs():
    return [SIZE]
""",
        {"ROWS": 32, "SIZE": 256},
        {"ROWS": 8192, "SIZE": 2048},
    ),
    "views": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x, y, scale=1.0):
        return (x - y) * scale

def get_inputs():
    return [torch.randn(COLUMNS, ROWS).t(), torch.randn(ROWS, COLUMNS + 3)[:, 1:-2], 0.25]

def get_init_inputs():
    return []
""",
        {"ROWS": 63, "COLUMNS": 130},
        {"ROWS": 4099, "COLUMNS": 2053},
    ),
    "gated": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.sigmoid(x) * self.weight

def get_inputs():
    return [torch.randn(ROWS, SIZE)]

def get_init_inputs():
    return [SIZE]
""",
        {"ROWS": 32, "SIZE": 128},
        {"ROWS": 4096, "SIZE": 1024},
        {"gradients": True},
    ),
    "sort": Task(
        f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=-1).values

def get_inputs():
    return [torch.randn(ROWS, 256)]

def get_init_inputs():
    return []
""",
        {"ROWS": 32},
        {"ROWS": 32768},
    ),
    "open": Task(
        f"""{HEAD}
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        return self.second(torch.tanh(self.norm(self.first(x)))) * 0.5 + x

def get_inputs():
    return [torch.randn(ROWS, WIDTH)]

def get_init_inputs():
    return [WIDTH]
""",
        {"ROWS": 32, "WIDTH": 128},
        {"ROWS": 512, "WIDTH": 512},
        {"policy": "library-ok"},
    ),
    "block": Task(
        f"""\"\"\"A developer's own file: a norm, an activation, and the block that is made fast.\"\"\"
{HEAD}
class Norm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class SquaredRelu(nn.Module):
    def forward(self, x):
        return torch.relu(x).square()


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = Norm(size)
        self.act = SquaredRelu()

    def forward(self, x, residual):
        return self.act(self.norm(x)) + residual


def example():
    return torch.randn(ROWS, 512), torch.randn(ROWS, 512)
""",
        {"ROWS": 32},
        {"ROWS": 16384},
        {"kind": "module", "class_name": "Block", "init": "512", "factory": "example"},
    ),
}
