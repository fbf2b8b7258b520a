"""Batch norm in training with all that follows it, as Triton kernels: one to sum and one to apply, in each direction.

y = act(norm(x) k + residual) g, with k one number for each case, as drop path draws it, and g a gate for each case and
channel, as squeeze-and-excite makes it. Sums are around the running mean, so that a large mean costs no digits.
Imported only where there is a GPU and Triton; on a processor Triton's interpreter runs it (TRITON_INTERPRET=1).
"""

# mypy: ignore-errors
# Triton's language is not Python that a type checker could follow.

import torch
import triton
import triton.language as tl

from .squeeze import back, opened
from .tiles import (
    NONE,
    PROGRAMS,
    RELU,
    RELU6,
    SILU,
    STAGES,
    activated,
    coefficients,
    counters,
    cut,
    ends,
    normed,
    places,
    rows_of,
    slope_of,
    stride_of,
    tile_of,
    tile_rows,
)

__all__ = ["NONE", "RELU", "RELU6", "SILU", "Append", "Norm", "apply_norm", "counters", "rows_of", "settled"]


@triton.jit
def _added(part, parts, stride, c, ok, BC: tl.constexpr):
    """Parts of two sums, added up; bypasses the first level of cache, which may have older ones."""
    BP: tl.constexpr = 64
    s = tl.zeros((BP, BC), tl.float32)
    q = tl.zeros((BP, BC), tl.float32)
    for k0 in range(0, parts, BP):
        k = k0 + tl.arange(0, BP)
        at = k[:, None] * stride + c[None, :]
        m = (k[:, None] < parts) & ok[None, :]
        s += tl.load(part + at, mask=m, other=0.0, cache_modifier=".cg")
        q += tl.load(part + parts * stride + at, mask=m, other=0.0, cache_modifier=".cg")
    return tl.sum(s, 0), tl.sum(q, 0)


@triton.jit
def _share(R, C, rows, BC: tl.constexpr):
    """What this program sums over: channels, which of them exist, its first row and the one after its last."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    first = tl.program_id(1) * rows
    return c, c < C, first, tl.minimum(first + rows, R)


@triton.jit
def _handed_in(s, q, part, done, c, ok, C):
    """Write this program's parts of two sums; whether it is the last to do so."""
    split, splits = tl.program_id(1), tl.num_programs(1)
    tl.store(part + split * C + c, tl.sum(s, 0), mask=ok)
    tl.store(part + (splits + split) * C + c, tl.sum(q, 0), mask=ok)
    return ends(done + tl.program_id(0), splits)


@triton.jit
def _kept(kept, times, r, R, HW):
    """What drop path multiplies rows with: 0, or `times` where the case is kept."""
    return (tl.load(kept + r // HW, mask=r < R, other=0.0).to(tl.float32) * times)[:, None]


@triton.jit
def _joined(z, res, kept, times, r, c, m, R, C, HW, RES: tl.constexpr, KEPT: tl.constexpr):
    """z k + residual, for z = norm(x)."""
    if KEPT:
        z = z * _kept(kept, times, r, R, HW)
    if RES:
        z += tl.load(res + places(r, c, C), mask=m, other=0.0).to(tl.float32)
    return z


@triton.jit
def _grad(g, z, res, kept, times, r, c, m, R, C, HW,
          ACT: tl.constexpr, RES: tl.constexpr, KEPT: tl.constexpr):  # fmt: skip
    """The gradients at z = norm(x) and at the residual, where g is that of act(z k + residual)."""
    if ACT != 0:
        g = g * slope_of(_joined(z, res, kept, times, r, c, m, R, C, HW, RES, KEPT), ACT)
    beside = tl.where(m, g, 0.0)
    g = beside
    if KEPT:
        g = g * _kept(kept, times, r, R, HW)
    return g, beside


@triton.jit
def stats(x, part, done, gamma, beta, mean_, var_, tracked, saved, R, C, S, rows, eps, momentum,
          BR: tl.constexpr, BC: tl.constexpr):  # fmt: skip
    """Mean, 1 / sd, scale and shift of each channel; the running ones are brought up to date."""
    c, ok, first, last = _share(R, C, rows, BC)
    k = tl.load(mean_ + c, mask=ok, other=0.0)
    s, q = tl.zeros((BR, BC), tl.float32), tl.zeros((BR, BC), tl.float32)
    for r0 in tl.range(first, last, BR, num_stages=STAGES):
        r, m = tile_rows(r0, last, ok, BR)
        v = tl.load(x + places(r, c, S), mask=m, other=0.0).to(tl.float32)
        v = tl.where(m, v - k[None, :], 0.0)
        s += v
        q += v * v
    if _handed_in(s, q, part, done, c, ok, C):
        total, squares = _added(part, tl.num_programs(1), C, c, ok, BC)
        away = total / R
        mean = away + k
        var = tl.maximum(squares / R - away * away, 0.0)
        inv = 1.0 / tl.sqrt(var + eps)
        scale = tl.load(gamma + c, mask=ok, other=0.0) * inv
        tl.store(saved + c, mean, mask=ok)
        tl.store(saved + C + c, inv, mask=ok)
        tl.store(saved + 2 * C + c, scale, mask=ok)
        tl.store(saved + 3 * C + c, tl.load(beta + c, mask=ok, other=0.0) - mean * scale, mask=ok)
        rv = tl.load(var_ + c, mask=ok, other=0.0)
        tl.store(mean_ + c, k + momentum * away, mask=ok)
        tl.store(var_ + c, rv + momentum * (var * (R / (R - 1.0)) - rv), mask=ok)
        if tl.program_id(0) == 0:
            tl.store(tracked, tl.load(tracked) + 1)


@triton.jit
def apply(x, res, gate, kept, times, y, saved, R, C, S, HW, ACT: tl.constexpr, RES: tl.constexpr, GATE: tl.constexpr,
          KEPT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):  # fmt: skip
    """Write y."""
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    r, m = tile_rows(tl.program_id(0) * BR, R, c < C, BR)
    _, z = normed(x, saved, r, c, m, C, S)
    z = activated(_joined(z, res, kept, times, r, c, m, R, C, HW, RES, KEPT), ACT)
    if GATE:
        z = z * tl.load(gate + (r // HW)[:, None] * C + c[None, :], mask=m, other=0.0).to(tl.float32)
    tl.store(y + places(r, c, C), z.to(y.dtype.element_ty), mask=m)


@triton.jit
def back_sums(gy, x, res, saved, kept, times, part, done, out, R, C, S, HW, rows,
              ACT: tl.constexpr, RES: tl.constexpr, KEPT: tl.constexpr, BR: tl.constexpr,
              BC: tl.constexpr):  # fmt: skip
    """Gradients of weight and bias, and the coefficients, of a norm without a gate."""
    c, ok, first, last = _share(R, C, rows, BC)
    mean = tl.load(saved + c, mask=ok, other=0.0)
    s, q = tl.zeros((BR, BC), tl.float32), tl.zeros((BR, BC), tl.float32)
    for r0 in tl.range(first, last, BR, num_stages=STAGES):
        r, m = tile_rows(r0, last, ok, BR)
        v, z = normed(x, saved, r, c, m, C, S)
        g = tl.load(gy + places(r, c, C), mask=m, other=0.0).to(tl.float32)
        g, _ = _grad(g, z, res, kept, times, r, c, m, R, C, HW, ACT, RES, KEPT)
        s += g
        q += g * (v - mean[None, :])
    if _handed_in(s, q, part, done, c, ok, C):
        shift, scaled = _added(part, tl.num_programs(1), C, c, ok, BC)
        coefficients(shift, scaled, saved, out, c, ok, C, R)


@triton.jit
def back_apply(gy, x, res, saved, gate, dpool, kept, times, out, passed, dx, dres, R, C, S, HW, SP,
               ACT: tl.constexpr, RES: tl.constexpr, GATE: tl.constexpr, KEPT: tl.constexpr, PASSED: tl.constexpr,
               BR: tl.constexpr, BC: tl.constexpr):  # fmt: skip
    """Write the gradient of x, with one that came past the norm, and that of the residual, where it is not gy."""
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    r, m = tile_rows(tl.program_id(0) * BR, R, c < C, BR)
    v, z = normed(x, saved, r, c, m, C, S)
    g = tl.load(gy + places(r, c, C), mask=m, other=0.0).to(tl.float32)
    if GATE:
        at_case = (r // HW)[:, None] * C + c[None, :]
        g = g * tl.load(gate + at_case, mask=m, other=0.0).to(tl.float32)
        g += tl.load(dpool + at_case, mask=m, other=0.0).to(tl.float32) / HW
    g, beside = _grad(g, z, res, kept, times, r, c, m, R, C, HW, ACT, RES, KEPT)
    scale = tl.load(saved + 2 * C + c, mask=c < C, other=0.0)
    slope = tl.load(out + 2 * C + c, mask=c < C, other=0.0)
    level = tl.load(out + 3 * C + c, mask=c < C, other=0.0)
    d = scale[None, :] * g + slope[None, :] * v + level[None, :]
    if PASSED:
        d += tl.load(passed + places(r, c, SP), mask=m, other=0.0).to(tl.float32)
    at = places(r, c, C)
    tl.store(dx + at, d.to(dx.dtype.element_ty), mask=m)
    if RES and ACT != 0:
        tl.store(dres + at, beside.to(dres.dtype.element_ty), mask=m)


def settled(bn):
    """What `stats` saves, from the running statistics."""
    inv = (bn.running_var + bn.eps).rsqrt()
    scale = bn.weight * inv
    return torch.stack([bn.running_mean, inv, scale, bn.bias - bn.running_mean * scale])


def apply_norm(x, saved, res, kept, squeeze, done, act):
    """y, and what its gradient needs: the residual as it was read, the gate and its parts."""
    n, C, h, w = x.shape
    R, S, HW = n * h * w, stride_of(x), h * w
    tile, across = tile_of(C)
    gate, parts = opened(x, saved, squeeze, done, act) if squeeze else (x, ())
    which, times = kept or (x, 1.0)
    kind = x.dtype if res is None else torch.promote_types(x.dtype, res.dtype)
    y = torch.empty(x.shape, device=x.device, dtype=kind, memory_format=torch.channels_last)
    beside = x if res is None else res.contiguous(memory_format=torch.channels_last)
    apply[(triton.cdiv(R, tile["BR"]), across)](
        x, beside, gate, which, times, y, saved, R, C, S, HW,
        ACT=act, RES=res is not None, GATE=bool(squeeze), KEPT=kept is not None, **tile,
    )  # fmt: skip
    return y, beside, gate, parts


class Norm(torch.autograd.Function):
    """y = act(norm(x) k + res) gate; the gate is sigmoid(w2 silu(w1 mean(act(norm(x))) + b1) + b2), or 1.

    kept: (which cases are kept, what those are multiplied with), of which k is made; None: k = 1.
    passes: return (y, x); what then becomes of x gives its gradient back here, to be added in the same kernel.
    squeeze: w1, b1, w2, b2, or nothing; only without res and kept.
    """

    @staticmethod
    def forward(ctx, x, gamma, beta, res, kept, bn, done, act, passes, *squeeze):
        given, x = x, rows_of(x)
        n, C, h, w = x.shape
        R, S = n * h * w, stride_of(x)
        tile, across = tile_of(C)
        rows, splits = cut(R, PROGRAMS // across, tile["BR"])
        f32 = {"device": x.device, "dtype": torch.float32}
        part, saved = torch.empty(2, splits, C, **f32), torch.empty(4, C, **f32)
        stats[(across, splits)](
            x, part, done, gamma, beta, bn.running_mean, bn.running_var, bn.num_batches_tracked, saved,
            R, C, S, rows, bn.eps, bn.momentum, **tile,
        )  # fmt: skip
        y, beside, gate, parts = apply_norm(x, saved, res, kept, squeeze, done, act)
        which, ctx.times = kept or (x, 1.0)
        ctx.save_for_backward(x, saved, beside, which, gate, *parts)
        kind = {"ACT": act, "RES": res is not None, "KEPT": kept is not None}
        ctx.about = rows, splits, kind, done
        return (y, given) if passes else y

    @staticmethod
    def backward(ctx, gy, *passed):
        x, saved, res, kept, gate, *parts = ctx.saved_tensors
        rows, splits, kind, done = ctx.about
        n, C, h, w = x.shape
        R, S, HW = n * h * w, stride_of(x), h * w
        tile, across = tile_of(C)
        gy = gy.contiguous(memory_format=torch.channels_last)
        f32 = {"device": x.device, "dtype": torch.float32}
        if parts:
            dp, out, weights = back(gy, x, gate, parts, saved, done, kind["ACT"])
        else:
            dp, weights = x, ()
            part, out = torch.empty(2, splits, C, **f32), torch.empty(4, C, **f32)
            back_sums[(across, splits)](
                gy, x, res, saved, kept, ctx.times, part, done, out, R, C, S, HW, rows, **kind, **tile
            )  # fmt: skip
        dx = torch.empty(gy.shape, device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
        dres = gy if kind["RES"] else None  # without an activation between them
        if kind["RES"] and kind["ACT"] != NONE:
            dres = torch.empty_like(dx)
        beside = rows_of(passed[0]) if passed else x
        back_apply[(triton.cdiv(R, tile["BR"]), across)](
            gy, x, res, saved, gate, dp, kept, ctx.times, out, beside, dx, dx if dres is None else dres,
            R, C, S, HW, stride_of(beside), GATE=bool(parts), PASSED=bool(passed), **kind, **tile,
        )  # fmt: skip
        return dx, out[0], out[1], dres, None, None, None, None, None, *weights


class Append(torch.autograd.Function):
    """Channels written after those already in a buffer: what `cat` gives, without copying all of them."""

    @staticmethod
    def forward(ctx, held, new, buffer):
        ctx.at = 0 if held is None else held.shape[1]
        end = ctx.at + new.shape[1]
        # What was handed out before stays as it is, which autograd cannot know: `data` bypasses it.
        buffer.data[:, ctx.at : end].copy_(new)
        return buffer.data[:, :end]

    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, : ctx.at] if ctx.at else None, gradient[:, ctx.at :], None
