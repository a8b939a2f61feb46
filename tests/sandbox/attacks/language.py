"""Tricks of the language: walks from object to object, text that becomes code, imports, spellings, parser bombs."""

from __future__ import annotations

from attacks.form import Attacks, reward, rewards

ACT = "os.mkdir('$folder/mark')"
CODE = "import os; os.mkdir('$folder/mark')"
QUOTED = "\"import os; os.mkdir('$folder/mark')\""
EXPRESSION = "\"__import__('os').mkdir('$folder/mark')\""

WALKS = {
    **rewards(
        "alarm",
        {
            "subclasses": "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
            ".__init__.__globals__['mkdir']('$folder/mark')",
            "method resolution": "[c for c in ''.__class__.__mro__[-1].__subclasses__() if c.__name__ == 'catch_warnings'][0]"
            "()._module.sys.modules['os'].mkdir('$folder/mark')",
            "globals of a class": "nn.Module.__init__.__globals__['torch'].os.mkdir('$folder/mark')",
            "module of a module": "torch.os.mkdir('$folder/mark')",
            "functional": "F.importlib.import_module('os').mkdir('$folder/mark')",
            "dictionary of a module": "torch.__dict__['os'].mkdir('$folder/mark')",
            "loader": "type(torch.__loader__)('canary_module', '$folder/module/canary_module.py').load_module()",
            "builtins of a function": "reward.__globals__['__builtins__']['__import__']('os').mkdir('$folder/mark')",
            "builtins of a frame": "g = (i for i in [1])\ng.gi_frame.f_builtins['__import__']('os').mkdir('$folder/mark')",
            "frame of a generator": "g = (g.gi_frame.f_back for _ in [1])\n"
            "[*g][0].f_builtins['__import__']('os').mkdir('$folder/mark')",
            "frame of an error": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
            "    e.__traceback__.tb_frame.f_builtins['eval']('__import__')('os').mkdir('$folder/mark')",
            "frame of a coroutine": "async def f():\n    pass\nc = f()\nb = c.cr_frame.f_builtins\nc.close()\n"
            "b['__import__']('os').mkdir('$folder/mark')",
            "error of a context": "class A:\n    def __enter__(self):\n        pass\n    def __exit__(self, a, b, trace):\n"
            "        trace.tb_frame.f_builtins['__import__']('os').mkdir('$folder/mark')\n        return True\n"
            "with A():\n    1 / 0",
            "reduced getattr": "from functools import reduce\nreduce(getattr, ['os', 'mkdir'], torch)('$folder/mark')",
            "attrgetter": "from operator import attrgetter\nattrgetter('os.mkdir')(torch)('$folder/mark')",
            "methodcaller": "from operator import methodcaller\nmethodcaller('mkdir', '$folder/mark')(torch.os)",
            "formatter": "import string\nstring.Formatter().get_field('0.os.mkdir', [torch], {})[0]('$folder/mark')",
            "pattern": "import types\nmatch torch:\n    case types.ModuleType(os=found):\n        found.mkdir('$folder/mark')",
            "descriptor": "type(torch).__getattribute__(torch, 'os').mkdir('$folder/mark')",
            "super": "super(type(torch), torch).__getattribute__('os').mkdir('$folder/mark')",
            "metaclass": "class M(type):\n    def __getattr__(cls, name):\n        return torch.os\n"
            "class A(metaclass=M):\n    pass\n"
            "A.anything.mkdir('$folder/mark')",
            "three-argument type": "type(type(1))('A', (), {'__init__': lambda self: torch.os.mkdir('$folder/mark')})()",
            "module type": "type(torch)('x').__class__.__getattribute__(torch, 'os').mkdir('$folder/mark')",
            "garbage": "import gc\ngc.unfreeze()\n"
            "[m for m in gc.get_objects() if type(m) is type(math) and m.__name__ == 'os'][0]"
            ".mkdir('$folder/mark')",
            "referrers": "import gc\ngc.unfreeze()\n"
            "holder = [r for r in gc.get_referrers(torch.os) if type(r) is dict and 'os' in r][0]\n"
            "holder['os'].mkdir('$folder/mark')",
            "wrapped": "import functools\nclass A:\n    pass\na = functools.update_wrapper(A(), torch.compile, "
            "('__globals__',), ())\na.__globals__['os'].mkdir('$folder/mark')",
            "closure": "def outer():\n    import os\n    return lambda: os\n"
            "outer().__closure__[0].cell_contents.mkdir('$folder/mark')",
            "annotation": "def f(x: torch.os.mkdir('$folder/mark')):\n    pass",
            "decorator": "@(lambda f: torch.os.mkdir('$folder/mark'))\ndef f():\n    pass",
            "default": "def f(x=torch.os.mkdir('$folder/mark')):\n    pass",
            "class body": "class A:\n    x = torch.os.mkdir('$folder/mark')",
            "f-string": "f\"{torch.os.mkdir('$folder/mark')}\"",
            "set name": "class D:\n    def __set_name__(self, owner, name):\n        torch.os.mkdir('$folder/mark')\n"
            "class A:\n    d = D()",
        },
    ),
    **rewards(
        "leak",
        {
            "format of globals": "import attack_sandbox\ndata = '{0.__globals__[TOKEN]}'.format(attack_sandbox.run)",
            "format map": "import attack_sandbox\ndata = '{a.__globals__[TOKEN]}'.format_map({'a': attack_sandbox.run})",
            "caller's globals": "import sys\nf = sys._getframe()\ndata = ''\nwhile f:\n"
            "    data, f = data + str(f.f_globals.get('TOKEN')), f.f_back",
            "caller's names": "import inspect\ndata = ''.join(str(f.frame.f_globals.get('TOKEN')) for f in inspect.stack(0))",
            "walk of the stack": "import traceback\ndata = ''.join(str(f.f_globals.get('TOKEN')) for f, _ in "
            "traceback.walk_stack(None))",
            "every module": "import sys\ndata = ''.join(str(vars(m).get('TOKEN', '')) for m in list(sys.modules.values()) if m)",
            "frames of all threads": "import sys\ndata = ''.join(str(f.f_back.f_globals.get('TOKEN')) for f in "
            "sys._current_frames().values() if f.f_back)",
        },
    ),
}

STRINGS = rewards(
    "alarm",
    {
        "exec": f"exec({QUOTED})",
        "eval": f"eval({EXPRESSION})",
        "compile": f"eval(compile({QUOTED}, 'x', 'exec'))",
        "eval through map": f"list(map(eval, [{EXPRESSION}]))",
        "timeit": f"import timeit\ntimeit.timeit({QUOTED}, number=1)",
        "interpreter": f"import code\ncode.InteractiveInterpreter().runsource({QUOTED})",
        "profiler": f"import cProfile\ncProfile.Profile().run({QUOTED})",
        "debugger": f"import bdb\nbdb.Bdb().runeval({EXPRESSION})",
        "doctest": f"import doctest\ndoctest.run_docstring_examples('>>> ' + {EXPRESSION}, {{}})",
        "type hints": f"import typing\ndef f(x: {EXPRESSION}):\n    pass\ntyping.get_type_hints(f)",
        "forward reference": f"import typing\ntyping.ForwardRef({EXPRESSION})._evaluate({{}}, {{}}, frozenset())",
        "log configuration": "import logging.config\nlogging.config.dictConfig({'version': 1, 'handlers': "
        "{'x': {'()': 'os.mkdir', 'path': '$folder/mark'}}})",
        "pickle": "import os, pickle\nclass A:\n    def __reduce__(self):\n        return os.mkdir, ('$folder/mark',)\n"
        "pickle.loads(pickle.dumps(A()))",
        "pickle text": 'import pickle\npickle.loads(b"cos\\nmkdir\\n(V$folder/mark\\ntR.")',
        "copy": "import copy, os\nclass A:\n    def __reduce__(self):\n"
        "        return os.mkdir, ('$folder/mark',)\ncopy.copy(A())",
        "marshal": f"import marshal, types\n"
        f"types.FunctionType(marshal.loads(marshal.dumps(compile({QUOTED}, 'x', 'exec'))), {{}})()",
        "code object": f"def f():\n    pass\nf.__code__ = compile({QUOTED}, 'x', 'exec')\nf()",
        "function type": f"type(reward)(compile({QUOTED}, 'x', 'exec'), {{}})()",
        "template": "import jinja2\njinja2.Template(\"{{ cycler.__init__.__globals__.os.mkdir('$folder/mark') }}\").render()",
        "YAML": "import yaml\nyaml.unsafe_load('!!python/object/apply:os.mkdir [$folder/mark]')",
        "hex": "exec(bytes.fromhex('"
        + b"import os; os.mkdir(A)".hex()
        + "'), {'A': '$folder/mark'})",
        "base64": "import base64\nexec(base64.b64decode('aW1wb3J0IG9zOyBvcy5ta2RpcihBKQ=='), {'A': '$folder/mark'})",
        "compressed": "import zlib\nexec(zlib.decompress(zlib.compress(" + QUOTED + ".encode())))",
        "backwards": "exec(')A(ridkm.so ;so tropmi'[::-1], {'A': '$folder/mark'})",
        "letter by letter": "exec(''.join(map(chr, [105, 109, 112, 111, 114, 116, 32, 111, 115])) + '; os.mkdir(A)', "
        "{'A': '$folder/mark'})",
        "rot13": "import codecs\nexec(codecs.decode('vzcbeg bf; bf.zxqve', 'rot13') + '(A)', {'A': '$folder/mark'})",
        "escapes": "exec('\\x69mport \\u006fs; os.mkdir(A)', {'A': '$folder/mark'})",
        "tree": f"import ast\nexec(compile(ast.parse({QUOTED}), 'x', 'exec'))",
        "numpy test": f"import numpy.testing as t\nt.runstring({QUOTED}, {{}})",
        "numpy measure": f"import numpy.testing as t\nt.measure({QUOTED})",
        "mock": "from unittest.mock import patch\nwith patch('torch.tanh', __import__('os').mkdir):\n"
        "    torch.tanh('$folder/mark')",
        "python API": f"import ctypes\nctypes.pythonapi.PyRun_SimpleString({QUOTED}.encode())",
    },
)
STRINGS["forward reference through self"] = (
    "import typing\n\n\ndef run(self):\n    return self._evaluate({}, {}, frozenset())\n\n\n"
    f"def reward(step):\n    run(typing.get_args(typing.List[{EXPRESSION}])[0])\n    return step.news\n",
    "alarm",
)

MODULE = "'$folder/module/canary_module.py'"
IMPORTS = {
    **rewards(
        "alarm",
        {
            "import": "import os\n" + ACT,
            "from": "from os import mkdir\nmkdir('$folder/mark')",
            "dunder": "__import__('os').mkdir('$folder/mark')",
            "importlib": "import importlib\nimportlib.import_module('os').mkdir('$folder/mark')",
            "posix": "import posix\nposix.mkdir('$folder/mark')",
            "through pathlib": "from pathlib import os\n" + ACT,
            "through a package": "from torch.utils import data\nimport torch.serialization as s\ns.os.mkdir('$folder/mark')",
            "path": "import sys\nsys.path.insert(0, '$folder/module')\nimport canary_module",
            "run a file": f"import runpy\nrunpy.run_path({MODULE})",
            "read and execute": f"exec(open({MODULE}).read())",
            "loader": f"from importlib.machinery import SourceFileLoader as L\nL('canary_module', {MODULE}).load_module()",
            "spec": f"import importlib.util as u\ns = u.spec_from_file_location('canary_module', {MODULE})\n"
            "s.loader.exec_module(u.module_from_spec(s))",
            "lazy loader": "import importlib.util as u, importlib.machinery as m\n"
            f"s = u.spec_from_loader('canary_module', u.LazyLoader(m.SourceFileLoader('canary_module', {MODULE})))\n"
            "x = u.module_from_spec(s)\ns.loader.exec_module(x)\nx.anything",
            "zip": "import sys\nsys.path.insert(0, '$folder/module/canary.zip')\nimport canary_zipped",
            "zip loader": "import zipimport\nzipimport.zipimporter('$folder/module/canary.zip').load_module('canary_zipped')",
            "site folder": "import site\nsite.addsitedir('$folder/module')",
            "doctest file": "import doctest\ndoctest.testfile('$folder/module/canary.txt', module_relative=False)",
            "renamed": "from os import mkdir as m\nm('$folder/mark')",
        },
    ),
    **rewards(
        "claim",
        {
            "a module not loaded yet": "import colorsys",
            "reload": "import importlib, string\nimportlib.reload(string)",
            "source of a module": "import importlib.util as u\nassert u.find_spec('colorsys')",
            "list of modules": "import pkgutil\nassert len(list(pkgutil.iter_modules())) > 50",
            "package data": "import pkgutil\npkgutil.get_data('torch', 'version.py')",
            "distributions": "from importlib.metadata import version\nversion('numpy')",
        },
    ),
}

SPELLINGS: Attacks = {
    "wide letters": (
        f"def reward(step):\n    ｅｖａｌ({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "mathematical letters": (
        f"def reward(step):\n    𝐞𝐱𝐞𝐜({QUOTED})\n    return step.news\n",
        "alarm",
    ),
    "mixed letters": (
        f"def reward(step):\n    e𝓋al({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "wide attribute": (
        "def reward(step):\n    torch.ｏｓ.mkdir('$folder/mark')\n    return step.news\n",
        "alarm",
    ),
    "long s": (
        "def reward(step):\n    torch.oſ.mkdir('$folder/mark')\n    return step.news\n",
        "alarm",
    ),
    "ligature": (
        "def reward(step):\n    open('$folder/mark', 'w').close()\n    ﬁnd = 1\n    return step.news\n",
        "alarm",
    ),
    "coding": (
        f"# coding: utf-7\ndef reward(step):\n    +AGUAdgBhAGw-({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "coding in line 2": (
        "# a reward\n# -*- coding: unicode_escape -*-\ndef reward(step):\n"
        f"    \\x65val({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "turned comment": (
        f"def reward(step):\n    # \u202e harmless \u2066\n    eval({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "form feed": (
        f"def reward(step):\n    x = 1 #\f\n    eval({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "carriage return": (
        f"def reward(step):\n    x = 1 # fine\r    eval({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "continued line": (
        f"def reward(step):\n    eval\\\n    ({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "byte order mark": (
        f"\ufeffdef reward(step):\n    eval({EXPRESSION})\n    return step.news\n",
        "alarm",
    ),
    "top level": (f"eval({EXPRESSION})\ndef reward(step):\n    return step.news\n", "alarm"),
    "not called": (
        f"x = [eval({EXPRESSION}) for _ in [1]]\ndef reward(step):\n    return step.news\n",
        "alarm",
    ),
    "class decorator": (
        f"@(lambda c: eval({EXPRESSION}))\nclass A:\n    pass\n\n\ndef reward(step):\n    return step.news\n",
        "alarm",
    ),
    "annotation": (
        f"x: eval({EXPRESSION}) = 1\ndef reward(step):\n    return step.news\n",
        "alarm",
    ),
    "walrus": (reward(f"(f := eval)({EXPRESSION})"), "alarm"),
    "star": (reward(f"[*[eval]][0]({EXPRESSION})"), "alarm"),
    "lambda default": (reward(f"(lambda f=eval: f({EXPRESSION}))()"), "alarm"),
    "name error": (reward(f"def eval_(eval):\n    return eval\neval({EXPRESSION})"), "alarm"),
    "except star": (
        reward(
            f"try:\n    raise ExceptionGroup('x', [ValueError()])\nexcept* ValueError:\n    eval({EXPRESSION})"
        ),
        "alarm",
    ),
}

BOMBS: Attacks = {
    name: (source, "reader")
    for name, source in {
        "brackets": "def reward(step):\n    return " + "(" * 5000 + "1" + ")" * 5000 + "\n",
        "lists": "def reward(step):\n    return " + "[" * 5000 + "]" * 5000 + "\n",
        "minus signs": "def reward(step):\n    return " + "-" * 20000 + "step.news\n",
        "nots": "def reward(step):\n    return " + "not " * 15000 + "step.news\n",
        "long sum": "def reward(step):\n    return " + " + ".join(["step.news"] * 5000) + "\n",
        "attributes": "def reward(step):\n    return step" + ".a" * 20000 + "\n",
        "calls": "def reward(step):\n    return step" + "()" * 20000 + "\n",
        "subscripts": "def reward(step):\n    return step" + "[0]" * 15000 + "\n",
        "lambdas": "def reward(step):\n    return " + "lambda:" * 8000 + "0\n",
        "conditions": "def reward(step):\n    return " + "1 if 1 else " * 5000 + "0\n",
        "branches": "def reward(step):\n    if 1:\n        pass\n"
        + "    elif 1:\n        pass\n" * 2000,
        "powers": "def reward(step):\n    return " + "2 ** " * 10000 + "1\n",
        "long number": "def reward(step):\n    return " + "9" * 50000 + "\n",
        "indentation": "def reward(step):\n"
        + "".join(" " * (i + 1) + "if 1:\n" for i in range(150))
        + " " * 151
        + "pass\n",
        "loops": "def reward(step):\n"
        + "".join(" " * (i + 1) + "for _ in [1]:\n" for i in range(60))
        + " " * 61
        + "pass\n",
        "null byte": "def reward(step):\n    return step.news\n\0",
        "f-strings": "def reward(step):\n    return " + "f'{" * 100 + "1" + "}'" * 100 + "\n",
    }.items()
}
