"""scaled_dot_product_attention: the calls of aten by which torch 2 carries it out. Before that, and
where it takes its backend "math", it is products and a softmax, each a call of its own.
"""
from opbound import _torch
from opbound._known import Known


def _heads(t):
    """[batch, heads, n, d] as [batch heads, n, d]."""
    return t.reshape(-1, *t.shape[-2:])


def _one(t, place):
    return t[place[0] % t.shape[0], place[1] % t.shape[1]].unsqueeze(0)


def _known(direction, inputs, outputs, lse, mask, is_causal, scale, variant, tile):
    """Of tensors with four axes, by the op's names; lse, with three, in inputs or outputs."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    if v.shape[-1] != q.shape[-1]:
        return None
    attributes = {"tile": tile}
    if scale is not None:
        attributes["scale"] = float(scale)
    if is_causal:
        attributes.update(mask="causal", causal_from="first_key")
    name = _torch.format_of(q.dtype)
    if name in ("bf16", "fp16"):  # what is multiplied is stored first
        attributes.update(p_format=name, ds_format=name)
    place = None
    if mask is not None:
        if is_causal:
            return None
        attributes["mask"] = "additive"
        if any(size != 1 for size in mask.shape[:-2]):
            place = (q.shape[0] // 2, q.shape[1] // 2)  # its own mask: one head is judged
            if k.shape[1] != q.shape[1]:
                return None
    pick = _heads if place is None else lambda t: _one(t, place)
    inputs = {name: pick(t) for name, t in inputs.items()}
    outputs = {name: pick(t) for name, t in outputs.items()}
    lse = pick(lse.unsqueeze(-1)).squeeze(-1)
    if mask is not None:
        inputs["bias"] = (mask.reshape(mask.shape[-2:]) if place is None
                          else mask.expand(*q.shape[:2], *mask.shape[-2:])[place])
        inputs["bias"] = inputs["bias"].expand(q.shape[-2], k.shape[-2])
    if direction == "backward_local":
        inputs["lse"] = lse
    elif mask is None or not (inputs["bias"] == -float("inf")).all(-1).any():
        outputs["lse"] = lse  # of a query that sees no key torch's is 0, by the formula -infinity
    return Known("attention", direction, inputs, outputs, attributes, "q",
                 "o" if direction == "forward" else "do", (variant,))


# aten/src/ATen/native/cpu/FlashAttentionKernel.cpp: tiles of 512 keys.
def on_cpu(q, k, v, dropout=0.0, is_causal=False, *, attn_mask=None, scale=None, result):
    if dropout > 0:
        return None
    return _known("forward", {"q": q, "k": k, "v": v}, {"o": result[0]}, result[1], attn_mask,
                  is_causal, scale, "online", 512)


def on_cpu_backward(do, q, k, v, o, lse, dropout, is_causal, *, attn_mask=None, scale=None,
                    result):
    if dropout > 0:
        return None
    return _known("backward_local", {"q": q, "k": k, "v": v, "o": o, "do": do},
                  dict(zip(("dq", "dk", "dv"), result)), lse, attn_mask, is_causal, scale,
                  "online", 512)


# FlashAttention 2. Its tiles have 64 keys or more: that many allow it most roundings.
def flash(q, k, v, dropout=0.0, is_causal=False, debug=False, *, scale=None, result):
    if dropout > 0 or (is_causal and q.shape[-2] != k.shape[-2]):
        return None
    return _known("forward", {"q": q, "k": k, "v": v}, {"o": result[0]}, result[1], None,
                  is_causal, scale, "online_exp2", 64)


def flash_backward(do, q, k, v, o, lse, q_starts, k_starts, q_most, k_most, dropout, is_causal,
                   *_, scale=None, result):
    if dropout > 0 or (is_causal and q.shape[-2] != k.shape[-2]):
        return None
    return _known("backward_local", {"q": q, "k": k, "v": v, "o": o, "do": do},
                  dict(zip(("dq", "dk", "dv"), result)), lse, None, is_causal, scale,
                  "online_exp2", 64)
