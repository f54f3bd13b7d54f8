#!/usr/bin/env python3
"""Compares a training run of opbound with PyTorch's autograd, step by step.

    opbound train suites/training/nano.toml --policy fp64 --steps 100 --tensors steps
    tools/python/check_training.py steps --heads 4

For every step's file (weights, tokens, loss, gradients of opbound): the same model in fp64 by
PyTorch from the same weights, its loss and its gradients. Prints the largest relative differences,
|a - b| / |b| in the Euclidean norm for each parameter. Exit code 1 if one is above --limit.

The model is GPT-2's: learned positions, LayerNorm with biases, GELU's tanh form, a tied head. Needs
torch.
"""
import argparse
import json
import math
import pathlib
import sys

import torch
from torch.nn import functional as F


TYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16,
         "I64": torch.int64}


def load_file(file):
    """The tensors of a .safetensors file."""
    data = bytearray(file.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, told in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, last = told["data_offsets"]
            part = data[begin + first:begin + last]
            tensors[name] = torch.frombuffer(part, dtype=TYPES[told["dtype"]]).view(told["shape"])
    return tensors


def loss_of(weights, tokens, targets, heads, layers):
    """The mean cross entropy of one micro-batch [sequences, context]."""
    batch, context = tokens.shape
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:context]
    width = x.shape[-1]

    def norm(x, name):
        return F.layer_norm(x, (width,), weights[name + ".weight"], weights[name + ".bias"], 1e-5)

    def linear(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    for layer in range(layers):
        h = f"h.{layer}."
        q, k, v = linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(width, dim=2)
        split = [t.view(batch, context, heads, width // heads).transpose(1, 2) for t in (q, k, v)]
        scores = split[0] @ split[1].transpose(2, 3) / math.sqrt(width // heads)
        mask = torch.ones(context, context, dtype=torch.bool, device=x.device).triu(1)
        weighted = scores.masked_fill(mask, -math.inf).softmax(-1) @ split[2]
        x = x + linear(weighted.transpose(1, 2).reshape(batch, context, width), h + "attn.c_proj")
        hidden = F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, h + "mlp.c_proj")
    logits = norm(x, "ln_f") @ weights["wte.weight"].t()
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def step_of(file, heads):
    """opbound's step and PyTorch's from the same weights: loss and gradients of both."""
    tensors = load_file(file)
    weights = {name[7:]: t.double().requires_grad_() for name, t in tensors.items()
               if name.startswith("weight.")}
    layers = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("h."))
    micro_batches = tensors["tokens"].shape[0]
    total = sum(loss_of(weights, tensors["tokens"][g], tensors["targets"][g], heads, layers)
                for g in range(micro_batches)) / micro_batches
    total.backward()
    got = {n: tensors["gradient." + n].double() / tensors["loss_scale"].item() for n in weights}
    return tensors["loss"].item(), total.item(), weights, got


def relative(a, b):
    """|a - b| / |b|, 0 where both are 0."""
    difference = (a - b).norm().item()
    return difference / b.norm().item() if difference else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--limit", type=float, default=1e-12)
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("step-*.safetensors"))
    if not files:
        sys.exit(f"{arguments.folder}: no step-*.safetensors, expected what --tensors wrote")
    worst_loss, worst_gradient, where = 0.0, 0.0, "nowhere"
    for file in files:
        loss, expected, weights, gradients = step_of(file, arguments.heads)
        worst_loss = max(worst_loss, abs(loss - expected) / abs(expected))
        for name, gradient in gradients.items():
            difference = relative(gradient, weights[name].grad)
            if difference > worst_gradient:
                worst_gradient, where = difference, f"{name}, {file.name}"
    print(f"PyTorch {torch.__version__}, {len(files)} steps: loss {worst_loss:.2e}, "
          f"gradient {worst_gradient:.2e} ({where})")
    sys.exit(0 if max(worst_loss, worst_gradient) <= arguments.limit else 1)


if __name__ == "__main__":
    main()
