"""No external function reaches the machine: judged from the source of all it is made of.

An import contract sees whole modules; this sees every name.  It is a drift alarm like those:
the boundary is the box the functions run in.
"""

from pathlib import Path
from types import ModuleType

import pytest

from tests.support.purity import CATEGORIES, findings
from threegate.gates.tool_exec.monty import external, plain, regex
from threegate.gates.tool_exec.monty.functions import REGISTRY


def source_of(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text("utf-8")


def own_of(modules: tuple[ModuleType, ...]) -> frozenset[str]:
    """Return what a function may import of ours: what its digest covers."""
    names = {module.__name__ for module in modules}
    return frozenset(names)


@pytest.mark.parametrize("name", REGISTRY)
# claim TG-C-91
def test_function_computes_and_does_nothing_else(name: str) -> None:
    function = REGISTRY[name]
    own = own_of((external, plain, regex))
    assert function.run.__module__ == external.__name__
    assert {external, plain} <= set(function.modules)
    for module in function.modules:
        assert findings(source_of(module), own) == []
    planted = source_of(external) + "\n\ndef planted():\n    return open('/etc/passwd').read()\n"
    assert [finding.category for finding in findings(planted, own)] == ["I/O"], "control"


def test_every_module_a_function_uses_is_in_its_digest() -> None:
    # `external` imports `regex`, which only one of the four calls.
    assert "regex.findall" in source_of(external)
    users = [name for name, function in REGISTRY.items() if regex in function.modules]
    assert users == ["regex_findall"]
    without = own_of((external, plain))
    assert [finding.what for finding in findings(source_of(external), without)] == [
        "import of threegate.gates.tool_exec.monty.regex"
    ]


PLANTED = [
    ("I/O", "def f(s):\n    return open(s).read()"),
    ("I/O", "def f(s):\n    print(s)"),
    ("I/O", "import os\ndef f(s):\n    return os.listdir(s)"),
    ("I/O", "from pathlib import Path\ndef f(s):\n    return Path(s).read_text()"),
    ("I/O", "import sys\ndef f(s):\n    sys.stdout.write(s)"),
    ("I/O", "from io import FileIO\ndef f(s):\n    return FileIO(s)"),
    ("I/O", "import socket\ndef f(s):\n    return socket.socket()"),
    ("I/O", "o = open\ndef f(s):\n    return o(s)"),
    ("time", "import time\ndef f():\n    return time.time()"),
    ("time", "from datetime import datetime\ndef f():\n    return datetime.now()"),
    ("randomness", "import random\ndef f():\n    return random.random()"),
    ("randomness", "from secrets import token_hex\ndef f():\n    return token_hex()"),
    ("randomness", "import uuid\ndef f():\n    return uuid.uuid4().hex"),
    ("randomness", "def f(s):\n    return hash(s)"),
    ("randomness", "def f(s):\n    return id(s)"),
    ("environment", "from os import environ\ndef f(s):\n    return environ[s]"),
    ("environment", "import os\ndef f(s):\n    return os.getenv(s)"),
    ("environment", "import platform\ndef f():\n    return platform.node()"),
    ("processes", "import subprocess\ndef f(s):\n    return subprocess.run(s)"),
    ("processes", "import threading\ndef f(s):\n    threading.Thread(target=s).start()"),
    ("processes", "from multiprocessing import Process\ndef f(s):\n    Process(target=s).start()"),
    ("import machinery", "import importlib\ndef f(s):\n    return importlib.import_module(s)"),
    ("import machinery", "def f(s):\n    return __import__(s)"),
    ("import machinery", "def f(s):\n    import json\n    return json.loads(s)"),
    ("import machinery", "def f(s):\n    return eval(s)"),
    ("import machinery", "import pickle\ndef f(s):\n    return pickle.loads(s)"),
    ("introspection", "def f(s):\n    return getattr(s, 'x')"),
    ("introspection", "def f(s):\n    return s.__class__.__mro__"),
    ("introspection", "def f(s):\n    return vars(s)"),
    ("introspection", "def f():\n    return globals()"),
    ("introspection", "import inspect\ndef f():\n    return inspect.stack()"),
    ("introspection", "import gc\ndef f():\n    return gc.get_objects()"),
    ("introspection", "def f(s):\n    return s.format(1)"),
    ("introspection", "def f():\n    return __builtins__"),
    ("introspection", "import ctypes\ndef f(s):\n    return ctypes.string_at(s)"),
    ("not on the list", "import json\ndef f(s):\n    return json.codecs.lookup(s)"),
    ("not on the list", "import hashlib\ndef f(s):\n    return hashlib.file_digest(s, 'md5')"),
    ("not on the list", "import re\ndef f(s):\n    return re.findall('(a+)+$', s)"),
    ("not on the list", "from threegate.host import cli\ndef f(s):\n    return cli.main(s)"),
    ("state", "seen = 0\ndef f():\n    global seen\n    seen += 1\n    return seen"),
]


@pytest.mark.parametrize(("category", "source"), PLANTED)
def test_a_planted_function_is_refused(category: str, source: str) -> None:
    found = findings(source, frozenset())
    assert category in {finding.category for finding in found}, found
    assert findings("import json\ndef f(s):\n    return json.loads(s)", frozenset()) == []


def test_every_category_has_a_control() -> None:
    assert {category for category, _ in PLANTED} >= set(CATEGORIES)
