"""Pages of the worked examples: what they hold, what a browser makes of them, the server that takes numbers."""

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from chromium import WIDTHS, chromium, keep_picture, watched
from tilewright.byhand import WALKTHROUGHS, find
from tilewright.byhand.page import answer, html_page
from tilewright.byhand.serve import make_server

by_name = pytest.mark.parametrize("name", WALKTHROUGHS)
by_width = pytest.mark.parametrize("width", WIDTHS)

CLICKS = """
  const heading = () => document.querySelector("#step h3").textContent;
  const steps = document.querySelectorAll("#list button");
  const next = document.getElementById("next"), previous = document.getElementById("previous");
  seen.first = [heading(), previous.disabled];
  const names = [heading()];
  while (!next.disabled) { next.click(); names.push(heading()); }
  seen.names = names;
  seen.listed = [...steps].map((b) => b.textContent);
  seen.where = document.getElementById("where").textContent;
  previous.click();
  seen.back = heading();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  seen.key = heading();
  steps[1].click();
  seen.chosen = [heading(), [...steps].findIndex((b) => b.getAttribute("aria-current") === "step")];
  const slider = document.querySelector("#slide input");
  seen.slider = document.getElementById("slide").hidden ? null : [slider.value, slider.max];
  if (seen.slider) {
    slider.value = 1;
    slider.dispatchEvent(new Event("input"));
    seen.slid = document.querySelectorAll("#list button").length;
  }
  seen.fields = [...document.querySelectorAll("#fields [name]")].map((f) => f.name);
  document.getElementById("given").open = true;
  seen.opened = document.documentElement.scrollWidth - innerWidth;
  seen.problem = document.getElementById("problem").textContent;
"""


@by_name
@by_width
def test_controls_in_a_browser(name, width, tmp_path, browser):
    one = find(name)
    trace = one.run()
    seen = watched(html_page(one, {}), width, CLICKS, tmp_path)
    names = [step.name for step in trace.steps]
    assert seen["first"] == [names[0], True]
    assert seen["names"] == seen["listed"] == names
    assert seen["where"] == f"step {len(names)} of {len(names)}"
    assert seen["back"] == names[-2]
    assert seen["key"] == names[-1]
    assert seen["chosen"] == [names[1], 1]
    assert seen["fields"] == [p.name for p in one.parameters]
    assert seen["opened"] <= 0
    assert f"tilewright walkthrough {name} --serve" in seen["problem"]
    if one.slider:
        assert seen["slider"] == ["3", "6"]
        assert seen["slid"] == len(one.run({one.slider: 1}).steps)
    else:
        assert seen["slider"] is None


@by_name
@by_width
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures_are_kept(name, width, dark, tmp_path, browser):
    file = keep_picture(html_page(find(name), {}), f"walkthrough-{name}", width, dark, tmp_path, height=1500)
    assert file.stat().st_size > 10_000


@by_name
def test_a_page_loads_nothing_and_holds_every_place_of_the_slider(name):
    one = find(name)
    text = html_page(one, {})
    assert not re.search(r'(src|href)="|url\(|@import|https?://', text)
    content = json.loads(re.search(r'id="content">(.*?)</script>', text)[1].replace("<\\/", "</"))
    assert len(content["traces"]) == (6 if one.slider else 1)
    assert content["traces"][2 if one.slider else 0] == one.run().to_dict()


def test_names_in_a_page_cannot_end_its_script():
    text = html_page(find("number-formats"), {})
    assert text.count("</script>") == 2


@pytest.fixture
def served():
    """Serve a worked example while the test runs: served("lora") -> address."""
    servers = []

    def serve(name, given=None):
        server = make_server(find(name), given or {})
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def post(address, body, kind="application/json", host=None):
    request = urllib.request.Request(f"{address}run", body.encode(), {"Content-Type": kind})
    if host:
        request.add_header("Host", host)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())


class TestServer:
    def test_other_numbers(self, served):
        address = served("online-softmax", {"tile": 2})
        with urllib.request.urlopen(address, timeout=30) as reply:
            assert '"served": true' in reply.read().decode()
        status, found = post(address, json.dumps({"x": [5, 5], "tile": 1}))
        assert status == 200
        assert found == json.loads(json.dumps(answer(find("online-softmax"), {"x": [5, 5], "tile": 1})))
        assert found["traces"][0]["results"]["y"] == [0.5, 0.5]

    @pytest.mark.parametrize(
        ("body", "kind", "host", "status", "said"),
        [
            ('{"tile": 0}', "application/json", None, 400, "tile must be 1 or more"),
            ('{"x": [1, NaN]}', "application/json", None, 400, "x[1] is nan"),
            ("[1]", "application/json", None, 400, "names and values"),
            ("{", "application/json", None, 400, "not JSON"),
            ("[" * 100_000, "application/json", None, 400, "not JSON"),
            ("{}", "text/plain", None, 404, "application/json"),
            ("{}", "application/json", "evil.example", 403, "127.0.0.1"),
            (" " * (1 << 20) + "{}", "application/json", None, 413, "1,048,576 bytes"),
        ],
    )
    def test_what_is_refused(self, served, body, kind, host, status, said):
        found = post(served("online-softmax"), body, kind, host)
        assert found[0] == status
        assert said in found[1]["error"]

    def test_there_is_one_page(self, served):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(served("lora") + "../etc/passwd", timeout=30)

    def test_numbers_edited_in_a_browser(self, served, browser):
        address = served("flash-attention")
        script = """
          const field = (name) => document.querySelector(`#fields [name=${name}]`);
          field("logits").value = "0, 0";
          field("V").value = "[[1, 0], [3, 2]]";
          field("tile").value = "9";
          document.querySelector("#given form").requestSubmit();
          await new Promise((done) => setTimeout(done, 3000));
          const results = [...document.querySelectorAll("#results .value")].map((v) => v.textContent);
          field("tile").value = "0";
          document.querySelector("#given form").requestSubmit();
          await new Promise((done) => setTimeout(done, 3000));
          return [results, document.getElementById("problem").textContent];
        """
        with urllib.request.urlopen(address, timeout=30) as reply:
            page = reply.read().decode()
        at = page.rindex("</script>")
        run = f"(async () => {{ {script} }})().then((found) => {{ document.title = JSON.stringify(found); }});"
        edited = page[:at] + run + page[at:]
        server = make_server(find("flash-attention"), {})
        server.RequestHandlerClass.do_GET = lambda handler: handler._send(200, edited)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = chromium("--dump-dom", f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
        server.server_close()
        title = json.loads(re.search(r"<title>(.*?)</title>", done.stdout, re.S)[1])
        assert "output21" in title[0]
        assert title[1] == "tile must be 1 or more, found 0"


class TestCommand:
    def test_the_list_and_each_of_it(self, run):
        listed = run("walkthrough")
        assert listed.returncode == 0
        for name in WALKTHROUGHS:
            assert f"  {name}  " in listed.stdout
            shown = run("walkthrough", name)
            assert (shown.returncode, shown.stderr) == (0, "")
            assert all(len(line) <= 100 and line == line.rstrip() for line in shown.stdout.splitlines())
            assert "RESULTS" in shown.stdout
            assert run("walkthrough", name, "--values").returncode == 0

    def test_own_numbers(self, run, tmp_path):
        done = run("walkthrough", "online-softmax", "--set", "x=0,0", "--set", "tile=1", "--json")
        assert json.loads(done.stdout)["results"]["y"] == [0.5, 0.5]
        values = "W0 = [[2, 0]]\nB = [[1]]\nA = [[1, 1]]\nx = [1, 2]\ngrad_h = [1]\nB_other=[[0]]\n"
        (tmp_path / "v.toml").write_text(values)
        words = ["walkthrough", "lora", "--file", tmp_path / "v.toml", "--set", "A_other=[[0, 0]]", "--json"]
        assert json.loads(run(*words).stdout)["results"]["h"] == [5]
        (tmp_path / "v.json").write_text('{"x": [1, 1]}')
        words = ["walkthrough", "online-softmax", "--file", tmp_path / "v.json", "--set", "x=3", "--json"]
        assert json.loads(run(*words).stdout)["results"]["y"] == [1]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["online-softmx"], "did you mean online-softmax"),
            (["lora", "--set", "x"], "expected --set NAME=VALUE"),
            (["lora", "--set", "x=1;2"], "x=1;2: expected numbers|1;2: expected numbers"),
            (["lora", "--set", "x=1,2", "--set", "x=1,2"], "gives x twice"),
            (["lora", "--file", "no-such-file.toml"], "no-such-file.toml cannot be read"),
            (["lora", "--json", "--values"], "expected one of"),
            (["lora", "--html", "/no/such/folder/x.html"], "No such file or directory"),
            (["kv-cache", "--set", "W_q=[[1, 2]"], "expected numbers"),
        ],
    )
    def test_bad_input(self, run, words, said):
        done = run("walkthrough", *words)
        assert done.returncode == 2
        assert re.search(said, done.stderr), done.stderr
        assert "Traceback" not in done.stderr

    def test_files_that_are_neither(self, run, tmp_path):
        bad = ("a.toml", "x = [", "is not TOML"), ("a.json", "{", "is not JSON"), ("b.json", "[1]", "a list")
        for name, text, said in bad:
            (tmp_path / name).write_text(text)
            done = run("walkthrough", "lora", "--file", tmp_path / name)
            assert done.returncode == 2
            assert said in done.stderr

    def test_html_and_list_as_json(self, run, tmp_path):
        assert run("walkthrough", "lora", "--html", tmp_path / "page.html").returncode == 0
        assert (tmp_path / "page.html").read_text() == html_page(find("lora"), {})
        listed = json.loads(run("walkthrough", "--json").stdout)
        assert [w["name"] for w in listed["walkthroughs"]] == list(WALKTHROUGHS)

    def test_serve_says_where_and_ends(self, compile_cache):
        words = [sys.executable, "-m", "tilewright.cli.main", "walkthrough", "lora", "--serve"]

        def listen_to_interrupts():
            # A shell's background job is started deaf to them, and what it starts is too.
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        with subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, preexec_fn=listen_to_interrupts
        ) as process:
            address = process.stdout.readline().split()[0]
            with urllib.request.urlopen(address, timeout=30) as reply:
                assert reply.status == 200
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0

    def test_without_torch_and_triton(self, run):
        code = "import sys; from tilewright.byhand import WALKTHROUGHS; [w.run() for w in WALKTHROUGHS.values()]; "
        code += "assert not {'torch', 'triton'} & set(sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
