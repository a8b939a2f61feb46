"""More ways around the reader of source, in the form of `walkaround_sources.WALKAROUNDS`.

Those of MEMORY passed it once: they make objects of raw numbers, or read and write beside an array.
"""

from __future__ import annotations

from walkaround_sources import _network, _reward, _top

MEMORY = {
    "object out of numbers": "import numpy\nnumpy.ndarray(1, 'O', numpy.zeros(1, 'i8'))[0]",
    "array before its buffer": "import numpy\nnumpy.ndarray((1,), 'i8', numpy.zeros(1, 'i8'), -8)",
    "array class by import": "from numpy import ndarray\nndarray(1, 'O', b'12345678')",
    "array class as a value": "import numpy\nmake = [numpy.ndarray][0]\nmake(1, 'O', b'12345678')",
    "records out of numbers": "import numpy\nnumpy.recarray((1,), [('x', 'O')], buf=b'12345678')",
    "letters before their buffer": "import numpy\nnumpy.chararray((1,), buffer=b'abc', offset=-1)",
    "array shortened under a view": "import numpy\nnumpy.ones(9).resize(1, refcheck=False)",
    "sparse indices beyond": "torch.sparse_coo_tensor([[10 ** 9]], [1.0], (2,)).to_dense()",
    "sparse rows beyond": "torch.sparse_csr_tensor([0, 10 ** 8], [0], [1.0], (1, 2))",
    "sparse in any layout": "torch.sparse_compressed_tensor([0, 9], [0], [1.0], (1, 2))",
    "sparse by import": "from torch import sparse_coo_tensor as make\nmake([[10 ** 9]], [1.0], (2,))",
    "sparse resized": "step.news.sparse_resize_((9,), 1, 0)",
    "segments beyond": "torch.segment_reduce(step.news, 'sum', lengths=step.news, unsafe=True)",
    "labels beyond": "torch.ctc_loss(step.news, step.news, step.news, step.news)",
    "labels beyond by function": "F.ctc_loss(step.news, step.news, step.news, step.news)",
    "labels beyond by layer": "nn.CTCLoss()(step.news, step.news, step.news, step.news)",
    "packed weights": "torch.fbgemm_linear_fp16_weight(step.news, step.news, step.news)",
    "quantised with wrong zeros": "torch.quantize_per_channel(step.news, step.news, step.news, 0)",
    "split without a check": "torch.unsafe_split(step.news, 1)[0].resize_(9)",
}
LIBRARIES = {
    "attributes of a wrapper": "torch.vmap(lambda x: x).__wrapped__",
    "what a cache wraps": "from functools import cache\n@cache\ndef f():\n    return 1\nf.__wrapped__",
    "state of a partial": "from functools import partial\npartial(print).__setstate__(1)",
    "comparison replaced": "from functools import cmp_to_key\nk = cmp_to_key(print)\nk.mycmp = 1",
    "private maker of tuples": "from collections import namedtuple\nnamedtuple('A', 'x')._make([1])",
    "array as a base": "import numpy\nclass A(numpy.ndarray):\n    pass",
    "file by numpy": "import numpy\nnumpy.memmap('x')",
    "error callback": "import numpy\nnumpy.seterrcall(print)",
    "numpy's own random numbers": "from numpy import random",
    "operators by name": "torch.ops.load_library('x')",
    "scripts": "torch.jit.script(print)",
    "state of torch": "torch.set_default_dtype(torch.float64)",
    "threads": "torch.set_num_threads(100)",
    "system by a library's import": "import statistics\nstatistics.sys",
    "loader of a module": "math.__loader__",
    "function of a method": "classmethod(print).__func__",
    "frame of an error": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    e.tb_frame",
    "an end that is called": "class A:\n    def __del__(self):\n        pass",
    "keys that are equal": "class A:\n    def __eq__(self, other):\n        return other",
    "subclass that is called": "class A:\n    def __init_subclass__(cls):\n        pass",
    "name over two lines": "step.\\\n        __class__",
    "letters that look alike": "step.__cl\u1d43ss__",
}
NETWORKS = {
    "getattr of the base": "def f(self):\n    return super().__getattr__('x')",
    "setattr of the base": "def f(self):\n    super().__setattr__('forward', print)",
    "table of modules": "def f(self):\n    self._modules['fc'] = nn.Tanh()",
    "class of self": "def f(self):\n    self.__class__.forward = print",
    "hook on self": "def f(self):\n    self.register_forward_pre_hook(print)",
}
TOPS = {
    "top: lambda called": "X = (lambda: print(1))()",
    "top: map": "X = list(map(print, [1]))",
    "top: condition": "if print(1):\n    X = 1",
    "top: everything": "from torch import *",
    "top: context": "with torch.no_grad():\n    X = 1",
}

MORE_WALKAROUNDS: dict[str, tuple[str, str]] = {}
for title, body in (MEMORY | LIBRARIES).items():
    MORE_WALKAROUNDS[title] = _reward(body)
for title, body in NETWORKS.items():
    MORE_WALKAROUNDS[title] = _network(body)
for title, body in TOPS.items():
    MORE_WALKAROUNDS[title] = _top(body)
