"""How kernels are launched and tuned: grids, program ids, addresses, and @triton.autotune."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.lint.mistake import Found, LintRule
from tilewright.lint.source import Kernel, SourceFile, argument, number, same

MOST_ON_AXIS = 65_535
"""Programs on axis 1 and on axis 2 of a grid (CUDA C++ Programming Guide, technical specifications)."""
_SIZE = ("shape", "size", "numel")


def find_grid_axis(file: SourceFile) -> Iterator[Found]:
    """Axis 1 or 2 of a grid that is a product or a count of tiles, or a literal that is too large."""
    for site in file.launches:
        for axis, size in enumerate(site.grid or ()):
            literal = number(size)
            if axis and literal is not None and literal > MOST_ON_AXIS:
                yield Found(
                    size,
                    f"axis {axis} of a grid holds {MOST_ON_AXIS:,} programs, found {literal:,.0f}",
                    "error",
                )
            elif (
                axis
                and isinstance(size, ast.BinOp)
                and isinstance(size.op, ast.Mult)
                and not _has_numbers_alone(size)
            ):
                yield Found(
                    size,
                    f"axis {axis} of a grid holds {MOST_ON_AXIS:,} programs, which {ast.unparse(size)} can exceed: "
                    "axis 0 holds 2^31 - 1",
                )


def _has_numbers_alone(node: ast.expr) -> bool:
    return not any(isinstance(p, (ast.Name, ast.Attribute, ast.Call)) for p in ast.walk(node))


def find_swapped_ids(file: SourceFile) -> Iterator[Found]:
    """A program id that is multiplied by the tile of another axis of the grid."""
    for site in file.launches:
        kernel = site.kernel
        if kernel is None or site.grid is None or len(site.grid) < 2:
            continue
        tiles = [_tile_of(size) for size in site.grid]
        for node in kernel.nodes:
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
                continue
            for one, other in ((node.left, node.right), (node.right, node.left)):
                axis = kernel.is_program_id(one)
                if axis is None or not isinstance(other, ast.Name) or axis >= len(tiles):
                    continue
                elsewhere = [n for n, tile in enumerate(tiles) if tile == other.id]
                if len(elsewhere) == 1 and elsewhere[0] != axis and tiles[axis] is not None:
                    yield Found(
                        node,
                        f"program_id({axis}) times {other.id}, but the launch at line "
                        f"{site.node.lineno} has the tiles of "
                        f"{other.id} on axis {elsewhere[0]}",
                    )


def _tile_of(size: ast.expr) -> str | None:
    """The block size by name in cdiv(n, BLOCK) or cdiv(n, META["BLOCK"]); None for other expressions."""
    if not isinstance(size, ast.Call) or len(size.args) != 2 or not ast.unparse(size.func).endswith("cdiv"):
        return None
    by = size.args[1]
    if isinstance(by, ast.Subscript) and isinstance(by.slice, ast.Constant):
        return str(by.slice.value)
    return by.id if isinstance(by, ast.Name) else None


def find_missing_axis(file: SourceFile) -> Iterator[Found]:
    """A program id of an axis that the grid has not."""
    for site in file.launches:
        if site.kernel is None or site.grid is None or any(isinstance(s, ast.Starred) for s in site.grid):
            continue
        # One kernel may be launched over grids of different axes, and look at a constexpr first.
        branches = [n for n in site.kernel.nodes if isinstance(n, (ast.If, ast.IfExp))]
        chosen = {id(n) for branch in branches for n in ast.walk(branch)}
        for call in site.kernel.named("program_id"):
            axis = number(argument(call, 0, "axis"))
            if axis is not None and axis >= len(site.grid) and id(call) not in chosen:
                many = "axis" if len(site.grid) == 1 else "axes"
                yield Found(
                    call,
                    f"program_id({axis:g}) is always 0: the grid at line {site.node.lineno} has "
                    f"{len(site.grid)} {many}",
                )


def find_int32_address(file: SourceFile) -> Iterator[Found]:
    """A pointer moved by a program id times a stride, both of 32 bits."""
    for kernel in file.kernels:
        told: set[int] = set()
        places = kernel.named("load", "store", "atomic_add")
        pointers = {kernel.pointer(argument(c, 0, "pointer")) for c in places} - {None}
        for node in kernel.nodes:
            left: ast.expr
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                left, right = node.target, node.value
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                left, right = node.left, node.right
            else:
                continue
            pointer = kernel.pointer(left)
            if pointer not in pointers and not _is_pointer_name(pointer):
                continue
            for product in _terms(right):
                if id(product) not in told and _is_narrow_product(kernel, product):
                    told.add(id(product))
                    yield Found(
                        product,
                        f"{ast.unparse(product)} overflows 32 bits on a large tensor: program_id(...).to(tl.int64)",
                    )


def _is_pointer_name(name: str | None) -> bool:
    return name is not None and ("ptr" in name.lower() or (len(name) <= 2 and name.isupper()))


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _is_narrow_product(kernel: Kernel, node: ast.expr) -> bool:
    """Whether an expression is `pid * stride` with a program id as it comes and a run-time stride."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    for one, other in ((node.left, node.right), (node.right, node.left)):
        free = set(kernel.parameters) - kernel.constexprs - set(kernel.assigned)
        # A program id that was cast has another name for its last call.
        if kernel.tl(kernel.resolve(one)) == "program_id" and isinstance(other, ast.Name) and other.id in free:
            return True
    return False


def _listed(call: ast.Call | None, place: int, name: str) -> set[str] | None:
    """The texts of a list given to autotune; an empty set where it is not given, None where it cannot be read."""
    given = argument(call, place, name) if call is not None else None
    if given is None:
        return set()
    if not isinstance(given, (ast.List, ast.Tuple)):
        return None
    return {e.value for e in given.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)}


def _configs(kernel: Kernel) -> list[ast.Call] | None:
    """The triton.Config calls of an autotuned kernel, where they are written out."""
    given = argument(kernel.autotune, 0, "configs") if kernel.autotune is not None else None
    if not isinstance(given, (ast.List, ast.Tuple)):
        return None
    named = [e for e in given.elts if isinstance(e, ast.Call) and ast.unparse(e.func).endswith("Config")]
    return named if len(named) == len(given.elts) else None


def _set_by_configs(configs: list[ast.Call]) -> set[str]:
    found = set()
    for config in configs:
        given = argument(config, 0, "kwargs")
        if isinstance(given, ast.Dict):
            found |= {k.value for k in given.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    return found


def find_unknown_key(file: SourceFile) -> Iterator[Found]:
    """A key of autotune that is no parameter of the kernel."""
    for kernel in file.kernels:
        keys = _listed(kernel.autotune, 1, "key")
        for key in sorted((keys or set()) - set(kernel.parameters)):
            assert kernel.autotune is not None
            yield Found(
                argument(kernel.autotune, 1, "key") or kernel.autotune,
                f"{key!r} is no parameter of {kernel.name}",
            )


def find_key_without_constexpr(file: SourceFile) -> Iterator[Found]:
    """Constexpr sizes that neither a config nor a heuristic sets, and that are not in the key."""
    for kernel in file.kernels:
        keys, configs = _listed(kernel.autotune, 1, "key"), _configs(kernel)
        if kernel.autotune is None or keys is None or configs is None or keys - set(kernel.parameters):
            continue
        decided = keys | _set_by_configs(configs) | _set_by_heuristics(kernel)
        sizes = [
            p
            for p in kernel.parameters
            if p in kernel.constexprs and p not in decided and _is_size(kernel, p)
        ]
        if sizes:
            one = "is" if len(sizes) == 1 else "are"
            yield Found(
                argument(kernel.autotune, 1, "key") or kernel.autotune,
                f"{', '.join(sizes)} {one} not in the key: the config that was tuned for one value is "
                "used for every other",
            )


def _set_by_heuristics(kernel: Kernel) -> set[str]:
    found = set()
    for call in kernel.heuristics:
        for given in call.args:
            if isinstance(given, ast.Dict):
                found |= {
                    k.value for k in given.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)
                }
    return found


def _is_size(kernel: Kernel, name: str) -> bool:
    """Whether a constexpr is the size of something: it is the length of a range or of a tile."""
    sized = [a for call in kernel.named("arange") for a in call.args]
    sized += [a for call in kernel.named("zeros", "full") for a in call.args[:1]]
    sized += [a for call in kernel.named("make_block_ptr") if (a := argument(call, 4, "block_shape")) is not None]
    return any(isinstance(p, ast.Name) and p.id == name for given in sized for p in ast.walk(given))


def find_tuned_in_place(file: SourceFile) -> Iterator[Found]:
    """An autotuned kernel that updates a tensor which is not reset between trials."""
    for kernel in file.kernels:
        if kernel.autotune is None:
            continue
        reset, restored = (_listed(kernel.autotune, 99, name) for name in ("reset_to_zero", "restore_value"))
        configs = _configs(kernel)
        hooked = any(k.arg in ("pre_hook", "post_hook", None) for k in kernel.autotune.keywords)
        # A config's hook may put the tensor back; one that cannot be read may have such a hook.
        if reset is None or restored is None or configs is None or hooked:
            continue
        if any(k.arg == "pre_hook" for c in configs for k in c.keywords):
            continue
        for name, node, how, level in _updated(kernel):
            if name not in reset | restored:
                yield Found(
                    node,
                    f"{name} is {how}, and tuning runs the kernel many times: restore_value=[{name!r}] or "
                    f"reset_to_zero=[{name!r}]",
                    level,
                )


def _updated(kernel: Kernel) -> Iterator[tuple[str, ast.Call, str, str]]:
    """Parameters that are added to, or stored where they were loaded: the name, the call, how, and how serious it is.

    A maximum or an `and` made again changes nothing; what is stored in place may be the same each time.
    """
    loaded = [g for call in kernel.named("load") if (g := kernel.resolve(argument(call, 0, "pointer"))) is not None]
    told: set[str] = set()
    for name, call in kernel.calls:
        place = argument(call, 0, "pointer")
        pointer = kernel.pointer(place)
        if pointer is None or place is None or pointer in told:
            continue
        if name in ("atomic_add", "atomic_xor"):
            told.add(pointer)
            yield pointer, call, "updated by atomics", "warning"
        elif name == "store" and (whole := kernel.resolve(place)) and any(same(whole, other) for other in loaded):
            told.add(pointer)
            yield pointer, call, "stored where it was loaded", "note"


def find_same_configs(file: SourceFile) -> Iterator[Found]:
    """Configs of autotune that are alike."""
    for kernel in file.kernels:
        seen: dict[str, int] = {}
        for config in _configs(kernel) or ():
            text = _normal(config)
            if text in seen:
                yield Found(
                    config, f"the same config as at line {seen[text]}: it is compiled and timed twice"
                )
            seen.setdefault(text, config.lineno)


def find_idle_stages(file: SourceFile) -> Iterator[Found]:
    """Configs that differ in num_stages alone, of a kernel that has no loop and calls nothing that may have one."""
    for kernel in file.kernels:
        configs = _configs(kernel)
        if not configs or any(isinstance(n, (ast.For, ast.While, ast.ListComp)) for n in kernel.nodes):
            continue
        if any(isinstance(n, ast.Call) and not _is_without_loop(kernel, n) for n in kernel.nodes):
            continue
        seen: dict[str, tuple[str, int]] = {}
        for config in configs:
            whole, text = _normal(config), _normal(config, without="num_stages")
            first, line = seen.setdefault(text, (whole, config.lineno))
            if whole != first:
                yield Found(
                    config, f"only num_stages differs from line {line}, and the kernel has no loop to load ahead in"
                )


def _is_without_loop(kernel: Kernel, call: ast.Call) -> bool:
    """Whether a call is of triton.language, a tensor's method or a cast: none of them is a kernel of one's own."""
    if kernel.tl(call):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr == "to"


def _normal(config: ast.Call, without: str = "") -> str:
    """A config's text with entries in order and defaults written out."""
    given = argument(config, 0, "kwargs")
    entries: list[str] = []
    if isinstance(given, ast.Dict):
        entries = sorted(
            f"{ast.dump(k) if k else '**'}={ast.dump(v)}"
            for k, v in zip(given.keys, given.values, strict=True)
        )
    elif given is not None:
        entries = [ast.dump(given)]
    options = {k.arg: ast.dump(k.value) for k in config.keywords if k.arg != "kwargs"}
    for name, default in (("num_warps", 4), ("num_stages", 3), ("num_ctas", 1)):
        place = {"num_warps": 1, "num_stages": 2, "num_ctas": 3}[name]
        value = argument(config, place, name)
        options[name] = ast.dump(value if value is not None else ast.Constant(default))
    options.pop(without, None)
    return "; ".join([*entries, *(f"{k}={options[k]}" for k in sorted(options, key=str))])


def find_shape_branch(file: SourceFile) -> Iterator[Found]:
    """A launch in a Python branch on a size that is more than a test for nothing."""
    told: set[int] = set()
    for site in file.launches:
        sizes = _sizes(site.function) if site.tests else frozenset()
        for test in site.tests:
            if id(test) not in told and any(_compares_size(part, sizes) for part in ast.walk(test)):
                told.add(id(test))
                yield Found(
                    test, f"{site.name} is launched by a branch on a shape: a captured graph keeps what it saw"
                )


def _compares_size(node: ast.AST, sizes: frozenset[str]) -> bool:
    if not isinstance(node, ast.Compare) or any(number(c) == 0 for c in node.comparators):
        return False
    return any(
        (isinstance(p, ast.Attribute) and p.attr in _SIZE) or (isinstance(p, ast.Name) and p.id in sizes)
        for p in ast.walk(node)
    )


def _sizes(function: ast.FunctionDef | None) -> frozenset[str]:
    """Names that are set to a shape: `n = x.shape[0]`, `m, n = x.shape`, `n = x.numel()`."""
    found: set[str] = set()
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = node.value
            while isinstance(value, (ast.Subscript, ast.Call)):
                value = value.value if isinstance(value, ast.Subscript) else value.func
            if isinstance(value, ast.Attribute) and value.attr in _SIZE:
                target = node.targets[0]
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {n.id for n in names if isinstance(n, ast.Name)}
    return frozenset(found)


def find_one_config_for_all(file: SourceFile) -> Iterator[Found]:
    """Literal block sizes beside a head dimension that comes from the argument."""
    for site in file.launches:
        kernel = site.kernel
        if kernel is None or kernel.autotune is not None or not any(kernel.named("dot")):
            continue
        literal = {
            k.arg for k in site.node.keywords if k.arg in kernel.constexprs and number(k.value) is not None
        }
        tiles = {n for n in literal if n and any(w in n.upper() for w in ("BLOCK", "TILE"))}
        free = [
            k.arg
            for k in site.node.keywords
            if k.arg in kernel.constexprs
            and isinstance(k.value, (ast.Name, ast.Attribute, ast.Subscript))
            and _is_size(kernel, k.arg)
            and not any(w in k.arg.upper() for w in ("BLOCK", "TILE"))
        ]
        if len(tiles) >= 2 and free:
            yield Found(
                site.node,
                f"{', '.join(sorted(tiles))} are fixed while {free[0]} is whatever comes: with a "
                "larger one, or fp32, the "
                f"tiles may not fit in shared memory (tilewright explain --configs says)",
            )


RULES = (
    LintRule(
        "grid-axis-limit",
        "note",
        "A grid axis of more than 65,535 programs",
        "CUDA's grids hold 2^31 - 1 programs on axis 0, and 65,535 on axes 1 and 2: more is an invalid "
        "argument at the launch. An error where the number is written out.",
        find_grid_axis,
    ),
    LintRule(
        "program-id-swapped",
        "error",
        "Program ids swapped against the grid",
        "Axis 0 of the grid is program_id(0). Where the two sides disagree, tiles are left out and others are "
        "computed twice (a square tensor with square tiles cannot see it).",
        find_swapped_ids,
    ),
    LintRule(
        "program-id-without-axis",
        "warning",
        "A program id that the grid has no axis for",
        "It is 0 in every program, so all of them compute the first tile of that axis.",
        find_missing_axis,
    ),
    LintRule(
        "int32-address",
        "note",
        "Address arithmetic in 32 bits",
        "A program id and a stride are 32-bit numbers, and so is their product: past 2^31 elements it wraps, "
        "and the kernel reads and writes elsewhere.",
        find_int32_address,
    ),
    LintRule(
        "autotune-unknown-key",
        "warning",
        "A key that is no parameter",
        "Autotune looks its keys up among the kernel's arguments; one that is misspelt is never found.",
        find_unknown_key,
    ),
    LintRule(
        "autotune-key",
        "note",
        "A key without a constexpr size",
        "Autotune tunes once for each value of its key. A size that is not in it, and that no config sets, "
        "gets the config that was best for the first value seen.",
        find_key_without_constexpr,
    ),
    LintRule(
        "autotune-in-place",
        "warning",
        "Tuning a kernel that updates its output",
        "To time a config autotune runs the kernel many times on the same tensors: what is added to is added "
        "to every time.",
        find_tuned_in_place,
    ),
    LintRule(
        "autotune-same-config",
        "warning",
        "Two configs that are alike",
        "Each config is compiled and timed. Defaults count: num_warps=4 and num_stages=3.",
        find_same_configs,
    ),
    LintRule(
        "autotune-idle-stages",
        "note",
        "Configs that differ in num_stages, without a loop",
        "num_stages says how many steps of a loop are loaded ahead. Without a loop both configs make the same "
        "machine code, and both are compiled and timed.",
        find_idle_stages,
    ),
    LintRule(
        "shape-branch",
        "note",
        "A launch that depends on a shape in Python",
        "A CUDA graph or a compiled program keeps the branch that was taken when it was made.",
        find_shape_branch,
    ),
    LintRule(
        "one-config-for-all",
        "note",
        "Fixed tiles for every head dimension and type",
        "Shared memory grows with the head dimension and the type: what was tuned for bf16 and 64 may fail in "
        "fp32 and 128 with OutOfResources.",
        find_one_config_for_all,
    ),
)
