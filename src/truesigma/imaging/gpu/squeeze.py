"""Squeeze-and-excite behind a norm, as Triton kernels: the mean of each image, and the gate that is made of it.

gate = sigmoid(w2 h + b2), h = silu(w1 p + b1), with p the mean of act(norm(x)) over the places of an image. There are
only some dozen inner features h, so a product with weights is no kernel of its own: the program that ends the sum over
an image multiplies its channels with their part of the weights, and `inner` adds these parts up. All is rounded to the
images' type where layers of torch would round it.
"""

# mypy: ignore-errors

import torch
import triton
import triton.language as tl

from .tiles import (
    PROGRAMS,
    SILU,
    STAGES,
    activated,
    coefficients,
    cut,
    ends,
    normed,
    places,
    slope_of,
    stride_of,
    tile_of,
    tile_rows,
)

PIECES = tl.constexpr(32)  # of an image, at most, when it is summed over
INNER = 64  # inner features, and parts of them, that a program looks at at once
CASES = 16  # cases that are multiplied at once; no fewer could be


@triton.jit
def _piece(C, HW, rows, BC: tl.constexpr):
    """What this program sums over: channels, which of them exist, its first row and the one after its last."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    start = tl.program_id(1) * HW
    first = start + tl.program_id(2) * rows
    return c, c < C, first, tl.minimum(first + rows, start + HW)


@triton.jit
def _hand_in(s, part, number, c, ok, C):
    """Write this program's part of one of several sums."""
    row = (number * tl.num_programs(2) + tl.program_id(2)) * tl.num_programs(1) + tl.program_id(1)
    tl.store(part + row * C + c, tl.sum(s, 0), mask=ok)


@triton.jit
def _total(part, number, c, ok, C):
    """The parts of one of several sums, added up; past the first level of cache, which may hold older ones."""
    k, pieces = tl.arange(0, PIECES), tl.num_programs(2)
    row = (number * pieces + k[:, None]) * tl.num_programs(1) + tl.program_id(1)
    m = (k[:, None] < pieces) & ok[None, :]
    return tl.sum(tl.load(part + row * C + c[None, :], mask=m, other=0.0, cache_modifier=".cg"), 0)


@triton.jit
def _through(value, out, weight, pressed, c, ok, C, K, sk, sc, BK: tl.constexpr):
    """Write a value for each of these channels, and their part of weight times value."""
    case = tl.program_id(1)
    value = value.to(out.dtype.element_ty)
    tl.store(out + case * C + c, value, mask=ok)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        m = (k[:, None] < K) & ok[None, :]
        w = tl.load(weight + k[:, None] * sk + c[None, :] * sc, mask=m, other=0.0).to(tl.float32)
        row = tl.program_id(0) * tl.num_programs(1) + case
        tl.store(pressed + row * K + k, tl.sum(w * value.to(tl.float32)[None, :], 1), mask=k < K)


@triton.jit
def pool(x, saved, part, done, p, w1, pressed, C, S, HW, rows, K, sk, sc,
         ACT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """The mean p of act(norm(x)) over each image, and w1 p by blocks of channels."""
    c, ok, first, last = _piece(C, HW, rows, BC)
    s = tl.zeros((BR, BC), tl.float32)
    for r0 in tl.range(first, last, BR, num_stages=STAGES):
        r, m = tile_rows(r0, last, ok, BR)
        _, z = normed(x, saved, r, c, m, C, S)
        s += tl.where(m, activated(z, ACT), 0.0)
    _hand_in(s, part, 0, c, ok, C)
    if ends(done + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0), tl.num_programs(2)):
        _through(_total(part, 0, c, ok, C) / HW, p, w1, pressed, c, ok, C, K, sk, sc, BK)


@triton.jit
def back_pool(gy, x, gate, saved, part, done, ds, w2, pressed, sums, C, S, HW, rows, K, sk, sc,
              ACT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """The gradient ds before the gate's sigmoid, ds w2 by blocks of channels, and four sums over each image.

    The gradient at norm(x) is (gy gate + dp / HW) d, with d the slope of the activation. Of gate and dp there is one
    each for an image and a channel: so the sums of d gy, d gy (x - mean), d and d (x - mean) are all that the
    gradients of the norm need, before dp is known and without another look at the images.
    """
    c, ok, first, last = _piece(C, HW, rows, BC)
    mean = tl.load(saved + c, mask=ok, other=0.0)
    of_gate = tl.zeros((BR, BC), tl.float32)
    d_gy, d_gy_away = tl.zeros((BR, BC), tl.float32), tl.zeros((BR, BC), tl.float32)
    d_one, d_away = tl.zeros((BR, BC), tl.float32), tl.zeros((BR, BC), tl.float32)
    for r0 in tl.range(first, last, BR, num_stages=STAGES):
        r, m = tile_rows(r0, last, ok, BR)
        v, z = normed(x, saved, r, c, m, C, S)
        g = tl.load(gy + places(r, c, C), mask=m, other=0.0).to(tl.float32)
        d = tl.where(m, slope_of(z, ACT), 0.0)
        away = v - mean[None, :]
        of_gate += g * activated(z, ACT)
        d_gy += d * g
        d_gy_away += d * g * away
        d_one += d
        d_away += d * away
    _hand_in(d_gy, part, 0, c, ok, C)
    _hand_in(d_gy_away, part, 1, c, ok, C)
    _hand_in(d_one, part, 2, c, ok, C)
    _hand_in(d_away, part, 3, c, ok, C)
    _hand_in(of_gate, part, 4, c, ok, C)
    case, cases = tl.program_id(1), tl.num_programs(1)
    if ends(done + case * tl.num_programs(0) + tl.program_id(0), tl.num_programs(2)):
        for number in tl.static_range(4):
            tl.store(sums + (number * cases + case) * C + c, _total(part, number, c, ok, C), mask=ok)
        g = tl.load(gate + case * C + c, mask=ok, other=0.0).to(tl.float32)
        _through(_total(part, 4, c, ok, C) * g * (1 - g), ds, w2, pressed, c, ok, C, K, sk, sc, BK)


@triton.jit
def inner(pressed, b1, hidden, held, weight, b2, out, C, K, blocks, sk, sc,
          ACT: tl.constexpr, BACK: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """The gate from the parts of w1 p; going back, the gradient of p from the parts of ds w2.

    hidden: w1 p + b1, written here and read again on the way back. held: its SiLU; going back, hidden's gradient.
    weight: w2, going back w1; sk and sc apart for inner features and channels.
    """
    case, cases = tl.program_id(1), tl.num_programs(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    j = tl.arange(0, BK)
    total = tl.zeros((BC,), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        sums = tl.zeros((BK, BK), tl.float32)
        for j0 in range(0, blocks, BK):
            row = (j0 + j)[:, None] * cases + case
            m = ((j0 + j)[:, None] < blocks) & (k[None, :] < K)
            sums += tl.load(pressed + row * K + k[None, :], mask=m, other=0.0)
        h = tl.sum(sums, 0)
        at = case * K + k
        if BACK:
            before = tl.load(hidden + at, mask=k < K, other=0.0).to(tl.float32)
            h = h.to(out.dtype.element_ty).to(tl.float32) * slope_of(before, ACT)
        else:
            h = (h + tl.load(b1 + k, mask=k < K, other=0.0).to(tl.float32)).to(out.dtype.element_ty)
            if tl.program_id(0) == 0:
                tl.store(hidden + at, h, mask=k < K)
            h = activated(h.to(tl.float32), ACT)
        h = h.to(out.dtype.element_ty)
        if tl.program_id(0) == 0:
            tl.store(held + at, h, mask=k < K)
        m = (c[:, None] < C) & (k[None, :] < K)
        w = tl.load(weight + k[None, :] * sk + c[:, None] * sc, mask=m, other=0.0).to(tl.float32)
        total += tl.sum(w * h.to(tl.float32)[None, :], 1)
    if not BACK:
        total = (total + tl.load(b2 + c, mask=c < C, other=0.0).to(tl.float32)).to(out.dtype.element_ty)
        total = tl.sigmoid(total.to(tl.float32))
    tl.store(out + case * C + c, total.to(out.dtype.element_ty), mask=c < C)


@triton.jit
def _sum(sums, number, size, at, m):
    """One of the four sums of `back_pool`."""
    return tl.load(sums + number * size + at, mask=m, other=0.0)


@triton.jit
def back_weights(p, ds, held, dh, gate, dp, sums, saved, dw1, db1, dw2, db2, out, cases, C, K, HW,
                 BN: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """Gradients of the gate's weights; of the norm's, with its coefficients, from the sums of `back_pool`."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    ok, there, size = c < C, k < K, cases * C
    reduce, expand = tl.zeros((BK, BC), tl.float32), tl.zeros((BC, BK), tl.float32)
    to_inner, to_gate = tl.zeros((BN, BK), tl.float32), tl.zeros((BN, BC), tl.float32)
    shift, scaled = tl.zeros((BN, BC), tl.float32), tl.zeros((BN, BC), tl.float32)
    for n0 in range(0, cases, BN):
        n = n0 + tl.arange(0, BN)
        at_c, at_k = n[:, None] * C + c[None, :], n[:, None] * K + k[None, :]
        m, mk = (n[:, None] < cases) & ok[None, :], (n[:, None] < cases) & there[None, :]
        wide, narrow = tl.load(ds + at_c, mask=m, other=0.0), tl.load(dh + at_k, mask=mk, other=0.0)
        pooled, within = tl.load(p + at_c, mask=m, other=0.0), tl.load(held + at_k, mask=mk, other=0.0)
        reduce += tl.dot(tl.trans(narrow), pooled, input_precision="ieee")
        expand += tl.dot(tl.trans(wide), within, input_precision="ieee")
        to_inner += narrow.to(tl.float32)
        to_gate += wide.to(tl.float32)
        times = tl.load(gate + at_c, mask=m, other=0.0).to(tl.float32)
        level = tl.load(dp + at_c, mask=m, other=0.0).to(tl.float32) / HW
        d_gy, d_gy_away = _sum(sums, 0, size, at_c, m), _sum(sums, 1, size, at_c, m)
        d_one, d_away = _sum(sums, 2, size, at_c, m), _sum(sums, 3, size, at_c, m)
        shift += times * d_gy + level * d_one
        scaled += times * d_gy_away + level * d_away
    kind = dw1.dtype.element_ty
    tl.store(dw1 + k[:, None] * C + c[None, :], reduce.to(kind), mask=there[:, None] & ok[None, :])
    tl.store(dw2 + c[:, None] * K + k[None, :], expand.to(kind), mask=ok[:, None] & there[None, :])
    if tl.program_id(0) == 0:
        tl.store(db1 + k, tl.sum(to_inner, 0).to(kind), mask=there)
    if tl.program_id(1) == 0:
        tl.store(db2 + c, tl.sum(to_gate, 0).to(kind), mask=ok)
        coefficients(tl.sum(shift, 0), tl.sum(scaled, 0), saved, out, c, ok, C, cases * HW)


def _grid(x):
    """(tile, its number across the channels, rows of a piece, pieces of an image)."""
    n, C, h, w = x.shape
    tile, across = tile_of(C)
    return tile | {"BK": INNER}, across, *cut(h * w, min(PROGRAMS // (across * n), PIECES.value), tile["BR"])


def opened(x, saved, squeeze, done, act):
    """The gate (case, channel), and what its gradient needs besides."""
    w1, b1, w2, b2 = (t.flatten(1).to(x.dtype) if t.ndim > 1 else t.to(x.dtype) for t in squeeze)
    w1, w2 = w1.contiguous(), w2.contiguous()
    (n, C, h, w), K = x.shape, len(w1)
    tile, across, rows, pieces = _grid(x)
    p, gate = (torch.empty(n, C, device=x.device, dtype=x.dtype) for _ in range(2))
    hidden, held = (torch.empty(n, K, device=x.device, dtype=x.dtype) for _ in range(2))
    part = torch.empty(pieces, n, C, device=x.device, dtype=torch.float32)
    pressed = torch.empty(across, n, K, device=x.device, dtype=torch.float32)
    pool[(across, n, pieces)](
        x, saved, part, done, p, w1, pressed, C, stride_of(x), h * w, rows, K, C, 1, ACT=act, **tile
    )  # fmt: skip
    inner[(across, n)](
        pressed, b1, hidden, held, w2, b2, gate, C, K, across, 1, K,
        ACT=SILU, BACK=False, BC=tile["BC"], BK=INNER,
    )  # fmt: skip
    return gate, (p, hidden, held, w1, w2)


def back(gy, x, gate, parts, saved, done, act):
    """The gradient of p, what `back_sums` gives for a norm without a gate, and gradients of w1, b1, w2, b2."""
    p, hidden, held, w1, w2 = parts
    (n, C, h, w), K, f32 = x.shape, len(w1), {"device": x.device, "dtype": torch.float32}
    tile, across, rows, pieces = _grid(x)
    (ds, dp), dh = (torch.empty_like(p) for _ in range(2)), torch.empty_like(hidden)
    part, sums = torch.empty(5, pieces, n, C, **f32), torch.empty(4, n, C, **f32)
    pressed, out = torch.empty(across, n, K, **f32), torch.empty(4, C, **f32)
    back_pool[(across, n, pieces)](
        gy, x, gate, saved, part, done, ds, w2, pressed, sums, C, stride_of(x), h * w, rows, K, 1, K,
        ACT=act, **tile,
    )  # fmt: skip
    inner[(across, n)](  # which reads no bias on the way back
        pressed, x, hidden, dh, w1, x, dp, C, K, across, C, 1,
        ACT=SILU, BACK=True, BC=tile["BC"], BK=INNER,
    )  # fmt: skip
    dw1, db1, dw2, db2 = torch.empty_like(w1), w1.new_empty(K), torch.empty_like(w2), w2.new_empty(C)
    back_weights[(across, triton.cdiv(K, INNER))](
        p, ds, held, dh, gate, dp, sums, saved, dw1, db1, dw2, db2, out, n, C, K, h * w,
        BN=CASES, BC=tile["BC"], BK=INNER,
    )  # fmt: skip
    return dp, out, (dw1[..., None, None], db1, dw2[..., None, None], db2)
