"""The registry of external functions: which there are, their digests, and the one way in.

The digest of a function covers its name, its signature and the source of every module of
ours it is made of.  Policy pins it: where the two differ the lane does not start.

SECURITY
    `call` stands between hostile values and our process: it measures before and after,
    and its errors carry our own words only.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from threegate.base import canonical
from threegate.gates.tool_exec.monty import external, plain, regex
from threegate.gates.tool_exec.monty.plain import Bounds, FunctionRefused, measure


@dataclass(frozen=True, slots=True)
class Function:
    """One external function and what it is made of."""

    signature: str
    arguments: int
    run: Callable[..., Any]
    modules: tuple[ModuleType, ...] = (external, plain)


REGISTRY: Final = MappingProxyType(
    {
        "json_dumps": Function("json_dumps(obj: object) -> str", 1, external.json_dumps),
        "json_loads": Function("json_loads(s: str) -> object", 1, external.json_loads),
        "regex_findall": Function(
            "regex_findall(pattern: str, text: str) -> list[str]",
            2,
            external.regex_findall,
            (external, plain, regex),
        ),
        "sha256_hex": Function("sha256_hex(s: str) -> str", 1, external.sha256_hex),
    }
)


def digests() -> dict[str, str]:
    """Return the digest of every function, by name."""
    return {name: digest_of(name, function) for name, function in REGISTRY.items()}


def digest_of(name: str, function: Function) -> str:
    """Return the digest that policy pins for one function."""
    sources = {
        module.__name__.rpartition(".")[2]: hashlib.sha256(_source(module)).hexdigest()
        for module in function.modules
    }
    made_of = {"modules": sources, "name": name, "signature": function.signature}
    return hashlib.sha256(canonical.encode(made_of)).hexdigest()


def _source(module: ModuleType) -> bytes:
    assert module.__file__ is not None, "our own modules are files"
    return Path(module.__file__).read_bytes()


def call(name: str, bounds: Bounds, arguments: Sequence[Any]) -> Any:
    """Return what the function answers, or raise `FunctionRefused`."""
    function = REGISTRY[name]
    if len(arguments) != function.arguments:
        raise FunctionRefused("wrong number of arguments")
    # A call's arguments are one list, which is no level of nesting of theirs.
    measure(
        list(arguments), most_bytes=bounds.input_bytes + plain.PART_BYTES, depth=bounds.depth + 1
    )
    value = function.run(*arguments)
    measure(value, most_bytes=bounds.output_bytes, depth=bounds.depth)
    return value
