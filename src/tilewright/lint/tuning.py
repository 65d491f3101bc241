"""How kernels are tuned: the keys and configs of @triton.autotune, and what running a kernel many times does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.lint.mistake import Found, LintRule
from tilewright.lint.source import Kernel, SourceFile, argument, number, same

HARMLESS = ("warmup", "rep", "use_cuda_graph", "do_bench", "cache_results", "reset_to_zero", "restore_value")
"""Arguments of autotune that change neither its configs nor its key."""


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
        set_by_heuristics = _set_by_heuristics(kernel)
        if kernel.autotune is None or keys is None or not configs or keys - set(kernel.parameters):
            continue
        # Pruning may make configs anew, and arguments that Triton does not have may do anything.
        given = {k.arg for k in kernel.autotune.keywords}
        if set_by_heuristics is None or given - {"configs", "key", *HARMLESS}:
            continue
        decided = keys | _set_by_configs(configs) | set_by_heuristics | _follow_from(kernel, keys)
        sizes = [
            p
            for p in kernel.parameters
            if p in kernel.constexprs and p not in decided and kernel.is_size(p)
        ]
        if sizes:
            one = "is" if len(sizes) == 1 else "are"
            yield Found(
                argument(kernel.autotune, 1, "key") or kernel.autotune,
                f"{', '.join(sizes)} {one} not in the key: the config that was tuned for one value is "
                "used for every other",
            )


def _set_by_heuristics(kernel: Kernel) -> set[str] | None:
    """Parameters that heuristics set; None where they cannot be read."""
    found = set()
    for call in kernel.heuristics:
        given = argument(call, 0, "values")
        if not isinstance(given, ast.Dict) or None in given.keys:
            return None
        found |= {k.value for k in given.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}
    return found


def _follow_from(kernel: Kernel, keys: set[str]) -> set[str]:
    """Parameters that every launch of the file works out from what it passes for the keys, or sets to one number."""
    sites = [site for site in kernel.file.launches if site.kernel is kernel]
    if not sites:
        return set()
    follow, numbers = set(kernel.parameters), {p: set[float | None]() for p in kernel.parameters}
    for site in sites:
        passed = dict(zip(kernel.parameters, site.node.args, strict=False))
        passed |= {k.arg: k.value for k in site.node.keywords if k.arg is not None}
        resolved = {p: site.resolve(value) for p, value in passed.items()}
        known = {name for key in keys & passed.keys() for name in _named(passed[key]) | _named(resolved[key])}
        known |= kernel.file.constants.keys()
        follow &= {p for p, value in resolved.items() if _named(value) and _named(value) <= known}
        for p in numbers:
            numbers[p].add(number(resolved.get(p)))
    return follow | {p for p, found in numbers.items() if len(found) == 1 and None not in found}


def _named(node: ast.expr) -> set[str]:
    """The names that an expression is made of, less those of functions and modules that it calls."""
    called = {id(p) for call in ast.walk(node) if isinstance(call, ast.Call) for p in ast.walk(call.func)}
    return {p.id for p in ast.walk(node) if isinstance(p, ast.Name) and id(p) not in called}


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
    loaded: list[ast.expr] = []
    stored: list[ast.expr] = []
    told: set[str] = set()
    for name, call in sorted(kernel.calls, key=_end):
        place = argument(call, 0, "pointer")
        pointer = kernel.pointer(place)
        whole = kernel.resolve(place)
        if pointer is None or whole is None or pointer in told:
            continue
        if name in ("atomic_add", "atomic_xor"):
            told.add(pointer)
            yield pointer, call, "updated by atomics", "warning"
        elif name == "load" and not any(same(whole, other) for other in stored):
            # What the kernel wrote itself before it reads it is the same each time.
            loaded.append(whole)
        elif name == "store":
            stored.append(whole)
            if any(same(whole, other) for other in loaded):
                told.add(pointer)
                yield pointer, call, "stored where it was loaded", "note"


def _end(named: tuple[str, ast.Call]) -> tuple[int, int]:
    """Where a call ends: those in the arguments of another are made first."""
    return named[1].end_lineno or 0, named[1].end_col_offset or 0


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


RULES = (
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
)
