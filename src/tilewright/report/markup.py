"""Elements of HTML and SVG as text. Content is markup already; `escape` makes it from plain text."""

from __future__ import annotations

from html import escape

__all__ = ["escape", "tag"]

_EMPTY = {"rect", "line", "circle"}
"""Elements of SVG that are closed at once where they hold nothing."""


def tag(element: str, *content: str, **attributes: str | float | bool | None) -> str:
    """Return one element.

    Attributes are escaped here; `class_` is `class`, `data_l` is `data-l`. None and False leave one out, True
    gives it without a value. Floats have two decimals at most, which is as fine as a picture needs.
    """
    parts = [element]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(name)
            continue
        text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        parts.append(f'{name}="{escape(text)}"')
    opened = " ".join(parts)
    if element in _EMPTY and not content:
        return f"<{opened}/>"
    return f"<{opened}>{''.join(content)}</{element}>"
