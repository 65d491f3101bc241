"""A worked example as one HTML page: steps with previous and next, a slider, and, where served, numbers to edit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from tilewright.byhand.trace import plain
from tilewright.byhand.values import Walkthrough
from tilewright.report.markup import escape, tag

_ASSETS = resources.files("tilewright.byhand") / "assets"
MOST_SLID = 64
"""A page holds the traces of at most so many places of its slider."""


def html_page(walkthrough: Walkthrough, given: Mapping[str, Any], served: bool = False) -> str:
    """Return the page of a run. It loads nothing; where `served` it asks the server it came from for other numbers."""
    content = {
        "name": walkthrough.name,
        "title": walkthrough.title,
        "served": served,
        "parameters": [
            {"name": p.name, "kind": p.kind, "doc": p.doc, "choices": p.choices} for p in walkthrough.parameters
        ],
        **answer(walkthrough, given),
    }
    # A script ends at the first </, whatever it is in.
    packed = json.dumps(content, ensure_ascii=False).replace("</", "<\\/")
    style = (_ASSETS / "walkthrough.css").read_text(encoding="utf-8")
    script = (_ASSETS / "walkthrough.js").read_text(encoding="utf-8")
    title = escape(walkthrough.title)
    body = (_ASSETS / "walkthrough.html").read_text(encoding="utf-8")
    return "".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            tag("title", f"{title} by hand"),
            f"<style>{style}</style></head><body>",
            body.replace("TITLE", title).replace("ABOUT", escape(walkthrough.about)),
            f'<script type="application/json" id="content">{packed}</script>',
            f"<script>{script}</script></body></html>\n",
        ]
    )


def answer(walkthrough: Walkthrough, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows: the values, and a trace for every place of the slider; raise BadValue."""
    values = walkthrough.values(given)
    shown = {name: plain_value(value) for name, value in values.of.items()}
    if walkthrough.slider is None or walkthrough.most is None:
        return {"values": shown, "slider": None, "traces": [walkthrough.run(given).to_dict()]}
    at = values.whole(walkthrough.slider)
    most = max(at, min(walkthrough.most(values), MOST_SLID))
    traces = [walkthrough.run({**given, walkthrough.slider: n}).to_dict() for n in range(1, most + 1)]
    return {"values": shown, "slider": {"name": walkthrough.slider, "at": at, "most": most}, "traces": traces}


def plain_value(value: Any) -> Any:
    """Return a value as JSON has it; tables and lists of matrices too."""
    return [plain_value(v) for v in value] if isinstance(value, list) else plain(value)
