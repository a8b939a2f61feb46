"""Doors in torch, numpy, numba and native code."""

from __future__ import annotations

import platform

from attacks.form import Attacks, rewards

MARK = "'$folder/mark'"
BOMB = "import io, os, pickle\nclass A:\n    def __reduce__(self):\n        return os.mkdir, ('$folder/mark',)\n"

TORCH = {
    **rewards(
        "alarm",
        {
            "save": f"torch.save(step.news, {MARK})",
            "save of a module": f"torch.save(nn.Linear(1, 1).state_dict(), {MARK})",
            "load": BOMB
            + "file = io.BytesIO()\ntorch.save(A(), file)\nfile.seek(0)\ntorch.load(file, weights_only=False)",
            "load, old format": BOMB + "file = io.BytesIO(pickle.dumps(A()))\n"
            "torch.load(file, weights_only=False, pickle_module=pickle)",
            "serialization": f"torch.serialization.os.mkdir({MARK})",
            "hub": "import torch.hub\ntorch.hub.load('$folder/module', 'canary', source='local')",
            "hub, local": "import torch.hub\ntorch.hub._load_local('$folder/module', 'canary')",
            "script save": f"torch._C.PyTorchFileWriter({MARK}).write_end_of_file()",
            "shared file": f"torch.from_file({MARK}, shared=True, size=8, dtype=torch.uint8)",
            "storage of a file": f"torch.UntypedStorage.from_file({MARK}, True, 8)",
            "storage to a file": "import os\nfile = os.open('$folder/mark', os.O_CREAT | os.O_WRONLY)\n"
            "torch.zeros(4).untyped_storage()._write_file(os.fdopen(file, 'wb'), True, True, 4)",
            "file store": f"import torch.distributed as d\nd.FileStore({MARK}, 1).set('a', 'b')",
            "package": f"from torch.package import PackageExporter as P\nwith P({MARK}) as p:\n    p.save_text('a', 'b', 'c')",
            "dataset": f"from torch.utils.data import DataLoader\nclass D:\n    def __len__(self):\n        return 1\n"
            f"    def __getitem__(self, i):\n        torch.os.mkdir({MARK})\n        return 1\nlist(DataLoader(D()))",
            "autograd": f"class G(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x\n"
            f"    @staticmethod\n    def backward(ctx, g):\n        torch.os.mkdir({MARK})\n        return g\n"
            "G.apply(step.news.clone().requires_grad_()).sum().backward()",
            "hook of a gradient": "x = step.news.clone().requires_grad_()\n"
            f"x.register_hook(lambda g: torch.os.mkdir({MARK}))\nx.sum().backward()",
        },
    ),
    **rewards(
        "leak",
        {
            "file as tensor": "data = bytes(torch.from_file('$secret', size=43, dtype=torch.uint8).tolist())",
            "file as storage": "data = bytes(torch.UntypedStorage.from_file('$secret', False, 43))",
            "reader": "data = torch.serialization._open_file('$secret', 'rb').__enter__().read()",
            "buffer": "data = bytes(torch.frombuffer(open('$secret', 'rb').read(), dtype=torch.uint8).tolist())",
            "storage from a file object": "import ctypes\nstorage = torch.UntypedStorage(43)\n"
            "open('$secret', 'rb', 0).readinto((ctypes.c_char * 43).from_address(storage.data_ptr()))\ndata = bytes(storage)",
        },
    ),
    **rewards(
        "claim",
        {
            "library": "torch.ops.load_library('$library')",
            "class library": "torch.classes.load_library('$library')",
            "store": "import torch.distributed as d\nd.TCPStore('127.0.0.1', 0, 1, True)",
            "workers": "from torch.utils.data import DataLoader\n"
            "list(DataLoader([1.0], num_workers=1, multiprocessing_context='fork'))",
            "spawn": "import torch.multiprocessing as m\np = m.get_context('fork').Process(target=int)\np.start()\np.join()\n"
            "assert p.exitcode == 0",
            "threads": "torch.set_num_threads(4)\nx = torch.ones(1 << 20)\n(x * x).sum()\nimport os\n"
            "assert len(os.listdir('/proc/self/task')) > 1",
            "source of a function": "import inspect, linecache\nlinecache.clearcache()\n"
            "assert inspect.getsource(nn.Linear.forward)",
        },
    ),
}
TORCH["network's constructor"] = (
    "class Network(nn.Module):\n    def __init__(self, obs_dim, history):\n        super().__init__()\n"
    f"        self.feature_dim = 4\n        self.layer = nn.Linear(obs_dim, 4)\n        torch.os.mkdir({MARK})\n\n"
    "    def forward(self, obs):\n        return self.layer(obs[:, -1])\n",
    "alarm",
)
TORCH["imagination"] = (
    f"def imagine(bars, generator):\n    torch.os.mkdir({MARK})\n    return bars\n",
    "alarm",
)
TORCH["profile"] = (
    f"def profile():\n    torch.os.mkdir({MARK})\n    return {{'makers': 2}}\n",
    "alarm",
)

NP = "import numpy as np\n"
NUMPY = {
    **rewards(
        "alarm",
        {
            "save": f"np.save({MARK}, 1)",
            "savez": f"np.savez({MARK}, 1)",
            "savetxt": f"np.savetxt({MARK}, [1])",
            "tofile": f"np.ones(3).tofile({MARK})",
            "tofile of a tensor": f"step.news.numpy().tofile({MARK})",
            "dump": f"np.ones(3).dump({MARK})",
            "memmap": f"np.memmap({MARK}, mode='w+', shape=3)",
            "memmap of the secret": "np.memmap('$secret', mode='r+')[:4] = 0",
            "open_memmap": f"np.lib.format.open_memmap({MARK}, 'w+', shape=(3,))",
            "load": BOMB
            + "file = io.BytesIO()\nnp.save(file, np.array([A()], object), allow_pickle=True)\nfile.seek(0)\n"
            "np.load(file, allow_pickle=True)",
            "os of a part": f"np.lib._npyio_impl.os.mkdir({MARK})",
            "vectorize": f"np.vectorize(torch.os.mkdir, otypes=[object])({MARK})",
            "frompyfunc": f"np.frompyfunc(torch.os.mkdir, 1, 1)({MARK})",
            "print function": f"np.array2string(np.ones(1), formatter={{'float': lambda x: str(torch.os.mkdir({MARK}))}})",
            "error call": f"np.seterrcall(lambda *a: torch.os.mkdir({MARK}))\nwith np.errstate(all='call'):\n"
            f"    np.float64(1) / 0",
        },
        head=NP,
    ),
    **rewards(
        "leak",
        {
            "fromfile": "data = np.fromfile('$secret', np.uint8).tobytes()",
            "loadtxt": "data = str(np.loadtxt('$secret', str))",
            "genfromtxt": "data = str(np.genfromtxt('$secret', str))",
            "fromregex": "data = np.fromregex('$secret', '(.+)', [('a', 'S99')])['a'][0]",
            "memmap": "data = np.memmap('$secret', np.uint8, 'r').tobytes()",
            "records": "data = np.rec.fromfile('$secret', formats='S43', shape=1).tobytes()",
            "data source": "data = np.lib.npyio.DataSource('$folder').open('$secret').read()",
        },
        head=NP,
    ),
    **rewards("claim", {"library": "import numpy.ctypeslib as c\nc.load_library('$library', '/')"}),
}

NUMBA = {
    **rewards(
        "alarm",
        {
            "outside function": "from numba import njit, types\n"
            "make = types.ExternalFunction('rmdir', types.int32(types.voidptr))\n"
            "import numpy as np\nname = np.frombuffer(b'$folder/empty\\0', np.uint8).copy()\naddress = name.ctypes.data\n"
            "from numba.core import types as t\nfrom numba import carray\nfrom numba.extending import intrinsic\n"
            "@intrinsic\ndef pointer(context, number):\n    def make(c, b, s, a):\n"
            "        return b.inttoptr(a[0], c.get_value_type(t.voidptr))\n    return t.voidptr(number), make\n"
            "njit(lambda a: make(pointer(a)))(address)",
            "object mode": "import os\nfrom numba import njit, objmode\n@njit\ndef f():\n    with objmode():\n"
            "        os.mkdir('$folder/mark')\nf()",
            "cache": "import numba, sys\nsys.path.insert(0, '$folder/module')\nimport canary_kernel\ncanary_kernel.double(1.0)",
        },
    ),
    **rewards(
        "claim",
        {
            "library": "import llvmlite.binding as b\nb.load_library_permanently('$library')",
            "threads": "import numba, numpy as np, os\n@numba.njit(parallel=True)\ndef f(x):\n    for i in numba.prange(9):\n"
            "        x[i] = i\nnumba.config.NUMBA_NUM_THREADS = 4\nf(np.zeros(9))\nassert len(os.listdir('/proc/self/task')) > 1",
        },
    ),
}

LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
MACHINE_CODE = (
    LIBC
    + "import mmap\narea = mmap.mmap(-1, 4096, prot=7)\nstart = ctypes.addressof(ctypes.c_char.from_buffer(area))\n"
    "path = ctypes.create_string_buffer(b'$folder/mark')\nlow = start + 1024\narea[1024:1024 + len(path)] = bytes(path)\n"
)
NATIVE: Attacks = {
    **rewards(
        "alarm",
        {
            "mkdir": LIBC + f"libc.mkdir(b{MARK}, 0o700)",
            "callback": LIBC + f"import os\nctypes.CFUNCTYPE(None)(lambda: os.mkdir({MARK}))()",
            "python file": LIBC
            + "ctypes.pythonapi.PyRun_SimpleString(b\"open('$folder/mark', 'w')\")",
            "symbol by address": LIBC
            + f"ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_int)("
            f"ctypes.cast(libc.mkdir, ctypes.c_void_p).value)(b{MARK}, 0o700)",
        },
    ),
    **rewards(
        "claim",
        {
            "library": "import ctypes\nctypes.CDLL('$library')",
            "dlopen": LIBC
            + "libc.dlopen.restype = ctypes.c_void_p\nassert libc.dlopen(b'$library', 2)",
            "executable file pages": "import mmap\nfile = open('$secret', 'rb')\n"
            "mmap.mmap(file.fileno(), 0, prot=5, flags=mmap.MAP_PRIVATE)",
            "executable memory file": "import mmap, os\nfile = os.memfd_create('x')\nos.ftruncate(file, 4096)\n"
            "mmap.mmap(file, 4096, prot=5)",
            "find library": "from ctypes.util import find_library\nassert find_library('c')",
        },
    ),
}
if platform.machine() == "x86_64":  # machine code of its own makes the calls: no library in between
    MKDIR = (
        "code = b'\\x48\\xbf' + low.to_bytes(8, 'little')\n"
        "code += b'\\xbe\\xc0\\x01\\0\\0\\xb8\\x53\\0\\0\\0\\x0f\\x05\\xc3'\narea[:len(code)] = code\n"
    )
    CALL = "ctypes.CFUNCTYPE(ctypes.c_long)(start)()"
    NATIVE |= rewards(
        "alarm",
        {
            "own machine code": MACHINE_CODE + MKDIR + CALL,
            "made executable later": MACHINE_CODE.replace("prot=7", "prot=3")
            + MKDIR
            + "assert libc.mprotect(ctypes.c_void_p(start), 4096, 7) == 0\n"
            + CALL,
            "calls of 32 bits": LIBC
            + "libc.mmap.restype = ctypes.c_void_p\nstart = libc.mmap(None, 4096, 7, 0x62, -1, 0)\n"
            "ctypes.memmove(start + 1024, b'$folder/mark\\0', len(b'$folder/mark') + 1)\n"
            "code = b'\\x53\\xbb' + (start + 1024).to_bytes(4, 'little')\n"
            "code += b'\\xb9\\xc0\\x01\\0\\0\\xb8\\x27\\0\\0\\0\\xcd\\x80\\x5b\\xc3'\n"
            "ctypes.memmove(start, code, len(code))\n" + CALL,
        },
    )
