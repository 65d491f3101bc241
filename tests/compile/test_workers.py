"""A compiler that crashes, hangs or is killed costs one request, not the batch, and leaves no process behind."""

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tilewright.compile import Compiled, Compiler, Failure
from tilewright.compile.pool import Worker, WorkerPool
from tilewright.gpus import load
from tilewright.launch import Tensor, find_kernel, make_launch

TARGET = load("rtx-4070-super").target

KERNELS = """
    @triton.jit
    def first(x_ptr):
        tl.store(x_ptr, 1.0)

    @triton.jit
    def last(x_ptr):
        tl.store(x_ptr, 3.0)
"""
FAULTS = {"segfault": "ctypes.string_at(0)", "exit": "os._exit(3)", "hang": "time.sleep(3600)"}


def victim(fault=None):
    """A kernel; with a fault, the compiler's front end crashes or hangs on it, in the process that loads it."""
    broken = f"code_generator.ast_to_ttir = lambda *args, **kwargs: {FAULTS[fault]}" if fault else "pass"
    return f"""
    import ctypes, os, time
    from triton.compiler import code_generator
    {broken}

    @triton.jit
    def victim(x_ptr):
        tl.store(x_ptr, 2.0)
    """


def job(file, name):
    return make_launch(find_kernel(f"{file}:{name}"), {"x_ptr": Tensor.of("fp32", (16,))}, (1,)), TARGET


def batch(kernel_file, fault):
    """Three jobs, the one in the middle with a fault."""
    kernels = kernel_file(KERNELS)
    return [
        job(kernels, "first"),
        job(kernel_file(victim(fault), "victim.py"), "victim"),
        job(kernels, "last"),
    ]


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
def test_a_fault_leaves_the_rest_of_the_batch(kernel_file, fault, kind, words, workers):
    with Compiler(workers=workers, limit_seconds=3, cache_folder=None) as compiler:
        first, broken, last = compiler.compile(batch(kernel_file, fault))
        assert isinstance(first, Compiled)
        assert isinstance(last, Compiled)
        assert "3.0" in last.asm["ttir"]
        assert isinstance(broken, Failure)
        assert broken.kind == kind
        assert broken.message.startswith(words)
        (again,) = compiler.compile([job(kernel_file(victim(), "victim.py"), "victim")])
        assert isinstance(again, Compiled)


def test_a_crash_in_the_passes_that_only_we_run_costs_the_offsets_alone(kernel_file):
    file = kernel_file("""
        import ctypes
        from tilewright.compile import allocate, pipeline
        pipeline.allocate = lambda *args: ctypes.string_at(0)

        @triton.jit
        def victim(x_ptr):
            tl.store(x_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 256)), 0))
    """)
    with Compiler(workers=1, cache_folder=None) as compiler:
        (result,) = compiler.compile([job(file, "victim")])
    assert isinstance(result, Compiled)
    assert result.registers
    assert result.shared_bytes == 16  # four warps, one partial sum of fp32 each
    assert result.notes == ("shared-memory offsets unknown: the compiler's allocation crashed",)


@pytest.mark.usefixtures("no_orphans")
def test_a_killed_worker(kernel_file):
    """SIGKILL in the middle of a compile, as the kernel's out-of-memory killer would."""
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
        broken, last = compiler.compile(batch(kernel_file, "hang")[1:])
        killer.join()
    assert isinstance(broken, Failure)
    assert broken.kind == "killed"
    assert "SIGKILL" in broken.message
    assert isinstance(last, Compiled)


@pytest.mark.usefixtures("no_orphans")
def test_leaving_early_stops_every_worker(kernel_file):
    """An exception in the middle of a batch (as an interrupt raises one) does not wait for a hung compile."""

    def stop(done, total):
        if done == 1:
            raise KeyboardInterrupt

    started = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        Compiler(workers=2, limit_seconds=60, cache_folder=None) as compiler,
    ):
        compiler.compile(batch(kernel_file, "hang"), progress=stop)
    assert time.monotonic() - started < 30


@pytest.mark.usefixtures("no_orphans")
def test_a_worker_that_is_stopped_just_before_its_answer_is_awaited(monkeypatch):
    """Its pipes' end has to wake whoever waits, though nobody did when the child was killed."""
    worker = Worker()
    select = selectors.DefaultSelector.select

    def stop_first(selector, timeout=None):
        worker.stop()
        return select(selector, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", stop_first)
    monkeypatch.setattr("tilewright.compile.pool.START_SECONDS", 5.0)
    assert worker.ask({}, 5.0)["failure"]["kind"] == "killed"


def test_progress_counts_every_job_once(kernel_file):
    seen = []
    with Compiler(workers=2, cache_folder=None) as compiler:
        compiler.compile(batch(kernel_file, None) * 2, progress=lambda *count: seen.append(count))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "hung"])
def test_a_worker_ends_when_its_parent_dies(tmp_path, kernel_file, busy):
    """A parent that is killed cannot stop its workers: they end by themselves, a hung one too."""
    kernels, hung = kernel_file(KERNELS), kernel_file(victim("hang"), "victim.py")
    script = tmp_path / "parent.py"
    script.write_text(
        "import threading, time\n"
        "from tilewright.compile import Compiler\n"
        "from tilewright.gpus import load\n"
        "from tilewright.launch import Tensor, find_kernel, make_launch\n"
        "def job(kernel):\n"
        "    kernel = find_kernel(kernel)\n"
        "    return make_launch(kernel, {'x_ptr': Tensor.of('fp32', (16,))}, (1,)), load('h200').target\n"
        "c = Compiler(workers=1, cache_folder=None)\n"
        f"c.compile([job('{kernels}:first')])\n"
        f"if {busy}:\n"
        f"    threading.Thread(target=c.compile, args=([job('{hung}:victim')],), daemon=True).start()\n"
        "    time.sleep(1)\n"
        "print(c._pool._all[0].pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        assert is_running(worker)
        parent.kill()
    deadline = time.monotonic() + 10
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker)


def is_running(pid):
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_worker_does_not_load_torch(tmp_path, kernel_file):
    """Loading it takes longer than compiling; where it is not installed this cannot fail."""
    file = kernel_file(KERNELS)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tilewright.compile.compiler import _request\n"
        "from tilewright.compile.pipeline import run\n"
        "from tilewright.gpus import load\n"
        "from tilewright.launch import Tensor, find_kernel, make_launch\n"
        f"launch = make_launch(find_kernel('{file}:first'), {{'x_ptr': Tensor.of('fp32', (16,))}}, (1,))\n"
        "for gpu in ('h200', 'mi300x'):\n"
        f"    assert run(_request(launch, load(gpu).target, 'binary'), Path('{tmp_path}'))['registers']\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.usefixtures("no_orphans")
def test_a_child_that_starts_while_the_pool_is_left_is_stopped(monkeypatch):
    """Leaving must not wait for the time limit of a request that began in the same moment."""
    leaving, started = threading.Event(), threading.Event()

    class SlowToStart(Worker):
        def __init__(self):
            started.set()
            leaving.wait(10)
            super().__init__()

    monkeypatch.setattr("tilewright.compile.pool.Worker", SlowToStart)
    pool = WorkerPool(1)
    began = time.monotonic()
    replies = []
    thread = threading.Thread(target=lambda: replies.extend(pool.run([{"name": "any"}], 60)))
    thread.start()
    started.wait(10)
    threading.Timer(0.5, leaving.set).start()
    pool.__exit__()
    thread.join(20)
    assert time.monotonic() - began < 20
    ((_, reply),) = replies
    assert reply["failure"]["kind"] == "killed"
