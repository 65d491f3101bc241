"""Run in a child process: what LLVM's AMDGPU back end says of occupancy, for kernels given as JSON on stdin.

Input: {"arch": "gfx942", "kernels": [[registers, shared_bytes, threads], ...]}. Output: waves per SIMD.
LLVM is the one in Triton's wheel; it can crash on odd input, which is why this is a process of its own.
"""

import json
import re
import sys

from triton._C import libtriton


def kernel(name: str, registers: int, shared_bytes: int, threads: int) -> str:
    """A kernel that touches its highest register (accumulation ones above 256) and its shared memory."""
    touched = f"~{{v{registers - 1}}}" if registers <= 256 else f"~{{v255}},~{{a{registers - 257}}}"
    shared = f"@shared_{name} = internal addrspace(3) global [{shared_bytes} x i8] poison, align 16\n"
    store = f"  store volatile i8 1, ptr addrspace(3) @shared_{name}\n"
    return (
        (shared if shared_bytes else "")
        + f'define amdgpu_kernel void @{name}() "amdgpu-flat-work-group-size"="{threads},{threads}" {{\n'
        + f'  call void asm sideeffect "; registers", "{touched}"()\n'
        + (store if shared_bytes else "")
        + "  ret void\n}\n"
    )


def main() -> None:
    request = json.load(sys.stdin)
    llvm = libtriton.llvm
    llvm.init_targets()
    source = "".join(kernel(f"k{i}", *row) for i, row in enumerate(request["kernels"]))
    arguments = [source, "amdgcn-amd-amdhsa", request["arch"], "", [], True, False]
    try:
        assembly = llvm.translate_to_asm(*arguments)
    except TypeError:  # Triton 3.9 also asks whether to canonicalize addresses
        assembly = llvm.translate_to_asm(*arguments, False)
    print(json.dumps([int(n) for n in re.findall(r"^; Occupancy: (\d+)$", assembly, re.MULTILINE)]))


main()
