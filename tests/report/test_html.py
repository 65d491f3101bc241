"""`tilewright report` and `plot`: what the page holds, and what a browser makes of it.

The browser is Chromium without a head; the pictures of the pages stay in build/pictures.
"""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from chromium import WIDTHS, chromium, keep_picture, watched

CASE = "cases/flash_attention/case.py"
EMPTY = {"meta", "br", "link", "img", "input"}


class Page(HTMLParser):
    """Every element's name and attributes, and whether all are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def every(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def pages(tmp_path_factory, run):
    """Make a page once, whichever tests look at it: pages("v0", "v6", "--gpu", "h200") -> Path."""
    made = {}

    def pages(*words):
        if words not in made:
            file = tmp_path_factory.mktemp("page") / "report.html"
            done = run("report", *words, "-o", file)
            assert (done.returncode, done.stderr) == (0, ""), done
            made[words] = file
        return made[words]

    return pages


@pytest.fixture(params=["last-version", "last-and-causal-first"])
def page(request, pages):
    """A page of a healthy launch, and one of two launches of which one has much wrong with it."""
    words = [f"{CASE}:v6"] if request.param == "last-version" else [f"{CASE}:v6", "--set", "causal=False,True"]
    return pages(*words)


def test_it_is_whole_and_loads_nothing(page):
    text = page.read_text()
    found = Page(text)
    assert not found.open
    assert len(text) < 3e6 / 10
    for element, attributes in found.elements:
        assert element not in ("link", "iframe", "object", "base")
        for name in ("src", "href", "data", "action", "srcset"):
            assert name not in attributes or attributes[name].startswith("#"), attributes
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", text)
    # The only address is the name of SVG's namespace, which nothing loads.
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_links_and_labels_resolve_and_ids_are_unique(page):
    found = Page(page.read_text())
    ids = [a["id"] for _, a in found.elements if "id" in a]
    assert len(ids) == len(set(ids))
    named = [a["href"][1:] for a in found.every("a")]
    named += [a[n] for _, a in found.elements for n in ("aria-controls", "aria-labelledby", "data-panes") if n in a]
    assert named
    assert set(named) <= set(ids)


def packed_rows(text, pane):
    packed = re.search(rf'data-rows="{pane}">([^<]+)<', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_the_source_has_the_counts_of_explain(pages, run):
    text = pages(f"{CASE}:v6").read_text()
    profile = json.loads(run("explain", f"{CASE}:v6", "--json", "--sass").stdout)
    rows = re.findall(r'<tr[^>]*id="p0-l(\d+)"[^>]*>(.*?)</tr>', text)
    shown = {int(line): re.findall(r"<td[^>]*>(.*?)</td>", cells)[1] for line, cells in rows}
    assert shown[62] == "33.6 M"
    assert sum(bool(cell) for cell in shown.values()) > 20
    titles, *rows = packed_rows(text, "p0-sass")
    assert titles == ["executed", "line", "a request", "machine code"]
    assert [row[-1] for row in rows] == [row["text"] for row in profile["counters"]["by_instruction"]]
    # 64 keys, 32 warps' worth of exponentials each: figures of the page's rows make up the line's.
    executed = [int(row[1].replace(",", "")) for row in rows if row[0] == 62]
    assert sum(executed) == next(x for x in profile["counters"]["by_line"] if x["line"] == 62)["instructions"]


@pytest.mark.usefixtures("block_pointers")
def test_findings_stand_first_with_their_lines(pages):
    text = pages(f"{CASE}:v0").read_text()
    assert 0 < text.index("What is wrong") < text.index("What keeps the GPU busy") < text.index("Source, and what")
    for words in ("done 2 times", "at most 1.5x", "137.4 G tensor operations executed", 'href="#p0-l94"'):
        assert words in text


@pytest.mark.parametrize("gpu", ["mi300x", "b200"])
def test_other_gpus(pages, gpu):
    found = Page(pages(f"{CASE}:v6", "--gpu", gpu).read_text())
    assert not found.open
    assert found.every("svg")


def test_a_launch_that_does_not_fit_says_so(pages):
    file = pages(f"{CASE}:v6", "--set", "dtype=fp32", "--set", "D=128", "--set", "K_TILE_SIZE=128")
    assert "shared memory" in file.read_text()


def test_names_of_people_cannot_break_the_page(kernel_file, run, tmp_path):
    file = kernel_file(
        """
        @triton.jit
        def kernel(x, n, BLOCK: tl.constexpr):
            '''</script><b id="x">&amp;'''
            i = tl.arange(0, BLOCK)
            tl.store(x + i, tl.where(i < n, 1.0, 0.0))  # <i> & "quotes"
        """,
        name="a&<b>.py",
    )
    done = run("report", f"{file}:kernel", "--args", "x: fp32[64], n: 3, BLOCK: constexpr 64", "--grid", "1",
               "-o", tmp_path / "page.html")  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "page.html").read_text()
    assert not Page(text).open
    assert "&lt;i&gt; &amp; &quot;quotes&quot;" in text
    assert '<b id="x">' not in text


def test_a_kernel_that_does_not_compile_leaves_a_page_and_1(kernel_file, run, tmp_path):
    file = kernel_file("@triton.jit\ndef kernel(x, BLOCK: tl.constexpr):\n    tl.store(x, tl.zeros([BLOCK], y))\n")
    done = run("report", f"{file}:kernel", "--args", "x: fp32[64], BLOCK: constexpr 64", "--grid", "1",
               "-o", tmp_path / "page.html")  # fmt: skip
    assert done.returncode == 1
    assert "does not compile" in done.stderr
    assert "does not compile" in (tmp_path / "page.html").read_text()


class TestPlot:
    @pytest.mark.parametrize("picture", ["warps", "shared", "roofline", "waves"])
    def test_svg(self, picture, run, tmp_path):
        done = run("plot", picture, f"{CASE}:v6", "-o", tmp_path / "picture.svg")
        assert done.returncode == 0, done.stderr
        files = [Path(line.split()[0]) for line in done.stdout.splitlines()]
        assert len(files) == (2 if picture == "warps" else 1)
        for file in files:
            root = ElementTree.fromstring(file.read_text())
            assert root.tag.endswith("svg")
            assert "var(" not in file.read_text()
            assert len(list(root.iter())) > 5

    def test_png(self, run, tmp_path):
        done = run("plot", "waves", f"{CASE}:v6", "-o", tmp_path / "picture.png")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG\r\n")

    def test_json(self, run, tmp_path):
        done = run("plot", "warps", f"{CASE}:v6", "-o", tmp_path / "picture.svg", "--json")
        written = json.loads(done.stdout)
        jsonschema.validate(written, json.loads(run("schema", "written").stdout))
        assert [f["bytes"] for f in written["files"]] == [Path(f["path"]).stat().st_size for f in written["files"]]
        assert len(written["files"]) == 2

    def test_warps_that_compute_the_same_share_a_block(self, explain, block_pointers):
        from tilewright.report.pictures import owners, warps_over_tile

        scores, output = explain("v0", "rtx-4070-super").layout.dots
        # The published tile: 16x16 by [1, 4] warps of 16x8 each.
        assert owners(scores) == [[[0, 2], [1, 3]]]
        assert owners(output) == [[[0], [1], [2], [3], [0], [1], [2], [3]]]
        assert "compute the same" in warps_over_tile(scores)
        assert "compute the same" not in warps_over_tile(output)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["pie", f"{CASE}:v6"], "expected one of warps"),
            (["warps", f"{CASE}:v6", "-o", "picture.gif"], "found picture.gif"),
            (["warps", f"{CASE}:v9"], "v9"),
        ],
    )
    def test_bad_input(self, words, said, run):
        done = run("plot", *words)
        assert done.returncode == 2
        assert said in done.stderr

    def test_nothing_to_draw(self, kernel_file, run, tmp_path):
        file = kernel_file("@triton.jit\ndef kernel(x):\n    tl.store(x, 1.0)\n")
        words = ["--args", "x: fp32[64]", "--grid", "1", "-o", tmp_path / "x.svg"]
        done = run("plot", "warps", f"{file}:kernel", *words)
        assert done.returncode == 2
        assert "nothing to draw" in done.stderr
        assert not (tmp_path / "x.svg").exists()


WATCH = """
  const pane = document.querySelector("[role=tabpanel]:not([hidden])");
  const rows = (p) => [...p.querySelectorAll("tr.on")].map((row) => Number(row.dataset.l));
  const source = document.querySelector("[aria-label=Source]");
  await until(() => rows(pane).length);
  seen.hot = rows(source);
  source.querySelector("tr[data-l='62']").click();
  seen.clicked = [...new Set(rows(pane))];
  seen.seen = pane.querySelector("tr.on").getBoundingClientRect().top - pane.getBoundingClientRect().top;
  seen.height = pane.clientHeight;
  const tabs = [...document.querySelectorAll("[role=tab]")].slice(0, 3);
  tabs[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  seen.tabs = tabs.map((t) => [t.textContent, t.getAttribute("aria-selected"), document.activeElement === t]);
  const ptx = document.querySelector("[role=tabpanel]:not([hidden])");
  await until(() => rows(ptx).length);
  seen.ptx = [...new Set(rows(ptx))];
  const other = [...ptx.querySelectorAll("tr[data-l]")].find((r) => r.dataset.l !== "62");
  other.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  seen.back = [rows(source), Number(other.dataset.l)];
  const link = document.querySelector("a[data-line]");
  if (link) { link.click(); seen.link = [Number(link.dataset.line), rows(source)]; }
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_in_a_browser(page, width, tmp_path, browser):
    seen = watched(page.read_text(), width, WATCH, tmp_path)
    # The exponentials or the second dot, by the compiler's version.
    assert seen["hot"] in ([62], [65])
    assert seen["clicked"] == [62]
    assert 0 <= seen["seen"] < seen["height"]
    assert seen["tabs"] == [["Machine code", "false", False], ["PTX", "true", True], ["TTGIR", "false", False]]
    assert seen["ptx"] == [62]
    assert seen["back"][0] == [seen["back"][1]]
    assert "link" not in seen or seen["link"][1] == [seen["link"][0]]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_are_kept(page, width, dark, browser, tmp_path):
    name = "two" if page.read_text().count("<section") > 1 else "one"
    assert keep_picture(page.read_text(), f"report-of-{name}", width, dark, tmp_path).stat().st_size > 50_000


def test_printed_pages_hold_the_source(pages, browser, tmp_path):
    file = tmp_path / "page.pdf"
    chromium(f"--print-to-pdf={file}", pages(f"{CASE}:v6").as_uri())
    assert file.read_bytes().startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", file.read_bytes())) >= 3
