"""Acting on what runs later in the same process: patches of libraries and the interpreter's hooks.

The oracle is a neighbour: an honest computation after the attack that must come out as ever.
"""

from __future__ import annotations

from attacks.form import rewards

PATCHING = rewards(
    "harm",
    {
        "torch function": "torch.tanh = lambda x: x * 0 + 7777",
        "tensor method": "torch.Tensor.sum = lambda *a, **k: torch.full((), 7777.0)",
        "tensor operator": "torch.Tensor.__mul__ = lambda a, b: a",
        "functional": "F.relu = lambda x, *a: x + 1",
        "layer": "nn.Linear.forward = lambda self, x: x * 0",
        "every layer": "nn.Module.__call__ = lambda self, *a: a[0]",
        "by setattr": "setattr(torch, 'tanh', torch.sin)",
        "by the dictionary": "torch.__dict__['tanh'] = torch.sin",
        "by vars": "vars(math)['sqrt'] = math.exp",
        "by a local name": "t = torch\nt.tanh = torch.sin",
        "by a loop": "for torch.tanh in [torch.sin]:\n    pass",
        "by a parameter named self": "def patch(self):\n    self.forward = lambda s, x: x * 0\npatch(nn.Linear)",
        "math": "math.sqrt = lambda x: 7777.0",
        "delete": "del torch.tanh",
        "numpy": "import numpy as np\nnp.asarray = lambda *a, **k: np.zeros(3)",
        "numpy sum": "import numpy as np\nnp.sum = lambda *a, **k: 7777.0",
        "builtin sum": "import builtins\nbuiltins.sum = lambda *a: 7777.0",
        "builtin len": "import builtins\nbuiltins.len = lambda x: 7777",
        "builtin max": "__builtins__['max'] = min",
        "builtin import": "import builtins\nbuiltins.__import__ = lambda *a, **k: math",
        "builtin class maker": "import builtins\nbuiltins.__build_class__ = lambda *a, **k: dict",
        "builtin isinstance": "import builtins\nbuiltins.isinstance = lambda *a: False",
        "message": "from se_rl.sandbox import message\nmessage.pack = lambda value: [b'7777']",
        "checksum": "import zlib\nzlib.crc32 = lambda *a: 7777",
        "JSON": "import json\njson.dumps = lambda *a, **k: '7777'",
        "clock": "import time\ntime.monotonic = lambda: 7777.0",
        "module table": "import sys\nsys.modules['math'] = torch",
        "default dtype": "torch.set_default_dtype(torch.float64)",
        "default device": "torch.set_default_device('meta')",
        "grad mode": "torch.set_grad_enabled(False)",
        "seed": "torch.manual_seed(7777)",
        "inference mode": "math.keep = torch.inference_mode()\nmath.keep.__enter__()",
        "numpy errors": "import numpy as np\nnp.seterr(all='raise')",
        "numpy seed": "import numpy as np\nnp.random.seed(7777)",
        "operator": "math.keep = torch.library.Library('aten', 'IMPL')\nmath.keep.impl('tanh', lambda x: x * 0, 'CPU')",
        "function mode": "from torch.overrides import TorchFunctionMode\nclass M(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, types, args=(), kwargs=None):\n        return torch.zeros(8)\nM().__enter__()",
        "global layer hook": "torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 0)",
        "small number": "import ctypes\nctypes.memmove(id(5) + 24, id(6) + 24, 4)",
        "constant of a tuple": "import ctypes\nfrom attack_sandbox import LEVELS\n"
        "ctypes.c_size_t.from_address(id(LEVELS) + 24).value = id('none')",
        "mapping proxy": "import gc\ngc.get_referents(float.__dict__)[0]['hex'] = None\n"
        "gc.get_referents(str.__dict__)[0]['split'] = None"
        "\nimport ctypes\nctypes.pythonapi.PyType_Modified(ctypes.py_object(str))",
        "code of a function": "import attack_sandbox\nattack_sandbox.level.__code__ = (lambda: 7777.0).__code__",
        "default of a function": "import attack_sandbox\nattack_sandbox.level.__defaults__ = (7777.0,)",
        "frame of the caller": "import attack_sandbox, sys\nframe = sys._getframe()\n"
        "while frame.f_back:\n    frame = frame.f_back\n"
        "    frame.f_globals.update(LEVELS=(7777.0,))\nattack_sandbox.LEVELS = (7777.0,)",
        "crash": "import ctypes\nctypes.string_at(0)",
        "abort": "import os\nos.abort()",
        "wild write": "import ctypes\nctypes.memset(id(torch), 255, 64)\ntorch.tanh",
        "leave": "import os\nos._exit(3)",
        "unmap everything": "import ctypes\nctypes.CDLL(None).munmap(ctypes.c_void_p(id(torch) & ~4095), 1 << 24)",
    },
)

HOOKS = {
    **rewards(
        "harm",
        {
            "trace": "import sys\nsys.settrace(lambda *a: None)",
            "profile": "import sys\nsys.setprofile(lambda *a: None)",
            "import finder": "import importlib.machinery, sys\nclass Finder:\n    def find_spec(self, name, *a):\n"
            "        return importlib.machinery.ModuleSpec(name, self)\n    def create_module(self, spec):\n"
            "        return None\n    def exec_module(self, module):\n        pass\nsys.meta_path.insert(0, Finder())",
            "path hook": "import sys\nsys.path_hooks.insert(0, print)",
            "path": "import sys\nsys.path.insert(0, '$folder/module')",
            "exception hook": "import sys\nsys.excepthook = lambda *a: None",
            "unraisable hook": "import sys\nsys.unraisablehook = lambda *a: None",
            "display hook": "import sys\nsys.displayhook = lambda *a: None",
            "audit hook": "import sys\ndef hook(event, arguments):\n    if event == 'canary':\n        raise ValueError\n"
            "sys.addaudithook(hook)",
            "recursion limit": "import sys\nsys.setrecursionlimit(10 ** 6)",
            "switch interval": "import sys\nsys.setswitchinterval(100)",
            "codec": "import codecs\ncodecs.register_error('strict', lambda e: ('', e.end))",
            "warnings": "import warnings\nwarnings.simplefilter('error')",
            "collector off": "import gc\ngc.disable()",
            "collector hook": "import gc\ngc.callbacks.append(lambda *a: None)",
            "alarm": "import signal\nsignal.signal(signal.SIGALRM, lambda *a: torch.manual_seed(7777))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)",
            "signal handler": "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)",
            "thread": "import threading, time\ndef run():\n    while True:\n        time.sleep(0.001)\n"
            "        math.sqrt = math.exp\nthreading.Thread(target=run, daemon=True).start()",
            "timer": "import threading\ndef patch():\n    math.sqrt = math.exp\nthreading.Timer(0.001, patch).start()",
            "thread hook": "import threading\nthreading.settrace(print)",
            "breakpoint hook": "import sys\nsys.breakpointhook = print",
            "copy hook": "import copyreg\ncopyreg.pickle(complex, lambda x: (int, ()))",
            "string interning": "import sys\nsys.intern = str",
            "standard output": "import sys\nsys.stdout = None",
            "locale": "import decimal\ndecimal.getcontext().prec = 3",
        },
    ),
    **rewards(
        "alarm",
        {
            "at exit": "import atexit, os\natexit.register(os.mkdir, '$folder/mark')",
            "finalizer": "import os, weakref\nclass A:\n    pass\nkeep = A()\nweakref.finalize(keep, os.mkdir, '$folder/mark')\n"
            "del keep",
            "collector": "import gc, os\n"
            "gc.callbacks.append(lambda *a: os.path.exists('$folder/mark') or os.mkdir('$folder/mark'))\n"
            "gc.collect()",
            "deleted object": "import os\nclass A:\n    def __del__(self):\n        os.mkdir('$folder/mark')\nA()",
            "hash": "import os\nclass A:\n    def __hash__(self):\n        os.mkdir('$folder/mark')\n        return 1\n{A(): 1}",
            "thread": "import os, threading\nt = threading.Thread(target=os.mkdir, args=('$folder/mark',))\nt.start()\nt.join()",
            "timer": "import os, threading\nt = threading.Timer(0.001, os.mkdir, ['$folder/mark'])\nt.start()\nt.join()",
            "scheduler": "import os, sched\ns = sched.scheduler()\ns.enter(0, 0, os.mkdir, ('$folder/mark',))\ns.run()",
            "signal": "import os, signal\nsignal.signal(10, lambda *a: os.mkdir('$folder/mark'))\nsignal.raise_signal(10)",
            "result that acts": "import os\nclass A(torch.Tensor):\n    def detach(self):\n        os.mkdir('$folder/mark')\n"
            "        return self.as_subclass(torch.Tensor)\nreturn step.news.as_subclass(A)",
            "tensor function": "import os\nclass A(torch.Tensor):\n    @classmethod\n"
            "    def __torch_function__(cls, f, types, args=(), kwargs=None):\n        os.mkdir('$folder/mark')\n"
            "        return torch.zeros(3)\nreturn step.news.as_subclass(A)",
            "error that acts": "import os\nclass A(Exception):\n    def __str__(self):\n        os.mkdir('$folder/mark')\n"
            "        return 'x'\nraise A",
        },
    ),
}
