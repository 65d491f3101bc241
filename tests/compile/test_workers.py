"""A compiler that crashes, hangs or is killed costs one request, not the batch, and leaves no process behind."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tilewright.compile import Compiled, Compiler, Failure
from tilewright.gpus import load
from tilewright.launch import Tensor, find_kernel, make_launch

TARGET = load("rtx-4070-super").target

BODY = """
    @triton.jit
    def first(x_ptr):
        tl.store(x_ptr, 1.0)

    @triton.jit
    def victim(x_ptr):
        tl.store(x_ptr, 2.0)

    @triton.jit
    def last(x_ptr):
        tl.store(x_ptr, 3.0)
"""


def jobs(file, names=("first", "victim", "last")):
    args = {"x_ptr": Tensor.of("fp32", (16,))}
    return [(make_launch(find_kernel(f"{file}:{name}"), args, (1,)), TARGET) for name in names]


def children():
    """Process ids of this process's compile workers and of what they started, zombies left out."""
    found, parents = [], {os.getpid()}
    table = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        table[int(stat.parent.name)] = (int(fields[1]), fields[0])
    while parents:
        new = {pid for pid, (parent, state) in table.items() if parent in parents and state != "Z"}
        found += new
        parents = new
    return set(found)


@pytest.fixture
def no_orphans():
    before = children()
    yield
    deadline = time.monotonic() + 5
    while children() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children() - before == set()


@pytest.mark.usefixtures("no_orphans")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("segfault", "crash", "the compiler crashed (signal SIGSEGV)"),
        ("exit", "crash", "the compiler crashed (exit code 3)"),
        ("hang", "timeout", "the compiler did not finish in 3 s and was stopped"),
    ],
)
def test_a_fault_leaves_the_rest_of_the_batch(monkeypatch, kernel_file, fault, kind, words, workers):
    monkeypatch.setenv("TILEWRIGHT_TEST_FAULT", f"{fault}:victim")
    with Compiler(workers=workers, limit_seconds=3, cache_folder=None) as compiler:
        first, victim, last = compiler.compile(jobs(kernel_file(BODY)))
        assert isinstance(first, Compiled)
        assert isinstance(last, Compiled)
        assert "3.0" in last.asm["ttir"]
        assert isinstance(victim, Failure)
        assert victim.kind == kind
        assert victim.message.startswith(words)
        monkeypatch.delenv("TILEWRIGHT_TEST_FAULT")
        (again,) = compiler.compile(jobs(kernel_file(BODY), ["first"]))
        assert isinstance(again, Compiled)


@pytest.mark.usefixtures("no_orphans")
def test_a_killed_worker(monkeypatch, kernel_file):
    """SIGKILL in the middle of a compile, as the kernel's out-of-memory killer would."""
    monkeypatch.setenv("TILEWRIGHT_TEST_FAULT", "hang:victim")
    before = children()

    def kill():
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for pid in children() - before:
                command = Path(f"/proc/{pid}/cmdline")
                if command.exists() and b"tilewright.compile.worker" in command.read_bytes():
                    time.sleep(2)  # by then it has taken the request
                    os.kill(pid, signal.SIGKILL)
                    return
            time.sleep(0.05)

    with Compiler(workers=1, limit_seconds=60, cache_folder=None) as compiler:
        killer = threading.Thread(target=kill)
        killer.start()
        victim, last = compiler.compile(jobs(kernel_file(BODY), ["victim", "last"]))
        killer.join()
    assert isinstance(victim, Failure)
    assert victim.kind == "crash"
    assert "SIGKILL" in victim.message
    assert isinstance(last, Compiled)


@pytest.mark.usefixtures("no_orphans")
def test_leaving_early_stops_every_worker(monkeypatch, kernel_file):
    """An exception in the middle of a batch (as an interrupt raises one) does not wait for a hung compile."""
    monkeypatch.setenv("TILEWRIGHT_TEST_FAULT", "hang:victim")

    def stop(done, total):
        if done == 1:
            raise KeyboardInterrupt

    started = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        Compiler(workers=2, limit_seconds=60, cache_folder=None) as compiler,
    ):
        compiler.compile(jobs(kernel_file(BODY)), progress=stop)
    assert time.monotonic() - started < 30


def test_progress_counts_every_job_once(kernel_file):
    seen = []
    with Compiler(workers=2, cache_folder=None) as compiler:
        file = kernel_file(BODY)
        compiler.compile(jobs(file) + jobs(file, ["first"]), progress=lambda *count: seen.append(count))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_worker_ends_when_its_parent_dies(tmp_path, kernel_file):
    """A parent that is killed cannot stop its workers: they end by themselves when their input closes."""
    import sys

    file = kernel_file(BODY)
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\n"
        "from tilewright.compile import Compiler\n"
        "from tilewright.gpus import load\n"
        "from tilewright.launch import Tensor, find_kernel, make_launch\n"
        f"launch = make_launch(find_kernel('{file}:first'), {{'x_ptr': Tensor.of('fp32', (16,))}}, (1,))\n"
        "c = Compiler(workers=1, cache_folder=None)\n"
        "c.compile([(launch, load('h200').target)])\n"
        "print(c._pool._all[0].pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    try:
        worker = int(parent.stdout.readline())
        assert Path(f"/proc/{worker}").exists()
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 10
        while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
            if Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break
            time.sleep(0.05)
        else:
            assert not Path(f"/proc/{worker}").exists()
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
