"""Sources that walk around a reader of source: each was let through once, or is a near relative.

`WALKAROUNDS[name]` is (module name, source). Most would reach full Python or the framework's own
layers, were they loaded and run.
"""

import textwrap

TAIL = "\ndef reward(step):\n    return step.news\n"
LAYERS = (
    "        super().__init__()\n        self.feature_dim = 8\n"
    "        self.fc = nn.Linear(obs_dim * history, 8)\n"
)


def _reward(body: str) -> tuple[str, str]:
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return "reward", f"def reward(step):\n{text}\n    return step.news\n"


def _top(head: str) -> tuple[str, str]:
    return "reward", textwrap.dedent(head).strip() + "\n" + TAIL


def _network(members: str = "", init: str = "", head: str = "") -> tuple[str, str]:
    members = textwrap.indent(textwrap.dedent(members).strip("\n"), "    ")
    init = textwrap.indent(textwrap.dedent(init).strip("\n"), "        ")
    return "network", (
        f"{head}class Network(nn.Module):\n    def __init__(self, obs_dim, history):\n"
        f"{LAYERS}{init}\n\n    def forward(self, obs):\n        return self.fc(obs.flatten(1))\n"
        f"\n{members}\n"
    )


STORES = {
    "store on a step": "step.x = 1",
    "store through an alias of a class": "layer = nn.Linear\nlayer.bias = None",
    "store on a class out of a list": "[nn.Linear][0].bias = None",
    "store on a class by a loop": "for layer in (nn.Linear,):\n    layer.bias = None",
    "store by a loop target": "layer = nn.Linear\nfor layer.bias in [1]:\n    pass",
    "store by a with target": "n = nn.Linear\nwith torch.no_grad() as n.bias:\n    pass",
    "store by a comprehension target": "n = nn.Linear\n[0 for n.bias in [1]]",
    "store by unpacking": "n = nn.Linear\nn.bias, y = 1, 2",
    "store by a starred target": "n = nn.Linear\n*n.bias, y = 1, 2",
    "store by augmenting": "n = nn.Linear\nn.bias += 1",
    "store with an annotation": "n = nn.Linear\nn.bias: int = 1",
    "store on a function": "torch.tanh.calls = 1",
    "store on an own function": "def f():\n    pass\nf.calls = 1",
    "store on an argument": "def f(m):\n    m.bias = None\nf(nn.Linear)",
    "store on the result of a call": "(lambda: nn.Linear)().bias = 1",
    "store by a default": "def f(m=nn.Linear):\n    m.bias = 1\nf()",
    "store on a name bound twice": "n = nn.Linear(1, 1)\nn = nn.Linear\nn.bias = 1",
    "store on a walrus": "n = nn.Linear(1, 1)\n(n := nn.Linear)\nn.bias = 1",
    "delete an attribute": "n = nn.Linear\ndel n.bias",
    "flags of the tensor class": "torch.Tensor.requires_grad = False",
    "self in a comprehension": "[0 for self in [nn.Linear] for self.bias in [1]]",
    "self in a loop": "for self in [nn.Linear]:\n    self.bias = 1",
    "self by walrus": "(self := nn.Linear)",
    "self in an except": "try:\n    1 / 0\nexcept ValueError as self:\n    self.args = 1",
    "self in a pattern": "match nn.Linear:\n    case self:\n        self.bias = 1",
    "self by import": "from torch.nn import Linear as self\nself.bias = 1",
    "self in a nested function": "def f(self):\n    self.bias = 1\nf(nn.Linear)",
    "cls in a loop": "for cls in [nn.Linear]:\n    cls.bias = 1",
}

DUNDERS = {
    "set __name__": "def f():\n    pass\nf.__name__ = '__class__'",
    "set __qualname__": "def f():\n    pass\nf.__qualname__ = 'x'",
    "set __class__": "class A:\n    pass\na = A()\na.__class__ = nn.Linear",
    "set __init__": "class A:\n    pass\na = A()\na.__init__ = None",
    "set __call__ of a fresh object": "class A:\n    pass\na = A()\na.__call__ = None",
    "bind __name__": "__name__ = 'torch'",
    "bind __name__ as an argument": "def f(__name__):\n    return __name__",
    "bind __init__ in a loop": "for __init__ in [1]:\n    pass",
    "bind __call__ by walrus": "(__call__ := print)",
    "bind __name__ in an except": "try:\n    1 / 0\nexcept ValueError as __name__:\n    pass",
    "bind __name__ in a pattern": "match 1:\n    case __name__:\n        pass",
    "a function called __init__": "def __init__(x):\n    return x",
    "init of a foreign object": "x = nn.Linear(1, 1)\nx.__init__(2, 2)",
    "init of a class with another object": "nn.Linear.__init__(step, 1, 1)",
    "init as a value": "f = nn.Module.__init__",
    "init through map": "list(map(nn.Module.__init__, [step]))",
    "call of a foreign object": "torch.nn.Linear.__call__",
    "repr as a value": "f = step.news.__repr__",
    "getattr method": "class A:\n    def __getattribute__(self, n):\n        return n",
    "get method": "class A:\n    def __get__(self, a, b):\n        return a",
    "format method": "class A:\n    def __format__(self, spec):\n        return spec",
    "torch function": "class A:\n    def __torch_function__(self, f, t, a, k):\n        return f",
    "dict of tensors": "torch.Tensor.__dict__",
    "dunder keyword of a pattern": "match step:\n    case A(__class__=c):\n        pass",
    "class assigns its own init": "class A:\n    __init__ = print",
    "class cell": "class A:\n    def f(self):\n        return __class__",
}

TYPES = {
    "type bound to a name": "t = type(int)\nt('X', (), {'__getattr__': None})",
    "type of an object bound": "t = type(step)\nt.news = 1",
    "type called at once": "type(int)('X', (), {})",
    "type with a star": "type(*['X', (), {}])",
    "type with keywords": "type(1, **{})",
    "type as an argument": "list(map(type, [1]))",
    "type in a default": "def f(t=type):\n    return t('X', (), {})",
    "type in a list": "[type][0]('X', (), {})",
    "type passed on": "def f(t):\n    return t('X', (), {})\nf(type(int))",
    "type returned": "def f():\n    return type(int)\nf()('X', (), {})",
    "type through a conditional": "(type(int) if 1 else 0)('X', (), {})",
    "type bound elsewhere": "def g(type):\n    return type\nt = type\nt('X', (), {})",
    "type hidden in a nested class": "def g(type=1):\n    class A:\n        t = type\n"
    "        type = 2\n    return A.t('X', (), {})",
    "module hidden in a nested class": "def g(F=1):\n    class A:\n        t = F.importlib\n"
    "        F = 2\n    return A.t",
    "type deleted in a class": "class A:\n    type = 1\n    del type\n    t = type",
    "type by partial": "from functools import partial\npartial(type, 'X')((), {})",
    "method of a type": "type(step).anything",
    "type by walrus": "(t := type(int))",
    "super as a value": "s = super\ns(int, 1)",
    "super of others": "super(nn.Linear, step).forward",
    "super with a star": "class A:\n    def f(self):\n        return super(*[A, 1])",
    "typing takes apart": "from typing import TypeVar\nTypeVar('T')",
    "typed dictionary": "from typing import TypedDict\nTypedDict('A', {'__class__': int})",
    "new type": "import typing\ntyping.NewType('A', int)",
}

TEXTS = {
    "field in a specification": "'{0:{1.__class__}}'.format(1, step)",
    "nested plain field": "'{:{}}'.format(1, 2)",
    "item in a field": "'{0[a]}'.format(step)",
    "dunder in an f-string specification": "f'{1:{step.__class__}}'",
    "format builtin": "format(step, 'x')",
    "format through map": "list(map(str.format, ['{0.__class__}'], [step]))",
    "format of a joined text": "('{0.__cl' + 'ass__}').format(step)",
    "format of an f-string": "f'{step}'.format(step)",
    "format as a value": "f = 'a'.join(['{0.__class__}']).format",
    "format of user strings": "import collections\ncollections.UserString('{0.__class__}')",
}

LIBRARIES = {
    "fields": "import dataclasses\ndataclasses.fields(step)",
    "asdict": "from dataclasses import asdict\nasdict(step)",
    "astuple": "from dataclasses import astuple\nastuple(step)",
    "replace": "from dataclasses import replace\nreplace(step)",
    "make_dataclass again": "import dataclasses\ndataclasses.make_dataclass('A', ['x'])",
    "rename a field": "from dataclasses import field\nf = field(default=1)\nf.name = '__class__'",
    "cached property renamed": "from functools import cached_property\n"
    "p = cached_property(print)\np.attrname = 'forward'",
    "partial method": "from functools import partialmethod\npartialmethod(print)",
    "total ordering": "from functools import total_ordering\ntotal_ordering(object)",
    "parameter dictionary reads": "nn.ParameterDict()['__class__']",
    "parameter dictionary writes": "p = nn.ParameterDict()\np['__class__'] = nn.Linear",
    "parameter dictionary by import": "from torch.nn import ParameterDict\nParameterDict()",
    "getter of a property": "nn.LSTM.all_weights.fget(step)",
    "getter of an own property": "class A:\n    @property\n    def x(self):\n        return 1\n"
    "A.x.fget(step)",
    "unbound forward": "nn.Linear.forward(step, step.news)",
    "unbound forward by import": "from torch.nn import Linear\nLinear.forward(step, 1)",
    "unbound register": "nn.Module.register_buffer(step, 'x', None)",
    "object of an error": "try:\n    step.y\nexcept AttributeError as e:\n    e.obj",
    "register an abstract class": "from collections.abc import Sequence\n"
    "Sequence.register(nn.Linear)",
    "graph of a tensor": "step.news.grad_fn",
    "backward pre-hook": "nn.Linear(1, 1).register_full_backward_pre_hook(print)",
    "state hook": "nn.Linear(1, 1).register_state_dict_post_hook(print)",
    "load hook": "nn.Linear(1, 1).register_load_state_dict_post_hook(print)",
    "gradient hook": "step.news.register_post_accumulate_grad_hook(print)",
    "submodule set by text": "nn.Linear(1, 1).set_submodule('forward', nn.Tanh())",
    "copy": "import copy\ncopy.deepcopy(step)",
    "operator": "from operator import attrgetter\nattrgetter('__class__')(step)",
    "weak references": "import weakref",
    "type table of numpy": "import numpy\nnumpy.sctypeDict['x'] = 1",
}

CLASSES = {
    "tensor as a base": "class A(torch.Tensor):\n    pass",
    "parameter as a base": "class A(nn.Parameter):\n    pass",
    "recurrent layer as a base": "class A(nn.LSTM):\n    pass",
    "parameter dictionary as a base": "class A(nn.ParameterDict):\n    pass",
    "text as a base": "class A(str):\n    pass",
    "call as a base": "def f():\n    return nn.Linear\nclass A(f()):\n    pass",
    "item as a base": "class A([nn.Linear][0]):\n    pass",
    "type as a base": "class A(type):\n    pass",
    "starred bases": "class A(*[nn.Linear]):\n    pass",
    "unbound own method": "class A:\n    def f(self):\n        self.bias = 1\nA.f(nn.Linear)",
    "unbound own method as a value": "class A:\n    def f(self):\n        self.b = 1\nmap(A.f, [1])",
    "unbound own method by cls": "class A:\n    def f(self):\n        self.b = 1\n"
    "    @classmethod\n    def g(cls):\n        cls.f(nn.Linear)",
    "static method with self": "class A:\n    @staticmethod\n    def f(self):\n        self.b = 1",
    "class method with self": "class A:\n    @classmethod\n    def f(self):\n        self.b = 1",
    "class changed by cls": "class A:\n    @classmethod\n    def f(cls):\n        cls.b = 1",
    "class changed by name": "class A:\n    pass\nA.b = 1",
    "import in a class": "class A:\n    from torch import relu as x",
}

OVERRIDES = """
    parameters named_parameters state_dict load_state_dict train eval to apply children modules
    named_modules zero_grad requires_grad_ buffers cuda float double half type share_memory
"""


WALKAROUNDS: dict[str, tuple[str, str]] = {}
for part in (STORES, DUNDERS, TYPES, TEXTS, LIBRARIES, CLASSES):
    for title, body in part.items():
        assert title not in WALKAROUNDS
        WALKAROUNDS[title] = _reward(body)
for title in OVERRIDES.split():
    WALKAROUNDS[f"override {title}"] = _network(f"def {title}(self, *a):\n    return iter(())")
WALKAROUNDS |= {
    "override by assignment": _network("parameters = lambda this: iter(())"),
    "override by a constant": _network("training = False"),
    "override by a loop": _network("for parameters in [print]:\n    pass"),
    "override on self": _network(init="self.parameters = lambda: iter(())"),
    "override by property": _network("@property\ndef training(self):\n    return False"),
    "override in a base": _network(
        head="class Base:\n    def parameters(self):\n        return iter(())\n\n\n"
    ),
    "override call": _network("def __call__(self, obs):\n    return obs"),
    "override call in a mixin": (
        "network",
        _network(head="class Base:\n    def __call__(self, x):\n        return x\n\n\n")[1].replace(
            "Network(nn.Module)", "Network(Base, nn.Module)"
        ),
    ),
    "forward set on a layer": _network(init="self.fc.forward = lambda x: x"),
    "forward set on self": _network(init="self.forward = lambda x: x"),
    "weights of a class kept in self": _network(init="self.kind = nn.Linear\nself.kind.bias = 1"),
    "weights of a class in a class": _network(
        "kind = nn.Linear", init="self.kind = nn.Linear(1, 1)\nself.kind.bias = None"
    ),
    "weights of a class set twice": _network(
        "def swap(self):\n    self.fc = nn.Linear", init="self.fc.bias = None"
    ),
    "private weights table": _network(init="self._parameters = {}"),
    "override in communication": (
        "communication",
        "class Communication(nn.Module):\n    def __init__(self, agents, size):\n"
        "        super().__init__()\n\n    def forward(self, messages):\n        return messages\n"
        "\n    def parameters(self):\n        return iter(())\n",
    ),
    "top: alias of type": _top("T = type"),
    "top: call of a function": _top("def f():\n    return 1\n\nX = f()"),
    "top: print": _top("X = print('loaded')"),
    "top: random numbers": _top("X = torch.rand(3)"),
    "top: attribute store": _top("nn.Linear.bias = None"),
    "top: three-argument type": _top("X = type('X', (), {})"),
    "top: dunder": _top("__name__ = 'torch'"),
    "top: class in a lambda": _top("X = [lambda x: x.__class__]"),
}
