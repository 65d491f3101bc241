"""The worked examples by name."""

from __future__ import annotations

from tilewright.byhand import (
    batched_inference,
    flash_attention,
    kv_cache,
    lora,
    number_formats,
    online_softmax,
    paged_attention,
)
from tilewright.byhand.values import BadValue, Walkthrough
from tilewright.errors import did_you_mean

WALKTHROUGHS: dict[str, Walkthrough] = {
    module.WALKTHROUGH.name: module.WALKTHROUGH
    for module in (
        online_softmax,
        flash_attention,
        kv_cache,
        batched_inference,
        paged_attention,
        number_formats,
        lora,
    )
}


def find(name: str) -> Walkthrough:
    """Return the worked example of a name; raise BadValue if there is none."""
    if name not in WALKTHROUGHS:
        known = ", ".join(WALKTHROUGHS)
        raise BadValue(f"no walkthrough {name!r}{did_you_mean(name, WALKTHROUGHS)}; there are: {known}")
    return WALKTHROUGHS[name]
