"""Users' files: what is read, what is inherited from a base, and that each mistake is named."""

import pytest

from tilewright.gpus import GpuError, load, loading

SOURCE = (loading.CATALOG / "rtx-4090.toml").read_text()


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "mine.toml") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_a_complete_file(file):
    gpu = load(file(SOURCE))
    assert (gpu.slug, gpu.aliases) == ("mine", ())
    assert gpu.limits == load("rtx-4090").limits


def test_a_base_with_overrides(file):
    gpu = load(
        file(
            'base = "rtx-4090"\nname = "My 4090"\n[clocks]\nsustained_ghz = 2.1\n[compute]\nsms = 100\n'
            '[sources]\nclocks = "measured under a long matrix product"\n"compute.sms" = "MIG-like cut"\n'
        )
    )
    base = load("rtx-4090")
    assert (gpu.name, gpu.compute.sms, gpu.clocks.sustained_ghz) == ("My 4090", 100, 2.1)
    assert gpu.clocks.boost_ghz == base.clocks.boost_ghz
    assert gpu.sources["clocks.sustained_ghz"] == "measured under a long matrix product"
    assert gpu.sources["clocks.boost_ghz"] == base.sources["clocks.boost_ghz"]
    assert "clocks.sustained_ghz" in base.unknown
    assert "clocks.sustained_ghz" not in gpu.unknown
    assert gpu.published_tflops == {}


def test_a_base_beside_the_file(file):
    file(SOURCE, "first.toml")
    assert load(file('base = "first.toml"\nname = "Second"\n', "second.toml")).name == "Second"


def replaced(old: str, new: str) -> str:
    assert old in SOURCE, old
    return SOURCE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sms = ", "mine.toml: is not valid TOML"),
        (replaced("sms = 128", "smz = 128"), "unknown key 'smz' in [compute]; did you mean 'sms'?"),
        (replaced("[clocks]", "[clock]"), "unknown key 'clock'; did you mean 'clocks'"),
        (
            replaced("bf16_fp32acc", "bf16_fp32ac"),
            "unknown key 'bf16_fp32ac' in [tensor_ops_per_clock_per_sm]",
        ),
        (replaced("sms = 128\n", ""), "[sources] has 'compute.sms', but no figure is called so"),
        (
            replaced("sms = 128\n", "").replace('"compute.sms"', '"compute.ex2_per_clock_per_sm"'),
            "missing figure compute.sms",
        ),
        (replaced("bf16_fp32acc = 512\n", ""), "missing figure tensor_ops_per_clock_per_sm.bf16_fp32acc"),
        (replaced('chip = "AD102"\n', ""), "missing 'chip'"),
        (replaced('chip = "AD102"', "chip = 102"), "chip must be text, got 102"),
        (replaced("sms = 128", 'sms = "128"'), "compute.sms must be a whole number, got '128'"),
        (replaced("sms = 128", "sms = 128.5"), "compute.sms must be a whole number, got 128.5"),
        (replaced("sms = 128", "sms = true"), "compute.sms must be a whole number, got True"),
        (replaced("sms = 128", "sms = 0"), "compute.sms must be greater than zero, got 0"),
        (replaced("sms = 128", "sms = -1"), "compute.sms must be greater than zero, got -1"),
        (
            replaced("dram_gbps = 1008.0", "dram_gbps = nan"),
            "memory.dram_gbps must be greater than zero, got nan",
        ),
        (
            replaced("dram_gbps = 1008.0", "dram_gbps = inf"),
            "memory.dram_gbps must be greater than zero, got inf",
        ),
        (
            replaced("\nclocks = ", "\n#"),
            'no source for clocks.boost_ghz: add "clocks.boost_ghz", or "clocks"',
        ),
        (replaced('\ntarget = "', '\ntarget = ""#'), "sources.target must be text, got ''"),
        (
            replaced("max_shared_bytes_per_block = 101_376", "max_shared_bytes_per_block = 102_400"),
            "with the reserved part (103424) exceeds limits.shared_bytes_per_sm (102400)",
        ),
        (
            replaced("max_warps_per_sm = 48", "max_warps_per_sm = 64"),
            "limits.max_warps_per_sm (64) x target.warp_size (32) is not limits.max_threads_per_sm (1536)",
        ),
        (replaced("register_unit_per_warp = 256", "register_unit_per_warp = 250"), "is not a multiple of"),
        (
            replaced('vendor = "nvidia"', 'vendor = "amd"'),
            "target.backend of vendor amd must be 'hip', got 'cuda'",
        ),
        (replaced('vendor = "nvidia"', 'vendor = "intel"'), "vendor must be one of nvidia, amd, got 'intel'"),
        (replaced('arch = "sm_89"', 'arch = "sm_90"'), "arch is 'sm_90', but target.arch says 'sm_89'"),
        (
            replaced("boost_ghz = 2.52", "boost_ghz = 2.52\ntensor_ghz = 2.6"),
            "clocks.tensor_ghz (2.6) exceeds",
        ),
        (
            replaced("[unknown]", '[unknown]\n"compute.sms" = "no idea"'),
            "[unknown] has 'compute.sms', no optional",
        ),
        (
            "clocks = 3\n" + replaced("[clocks]\nboost_ghz = 2.52\n", ""),
            "'clocks' must be a table, [clocks], got 3",
        ),
        ('notes = "one"\n' + SOURCE, "notes must be a list of texts, got 'one'"),
        ('base = "mine.toml"\n', "base leads back to the file itself"),
        ('base = "rtx-9999"\n', "unknown GPU 'rtx-9999'"),
        (
            'base = "rtx-4090"\n[compute]\nsms = 64\n',
            'no source for compute.sms: add "compute.sms", or "compute" for all of it, to [sources]',
        ),
    ],
)
def test_each_mistake_is_named(file, text, message):
    with pytest.raises(GpuError) as caught:
        load(file(text))
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_unreadable_files(tmp_path):
    with pytest.raises(GpuError, match=r"absent\.toml: cannot be read: No such file"):
        load(str(tmp_path / "absent.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(GpuError, match="cannot be read"):
        load(str(tmp_path / "folder.toml"))
    (tmp_path / "latin.toml").write_bytes('name = "é"'.encode("latin-1"))
    with pytest.raises(GpuError, match="is not UTF-8 text"):
        load(str(tmp_path / "latin.toml"))
