"""Taking what others need: memory, processor, descriptors, output. Each is bounded, so that the control harms nobody."""

from __future__ import annotations

from attacks.form import reward, rewards

LIBC = "import ctypes\nlibc = ctypes.CDLL(None)\n"
HALF = "335544320"
"""Bytes that an attack asks for: more than the sandbox allows, and no burden to a machine."""

MEMORY = {
    **rewards(
        "claim",
        {
            "bytearray": f"x = bytearray({HALF})",
            "text": f"x = 'x' * {HALF}",
            "many small": f"x = [bytes(1 << 16) for _ in range({HALF} >> 16)]",
            "list": f"x = [None] * ({HALF} // 8)",
            "number": f"x = 1 << (8 * {HALF})",
            "numpy": f"import numpy as np\nx = np.ones({HALF} // 8)",
            "numpy, not touched": f"import numpy as np\nx = np.empty({HALF}, np.uint8)",
            "torch": f"x = torch.ones({HALF} // 4)",
            "torch, doubling": f"x = torch.ones(1 << 20)\nwhile x.nbytes < {HALF}:\n    x = torch.cat([x, x])",
            "torch, outer": "x = torch.ones(9200)\nx = x[:, None] * x",
            "private map": f"import mmap\nx = mmap.mmap(-1, {HALF}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
            "shared map": f"import mmap\nx = mmap.mmap(-1, {HALF})",
            "shared map, touched": f"import mmap\nx = mmap.mmap(-1, {HALF})\n"
            f"for i in range(0, {HALF}, 4096):\n    x[i] = 1",
            "malloc": LIBC
            + f"libc.malloc.restype = ctypes.c_void_p\nassert libc.malloc(ctypes.c_size_t({HALF}))",
            "break": LIBC
            + f"libc.sbrk.restype = ctypes.c_ssize_t\nassert libc.sbrk(ctypes.c_ssize_t({HALF})) != -1",
            "huge pages": LIBC
            + f"import mmap\nx = mmap.mmap(-1, {HALF})\nx.madvise(mmap.MADV_HUGEPAGE)",
            "locked pages": LIBC + "import mmap\nx = mmap.mmap(-1, 4096)\n"
            "assert libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(x))), 4096) == 0",
        },
    ),
    **rewards(
        "harm",
        {
            "deep text": "import sys\nsys.setrecursionlimit(10 ** 9)\nx = []\nfor _ in range(10 ** 6):\n    x = [x]\nrepr(x)",
            "endless recursion in C": "import sys\nsys.setrecursionlimit(10 ** 9)\nclass A:\n    pass\n"
            "A.__call__ = A()\nA()()",
        },
    ),
}

EXHAUSTION = {
    **rewards(
        "claim",
        {
            "processes": "import os\nfor _ in range(12):\n    pid = os.fork()\n    if pid == 0:\n        os._exit(0)\n"
            "    os.waitpid(pid, 0)",
            "one process after failures": """
                import os
                pid = -1
                for _ in range(30):
                    try:
                        pid = os.fork()
                        break
                    except OSError:
                        pass
                if pid == 0:
                    os._exit(0)
                assert pid > 0
                os.waitpid(pid, 0)
                """,
            "threads": """
                import threading
                gate = threading.Event()
                threads = [threading.Thread(target=gate.wait) for _ in range(20)]
                for thread in threads:
                    thread.start()
                gate.set()
                """,
            "copies of a descriptor": "import os\nfiles = [os.dup(0) for _ in range(50)]",
            "pipes": "import os\nfiles = [os.pipe() for _ in range(50)]",
            "files": "files = [open('$secret') for _ in range(50)]",
            "memory files": "import os\nfiles = [os.memfd_create('x') for _ in range(50)]",
            "event files": "import os\nfiles = [os.eventfd(0) for _ in range(50)]",
            "sockets": "import socket\nfiles = [socket.socketpair() for _ in range(50)]",
            "pseudo terminals": "import os\nfiles = os.openpty()",
            "semaphores": LIBC
            + "x = libc.semget(0, 1, 0o600)\nassert x >= 0\nlibc.semctl(x, 0, 0)",
            "queues": LIBC + "x = libc.msgget(0, 0o600)\nassert x >= 0\nlibc.msgctl(x, 0, None)",
        },
    ),
    **rewards(
        "alarm",
        {
            "names in a folder": "import os\nfor i in range(200):\n    os.symlink('x', f'$folder/{i}')",
            "a large file": "import os\nos.truncate('$secret', 1 << 30)",
        },
    ),
}

CPU = rewards(
    "endless",
    {
        "loop": "while True:\n    pass",
        "loop in C": "from collections import deque\nfrom itertools import repeat\ndeque(repeat(1), maxlen=0)",
        "sum": "sum(range(10 ** 14))",
        "deaf": """
            import signal
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            while True:
                pass
            """,
        "masked": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    pass",
        "catches all": "while True:\n    try:\n        [][1]\n    except BaseException:\n        continue",
        "power": "x = 3 ** 10 ** 9",
        "pattern": "import re\nre.match('(a+)+b', 'a' * 60)",
        "sleep": "import time\ntime.sleep(3600)",
        "dead lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "never empty": "any(False for _ in iter(int, 1))",
        "torch": "x = torch.eye(300)\nwhile True:\n    x = x @ x",
        "nested": "x = ()\nfor _ in range(60):\n    x = (x, x)\nhash(x)",
        "comparison of nested": "x, y = (), ()\nfor _ in range(60):\n    x, y = (x, x), (y, y)\nx == y",
        "in a comparison": "class A:\n    def __lt__(self, other):\n        while True:\n            pass\nsorted([A(), A()])",
        "in the result": "class A(torch.Tensor):\n    def detach(self):\n        while True:\n            pass\n"
        "return step.news.as_subclass(A)",
        "in the error": "class A(Exception):\n    def __str__(self):\n        while True:\n            pass\nraise A",
        "when the result is dropped": "class A:\n    def __del__(self):\n        while True:\n            pass\nA()",
    },
)

OUTPUT = {
    **rewards(
        "endless",
        {
            "print": "while True:\n    print('x' * 65536)",
            "standard error": "import sys\nwhile True:\n    sys.stderr.write('x' * 65536)",
            "descriptor": "import os\nwhile True:\n    os.write(1, bytes(65536))",
            "warnings": "import warnings\nwarnings.simplefilter('always')\nwhile True:\n    warnings.warn('x' * 65536)",
            "log": "import logging\nwhile True:\n    logging.error('x' * 65536)",
        },
    ),
    "large result": (reward("return torch.zeros(1 << 19)"), "oversize"),
    "large view": (reward("return torch.zeros(1).expand(1 << 19)"), "oversize"),
    "large double": (reward("return torch.zeros(1 << 20, dtype=torch.float64)"), "oversize"),
}
