"""Programs as people write them for small transforms, and what the interpreter cannot express."""

from typing import Final

# name -> code; inputs are `rows` (a list of objects), `text` and `table`; all four functions.
ORDINARY: Final[dict[str, str]] = {
    "ranking": """
scores = {row['name']: row['hits'] / max(1, row['tries']) for row in rows}
sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:10]
""",
    "csv reading": """
import csv
lines = text.splitlines()
header, *body = list(csv.reader(lines))
[dict(zip(header, line)) for line in body]
""",
    "csv normalisation": """
def fix(cell):
    cell = cell.strip().lower()
    return None if cell in ('', 'n/a', '-') else cell

[[fix(cell) for cell in line.split(';')] for line in text.split('\\n') if line]
""",
    "json transform": """
import json
out = []
for row in rows:
    tags = sorted(set(row['tags']))
    out.append({'id': row['id'], 'name': row.get('name', '').title(), 'tags': tags})
json.dumps(out)
""",
    "dataclass": """
from dataclasses import dataclass, field

@dataclass
class Point:
    x: float
    y: float = 0.0
    labels: list = field(default_factory=list)

    def norm(self):
        return (self.x ** 2 + self.y ** 2) ** 0.5

points = [Point(row['x'], row['y']) for row in rows]
max([p.norm() for p in points])
""",
    "regular expression": """
import re
pattern = re.compile(r'(?P<year>\\d{4})-(\\d{2})')
[(m.group('year'), m.group(2)) for m in pattern.finditer(text)]
""",
    "counter": """
from collections import Counter
counts = Counter(word.lower() for word in text.split())
counts.most_common(5)
""",
    "closure": """
def scaler(low, high):
    span = high - low
    def scale(value):
        return (value - low) / span if span else 0.0
    return scale

scale = scaler(min(row['x'] for row in rows), max(row['x'] for row in rows))
[scale(row['x']) for row in rows]
""",
    "comprehension": """
matrix = [[i * j for j in range(5)] for i in range(5)]
{(i, j): v for i, line in enumerate(matrix) for j, v in enumerate(line) if v % 2}
[sum(line) for line in zip(*matrix)]
""",
    "decimal": """
from decimal import Decimal, ROUND_HALF_UP
total = sum((Decimal(str(row['price'])) for row in rows), Decimal('0'))
str(total.quantize(Decimal('0.01'), rounding=ROUND_HALF_UP))
""",
    "validation helper": """
def check(row):
    problems = []
    if not isinstance(row.get('id'), int):
        problems.append('id is not a number')
    if '@' not in row.get('mail', ''):
        problems.append('no mail address')
    return problems

{str(i): check(row) for i, row in enumerate(rows) if check(row)}
""",
    "statistics by hand": """
import math
values = [float(row['x']) for row in rows]
mean = sum(values) / len(values)
sd = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
{'mean': mean, 'sd': sd, 'n': len(values)}
""",
    "grouping": """
from collections import defaultdict
groups = defaultdict(list)
for row in rows:
    groups[row['kind']].append(row['x'])
{kind: sum(xs) / len(xs) for kind, xs in groups.items()}
""",
    "itertools": """
import itertools
pairs = list(itertools.combinations([row['name'] for row in rows], 2))
list(itertools.accumulate([1, 2, 3])), len(pairs)
""",
    "functools": """
from functools import reduce, lru_cache, partial

@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

add = partial(lambda a, b: a + b, 10)
reduce(lambda a, b: a * b, [1, 2, 3]), fib(30), add(5)
""",
    "dates": """
from datetime import datetime, timedelta
start = datetime.fromisoformat('2024-02-28T10:00:00')
days = [(start + timedelta(days=n)).strftime('%Y-%m-%d') for n in range(3)]
days
""",
    "errors": """
def number(text):
    try:
        return float(text)
    except ValueError as exc:
        print('skipped', exc)
        return None
    finally:
        pass

[number(cell) for cell in text.split()]
""",
    "match": """
def kind(row):
    match row:
        case {'type': 'circle', 'r': r}:
            return 3.14159 * r * r
        case {'type': 'square', 'side': s}:
            return s * s
        case [first, *rest]:
            return len(rest)
        case _:
            return None

[kind(row) for row in rows]
""",
    "matrix": """
def multiply(a, b):
    return [[sum(x * y for x, y in zip(line, column)) for column in zip(*b)] for line in a]

multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]])
""",
    "string formatting": """
width = max(len(row['name']) for row in rows)
for row in rows:
    print(f"{row['name']:<{width}} {row['x']:>8.2f} {'*' * int(row['x'])}")
'{:,}'.format(1234567), '%05.1f' % 3.14159
""",
    "recursion": """
def flatten(value):
    if isinstance(value, list):
        return [item for part in value for item in flatten(part)]
    return [value]

flatten([1, [2, [3, [4]]]])
""",
    "hashing": """
import hashlib
{row['name']: hashlib.sha256(row['name'].encode()).hexdigest()[:12] for row in rows}
""",
    "external functions": """
found = regex_findall(r'[a-z]+', text)
json_dumps({'n': len(found), 'digest': sha256_hex(text), 'back': json_loads('[1]')})
""",
    "generator expression": """
any(row['x'] > 3 for row in rows), all('name' in row for row in rows), sum(row['x'] for row in rows)
""",
    "walrus and while": """
n, steps = 27, 0
while (n := n // 2 if n % 2 == 0 else 3 * n + 1) != 1:
    steps += 1
steps
""",
    "star arguments": """
def call(first, /, *rest, key=None, **more):
    return [first, list(rest), key, sorted(more)]

call(1, 2, 3, key='k', a=1, b=2)
""",
    "sets": """
left, right = {row['id'] for row in rows}, {1, 2, 3}
sorted(left & right), sorted(left - right), sorted(left ^ right), left <= right
""",
    "context manager": """
class Section:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        print('begin', self.name)
        return self
    def __exit__(self, kind, value, trace):
        print('end', self.name)
        return False

with Section('a') as section:
    print(section.name)
""",
    "simple class": """
class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError('amount must be positive')
        self.balance += amount
        return self.balance

    def __repr__(self):
        return f'Account({self.owner!r}, {self.balance})'

account = Account('a')
account.deposit(5)
account.note = 'added later'
repr(account)
""",
    "iterator class": """
class Countdown:
    def __init__(self, start):
        self.left = start
    def __iter__(self):
        return self
    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.left

list(Countdown(3))
""",
    "annotations": """
from typing import Any, Optional

def first(values: list[dict[str, Any]], key: str, default: Optional[int] = None) -> Any:
    for value in values:
        if key in value:
            return value[key]
    return default

first(rows, 'x')
""",
    "any values": """
total = 0
for row in rows:
    for key, value in row.items():
        if isinstance(value, (int, float)):
            total += value
        elif isinstance(value, str) and value.isdigit():
            total += int(value)
total
""",
    "base64": """
import base64, binascii
coded = base64.b64encode(text.encode('utf-8')).decode('ascii')
coded, binascii.hexlify(b'abc').decode()
""",
    "normal forms": """
import unicodedata
[unicodedata.normalize('NFC', row['name']) for row in rows]
""",
    "toml": """
import tomllib
tomllib.loads('a = 1\\n[b]\\nc = "x"')
""",
    "namedtuple": """
from collections import namedtuple, deque
Row = namedtuple('Row', ['name', 'x'])
made = [Row(row['name'], row['x']) for row in rows]
window = deque(maxlen=2)
for row in made:
    window.append(row.x)
list(window)
""",
}

# what cannot be expressed -> (code, construct in the answer, line)
BEYOND: Final[dict[str, tuple[str, str, int]]] = {
    "inheritance": ("class A(dict):\n    pass", "class inheritance and metaclasses", 1),
    "own exception": (
        "x = 1\nclass E(Exception):\n    pass",
        "class inheritance and metaclasses",
        2,
    ),
    "metaclass": ("class A(metaclass=type):\n    pass", "class inheritance and metaclasses", 1),
    "generator": ("def f():\n    for i in range(3):\n        yield i", "yield expressions", 3),
    "yield from": ("def f():\n    yield from [1]", "yield from expressions", 2),
    "del": ("x = {'a': 1}\n\ndel x['a']", "the 'del' statement", 3),
    "property": (
        "class A:\n    @property\n    def x(self):\n        return 1",
        "method decorators (classmethod/staticmethod/property)",
        2,
    ),
    "staticmethod": (
        "class A:\n    @staticmethod\n    def x():\n        return 1",
        "method decorators (classmethod/staticmethod/property)",
        2,
    ),
    "async for": ("async def f(y):\n    async for x in y:\n        pass", "async for loops", 2),
    "async with": ("async def f(y):\n    async with y:\n        pass", "async with", 2),
    "async comprehension": ("async def f(y):\n    return [x async for x in y]", "async", 2),
    "exception group": ("try:\n    pass\nexcept* ValueError:\n    pass", "exception groups", 1),
    "star import": ("from math import *", "syntax", 1),
    "numpy": ("import numpy as np\nnp.zeros(3)", "import", 1),
    "pandas inside a function": ("def f():\n    import pandas\n    return pandas", "import", 2),
    "statistics": ("x = 1\nfrom statistics import mean", "import", 2),
    "submodule": ("import os.path", "import", 1),
    "relative import": ("from . import helper", "import", 1),
    "future import": ("from __future__ import annotations", "import", 1),
    "eval": ("x = '1 + 1'\neval(x)", "name", 2),
    "exec": ("exec('x = 1')", "name", 1),
    "open": ("with open('data.csv') as f:\n    f.read()", "name", 1),
    "import by hand": ("__import__('os').getcwd()", "name", 1),
    "super": ("class A:\n    def f(self):\n        return super()", "name super", 3),
    "callable": ("x = 1\ncallable(x)", "name callable", 2),
    "input": ("name = input('who? ')", "name input", 1),
    "dir": ("dir([])", "name dir", 1),
    "bytearray": ("b = bytearray(b'x')", "name bytearray", 1),
    "issubclass": ("issubclass(int, object)", "name issubclass", 1),
    "missing from a module": ("from collections import OrderedDict", "OrderedDict", 1),
    "missing in a module": ("import functools\n\nfunctools.wraps(len)", "functools.wraps", 3),
    "comparison": (
        "class V:\n    def __init__(self): self.x = 1\n    def __lt__(self, o): return True",
        "method __lt__",
        3,
    ),
    "length": ("class B:\n    def __len__(self):\n        return 3", "method __len__", 2),
    "truth": ("class B:\n    def __bool__(self):\n        return False", "method __bool__", 2),
    "own attributes": ("class B:\n    def __getattr__(self, n): return n", "__getattr__", 2),
    "method as a value": (
        "names = ['b', 'A']\nsorted(names, key=str.lower)",
        "method of a type",
        2,
    ),
    "method of a type": ("x = 1\nstr.lower('A')", "method of a type", 2),
    "exception with a number": ("raise SystemExit(3)", "arguments of an exception", 1),
    "translate": ("'abc'.translate({97: 'x'})", "method translate", 1),
    "to bytes": ("n = 5\nn.to_bytes(2, 'big')", "method to_bytes", 2),
    "two exception arguments": ("raise ValueError('a', 1)", "arguments of an exception", 1),
    "syntax": ("x = 1\nif x\n    y = 2", "not-python", 2),
    "nested functions": (
        "\n".join(f"{'    ' * n}def f{n}():" for n in range(10)) + "\n" + "    " * 10 + "pass",
        "nesting",
        9,
    ),
}
