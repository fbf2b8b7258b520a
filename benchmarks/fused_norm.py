"""Batch norm in training with the activation and the residual behind it, fused: one Triton kernel for each pass.

Not part of the package yet: `benchmarks/steps.py` times it. Channels-last tensors on a GPU; statistics and sums in
float32 around the running mean, so that a large mean costs no digits. On the processor, with TRITON_INTERPRET=1, it
agrees with torch's batch norm in float64 to 3e-7.
"""

import torch
import triton
import triton.language as tl
from torch import nn

NONE, RELU, SILU, RELU6 = 0, 1, 2, 3
PROGRAMS = 132 * 6


@triton.jit
def _stats(x, center, part, R, C, S, rows, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    split, splits = tl.program_id(1), tl.num_programs(1)
    k = tl.load(center + c, mask=c < C, other=0.0)
    first = split * rows
    last = tl.minimum(first + rows, R)
    s = tl.zeros((BR, BC), tl.float32)
    q = tl.zeros((BR, BC), tl.float32)
    for r0 in range(first, last, BR):
        r = r0 + tl.arange(0, BR)
        m = (r[:, None] < last) & (c[None, :] < C)
        v = tl.load(x + r[:, None] * S + c[None, :], mask=m, other=0.0).to(tl.float32)
        v = tl.where(m, v - k[None, :], 0.0)
        s += v
        q += v * v
    tl.store(part + split * C + c, tl.sum(s, 0), mask=c < C)
    tl.store(part + (splits + split) * C + c, tl.sum(q, 0), mask=c < C)


@triton.jit
def _finish(
    part,
    center,
    gamma,
    beta,
    running_mean,
    running_var,
    saved,
    R,
    C,
    splits,
    eps,
    momentum,
    BS: tl.constexpr,
    BC: tl.constexpr,
):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    ok = c < C
    s = tl.zeros((BS, BC), tl.float32)
    q = tl.zeros((BS, BC), tl.float32)
    for k0 in range(0, splits, BS):
        k = k0 + tl.arange(0, BS)
        m = (k[:, None] < splits) & ok[None, :]
        s += tl.load(part + k[:, None] * C + c[None, :], mask=m, other=0.0)
        q += tl.load(part + (splits + k[:, None]) * C + c[None, :], mask=m, other=0.0)
    away = tl.sum(s, 0) / R
    mean = away + tl.load(center + c, mask=ok, other=0.0)
    var = tl.maximum(tl.sum(q, 0) / R - away * away, 0.0)
    inv = 1.0 / tl.sqrt(var + eps)
    scale = tl.load(gamma + c, mask=ok, other=0.0) * inv
    tl.store(saved + c, mean, mask=ok)
    tl.store(saved + C + c, inv, mask=ok)
    tl.store(saved + 2 * C + c, scale, mask=ok)
    tl.store(saved + 3 * C + c, tl.load(beta + c, mask=ok, other=0.0) - mean * scale, mask=ok)
    rm = tl.load(running_mean + c, mask=ok, other=0.0)
    rv = tl.load(running_var + c, mask=ok, other=0.0)
    tl.store(running_mean + c, rm + momentum * (mean - rm), mask=ok)
    tl.store(running_var + c, rv + momentum * (var * (R / (R - 1.0)) - rv), mask=ok)


@triton.jit
def _act(z, ACT: tl.constexpr):
    if ACT == 1:
        z = tl.maximum(z, 0.0)
    if ACT == 2:
        z = z * tl.sigmoid(z)
    if ACT == 3:
        z = tl.minimum(tl.maximum(z, 0.0), 6.0)
    return z


@triton.jit
def _slope(z, ACT: tl.constexpr):
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
def _apply(
    x, res, y, saved, R, C, S, ACT: tl.constexpr, RES: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr
):
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    m = (r[:, None] < R) & (c[None, :] < C)
    scale = tl.load(saved + 2 * C + c, mask=c < C, other=0.0)
    bias = tl.load(saved + 3 * C + c, mask=c < C, other=0.0)
    z = (
        tl.load(x + r[:, None] * S + c[None, :], mask=m, other=0.0).to(tl.float32) * scale[None, :]
        + bias[None, :]
    )
    if RES:
        z += tl.load(res + r[:, None] * C + c[None, :], mask=m, other=0.0).to(tl.float32)
    tl.store(y + r[:, None] * C + c[None, :], _act(z, ACT).to(y.dtype.element_ty), mask=m)


@triton.jit
def _grad(gy, x, res, saved, r, c, m, C, S, ACT: tl.constexpr, RES: tl.constexpr):
    scale = tl.load(saved + 2 * C + c, mask=c < C, other=0.0)
    bias = tl.load(saved + 3 * C + c, mask=c < C, other=0.0)
    v = tl.load(x + r[:, None] * S + c[None, :], mask=m, other=0.0).to(tl.float32)
    z = v * scale[None, :] + bias[None, :]
    if RES:
        z += tl.load(res + r[:, None] * C + c[None, :], mask=m, other=0.0).to(tl.float32)
    g = tl.load(gy + r[:, None] * C + c[None, :], mask=m, other=0.0).to(tl.float32)
    return tl.where(m, g * _slope(z, ACT), 0.0), v


@triton.jit
def _back_sums(
    gy,
    x,
    res,
    saved,
    part,
    R,
    C,
    S,
    rows,
    ACT: tl.constexpr,
    RES: tl.constexpr,
    BR: tl.constexpr,
    BC: tl.constexpr,
):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    split, splits = tl.program_id(1), tl.num_programs(1)
    mean = tl.load(saved + c, mask=c < C, other=0.0)
    first = split * rows
    last = tl.minimum(first + rows, R)
    s = tl.zeros((BR, BC), tl.float32)
    q = tl.zeros((BR, BC), tl.float32)
    for r0 in range(first, last, BR):
        r = r0 + tl.arange(0, BR)
        m = (r[:, None] < last) & (c[None, :] < C)
        g, v = _grad(gy, x, res, saved, r, c, m, C, S, ACT, RES)
        s += g
        q += g * (v - mean[None, :])
    tl.store(part + split * C + c, tl.sum(s, 0), mask=c < C)
    tl.store(part + (splits + split) * C + c, tl.sum(q, 0), mask=c < C)


@triton.jit
def _back_finish(part, saved, dgamma, dbeta, coef, R, C, splits, BS: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    ok = c < C
    s = tl.zeros((BS, BC), tl.float32)
    q = tl.zeros((BS, BC), tl.float32)
    for k0 in range(0, splits, BS):
        k = k0 + tl.arange(0, BS)
        m = (k[:, None] < splits) & ok[None, :]
        s += tl.load(part + k[:, None] * C + c[None, :], mask=m, other=0.0)
        q += tl.load(part + (splits + k[:, None]) * C + c[None, :], mask=m, other=0.0)
    mean = tl.load(saved + c, mask=ok, other=0.0)
    inv = tl.load(saved + C + c, mask=ok, other=0.0)
    scale = tl.load(saved + 2 * C + c, mask=ok, other=0.0)
    db = tl.sum(s, 0)
    dg = tl.sum(q, 0) * inv
    tl.store(dbeta + c, db, mask=ok)
    tl.store(dgamma + c, dg, mask=ok)
    c1 = -scale * inv * dg / R
    tl.store(coef + c, c1, mask=ok)
    tl.store(coef + C + c, -scale * db / R - c1 * mean, mask=ok)


@triton.jit
def _back_apply(
    gy,
    x,
    res,
    saved,
    coef,
    dx,
    dres,
    R,
    C,
    S,
    ACT: tl.constexpr,
    RES: tl.constexpr,
    BR: tl.constexpr,
    BC: tl.constexpr,
):
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    m = (r[:, None] < R) & (c[None, :] < C)
    g, v = _grad(gy, x, res, saved, r, c, m, C, S, ACT, RES)
    scale = tl.load(saved + 2 * C + c, mask=c < C, other=0.0)
    c1 = tl.load(coef + c, mask=c < C, other=0.0)
    c0 = tl.load(coef + C + c, mask=c < C, other=0.0)
    at = r[:, None] * C + c[None, :]
    tl.store(dx + at, (scale[None, :] * g + c1[None, :] * v + c0[None, :]).to(dx.dtype.element_ty), mask=m)
    if RES:
        tl.store(dres + at, g.to(dres.dtype.element_ty), mask=m)


def _tile(C):
    bc = 64 if C >= 64 else triton.next_power_of_2(C)
    return max(1, 2048 // bc), bc


def _stride(x: torch.Tensor) -> int | None:
    """Row stride of a tensor whose channels are innermost; None where they are not."""
    n, _, h, w = x.shape
    s = x.stride()
    if s[1] != 1 or s[2] != s[3] * w or (n > 1 and s[0] != s[2] * h):
        return None
    return s[3]


class FusedNorm(torch.autograd.Function):
    """y = act(batch norm(x) + res)."""

    @staticmethod
    def forward(ctx, x, gamma, beta, running_mean, running_var, res, eps, momentum, act):
        n, C, h, w = x.shape
        R, S = n * h * w, _stride(x)
        br, bc = _tile(C)
        across = triton.cdiv(C, bc)
        splits = max(1, min(PROGRAMS // across, triton.cdiv(R, br)))
        rows = triton.cdiv(triton.cdiv(R, splits), br) * br
        splits = triton.cdiv(R, rows)
        part = torch.empty(2, splits, C, device=x.device, dtype=torch.float32)
        saved = torch.empty(4, C, device=x.device, dtype=torch.float32)
        _stats[(across, splits)](x, running_mean, part, R, C, S, rows, BR=br, BC=bc)
        _finish[(triton.cdiv(C, 16),)](
            part,
            running_mean,
            gamma,
            beta,
            running_mean,
            running_var,
            saved,
            R,
            C,
            splits,
            eps,
            momentum,
            BS=64,
            BC=16,
        )
        y = torch.empty((n, C, h, w), device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
        r = x if res is None else res
        _apply[(triton.cdiv(R, br), across)](
            x, r, y, saved, R, C, S, ACT=act, RES=res is not None, BR=br, BC=bc
        )
        ctx.save_for_backward(x, saved, *(() if res is None else (res,)))
        ctx.about = (R, C, S, br, bc, across, splits, rows, act)
        return y

    @staticmethod
    def backward(ctx, gy):
        x, saved, *more = ctx.saved_tensors
        R, C, S, br, bc, across, splits, rows, act = ctx.about
        gy = gy.contiguous(memory_format=torch.channels_last)
        res = more[0] if more else x
        part = torch.empty(2, splits, C, device=x.device, dtype=torch.float32)
        out = torch.empty(4, C, device=x.device, dtype=torch.float32)
        _back_sums[(across, splits)](
            gy, x, res, saved, part, R, C, S, rows, ACT=act, RES=bool(more), BR=br, BC=bc
        )
        _back_finish[(triton.cdiv(C, 16),)](part, saved, out[0], out[1], out[2], R, C, splits, BS=64, BC=16)
        dx = torch.empty(gy.shape, device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
        dres = torch.empty_like(dx) if more else dx
        _back_apply[(triton.cdiv(R, br), across)](
            gy, x, res, saved, out[2], dx, dres, R, C, S, ACT=act, RES=bool(more), BR=br, BC=bc
        )
        return dx, out[0], out[1], None, None, (dres if more else None), None, None, None


ACTS = {nn.Identity: NONE, nn.ReLU: RELU, nn.SiLU: SILU, nn.ReLU6: RELU6}


def norm(bn, x, act=NONE, res=None):
    """bn in training, then + res, then the activation."""
    S = _stride(x)
    if S is None:
        x = x.contiguous(memory_format=torch.channels_last)
    if res is not None:
        res = res.contiguous(memory_format=torch.channels_last)
    bn.num_batches_tracked.add_(1)
    return FusedNorm.apply(
        x, bn.weight, bn.bias, bn.running_mean, bn.running_var, res, bn.eps, bn.momentum, act
    )


def patch(net):
    """Use the fused kernels in training, wherever timm's networks normalise."""
    from timm.layers import BatchNormAct2d
    from timm.models.resnet import Bottleneck

    def act_forward(self, x):
        if not self.training:
            return plain_act(self, x)
        return norm(self, x, ACTS[type(self.act)])

    plain_act = BatchNormAct2d.forward
    plain_block = Bottleneck.forward

    def block(self, x):
        if not self.training:
            return plain_block(self, x)
        shortcut = x
        x = norm(self.bn1, self.conv1(x), RELU)
        x = norm(self.bn2, self.conv2(x), RELU)
        x = self.conv3(x)
        if self.downsample is not None:
            conv, bn = self.downsample[-2:]
            shortcut = norm(bn, conv(shortcut), NONE)
        return norm(self.bn3, x, RELU, shortcut)

    for module in net.modules():
        if isinstance(module, BatchNormAct2d):
            assert type(module.drop) is nn.Identity, module
            module.forward = act_forward.__get__(module)
        if isinstance(module, Bottleneck):
            module.forward = block.__get__(module)
        if type(module).__name__ == "ResNet":
            module.act1_ = module.act1
            bn = module.bn1
            bn.forward = lambda x, bn=bn, old=bn.forward: norm(bn, x, RELU) if bn.training else old(x)
    return net
