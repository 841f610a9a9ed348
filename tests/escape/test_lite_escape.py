"""Claim: a program in the lite lane reaches no module, object, clock, file or word of ours.

Each test asserts the reason, and shows in the same place that the program does reach what it asks
for in stock Monty or in plain Python.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pydantic_monty import MontyRuntimeError

from tests.support.lite import Lane, Program
from tests.support.lite_stock import in_monty, in_python


@pytest.fixture(scope="module")
def lane() -> Iterator[Lane]:
    with Lane() as opened:
        yield opened


def refusal(lane: Lane, code: str, **parts: object) -> tuple[str, int, str]:
    """Return exit state, line and reason of a program that was not run."""
    ran = lane.run(Program(code, **parts))  # type: ignore[arg-type]
    found = ran.outcome.refusal
    assert found is not None, ran.told
    assert (ran.stdout, ran.value, ran.worker_bytes >= 0) == ("", "", True)
    return ran.exit, found.line, found.reason


# Modules Monty has and our list does not.
WITHHELD = ("asyncio", "os", "os.path", "pathlib", "posixpath", "random", "sys", "time")
# Modules Monty does not have; plain Python does.
FOREIGN = (
    *("builtins", "ctypes", "gc", "importlib", "inspect", "io", "marshal", "multiprocessing"),
    *("pickle", "secrets", "signal", "socket", "ssl", "subprocess", "threading", "uuid"),
)


@pytest.mark.parametrize("module", WITHHELD)
# claim TG-C-96
def test_modules_that_reach_out_are_refused(lane: Lane, module: str) -> None:
    assert in_monty(f"import {module}\n1") == 1, "control: stock Monty has it"
    expected = ("refused:import", 2, f'module "{module}" is not on the list')
    assert refusal(lane, f"\nimport {module}") == expected
    assert refusal(lane, f"\nfrom {module} import nothing") == expected
    assert refusal(lane, f"def f():\n    import {module} as json") == expected
    assert refusal(lane, f"try:\n    import json, {module}\nexcept ImportError: pass") == expected


@pytest.mark.parametrize("module", FOREIGN)
# claim TG-C-96
def test_modules_of_python_are_refused(lane: Lane, module: str) -> None:
    assert in_python(f"import {module}; print(1)") == "1\n", "control: Python has it"
    expected = ("refused:import", 1, f'module "{module}" is not on the list')
    assert refusal(lane, f"import {module}") == expected


# claim TG-C-96
def test_the_list_is_enough_for_its_modules(lane: Lane) -> None:
    """Control: what is on the list is imported, so a refusal is about the module."""
    code = (
        "import base64, datetime, json, math, re\nfrom collections import Counter\nmath.floor(2.5)"
    )
    assert lane.run(code).value == "2"


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("eval('6 * 7')", "eval"),
        ("\uff45\uff56\uff41\uff4c('6 * 7')", "eval"),  # full width
        ("\U0001d41e\U0001d42f\U0001d41a\U0001d425('6 * 7')", "eval"),  # mathematical bold
        ("e\uff56al('6 * 7')", "eval"),
        ("exec('x = 42')\nx", "exec"),
        ("\uff45xec('x = 42')\nx", "exec"),
        ("f = eval\nf('6 * 7')", "eval"),
        ("[e for e in (eval,)][0]('6 * 7')", "eval"),
        ("(lambda e=eval: e('6 * 7'))()", "eval"),
        ("f'{eval(\"6 * 7\")}' and 42", "eval"),
        ("sorted(['6 * 7'], key=eval) and 42", "eval"),
        ("locals() and 42", "locals"),
    ],
)
# claim TG-C-96
def test_text_does_not_become_code(lane: Lane, spelled: str, name: str) -> None:
    assert in_monty("x = 1", spelled) == 42, "control: stock Monty does it"
    assert refusal(lane, spelled) == ("refused:name", 1, f"{name} is not available here")


# A name that imports, in every spelling the parser takes for it.
@pytest.mark.parametrize("spelled", ["\uff4f\uff53", "o\uff53", "\U0001d428\U0001d42c"])
# claim TG-C-96
def test_module_in_another_spelling_is_the_same_module(lane: Lane, spelled: str) -> None:
    assert in_monty(f"import {spelled}\n1") == 1, "control: stock Monty takes it for os"
    found = refusal(lane, f"import {spelled}")
    assert found == ("refused:import", 1, 'module "os" is not on the list')


DUNDERS = """
names = ['__class__', '__dict__', '__globals__', '__code__', '__closure__', '__subclasses__',
    '__mro__', '__bases__', '__base__', '__builtins__', '__traceback__', '__self__', '__func__',
    '__module__', '__init_subclass__', '__reduce__', '__reduce_ex__', '__getattribute__',
    '__loader__', '__spec__', '__wrapped__', 'gi_frame', 'cr_frame', 'f_back', 'f_globals',
    'tb_frame', 'func_globals', 'im_func', '__weakref__', '__path__', '__cached__']
def function(a=1):
    return lambda: a
class Thing:
    def method(self):
        return self
try:
    1 / 0
except ZeroDivisionError as e:
    error = e
import json
own = Thing()  # it has a class, which is the program's own
things = [1, 2.5, 'text', b'', None, True, [], (), {}, {1}, frozenset(), function, function(),
    Thing, own, error, json, json.loads, len, int, type, print, range(3),
    iter([]), slice(1), ..., ValueError, object]
found = []
for number, thing in enumerate(things):
    for name in names:
        if hasattr(thing, name) and [thing, name] != [own, '__class__']:
            found.append([number, name])
"""


# claim TG-C-96
def test_no_object_leads_to_the_interpreter(lane: Lane) -> None:
    found = int(in_python(DUNDERS + "print(len(found))"))
    assert found > 150, "control: in Python nearly every object does"
    ran = lane.run(DUNDERS + "[found, own.__class__ is Thing]")
    assert (ran.exit, ran.value, ran.stderr) == ("ok", "[[], true]", "")


LOOKS = {
    "'{0.__class__.__mro__}'.format(1)": "'int' object has no attribute '__class__'",
    "'{a.__init__.__globals__}'.format(a=json.JSONDecodeError)": "no attribute '__init__'",
    "match 1:\n    case int(__class__=found):\n        pass\nfound": "name 'found' is not defined",
    "json.loads('{}', object_hook=lambda d: 7)": "unexpected keyword argument 'object_hook'",
    "json.dumps({1}, default=list)": "unexpected keyword argument 'default'",
}


@pytest.mark.parametrize("code", LOOKS)
# claim TG-C-96
def test_no_format_pattern_or_hook_looks_inside(lane: Lane, code: str) -> None:
    assert in_python(f"import json\n{code}\nprint(1)") == "1\n", "control: Python does it"
    ran = lane.run(f"import json\n{code}")
    assert ran.exit == "error", ran.told
    assert LOOKS[code] in ran.stderr


@pytest.mark.parametrize(
    "name",
    ["__builtins__", "breakpoint", "copyright", "exit", "help", "input", "memoryview", "vars"],
)
# claim TG-C-96
def test_builtins_that_reach_out_do_not_exist(lane: Lane, name: str) -> None:
    assert in_python(f"import site; site.main(); {name}; print(1)") == "1\n", "control"
    ran = lane.run(name)
    assert ran.exit == "error"
    assert ran.stderr.endswith(f"NameError: name '{name}' is not defined")


@pytest.mark.parametrize("name", ["open", "compile", "__import__", "globals"])
# claim TG-C-96
def test_builtins_that_are_refused_by_name(lane: Lane, name: str) -> None:
    assert in_python(f"{name}; print(1)") == "1\n", "control"
    assert refusal(lane, name) == ("refused:name", 1, f"{name} is not available here")


INNER = [
    "json.os",
    "json.codecs",
    "collections._sys",
    "re.copyreg",
    "csv.StringIO",
    "copy.dispatch_table",
]
INNER += ["dataclasses.sys", "typing.sys", "base64.struct", "functools.RLock"]


@pytest.mark.parametrize("path", INNER)
# claim TG-C-96
def test_no_module_lies_inside_another(lane: Lane, path: str) -> None:
    module, _, inner = path.partition(".")
    if path != "json.os":
        control = f"import {module}; print(1 if {path} else 0)"
        assert in_python(control) == "1\n", "control: Python finds it there"
    ran = lane.run(f"import {module}\n{path}")
    assert ran.exit == "error"
    assert ran.stderr.endswith(f"AttributeError: module '{module}' has no attribute '{inner}'")


CLOCKS = """
from datetime import date, datetime, timezone
[str(datetime.now()), str(datetime.now(timezone.utc)), str(date.today())]
"""


# claim TG-C-96
def test_the_clock_stands_still(lane: Lane) -> None:
    year = str(datetime.now(UTC).year)
    assert all(text.startswith(year) for text in in_monty(CLOCKS)), "control"
    stands = '["2000-01-01 00:00:00", "2000-01-01 00:00:00+00:00", "2000-01-01"]'
    assert lane.run(CLOCKS).value == stands
    busy = "for n in range(200_000):\n    pass\n" + CLOCKS
    assert lane.run(busy).value == stands


# claim TG-C-96
def test_sleep_is_refused(lane: Lane) -> None:
    began = time.monotonic()
    in_monty("import time\ntime.sleep(0.2)")
    assert time.monotonic() - began >= 0.2, "control: stock Monty sleeps"
    assert refusal(lane, "import time\ntime.sleep(0.2)")[0] == "refused:import"
    assert refusal(lane, "import asyncio\nawait asyncio.sleep(0.2)")[0] == "refused:import"


RANDOM = "import random\n[random.random(), random.getrandbits(64)]"
ORDER = "[id([]), id('text'), hash('text'), hash((1, 'a')), list({'b', 'a', 'c'}), repr(lambda: 1)]"


# claim TG-C-96
def test_there_is_no_randomness(lane: Lane) -> None:
    assert in_monty(RANDOM) != in_monty(RANDOM), "control: stock Monty has it"
    assert refusal(lane, RANDOM) == ("refused:import", 1, 'module "random" is not on the list')
    python = "print(hash('text'), id([]), {'b', 'a', 'c'})"
    assert len({in_python(python) for _ in range(5)}) > 1, "control: Python differs between runs"
    first = lane.run(ORDER)
    lane.close()  # another box, another gate
    assert (first.exit, lane.run(ORDER).value) == ("ok", first.value)


ENVIRONMENT = "import os\nprint(os.environ['CANARY'])"


# claim TG-C-96
def test_there_is_no_environment(lane: Lane) -> None:
    assert in_python(ENVIRONMENT, CANARY="singing") == "singing\n", "control"
    assert refusal(lane, ENVIRONMENT)[0] == "refused:import"
    with pytest.raises(MontyRuntimeError, match="not supported"):
        in_monty(ENVIRONMENT)  # even without our screen


def python_error(code: str) -> str:
    return in_python(f"try:\n    {code}\nexcept Exception as e:\n    print(type(e).__name__, e)")


WORDS = {
    "argument is not a text",
    "text holds a lone surrogate",
    "value is too large or too deep",
    "not JSON",
    "duplicate key",
    "NaN and Infinity are not JSON",
    "not a JSON value",
    "a key is not a text",
    "number is too large",
    "wrong number of arguments",
    "external functions take no keyword arguments",
}
CATCH = (
    "try:\n    {code}\n    said = 'nothing'\nexcept BaseException as e:\n    said = str(e)\nsaid"
)
FUNCTIONS = ("json_dumps", "json_loads", "regex_findall", "sha256_hex")


@pytest.mark.parametrize(
    "code",
    [
        "json_loads('{')",
        "json_loads('[1, 2')",
        "json_loads('[' * 100000)",
        "json_loads('\"' + 'q' * 5000000 + '\"')",
        "json_loads('NaN')",
        'json_loads(\'{"a": 1, "a": 2}\')',
        "json_loads(1)",
        "json_loads()",
        "json_loads('1', '2')",
        "json_loads(s='1')",
        "json_dumps({1})",
        "json_dumps({1: 2})",
        "json_dumps(float('nan'))",
        "json_dumps(10**5000)",
        "json_dumps([[0] * 1000] * 1000)",
        "json_dumps(b'')",
        "sha256_hex(None)",
        "sha256_hex(['a'])",
        "sha256_hex('q' * 5000000)",
        "regex_findall(1, 2)",
        "regex_findall('a')",
    ],
)
# claim TG-C-97
def test_errors_of_external_functions_are_our_words(lane: Lane, code: str) -> None:
    ran = lane.run(Program(CATCH.format(code=code), functions=FUNCTIONS))
    assert ran.exit == "ok", ran.told
    assert ran.value.strip('"') in WORDS


# claim TG-C-97
def test_errors_of_patterns_are_our_words(lane: Lane) -> None:
    """The words of Python's own parser of patterns, with the pattern in them, stay with us."""
    for pattern in ("(", "[", "a**", "(?P<n>a)(?P<n>b)", "(?<=a*)", "\\\\1", "a{2,1}", "(?z)", "*"):
        control = python_error(f'import re; re.findall("{pattern}", "a")')
        assert "error" in control, "control: Python says something of its own"
        program = Program(
            CATCH.format(code=f"regex_findall('{pattern}', 'a')"), functions=FUNCTIONS
        )
        ran = lane.run(program)
        assert ran.exit == "ok", ran.told
        assert control.partition(" ")[2].strip() not in ran.value
        assert "position" not in ran.value


# claim TG-C-97
def test_an_unguarded_function_would_tell() -> None:
    """Control: in stock Monty the text of a host's error does reach the program."""

    def careless(_: str) -> None:
        raise ValueError("cannot open /host/secret")

    code = CATCH.format(code="careless('x')")
    assert in_monty(code, functions={"careless": careless}) == "cannot open /host/secret"


# claim TG-C-97
def test_functions_that_were_not_asked_for_do_not_exist(lane: Lane) -> None:
    code = "sha256_hex('x')[:8]"
    asked = lane.run(Program(code, functions=("sha256_hex",)))
    assert asked.value == '"2d711642"', "control: asked for, it is there"
    other = lane.run(Program(code, functions=("json_dumps",)))
    assert other.exit == "error"
    assert other.stderr.endswith("NameError: name 'sha256_hex' is not defined")
    assert lane.run(Program("sha256_hex", functions=("sha256_hex",))).value == '"sha256_hex"'
    for inner in ("__globals__", "__code__", "__closure__", "__self__", "__module__"):
        ran = lane.run(Program(f"sha256_hex.{inner}", functions=("sha256_hex",)))
        assert ran.stderr.endswith(f"AttributeError: 'function' object has no attribute '{inner}'")


@pytest.mark.parametrize("name", ["len", "print", "json", "text", "data", "ValueError", "eval"])
# claim TG-C-97
def test_inputs_may_have_any_name_and_leave_nothing_behind(lane: Lane, name: str) -> None:
    given = {name: b'{"a": [1, 2]}'}
    if name != "eval":  # it can be bound, and the screen refuses to read it
        assert lane.run(Program(name, inputs=given)).value == '{"a": [1, 2]}', "control"
    for helper in ("json", "text", "loads", "data"):
        if helper == name:
            continue
        ran = lane.run(Program(helper, inputs=given))
        assert f"NameError: name '{helper}' is not defined" in ran.stderr


@pytest.mark.parametrize("name", ["None", "True", "import", "lambda", "sha256_hex"])
# claim TG-C-97
def test_names_that_cannot_be_bound_are_refused(lane: Lane, name: str) -> None:
    functions = ("sha256_hex",)
    honest = lane.run(Program("given", functions, {"given": b"1"}))
    assert honest.value == "1", "control"
    ran = lane.run(Program("1", functions, {name: b"1"}))
    assert (ran.exit, ran.stderr) == ("refused:input", "the name of an input cannot be bound")


HOSTILE_DOCUMENTS = [
    b"__import__('os')",
    b"1)\nimport os\nprint(os",
    b"print(1)",
    b'"a" "b"',
    b"",
    b"\xff",
    b"\xef\xbb\xbf1",
    b"[1,",
]


@pytest.mark.parametrize("document", HOSTILE_DOCUMENTS)
# claim TG-C-97
def test_an_input_is_never_code(lane: Lane, document: bytes) -> None:
    assert lane.run(Program("data", inputs={"data": b'"x"'})).value == '"x"', "control"
    ran = lane.run(Program("data", inputs={"data": document}))
    assert (ran.exit, ran.value, ran.stdout) == ("refused:input", "", "")
    code = "x = '''\nprint(1)\n'''\ndata"
    assert lane.run(Program(code, inputs={"data": b"\"\\nprint(1)\\n'''\""})).stdout == ""


# claim TG-C-97
def test_nothing_survives_from_one_program_to_the_next(lane: Lane) -> None:
    marks = "marker = [1]\ndef helper():\n    return marker\n"
    assert in_monty(marks, "helper()") == [1], "control: it does within one session"
    boxes = lane.boxes
    assert lane.run(marks + "helper()").value == "[1]"
    for name in ("marker", "helper"):
        assert f"NameError: name '{name}' is not defined" in lane.run(name).stderr
    assert lane.boxes == boxes, "it was the same box"
