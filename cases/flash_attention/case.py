"""FlashAttention-2 forward, version by version, as cases: `case.py:v0` ... `case.py:v6`.

Needs no torch. The defaults are the published shape: batch 4 x 8 heads, N = 4096, D = 64, bf16, not causal.
v0 to v5 use block pointers, which Triton has up to 3.7; v6 does without.
"""

from __future__ import annotations

from typing import Any

from tilewright import Case, Param, Tensor

FOLDERS = {
    "v0": "v0_baseline",
    "v1": "v1_tiles",
    "v2": "v2_autotune",
    "v3": "v3_causal_skip",
    "v4": "v4_exp2",
    "v5": "v5_final",
    "v6": "v6_longest_first",
}
TILES = {"v0": (16, 16, 4, 3), "v5": (64, 128, 4, 2), "v6": (64, 128, 4, 2)}
"""Query tile, key tile, warps and stages where they are not those of the sweep's winner, (64, 32, 4, 3)."""


def params(q_tile: int, k_tile: int) -> dict[str, Param]:
    return {
        "N": Param(4096, "queries", smallest=0),
        "N_KEYS": Param(None, "keys; as many as queries unless said", smallest=0),
        "D": Param(64, "head dimension", choices=(16, 32, 64, 128)),
        "batch_heads": Param(32, "batch times heads", smallest=0),
        "dtype": Param("bf16", choices=("bf16", "fp16", "fp32")),
        "causal": Param(False, "mask keys after the query"),
        "Q_TILE_SIZE": Param(q_tile, "queries per program", power_of_two=True, smallest=16),
        "K_TILE_SIZE": Param(k_tile, "keys per step", power_of_two=True, smallest=16),
    }


def keys(p: Any) -> int:
    return p.N if p.N_KEYS is None else p.N_KEYS


def args(p: Any) -> dict[str, Any]:
    n_keys = keys(p)
    queries = Tensor.of(p.dtype, (p.batch_heads, p.N, p.D))
    keys_or_values = Tensor.of(p.dtype, (p.batch_heads, n_keys, p.D))
    q_strides, k_strides = queries.strides, keys_or_values.strides
    strides = {
        f"stride_{tensor}{axis}": stride
        for tensor, axes, values in (
            ("q", "bqd", q_strides),
            ("k", "bkd", k_strides),
            ("v", "bkd", k_strides),
            ("o", "bqd", q_strides),
            ("l", "bq", (p.N, 1)),
        )
        for axis, stride in zip(axes, values, strict=True)
    }
    return {
        "Q_ptr": queries,
        "K_ptr": keys_or_values,
        "V_ptr": keys_or_values,
        "O_ptr": queries,
        "L_ptr": Tensor.of("fp32", (p.batch_heads, p.N)),
        **strides,
        "N_QUERIES": p.N,
        "N_KEYS": n_keys,
        "scale": p.D**-0.5,
        "D": p.D,
        "Q_TILE_SIZE": p.Q_TILE_SIZE,
        "K_TILE_SIZE": p.K_TILE_SIZE,
        "is_causal": p.causal,
    }


def grid(p: Any) -> tuple[int, int]:
    return -(-p.N // p.Q_TILE_SIZE), p.batch_heads


def grid_longest_first(p: Any) -> tuple[int, int]:
    return p.batch_heads, -(-p.N // p.Q_TILE_SIZE)


def needed_pairs(p: Any) -> int:
    """Pairs of a query and a key it looks at, per head: all, or where causal those with key <= query."""
    n_keys = keys(p)
    if not p.causal:
        return int(p.N * n_keys)
    square = min(p.N, n_keys)
    return int(square * (square + 1) // 2 + (p.N - square) * n_keys)


def needed_operations(p: Any) -> int:
    """Two multiply-adds (S and O) for each pair and each of the D columns, two operations each."""
    return int(4 * p.batch_heads * needed_pairs(p) * p.D)


def needed_bytes(p: Any) -> int:
    """Q, K, V and O once each, and the log-sum-exp."""
    width = {"bf16": 2, "fp16": 2, "fp32": 4}[p.dtype]
    return int(p.batch_heads * ((2 * p.N + 2 * keys(p)) * p.D * width + 4 * p.N))


def flash_attention(version: str) -> Case:
    q_tile, k_tile, num_warps, num_stages = TILES.get(version, (64, 32, 4, 3))
    return Case(
        kernel=f"{FOLDERS[version]}/kernel.py:flash_fwd_kernel",
        params=params(q_tile, k_tile),
        args=args,
        grid=grid_longest_first if version == "v6" else grid,
        num_warps=num_warps,
        num_stages=num_stages,
        doc=f"FlashAttention-2 forward, {FOLDERS[version]}",
        needed_operations=needed_operations,
        needed_bytes=needed_bytes,
    )


CASES = {version: flash_attention(version) for version in FOLDERS}
