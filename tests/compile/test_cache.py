"""The cache: hit when nothing that the compiler sees has changed, miss when something has, never in the way."""

import os
import subprocess
import sys
import textwrap
import zlib

import pytest

from tilewright.compile import Cache, Compiled, Compiler
from tilewright.gpus import load
from tilewright.launch import Tensor, find_kernel, make_launch

TARGET = load("rtx-4070-super").target

BODY = """
    from helper import FACTOR

    @triton.jit
    def kernel(x_ptr, n, scale, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * FACTOR * scale, mask=i < n)
"""


@pytest.fixture
def files(kernel_file):
    """A kernel and the helper module that it imports."""
    helper = kernel_file("FACTOR = tl.constexpr(2.5)\n", "helper.py")
    return kernel_file(BODY), helper


def launch(file, *, n=4096, scale=0.5, block=256, tensor=None, **options):
    x = tensor or Tensor.of("fp32", (4096,))
    args = {"x_ptr": x, "n": n, "scale": scale, "BLOCK": block}
    return make_launch(find_kernel(f"{file}:kernel"), args, (1,), **options)


@pytest.fixture
def run(tmp_path, files):
    """Compile afresh, with a cache of the test's own: run(n=17) -> Compiled."""

    def run(**changes):
        with Compiler(workers=1, cache_folder=tmp_path / "cache") as compiler:
            (result,) = compiler.compile([(launch(files[0], **changes), TARGET)])
        assert isinstance(result, Compiled), result
        return result

    return run


def test_a_second_run_hits_and_gives_the_same(run):
    first, second = run(), run()
    assert (first.cached, second.cached) == (False, True)
    assert first == second
    assert first.to_dict() == {**second.to_dict(), "cached": False}


@pytest.mark.parametrize(
    ("changes", "cached"),
    [
        ({"n": 8192}, True),
        ({"scale": 0.75}, True),
        ({"tensor": Tensor.of("fp32", (1 << 20,))}, True),
        ({"tensor": Tensor.of("fp32", (4096,), alignment_bytes=64)}, True),
        ({"n": 4097}, False),
        ({"n": 1}, False),
        ({"n": 2**31}, False),
        ({"n": True}, False),
        ({"scale": 2}, False),
        ({"block": 512}, False),
        ({"num_warps": 8}, False),
        ({"num_stages": 5}, False),
        ({"tensor": Tensor.of("fp16", (4096,))}, False),
        ({"tensor": Tensor.of("fp32", (4096,), alignment_bytes=8)}, False),
        ({"options": {"maxnreg": 64}}, False),
    ],
    ids=lambda v: (
        "hit" if v is True else "miss" if v is False else ", ".join(f"{k}={w}" for k, w in v.items())
    ),
)
def test_what_the_compiler_sees(run, changes, cached):
    run()
    assert run(**changes).cached is cached


@pytest.mark.parametrize("which", [0, 1], ids=["kernel file", "helper that it imports"])
def test_a_changed_file_misses_and_a_restored_one_hits(run, files, which):
    before = run()
    file, text = files[which], files[which].read_text()
    file.write_text(text.replace("2.5", "7.5") if which else text.replace("* scale", "* scale * 3.0"))
    changed = run()
    assert not changed.cached
    assert changed.asm["ttir"] != before.asm["ttir"]
    file.write_text(text)
    again = run()
    assert again.cached
    assert again.asm == before.asm


def test_a_change_within_one_compilers_life_is_seen(tmp_path, files):
    """The worker has imported the old text, and the cache has hashed it."""
    with Compiler(workers=1, cache_folder=tmp_path / "cache") as compiler:
        first = compiler.compile([(launch(files[0]), TARGET)])[0]
        files[1].write_text(files[1].read_text().replace("2.5", "7.5"))
        second = compiler.compile([(launch(files[0]), TARGET)])[0]
    assert "2.5" in first.asm["ttir"]
    assert "7.5" in second.asm["ttir"]


def test_triton_settings_in_the_environment_miss(run, monkeypatch):
    run()
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert not run().cached


def test_depths_are_kept_apart(tmp_path, files):
    with Compiler(workers=1, cache_folder=tmp_path / "cache") as compiler:
        job = [(launch(files[0]), TARGET)]
        assert compiler.compile(job, depth="ttgir")[0].registers is None
        assert compiler.compile(job)[0].registers > 0
        assert compiler.compile(job, depth="ttgir")[0].cached


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b"not zlib at all",
        lambda b: zlib.compress(b'{"files": {}}'),
        lambda b: zlib.compress(b'{"files": {}, "compiled": {"target": 1}}'),
        lambda b: zlib.compress(b"[]"),
        lambda b: zlib.compress(b'"text"'),
        lambda b: zlib.compress(b"\xff\xfe"),
    ],
    ids=["truncated", "empty", "garbage", "no result", "wrong result", "a list", "a text", "not utf-8"],
)
def test_a_damaged_entry_counts_as_absent(run, tmp_path, damage):
    run()
    (entry,) = (tmp_path / "cache").glob("*.z")
    entry.write_bytes(damage(entry.read_bytes()))
    assert not run().cached
    assert run().cached


def blocked(folder):
    """A folder that cannot be made, whoever runs the tests: its parent is a file."""
    folder.write_text("in the way")
    return folder / "cache"


@pytest.mark.parametrize("kind", ["no folder", "full disk"])
def test_a_cache_that_cannot_be_written(tmp_path, files, monkeypatch, kind):
    if kind == "full disk":

        def no_space(*args, **kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tilewright.files.tempfile.mkstemp", no_space)
    folder = blocked(tmp_path / "file") if kind == "no folder" else tmp_path / "cache"
    with Compiler(workers=1, cache_folder=folder) as compiler:
        (result,) = compiler.compile([(launch(files[0]), TARGET)])
        assert isinstance(result, Compiled)
        words = "No space left on device" if kind == "full disk" else "Not a directory"
        assert compiler.cache.problem == f"the compile cache in {folder} could not be written: {words}"


def test_the_command_line_warns_and_goes_on(tmp_path, files):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tilewright.cli.main", "explain", f"{files[0]}:kernel"),
            *("--args", "x_ptr: fp32[4096], n: 4096, scale: 0.5, BLOCK: 256", "--grid", "16"),
        ],
        env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(blocked(tmp_path / "file"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "16 programs" in done.stdout
    assert done.stderr.startswith("tilewright: the cache in")
    assert len(done.stderr.splitlines()) == 1


def test_two_processes_that_write_at_the_same_time(tmp_path, files):
    script = tmp_path / "both.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from tilewright.compile import Compiler
            from tilewright.gpus import load
            from tilewright.launch import Tensor, find_kernel, make_launch

            kernel = find_kernel(sys.argv[1] + ":kernel")
            target = load("rtx-4070-super").target
            x = Tensor.of("fp32", (4096,))
            jobs = [
                (make_launch(kernel, {"x_ptr": x, "n": 16, "scale": 0.5, "BLOCK": 2 << i}, (1,)), target)
                for i in range(8)
            ]
            with Compiler(workers=1, cache_folder=sys.argv[2]) as compiler:
                results = compiler.compile(jobs, depth="ttgir")
            assert compiler.cache.problem is None
            assert all(r.constexprs["BLOCK"] == 2 << i for i, r in enumerate(results))
            """
        )
    )
    command = [sys.executable, script, str(files[0]), str(tmp_path / "cache")]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [p.wait(timeout=120) for p in both] == [0, 0]
    assert len(list((tmp_path / "cache").glob("*.z"))) == 8
    assert list((tmp_path / "cache").glob(".tmp-*")) == []


def test_no_cache_keeps_nothing(tmp_path, files):
    with Compiler(workers=1, cache_folder=None) as compiler:
        job = [(launch(files[0]), TARGET)]
        assert not compiler.compile(job)[0].cached
        assert not compiler.compile(job)[0].cached
        assert compiler.cache.size() == (0, 0)


def entries(folder, sizes):
    folder.mkdir()
    for age, size in enumerate(sizes):
        file = folder / f"{age}.z"
        file.write_bytes(bytes(size))
        os.utime(file, (1000 + age, 1000 + age))
    return Cache(folder)


@pytest.mark.parametrize(
    ("limit", "left"), [(60, ["0", "1", "2"]), (59, ["1", "2"]), (30, ["2"]), (29, []), (0, [])]
)
def test_trim_deletes_the_oldest_first(tmp_path, limit, left):
    cache = entries(tmp_path / "cache", [10, 20, 30])
    cache.trim(limit)
    assert sorted(f.stem for f in (tmp_path / "cache").iterdir()) == left


def test_size_and_clear(tmp_path):
    cache = entries(tmp_path / "cache", [10, 20, 30])
    assert cache.size() == (3, 60)
    assert cache.clear() == 3
    assert cache.size() == (0, 0)
    assert Cache(tmp_path / "absent").size() == (0, 0)
    assert Cache(tmp_path / "absent").clear() == 0


def test_only_the_newest_versions_of_a_kernel_are_kept(run, files, tmp_path):
    text = files[1].read_text()
    for version in range(6):
        files[1].write_text(text.replace("2.5", f"{version}.25"))
        run()
    assert len(list((tmp_path / "cache").glob("*.z"))) == 4
    assert run().cached
