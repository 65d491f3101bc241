"""Which file a GPU's name means. Kept apart from the files so that finding one GPU reads one file."""

from __future__ import annotations

# A slug is the name of a file in catalog/. Aliases are in the form that `normalise` gives them.
ALIASES: dict[str, tuple[str, ...]] = {
    "rtx-3090": ("3090",),
    "rtx-4070-super": ("4070-super",),
    "rtx-4090": ("4090",),
    "rtx-5090": ("5090",),
    "l4": (),
    "l40s": (),
    "a100-40": ("a100-sxm4-40gb", "a100-40gb", "a100-sxm-40"),
    "a100-80": ("a100", "a100-sxm4-80gb", "a100-80gb", "a100-sxm", "a100-sxm-80"),
    "h100-sxm": ("h100", "h100-80gb-hbm3", "h100-sxm5"),
    "h100-pcie": (),
    "h200": ("h200-sxm", "h200-141gb"),
    "b200": ("b200-sxm",),
    "mi250x": ("mi-250x",),
    "mi300x": ("mi-300x",),
    "mi355x": ("mi-355x",),
    "rx-7900-xtx": ("7900-xtx", "7900xtx", "rx-7900xtx"),
}

# An architecture stands for one GPU: the only one here, else the one best known by measurement
# (RTX 4070 SUPER, H200), else the one with the most memory (A100-80).
REPRESENTATIVES: dict[str, str] = {
    "sm_80": "a100-80",
    "sm_86": "rtx-3090",
    "sm_89": "rtx-4070-super",
    "sm_90": "h200",
    "sm_90a": "h200",
    "sm_100": "b200",
    "sm_100a": "b200",
    "sm_120": "rtx-5090",
    "sm_120a": "rtx-5090",
    "gfx90a": "mi250x",
    "gfx942": "mi300x",
    "gfx950": "mi355x",
    "gfx1100": "rx-7900-xtx",
}

# What drivers put before the part of a name that tells GPUs apart.
_MAKERS = ("nvidia-", "amd-", "geforce-", "instinct-", "radeon-", "tesla-")


def normalise(name: str) -> str:
    """``"NVIDIA GeForce RTX 4070 SUPER"`` to ``"rtx-4070-super"``: lower case, hyphens, no maker's words."""
    text = "-".join(name.lower().replace("_", "-").split())
    for maker in _MAKERS:
        text = text.removeprefix(maker)
    return text


def slug_of(name: str) -> str | None:
    """The slug that a slug, an alias or an architecture means; None if it means none."""
    arch = name.strip().lower().split(":")[-1]
    if arch in REPRESENTATIVES:
        return REPRESENTATIVES[arch]
    text = normalise(name)
    if text in ALIASES:
        return text
    return next((slug for slug, aliases in ALIASES.items() if text in aliases), None)
