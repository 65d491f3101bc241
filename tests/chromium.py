"""Pages in Chromium without a head: run with a script of the test behind them, or taken a picture of."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (1280, 390)
PICTURES = Path(__file__).parents[1] / "build" / "pictures"
"""Where pictures stay after the tests."""

# In a frame, as the browser's own window is never narrower than 500 px.
_FRAME = """<!DOCTYPE html><html><head><style>body {{ margin: 0 }} iframe {{ border: 0; display: block }}</style></head>
<body><iframe width="{width}" height="{height}" srcdoc="{page}"></iframe><script>
setInterval(() => {{
  const seen = document.querySelector("iframe").contentDocument.getElementById("seen");
  if (seen && !document.getElementById("seen")) document.body.append(seen.cloneNode(true));
}}, 10);
</script></body></html>"""

# `body` fills `seen`; `until(f)` waits for f() to hold.
_WATCH = """<script>
"use strict";
const seen = {{ errors: [], width: innerWidth }};
addEventListener("error", (event) => seen.errors.push(event.message));
const until = async (met) => {{ while (!met()) await new Promise((done) => setTimeout(done, 10)); }};
addEventListener("load", async () => {{
  const visible = (e) => e.getClientRects().length > 0;
  seen.overflow = document.documentElement.scrollWidth - innerWidth;
  seen.spilling = [...document.querySelectorAll("main p, main li, h1, h2, h3, h4")]
    .filter((e) => visible(e) && !e.classList.contains("unseen") && e.getBoundingClientRect().right > innerWidth + 1)
    .map((e) => e.textContent.slice(0, 60));
  seen.unnamed = [...document.querySelectorAll("button, a, svg, input, select, [role=region], [role=tabpanel]")]
    .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).length;
  {body}
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
}});
</script>"""


def chromium(*words):
    """Run the browser; 20 seconds pass for the page, however short they are."""
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"]
    common += ["--virtual-time-budget=20000"]
    return subprocess.run([PROGRAM, *common, *words], capture_output=True, text=True, timeout=120, check=True)


def watched(page, width, body, folder):
    """Run a page's text with a script before its own last one; return what it saw.

    Raises AssertionError where the page complains on the console or is wider than the window.
    """
    at = page.rindex("<script>")
    frame = folder / "watched.html"
    text = page[:at] + _WATCH.format(body=body) + page[at:]
    frame.write_text(_FRAME.format(width=width, height=900, page=escape(text)))
    done = chromium(f"--window-size={max(WIDTHS)},900", "--dump-dom", frame.as_uri())
    assert "CONSOLE" not in done.stderr, done.stderr
    seen = json.loads(unescape(re.findall(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)[-1]))
    assert seen["errors"] == []
    assert seen["width"] == width
    assert seen["overflow"] <= 0
    assert seen["spilling"] == []
    assert seen["unnamed"] == 0
    return seen


def keep_picture(page, name, width, dark, folder, height=2600):
    """Take a picture of a page's text; return its file, which stays."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    file = PICTURES / f"{name}-{width}-{'dark' if dark else 'light'}.png"
    frame = folder / "framed.html"
    frame.write_text(_FRAME.format(width=width, height=height, page=escape(page)))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    chromium(f"--window-size={width},{height}", scheme, f"--screenshot={file}", frame.as_uri())
    return file
