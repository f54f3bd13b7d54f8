"""A call of aten as one of opbound's ops."""
import dataclasses


@dataclasses.dataclass
class Known:
    """A call of aten as one of opbound's: tensors by the op's names, in its axes."""
    op: str
    direction: str
    inputs: dict
    outputs: dict
    attributes: dict = dataclasses.field(default_factory=dict)
    stored: str = ""  # the tensor that has the storage format, and the one that has the output's
    output: str = ""
    variants: tuple = ()


def rows(t):
    """[..., n] as [rows, n]."""
    return t.reshape(-1, t.shape[-1]) if t.dim() > 0 else t.reshape(1, 1)


def rows_along(t, dim):
    return rows(t.movedim(dim, -1) if t.dim() > 0 else t)


def flat(t):
    return t.reshape(-1)
