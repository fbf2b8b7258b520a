"""What the Triton kernels of a norm and of a gate share: tiles of rows and channels, activations, sums by parts.

Images are channels last, rows of C channels, S apart. Sums are in float32; each program writes its part, and the last
one to end adds the parts up, always in the same order.
"""

# mypy: ignore-errors
# Triton's language is no Python that a type checker could follow.

import torch
import triton
import triton.language as tl

PROGRAMS = 132 * 3  # for a sum: fills a large GPU; more parts would take longer to add up than they save
STAGES = tl.constexpr(4)  # tiles under way at once in a sum: each alone would wait for memory
NONE, RELU, SILU, RELU6 = 0, 1, 2, 3


@triton.jit
def ends(done, of):
    """Whether this program is the last of those that count here; their parts can be read then."""
    tl.debug_barrier()
    last = tl.atomic_add(done, 1, sem="acq_rel") == of - 1
    if last:
        tl.store(done, 0)
    return last


@triton.jit
def tile_rows(first, last, ok, BR: tl.constexpr):
    """The rows of a tile, and which of its elements exist, where `ok` says it of the channels."""
    r = first + tl.arange(0, BR)
    return r, (r[:, None] < last) & ok[None, :]


@triton.jit
def places(r, c, stride):
    """Where rows and channels lie; a large batch has more elements than 32 bits count."""
    return r.to(tl.int64)[:, None] * stride + c[None, :]


@triton.jit
def activated(z, ACT: tl.constexpr):
    """act(z)."""
    if ACT == 1:
        z = tl.maximum(z, 0.0)
    if ACT == 2:
        z = z * tl.sigmoid(z)
    if ACT == 3:
        z = tl.minimum(tl.maximum(z, 0.0), 6.0)
    return z


@triton.jit
def slope_of(z, ACT: tl.constexpr):
    """The derivative of act at z."""
    d = z * 0.0 + 1.0
    if ACT == 1:
        d = tl.where(z > 0, 1.0, 0.0)
    if ACT == 2:
        g = tl.sigmoid(z)
        d = g * (1 + z * (1 - g))
    if ACT == 3:
        d = tl.where((z > 0) & (z < 6), 1.0, 0.0)
    return d


@triton.jit
def normed(x, saved, r, c, m, C, S):
    """The values x, and norm(x)."""
    scale = tl.load(saved + 2 * C + c, mask=c < C, other=0.0)
    shift = tl.load(saved + 3 * C + c, mask=c < C, other=0.0)
    v = tl.load(x + places(r, c, S), mask=m, other=0.0).to(tl.float32)
    return v, v * scale[None, :] + shift[None, :]


@triton.jit
def coefficients(shift, scaled, saved, out, c, ok, C, R):
    """Gradients of a norm's bias and weight, and the two coefficients of each channel that `back_apply` needs.

    shift, scaled: the sums of g and of g (x - mean) over all R rows, with g the gradient at norm(x).
    """
    mean = tl.load(saved + c, mask=ok, other=0.0)
    inv = tl.load(saved + C + c, mask=ok, other=0.0)
    scale = tl.load(saved + 2 * C + c, mask=ok, other=0.0)
    weight = scaled * inv
    slope = -scale * inv * weight / R
    tl.store(out + c, weight, mask=ok)
    tl.store(out + C + c, shift, mask=ok)
    tl.store(out + 2 * C + c, slope, mask=ok)
    tl.store(out + 3 * C + c, -scale * shift / R - slope * mean, mask=ok)


def stride_of(x):
    """How far apart rows are in a tensor whose channels are innermost; None where they are not."""
    n, _, h, w = x.shape
    s = x.stride()
    return s[3] if s[1] == 1 and s[2] == s[3] * w and (n == 1 or s[0] == s[2] * h) else None


def rows_of(x):
    """The tensor with its channels innermost, as it is or copied."""
    return x.contiguous(memory_format=torch.channels_last) if stride_of(x) is None else x


def cut(rows, programs, tile):
    """(rows for each program, number of programs) of a sum over rows, in whole tiles."""
    each = triton.cdiv(triton.cdiv(rows, max(1, programs)), tile) * tile
    return each, triton.cdiv(rows, each)


def tile_of(C):
    """The tile of a kernel, and how many cover the channels."""
    bc = min(64, triton.next_power_of_2(C))
    return {"BR": 2048 // bc, "BC": bc}, triton.cdiv(C, bc)


def counters(channels, cases, device):
    """Zeros in which the programs of one norm count who has ended; each sum leaves zeros behind."""
    return torch.zeros(cases * tile_of(channels)[1], device=device, dtype=torch.int32)
