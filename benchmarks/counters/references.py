"""What each kernel has to leave in memory, worked out plainly: with torch, or lane by lane for assembly.

`REFERENCES` maps a kernel's name to a function from its arguments, as they were before the launch, to the tensors that
differ after it. Needs torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

Outputs = dict[str, Any]
WORD = 0xFFFFFFFF
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def _product(a: Any, b: Any) -> Any:
    return a.to(torch.float64) @ b.to(torch.float64)


def product(p: Any) -> Outputs:
    return {"c_ptr": _product(p.a_ptr, p.b_ptr)}


def product_split(p: Any) -> Outputs:
    return {"c_ptr": p.c_ptr + _product(p.a_ptr, p.b_ptr)}


def product_of_rows(p: Any) -> Outputs:
    return {"c_ptr": _product(p.a_ptr, p.b_ptr.mT)}


def product_descriptors(p: Any) -> Outputs:
    return {"c": _product(p.a, p.b.mT)}


def product_scaled(p: Any) -> Outputs:
    def scaled(x: Any, scale: Any) -> Any:
        return x.double() * (2.0 ** (scale.double() - 127)).repeat_interleave(32, 1)

    a, b = scaled(p.a_ptr, p.a_scale_ptr), scaled(p.b_ptr, p.b_scale_ptr)
    return {"c_ptr": a @ b.mT}


def _attention(p: Any) -> tuple[Any, ...]:
    q, k, v, do = (x.double() for x in (p.q_ptr, p.k_ptr, p.v_ptr, p.do_ptr))
    weights = torch.exp2(q @ k.mT * p.scale - p.l_ptr.double()[:, :, None])
    if p.CAUSAL:
        weights = weights.tril()
    return q, k, do, weights, weights * (do @ v.mT - p.d_ptr.double()[:, :, None])


def attention_dkdv(p: Any) -> Outputs:
    q, _, do, weights, ds = _attention(p)
    return {"dk_ptr": ds.mT @ q, "dv_ptr": weights.mT @ do}


def attention_dq(p: Any) -> Outputs:
    _, k, _, _, ds = _attention(p)
    return {"dq_ptr": ds @ k}


def attention_varlen(p: Any) -> Outputs:
    o = p.o_ptr.double().clone()
    starts = p.starts_ptr.tolist()
    for begin, end in itertools.pairwise(starts):
        scores = p.q_ptr[begin:end].double() @ p.k_ptr[begin:end].double().mT
        o[begin : min(end, begin + 2 * p.BQ)] = scores.sum(1)[: 2 * p.BQ]
    return {"o_ptr": o}


def softmax(p: Any) -> Outputs:
    return {"y_ptr": p.x_ptr.double().softmax(1)}


def layer_norm(p: Any) -> Outputs:
    x = p.x_ptr.double()
    normal = (x - x.mean(1, True)) / (x.var(1, unbiased=False, keepdim=True) + p.eps).sqrt()
    return {"y_ptr": normal * p.w_ptr + p.b_ptr}


def layer_norm_dx(p: Any) -> Outputs:
    x = p.x_ptr.double().requires_grad_()
    normal = (x - x.mean(1, True)) / (x.var(1, unbiased=False, keepdim=True) + p.eps).sqrt()
    (normal * p.w_ptr.double()).backward(p.dy_ptr.double())
    return {"dx_ptr": x.grad}


def running_sum(p: Any) -> Outputs:
    return {"y_ptr": p.x_ptr.double().cumsum(1)}


def sort_row(p: Any) -> Outputs:
    return {"y_ptr": p.x_ptr.sort(1).values}


def _on_n(p: Any, values: Any) -> Any:
    """y with its first n elements replaced."""
    y = p.y_ptr.clone()
    y[: p.n] = values[: p.n].to(y.dtype)
    return y


def _index(p: Any) -> Any:
    return torch.arange(p.n, device=DEVICE)


def sines(p: Any) -> Outputs:
    return {"y_ptr": _on_n(p, torch.sin((_index(p).float() * p.step).double()))}


def doubles(p: Any) -> Outputs:
    return {"y_ptr": _on_n(p, p.x_ptr * p.x_ptr * 0.5 + p.x_ptr)}


def doubles_more(p: Any) -> Outputs:
    x, at = p.x_ptr[: p.n], _index(p)
    y = torch.minimum(x * 3 - 1, x + at) + (x * 1000).long()
    return {"y_ptr": _on_n(p, torch.where(y > 2, y, -y))}


def elementary(p: Any) -> Outputs:
    x = p.x_ptr.double()
    y = x.exp() + (x + 1).log() + torch.exp2(-x) * (x + 2).log2() + x.sqrt() / (x + 1).sqrt() + torch.erf(x)
    return {"y_ptr": _on_n(p, y)}


def transpose(p: Any) -> Outputs:
    return {"y_ptr": p.x_ptr.mT}


def total(p: Any) -> Outputs:
    return {"y_ptr": p.y_ptr + p.x_ptr[: p.n].double().sum()}


def scatter_max(p: Any) -> Outputs:
    at = _index(p)
    return {"y_ptr": p.y_ptr.scatter_reduce(0, at % p.bins, p.x_ptr[: p.n], "amax")}


def histogram(p: Any) -> Outputs:
    counts = torch.bincount(p.x_ptr[: p.BLOCK * p.programs], minlength=p.BINS)
    return {"y_ptr": p.y_ptr + counts.int()}


def divide(p: Any) -> Outputs:
    at = _index(p)
    place = at // p.a * p.a + (at % p.a + p.b) % p.a
    y = p.y_ptr.clone()
    y[place[place < p.n]] = at[place < p.n].int()
    return {"y_ptr": y}


def divide_wide(p: Any) -> Outputs:
    pid = _index(p) // p.BLOCK
    steps = (pid * 1000003 + 7) // p.a % 9
    return {"y_ptr": _on_n(p, steps * (steps - 1) // 2)}


def divide_lanes_wide(p: Any) -> Outputs:
    x = _index(p) * 1000003 + 17
    return {"y_ptr": _on_n(p, x // p.a + x % p.a * 3)}


def early_return(p: Any) -> Outputs:
    y, n = p.y_ptr.clone(), (min(p.last, p.programs - 1) + 1) * p.BLOCK
    y[:n] = 2 * p.x_ptr[:n]
    return {"y_ptr": y}


def collatz(p: Any) -> Outputs:
    totals = []
    for pid in range(p.programs):
        x, steps = pid + 1, 0
        while x != 1:
            x, steps = (x // 2 if x % 2 == 0 else 3 * x + 1), steps + 1
        totals.append(sum(i ^ j for i in range(steps, -1, -3) for j in range(i % 4)))
    return {"y_ptr": _on_n(p, torch.tensor(totals, device=DEVICE).repeat_interleave(p.BLOCK))}


def gather_rows(p: Any) -> Outputs:
    return {"y_ptr": p.x_ptr[torch.arange(p.rows, device=DEVICE) * p.step % p.rows]}


def sum_partitioned(p: Any) -> Outputs:
    y = p.y_ptr.clone()
    for pid in range(p.programs):
        mine = p.steps + pid % 3
        x = p.x_ptr[4 * pid * p.BLOCK :][: mine * p.BLOCK]
        y[pid * p.BLOCK :][: p.BLOCK] = x.view(mine, p.BLOCK).sum(0)
    return {"y_ptr": y}


def swap(p: Any) -> Outputs:
    at = torch.arange(p.programs * p.BLOCK, device=DEVICE)
    x, y = p.x_ptr.clone(), p.y_ptr.clone()
    old = x[: len(at)]
    y[: p.n] = old[: p.n]
    y[p.n : p.n + p.programs] = 3 * torch.arange(p.programs, device=DEVICE)
    x[: len(at)] = torch.where(old == at % 61, at + 1, old)
    return {"x_ptr": x, "y_ptr": y}


def atomics_of_all_kinds(p: Any) -> Outputs:
    at, y = _index(p), p.y_ptr.clone()
    x, bin = p.x_ptr[: p.n], at % p.bins
    rows = -(-p.n // p.bins)
    padded = torch.full((rows * p.bins,), -1, device=DEVICE, dtype=torch.int32)
    padded[: p.n] = x
    y[: p.bins] = y[: p.bins].scatter_reduce(0, bin, x, "amin")
    for row, place in zip(padded.view(rows, p.bins), torch.arange(rows * p.bins, device=DEVICE).view(rows, -1),
                          strict=True):  # fmt: skip
        y[p.bins : 2 * p.bins] |= torch.where(place < p.n, row, 0)
        y[2 * p.bins :] &= torch.where((place < p.n) & (place % 3 == 0), row, -1)
    h = p.h_ptr.double().index_add(0, bin, (x % 2).double())
    return {"y_ptr": y, "h_ptr": h}


def gather_lanes(p: Any) -> Outputs:
    index = torch.arange(p.BC, device=DEVICE)[None, :] * 5 + torch.arange(p.BR, device=DEVICE)[:, None]
    return {"y_ptr": p.x_ptr.gather(1, (index % p.BC).repeat(p.programs, 1))}


def convolution(p: Any) -> Outputs:
    y = torch.nn.functional.conv2d(
        p.x_ptr.double()[None, None], p.w_ptr.double()[None, None], padding=p.TAPS // 2
    )
    return {"y_ptr": y[0, 0]}


def scan_backwards(p: Any) -> Outputs:
    x = p.x_ptr.double()
    largest = x.view(p.programs, p.BR, p.BC).cummax(1).values.reshape(x.shape)
    return {"y_ptr": x.flip(1).cumsum(1).flip(1) + largest}


def row_extremes(p: Any) -> Outputs:
    best = p.x_ptr.max(1).values
    return {"y_ptr": best, "where_ptr": (p.x_ptr == best[:, None]).int().argmax(1).int()}


def twice(p: Any) -> Outputs:
    return {"y_ptr": 2 * p.x_ptr}


def copies(p: Any) -> Outputs:
    return {"y_ptr": _on_n(p, 2 * p.x_ptr) if p.MASKED else 2 * p.x_ptr}


def copies_of_a_tile(p: Any) -> Outputs:
    y = p.y_ptr.clone()
    y[:, : p.COLS] = p.x_ptr[:, : p.COLS]
    return {"y_ptr": y}


def operand_loads(p: Any) -> Outputs:
    tiles = p.x_ptr.view(p.programs, p.ROWS, p.COLS)
    return {"y_ptr": (tiles.mT if p.TURNED else tiles).reshape(p.y_ptr.shape)}


def mma_in_registers(p: Any) -> Outputs:
    a = p.x_ptr[: 64 * p.K].view(64, p.K)
    b = p.x_ptr[: p.K * p.COLS].view(p.K, p.COLS)
    return {"y_ptr": p.steps * _product(a, b).repeat(p.programs, 1)}


def warpgroup_product(p: Any) -> Outputs:
    return {"y_ptr": p.steps * _product(p.a_ptr, p.b_ptr.mT).repeat(p.programs, 1)}


def sums(p: Any) -> Outputs:
    return {"y_ptr": p.x_ptr.double().sum(1)}


def tensor_copies(p: Any) -> Outputs:
    return {"target": 2 * p.source if p.READ else p.source}


# Lanes that part: one lane at a time, on whole numbers of 32 bits; None where the lane exits before it stores.


def popc(x: int) -> int:
    return (x & WORD).bit_count()


def brev(x: int) -> int:
    return int(f"{x & WORD:032b}"[::-1], 2)


def clz(x: int) -> int:
    return 32 - (x & WORD).bit_length()


def nested_loops(x: int, lane: int, warp: int) -> int | None:
    for round in range(lane % 3 + 1):
        for left in range((lane + round) % 5, -1, -1):
            x = x * 3 + left
    return x


def loop_left_early(x: int, lane: int, warp: int) -> int | None:
    odd = lane & 1
    for step in range(12):
        x = x * 5 + step & WORD
        if step == lane % 7:
            break
        if not lane & 1:
            odd = popc(x)
            x = brev(x * odd + 1) * 9 + odd & WORD
    return x ^ 21


def switch(x: int, lane: int, warp: int) -> int | None:
    step = lane
    while True:
        if lane % 4 == 0:
            x, step = x * 3 + step, step - 8
        elif lane % 4 == 1:
            x, step = popc(x) * 7 + step, step - 5
        elif lane % 4 == 2:
            x, step = brev(x), step - 11
        else:
            return clz(x) * 11 + lane ^ 85
        if step <= 0:
            return x ^ 85


def jump_table(x: int, lane: int, warp: int) -> int | None:
    arms = (x * 3 + lane, popc(x) * 7 + lane, brev(x), clz(x) * 11 + lane)
    return arms[lane % 4] ^ 85


def exits(x: int, lane: int, warp: int) -> int | None:
    if lane % 3 == 2 or lane == 9:
        return None
    for left in range(lane % 4, -1, -1):
        x = popc(x * 3 + left)
    return x ^ 85


def exits_in_branch(x: int, lane: int, warp: int) -> int | None:
    if lane >= 20:
        return brev(brev(x) * 3 + lane) * 5 + lane ^ 85
    for left in range(lane % 4, -1, -1):
        x = popc(x * 3 + left)
    return None if lane % 5 == 1 else x * (lane % 5) + 3 ^ 85


def warp_sync(x: int, lane: int, warp: int) -> int | None:
    for left in range(lane % 5, -1, -1):
        x = popc(x * 3 + left)
    if lane & 1:
        return popc(x * 7 + lane) * 9 + lane ^ 85
    for left in range(lane % 3, -1, -1):
        x = x * 5 + left
    return brev(x) ^ 85


def votes(x: int, lane: int, warp: int) -> int | None:
    def mine(lane: int) -> int:
        same = sum(1 << other for other in range(32) if other % 3 == lane % 3)
        third = sum(1 << other for other in range(0, 32, 3))
        return (third ^ same) + sum(other % 3 for other in range(32)) & WORD

    found = mine(lane) + mine(lane + 3 if lane + 3 < 32 else lane) & WORD
    if lane < 13:
        found = found * 5 + x
        found = found * sum(1 << other for other in range(13) if other % 3 == lane % 3) + 3
    return found ^ 85


def crossed_arms(x: int, lane: int, warp: int) -> int | None:
    rest = lane % 3
    if lane < 11:
        x = popc(x * 3 + lane)
        if rest:
            return brev(x * 5 + lane) ^ 85
    else:
        x = clz(x * 7 + lane)
    for left in range(rest, -1, -1):
        x = popc(x * 9 + left)
    return x ^ 85


def warp_loops(x: int, lane: int, warp: int) -> int | None:
    for left in range(warp % 4, -1, -1):
        x = popc(x * 3 + left)
    return x


def _by_lane(function: Callable[[int, int, int], int | None]) -> Callable[[Any], Outputs]:
    def reference(p: Any) -> Outputs:
        y = p.y_ptr.tolist()
        for at in range(p.n):
            found = function(at, at % 32, at % p.BLOCK // 32)
            if found is not None:
                y[at] = (found + 0x80000000 & WORD) - 0x80000000
        return {"y_ptr": torch.tensor(y, dtype=torch.int32, device=DEVICE)}

    return reference


def _numbers(p: Any) -> tuple[Any, Any]:
    """Which lanes go the other way, and the numbers from 1 to 61."""
    at = _index(p)
    return at % 32 % p.every == 0, at % 61 + 1


def divisions(p: Any) -> Outputs:
    some, x = _numbers(p)
    tiny = torch.tensor(1e-39, dtype=torch.float32, device=DEVICE).double()
    return {"y_ptr": _on_n(p, x.double() / torch.where(some, tiny, 3.0))}


def roots(p: Any) -> Outputs:
    some, x = _numbers(p)
    tiny = torch.tensor(1e-39, dtype=torch.float32, device=DEVICE).double()
    return {"y_ptr": _on_n(p, torch.where(some, tiny, x.double()).sqrt())}


def wide_divisions(p: Any) -> Outputs:
    some, x = _numbers(p)
    return {"y_ptr": _on_n(p, x.double() / torch.where(some, (_index(p) % 3 + 1).double() * 1e-310, 3.0))}


def sines_of_some(p: Any) -> Outputs:
    some, x = _numbers(p)
    return {"y_ptr": _on_n(p, torch.sin(torch.where(some, 1e6, 1.0).double() * x))}


def some_atomics(p: Any) -> Outputs:
    some, _ = _numbers(p)
    at, y = _index(p), p.y_ptr.clone()
    y.index_add_(0, at // 64, torch.where(some, at % 7, 0).int())
    y[100_000 : 100_000 + p.n] = at.int()
    return {"y_ptr": y}


LANES = (
    nested_loops,
    loop_left_early,
    switch,
    jump_table,
    exits,
    exits_in_branch,
    warp_sync,
    votes,
    crossed_arms,
    warp_loops,
)
WHOLE = (
    product,
    product_split,
    product_descriptors,
    product_scaled,
    attention_dkdv,
    attention_dq,
    attention_varlen,
    layer_norm,
    layer_norm_dx,
    running_sum,
    sort_row,
    sines,
    doubles,
    doubles_more,
    elementary,
    transpose,
    total,
    scatter_max,
    histogram,
    divide,
    divide_wide,
    divide_lanes_wide,
    early_return,
    collatz,
    gather_rows,
    sum_partitioned,
    swap,
    atomics_of_all_kinds,
    gather_lanes,
    convolution,
    scan_backwards,
    row_extremes,
    copies,
    copies_of_a_tile,
    operand_loads,
    mma_in_registers,
    warpgroup_product,
    sums,
    tensor_copies,
    divisions,
    roots,
    wide_divisions,
    sines_of_some,
    some_atomics,
)
REFERENCES: dict[str, Callable[[Any], Outputs]] = {
    **{function.__name__: function for function in WHOLE},
    **{function.__name__: _by_lane(function) for function in LANES},
    "product_persistent": product,
    "product_descriptors_persistent": product_descriptors,
    "product_specialised": product_descriptors,
    "product_loop_specialised": product_descriptors,
    "product_partitioned": product_descriptors,
    "product_device_descriptors": product_of_rows,
    "softmax_row": softmax,
    "softmax_online": softmax,
    "round_trip": twice,
    "repeated_loads": twice,
    "accumulator_stores": twice,
}
"""Not here: random numbers (dropout), and what depends on how the hardware groups lanes (active_lanes)."""


def complaint(name: str, before: dict[str, Any], after: dict[str, Any], programs: int) -> str | None:
    """Compare what a launch left with its reference: None if equal, "no reference", or where and by how much not.

    Whole numbers have to be equal, others within a relative error (Frobenius) that their type allows.
    """
    if name not in REFERENCES:
        return "no reference"
    for argument, expected in REFERENCES[name](SimpleNamespace(**before, programs=programs)).items():
        found = after[argument]
        if not found.is_floating_point():
            wrong = int((found.long() != expected.to(found.device).round().long()).sum())
            if wrong:
                return f"{argument}: {wrong} of {found.numel()} differ"
            continue
        # In the type that is stored, so that what is too large for it is infinite here too.
        stored = expected.to(found.dtype)
        equal = (found == stored) | (found.isnan() & stored.isnan())
        difference = torch.where(equal, 0, found.double() - stored.double())
        norm = stored.double().nan_to_num(posinf=0, neginf=0).norm().clamp_min(1e-30)
        error = float(difference.nan_to_num(nan=torch.inf).norm() / norm)
        # Products of fp32 are taken as TF32.
        limit = {torch.float64: 1e-12, torch.float32: 3e-3, torch.float16: 3e-3}.get(found.dtype, 2e-2)
        inputs = [x.dtype for x in before.values() if isinstance(x, torch.Tensor)]
        if any(dtype.is_floating_point and dtype.itemsize == 1 for dtype in inputs):
            # Hopper adds up products of fp8 in about 14 bits and cuts the rest off, which adds up over many steps.
            limit = 1e-1
        if not error <= limit:
            return f"{argument}: relative error {error:.2e}, allowed {limit:.0e}"
    return None
