"""What the tests share: a model, a loop, the program."""
import sqlite3
import subprocess
import tempfile

import torch

from opbound import _library

torch.set_num_threads(1)


def program():
    return str(_library.file().parent / "opbound")


def opbound(*words):
    """Exit code and output of the program."""
    done = subprocess.run([program(), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, check=False)
    return done.returncode, done.stdout


def rows(path, sql):
    with sqlite3.connect(path) as database:
        return database.execute(sql).fetchall()


def folder():
    return tempfile.TemporaryDirectory(prefix="opbound-")


def gelu(x):
    """The tanh form: torch 1.13's erf on CPUs is beyond its bound (reports/findings.md)."""
    return torch.nn.functional.gelu(x, approximate="tanh")


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    """Tokens to logits: an embedding, two blocks, a head."""

    def __init__(self, vocab=20, width=16):
        super().__init__()
        self.table = torch.nn.Embedding(vocab, width)
        self.blocks = torch.nn.Sequential(Block(width), Block(width))
        self.head = torch.nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.table(tokens)))


def loss_of(model, tokens, targets):
    return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def batches(steps, seed=7, vocab=20):
    draw = torch.Generator().manual_seed(seed)
    return [(torch.randint(0, vocab, (4, 8), generator=draw),
             torch.randint(0, vocab, (4, 8), generator=draw)) for _ in range(steps)]


def new_model(seed=1):
    torch.manual_seed(seed)
    return Model()
