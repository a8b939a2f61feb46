"""What is shared: memory between processes, the read-only master of the data, and the answer that the parent reads."""

from __future__ import annotations

from attacks.form import Attacks, reward, rewards

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"

IPC = {
    **rewards(
        "claim",
        {
            "shared memory": "from multiprocessing import resource_tracker, shared_memory\n"
            "resource_tracker.register = lambda *a: None\nresource_tracker.unregister = lambda *a: None\n"
            "x = shared_memory.SharedMemory(create=True, size=4096)\nx.unlink()",
            "posix shared memory": "import _posixshmem, os\n"
            "_posixshmem.shm_open('/$abstract', os.O_CREAT | os.O_RDWR, mode=0o600)\n"
            "_posixshmem.shm_unlink('/$abstract')",
            "segment": LIBC
            + "x = libc.shmget(0, 4096, 0o600)\nassert x >= 0\nlibc.shmctl(x, 0, None)",
            "semaphore": "import multiprocessing\nmultiprocessing.get_context('fork').Lock()",
            "memory file": "import os\nos.memfd_create('x')",
            "event": "import os\nos.eventfd(0)",
            "pipe": "import os\nos.pipe()",
            "lock of a file": "import fcntl\nfcntl.flock(open('$secret'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
            "torch shared memory": "torch.zeros(4).share_memory_()",
            "torch shared file": "torch.zeros(4).untyped_storage()._share_filename_cpu_()",
            "file secret": LIBC
            + "assert libc.syscall(319 if os.uname().machine == 'x86_64' else 279, b'x', 0) >= 0",
        },
    ),
}

BARS = """
from se_rl.sandbox.worker import shared_data
import ctypes, numpy as np
bars = shared_data()['train']['bars']
address = bars.__array_interface__['data'][0]
page = ctypes.c_void_p(address & ~4095)
libc = ctypes.CDLL(None, use_errno=True)
"""
MASTER = rewards(
    "harm",
    {
        "assign": "bars[:] = 0",
        "in place": "bars *= 0",
        "flag": "bars.flags.writeable = True\nbars[:] = 0",
        "setflags": "bars.setflags(write=True)\nbars[:] = 0",
        "base": "base = bars\nwhile isinstance(base, np.ndarray) and base.base is not None:\n    base = base.base\n"
        "memoryview(base).cast('B')[-8:] = bytes(8)",
        "memmove": "ctypes.memmove(address, bytes(8), 8)",
        "memset": "ctypes.memset(address, 0, 8)",
        "from address": "(ctypes.c_char * 8).from_address(address)[0] = b'x'",
        "as array": "ctypes_array = (ctypes.c_double * 1).from_address(address)\nnp.ctypeslib.as_array(ctypes_array)[0] = -1",
        "made writable": "libc.mprotect(page, 4096, 3)\nctypes.memset(address, 0, 8)",
        "interface": "class A:\n    __array_interface__ = {**bars.__array_interface__, 'data': (address, False)}\n"
        "np.asarray(A())[:] = 0",
        "torch": "import warnings\nwarnings.simplefilter('ignore')\ntorch.from_numpy(bars).zero_()",
        "torch out": "import warnings\nwarnings.simplefilter('ignore')\ntorch.zeros(bars.size, out=torch.from_numpy(bars))",
        "memory file": "file = open('/proc/self/mem', 'r+b', 0)\nfile.seek(address)\nfile.write(bytes(8))",
        "hole": "assert libc.madvise(page, 4096, 9) == 0",
        "alias": "libc.mremap.restype = ctypes.c_void_p\nalias = libc.mremap(page, 0, 4096, 1)\n"
        "assert alias != ctypes.c_void_p(-1).value\nctypes.memset(alias + (address & 4095), 0, 8)",
        "unmapped": "libc.munmap(page, 4096)",
        "mapped over": "libc.mmap(page, 4096, 3, 0x32, -1, 0)\nctypes.memset(address, 0, 8)",
        "other entry": "shared_data()['train'] = {'bars': bars * 0}",
        "other entry, in place": "shared_data().clear()",
        "kernel writes it": "import os\nlibc.syscall($getrandom, ctypes.c_void_p(address), 8, 0)",
    },
    head=BARS,
)

AREA = """
import os, pickle, struct, sys, zlib
frame = sys._getframe()
while 'answer' not in frame.f_locals:
    frame = frame.f_back
answer = frame.f_locals['answer']
def framed(header, body=b'', magic=b'SERM', version=1, zero=0, more=0, crc=0):
    tail = struct.pack('<IQ', len(header), 24 + len(header) + len(body) + more) + header + body
    return struct.pack('<4sHHI', magic, version, zero, zlib.crc32(tail) ^ crc) + tail
def arrays(text, body=b''):
    header = b'[{},[' + text + b']]'
    return framed(header, bytes(-(24 + len(header)) % 64) + body)
"""
FRAMES = {
    "no message": "b'7777 is the score'",
    "JSON line": "b'{\"score\": 7777}\\n'",
    "other magic": "framed(b'[{},[]]', magic=b'SERN')",
    "other version": "framed(b'[{},[]]', version=2)",
    "reserved field": "framed(b'[{},[]]', zero=1)",
    "wrong checksum": "framed(b'[{},[]]', crc=1)",
    "longer than it is": "framed(b'[{},[]]', more=1 << 40)",
    "longer than allowed": "framed(b'[{},[]]', more=1 << 20)",
    "shorter than its header": "framed(b'[{},[]]', more=-6)",
    "trailing bytes": "framed(b'[{},[]]', b'x')",
    "second message inside": "framed(b'[{},[]]', framed(b'[{},[]]'))",
    "header is no JSON": "framed(b'import os')",
    "header is no list": "framed(b'{}')",
    "header has three parts": "framed(b'[{},[],[]]')",
    "header in UTF-16": "framed('[{},[]]'.encode('utf-16'))",
    "header with spaces": "framed(b'[{}, []]')",
    "name twice": 'framed(b\'[{"a":1,"a":2},[]]\')',
    "deep nesting": "framed(b'[{\"a\":' + b'[' * 50000 + b']' * 50000 + b'},[]]')",
    "long number": "framed(b'[{\"a\":' + b'9' * 9000 + b'},[]]')",
    "endless number": "framed(b'[{\"a\":1e999},[]]')",
    "half a character": 'framed(b\'[{"a":"\\\\ud800"},[]]\')',
    "long name": "framed(b'[{\"' + b'a' * 300 + b'\":1},[]]')",
    "objects": 'arrays(b\'["a","|O",[1]]\', bytes(8))',
    "records": 'arrays(b\'["a","|V8",[1]]\', bytes(8))',
    "text array": 'arrays(b\'["a","<U2",[1]]\', bytes(8))',
    "unknown dtype": 'arrays(b\'["a","os.system",[1]]\', bytes(8))',
    "negative side": 'arrays(b\'["a","<f8",[-1]]\', bytes(8))',
    "side is true": 'arrays(b\'["a","<f8",[true]]\', bytes(8))',
    "side is 1.0": 'arrays(b\'["a","<f8",[1.0]]\', bytes(8))',
    "huge side": 'arrays(b\'["a","<f8",[1099511627777]]\', bytes(8))',
    "sides that overflow": 'arrays(b\'["a","<f8",[1099511627775,1099511627775,0]]\')',
    "many sides": 'arrays(b\'["a","<f8",[1,1,1,1,1,1,1,1,1]]\', bytes(8))',
    "array cut short": 'arrays(b\'["a","<f8",[9]]\', bytes(8))',
    "array twice": 'arrays(b\'["a","|u1",[0]],["a","|u1",[0]]\')',
    "array named like a value": 'framed(b\'[{"a":1},[["a","|u1",[0]]]]\', bytes(13))',
    "bool of 2": "arrays(b'[\"a\",\"|b1\",[1]]', b'\\2')",
    "bytes with two sides": "arrays(b'[\"a\",\"bytes\",[1,1]]', b'x')",
    "declared as a text": "arrays(b'\"a\"')",
}
FORGING: Attacks = {
    **rewards(
        "forged",
        {
            name: f"forged = {text}\nanswer[:len(forged)] = forged\nos._exit(0)"
            for name, text in FRAMES.items()
        },
        head=AREA,
    ),
    **rewards(
        "alarm",
        {
            "pickle": "class A:\n    def __reduce__(self):\n        return os.mkdir, ('$folder/mark',)\n"
            "forged = pickle.dumps(A())\nanswer[:len(forged)] = forged\nos._exit(0)",
            "pickle in a message": "class A:\n    def __reduce__(self):\n        return os.mkdir, ('$folder/mark',)\n"
            'body = pickle.dumps(A())\nforged = body + arrays(b\'["value","|O",[1]]\', body)\n'
            "answer[:len(forged)] = forged\nos._exit(0)",
            "news of the server": "for file in range(3, 300):\n    try:\n"
            '        os.write(file, b\'{"exit":0,"cause":"","seconds":0}\')\n    except OSError:\n        pass\nos._exit(0)',
        },
        head=AREA,
    ),
    "news of another lock": (
        reward(
            "import json, os\nfor file in range(3, 300):\n    try:\n"
            "        os.write(file, json.dumps({'level': 'strong', 'layers': [], 'why': '', 'at': 0}).encode())\n"
            "    except OSError:\n        pass"
        ),
        "alarm",
    ),
}
