"""Trains a small transformer and keeps what its GELU and softmax saw and gave.

usage: make_real_input.py OUT.safetensors      (needs PyTorch with a CUDA device, and safetensors)

A byte-level decoder (4 layers, width 256, 4 heads, context 128) learns the source text of Python's
own argparse module for some hundred steps under bf16 autocast. From the last batch it records, in
the third layer:
  gelu.x, gelu.dy        pre-activations and random upstream gradients, bf16
  gelu.y, gelu.dx        torch.nn.functional.gelu; gelu_tanh.*: approximate="tanh"
  softmax.x, softmax.dy  attention logits (causal rows that see all keys are kept whole), bf16
  softmax.y, softmax.dx  torch.softmax; log_softmax.*: torch.log_softmax
  fp32.*                 the same in fp32, on the first part of the inputs
PyTorch computes every output on the device from exactly the stored inputs.
"""

import argparse
import inspect
import sys

import safetensors.torch
import torch
import torch.nn.functional as F

CONTEXT, WIDTH, HEADS, LAYERS, STEPS, BATCH = 128, 256, 4, 4, 400, 32
KEPT_ACTIVATIONS, KEPT_ROWS = 32768, 128


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_attention, self.norm_mlp = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = lambda t: t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
        q, k, v = map(heads, self.qkv(self.norm_attention(x)).chunk(3, -1))
        self.logits = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = self.logits.masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.out((weights.to(v.dtype) @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        self.pre_activation = self.up(self.norm_mlp(x))
        return x + self.down(F.gelu(self.pre_activation))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(256, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 256)

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(device):
    text = torch.tensor(list(inspect.getsource(argparse).encode()), device=device)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), device=device)
        rows = starts[:, None] + torch.arange(CONTEXT + 1, device=device)
        with torch.autocast(device, torch.bfloat16):
            scores = model(text[rows[:, :-1]])
            loss = F.cross_entropy(scores.flatten(0, 1).float(), text[rows[:, 1:]].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {loss.item():.3f}", file=sys.stderr)
    return model


def with_gradient(function, x, dy):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    y.backward(dy)
    return y.detach(), x.grad


def record(kept, name, function, x, dy):
    y, dx = with_gradient(function, x, dy)
    kept.update({f"{name}.x": x, f"{name}.dy": dy, f"{name}.y": y, f"{name}.dx": dx})


def main():
    device = "cuda"
    torch.manual_seed(1)
    model = train(device)
    block = model.blocks[2]
    activations = block.pre_activation.detach().flatten()[:KEPT_ACTIVATIONS].bfloat16().contiguous()
    logits = block.logits.detach().flatten(0, 2)[-KEPT_ROWS:].bfloat16().contiguous()
    kept = {}
    for prefix, cast, count, rows in (("", torch.bfloat16, KEPT_ACTIVATIONS, KEPT_ROWS),
                                      ("fp32.", torch.float32, 4096, 16)):
        x, s = activations[:count].to(cast), logits[:rows].to(cast)
        dx, ds = torch.randn_like(x), torch.randn_like(s)
        record(kept, prefix + "gelu", F.gelu, x, dx)
        record(kept, prefix + "gelu_tanh", lambda t: F.gelu(t, approximate="tanh"), x, dx)
        record(kept, prefix + "softmax", lambda t: t.softmax(-1), s, ds)
        record(kept, prefix + "log_softmax", lambda t: t.log_softmax(-1), s, ds)
    made_by = (f"torch {torch.__version__} on {torch.cuda.get_device_name()}, "
               "make_real_input.py, seed 1")
    tensors = {name: t.cpu().contiguous() for name, t in kept.items()}
    shared = ("gelu_tanh", "log_softmax", "fp32.gelu_tanh", "fp32.log_softmax")
    for name in list(tensors):
        if name.startswith(shared) and name.endswith((".x", ".dy")):
            del tensors[name]  # the same inputs as their sisters
    safetensors.torch.save_file(tensors, sys.argv[1], metadata={"made_by": made_by})
    print(made_by, {n: tuple(t.shape) for n, t in tensors.items()}, file=sys.stderr)


if __name__ == "__main__":
    main()
