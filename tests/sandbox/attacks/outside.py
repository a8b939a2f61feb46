"""Reaching others: the network, new processes, signals, tracing, and what a process may change about itself."""

from __future__ import annotations

from attacks.form import rewards

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
TCP = "import socket\nsocket.setdefaulttimeout(0.2)\n"
HUSH = "try:\n    {}\nexcept (OSError, EOFError):\n    pass"

NETWORK = {
    **rewards(
        "alarm",
        {
            "tcp": "socket.socket().connect(('127.0.0.1', $port))",
            "create_connection": "socket.create_connection(('127.0.0.1', $port))",
            "by name": "socket.create_connection(('localhost', $port))",
            "udp": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', $udp))",
            "name query": "query = b'\\1\\2\\1\\0\\0\\1' + bytes(6) + b'\\6canary\\7invalid\\0\\0\\1\\0\\1'\n"
            "socket.socket(type=socket.SOCK_DGRAM).sendto(query, ('127.0.0.1', $udp))",
            "unix": "socket.socket(socket.AF_UNIX).connect('$unix')",
            "unix datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '$dgram')",
            "abstract": "socket.socket(socket.AF_UNIX).connect('\\0$abstract')",
            "urllib": "import urllib.request\n"
            + HUSH.format("urllib.request.urlopen('http://127.0.0.1:$port/')"),
            "http.client": "import http.client\n"
            + HUSH.format("http.client.HTTPConnection('127.0.0.1', $port).request('GET', '/')"),
            "xmlrpc": "import xmlrpc.client\n"
            + HUSH.format("xmlrpc.client.ServerProxy('http://127.0.0.1:$port').x()"),
            "ftp": "import ftplib\n" + HUSH.format("ftplib.FTP().connect('127.0.0.1', $port)"),
            "smtp": "import smtplib\n" + HUSH.format("smtplib.SMTP('127.0.0.1', $port)"),
            "asyncio": "import asyncio\nasyncio.run(asyncio.open_connection('127.0.0.1', $port))",
            "multiprocessing": "import multiprocessing.connection as c\nc.SocketClient(('127.0.0.1', $port))",
            "syslog handler": "import logging.handlers as h\nh.SysLogHandler(('127.0.0.1', $udp)).handle("
            "h.logging.makeLogRecord({'msg': 'x'}))",
            "hub download": "import torch.hub\n"
            + HUSH.format(
                "torch.hub.download_url_to_file('http://127.0.0.1:$port/x', '$folder/x')"
            ),
            "numpy data source": "import numpy as np\n"
            + HUSH.format("np.lib.npyio.DataSource('$folder').open('http://127.0.0.1:$port/x')"),
            "raw calls": LIBC + "import struct\nfile = libc.socket(2, 1, 0)\n"
            "libc.connect(file, struct.pack('=H', 2) + struct.pack('!H', $port) + bytes([127, 0, 0, 1]) + bytes(8), 16)",
            "socket by number": LIBC + "import struct\nfile = libc.syscall($socket, 2, 2, 0)\n"
            "to = struct.pack('=H', 2) + struct.pack('!H', $udp) + bytes([127, 0, 0, 1]) + bytes(8)\n"
            "libc.sendto(file, b'x', 1, 0, to, 16)",
        },
        head=TCP,
    ),
    **rewards(
        "claim",
        {
            "socket": "socket.socket()",
            "listen": "server = socket.socket()\nserver.bind(('127.0.0.1', 0))\nserver.listen()",
            "bind abstract": "socket.socket(socket.AF_UNIX).bind('\\0$abstract-x')",
            "pair": "socket.socketpair()",
            "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
            "resolve": "assert socket.getaddrinfo('localhost', $port)",
            "interfaces": "socket.if_nameindex()",
            "host name": "socket.gethostname()",
            "epoll": "import select\nselect.epoll()",
            "poll": "import select\nselect.select([], [], [], 0)",
        },
        head=TCP,
    ),
}

SHELL = "['/bin/sh', '-c', 'echo > $folder/mark']"
ECHO = "'echo > $folder/mark'"
PROCESSES = {
    **rewards(
        "alarm",
        {
            "os.system": f"import os\nos.system({ECHO})",
            "os.popen": f"import os\nos.popen({ECHO}).close()",
            "subprocess.run": f"import subprocess\nsubprocess.run({SHELL})",
            "subprocess shell": f"import subprocess\nsubprocess.call({ECHO}, shell=True)",
            "getoutput": f"import subprocess\nsubprocess.getoutput({ECHO})",
            "spawn": f"import os\nos.spawnv(os.P_WAIT, '/bin/sh', {SHELL})",
            "posix_spawn": f"import os\nos.waitpid(os.posix_spawn('/bin/sh', {SHELL}, {{}}), 0)",
            "exec": f"import os\nos.execv('/bin/sh', {SHELL})",
            "exec with environment": f"import os\nos.execve('/bin/sh', {SHELL}, {{}})",
            "pty": f"import pty\npty.spawn({SHELL}, master_read=lambda fd: b'')",
            "exec from memory": "import os\nfile = os.memfd_create('x', 0)\n"
            "os.write(file, b'#!/bin/sh\\necho > $folder/mark\\n')\nos.execve(file, ['x'], {})",
            "asyncio": "import asyncio\nasync def go():\n    await (await asyncio.create_subprocess_shell("
            f"{ECHO})).wait()\nasyncio.run(go())",
            "libc system": LIBC + f"libc.system(b{ECHO})",
            "libc popen": LIBC
            + f"libc.popen.restype = ctypes.c_void_p\nfile = libc.popen(b{ECHO}, b'r')\n"
            "assert file\nlibc.pclose(ctypes.c_void_p(file))",
            "execve by number": LIBC
            + "words = (ctypes.c_char_p * 4)(b'/bin/sh', b'-c', b'echo > $folder/mark', None)\n"
            "libc.syscall($execve, b'/bin/sh', words, None)",
            "torch tools": f"from torch.utils import collect_env\ncollect_env.run({ECHO})",
            "through a class walk": "[c for c in object.__subclasses__() if c.__name__ == 'Popen'][0]("
            f"{ECHO}, shell=True).wait()",
            "sys.modules": f"import sys\nsys.modules['os'].system({ECHO})",
            "posix": f"import posix\nposix.system({ECHO})",
        },
    ),
    **rewards(
        "claim",
        {
            "fork": "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)",
            "forkpty": "import os\npid, _ = os.forkpty()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)",
            "libc fork": LIBC
            + "pid = libc.fork()\nif pid == 0:\n    os._exit(0)\nassert pid > 0\nos.waitpid(pid, 0)",
            "clone by number": LIBC + "pid = libc.syscall($clone, 17, 0, 0, 0, 0)\n"
            "if pid == 0:\n    os._exit(0)\nassert pid > 0\nos.waitpid(pid, 0)",
            "clone3 by number": LIBC
            + "import struct\narguments = struct.pack('=8Q', 0, 0, 0, 0, 17, 0, 0, 0)\n"
            "pid = libc.syscall(435, arguments, 64)\nif pid == 0:\n    os._exit(0)\nassert pid > 0\nos.waitpid(pid, 0)",
            "multiprocessing": "import multiprocessing\nchild = multiprocessing.get_context('fork').Process(target=print)\n"
            "child.start()\nchild.join()",
            "fork and outlive": "import os\npid = os.fork()\nif pid == 0:\n    os.setsid()\n    os._exit(0)\nos.waitpid(pid, 0)",
            "fork and exec": "import _posixsubprocess, os, subprocess\nassert subprocess.Popen(['/bin/true']).wait() == 0",
            "thread": "import _thread\ndone = _thread.allocate_lock()\ndone.acquire()\n"
            "_thread.start_new_thread(done.release, ())\ndone.acquire()",
            "thread pool": "from concurrent.futures import ThreadPoolExecutor as P\nwith P(2) as p:\n    p.submit(int).result()",
        },
    ),
}

SIGNALS = {
    **rewards(
        "struck",
        {
            "kill server": "import os\nos.kill($server, 15)",
            "kill group": "import os\nos.kill(0, 15)",
            "killpg of server": "import os\nos.killpg(os.getpgid($server), 15)",
            "pidfd": "import os, signal\nsignal.pidfd_send_signal(os.pidfd_open($server), 15)",
            "libc kill": LIBC + "libc.kill($server, 15)",
            "tgkill by number": LIBC + "libc.syscall($tgkill, $server, $server, 15)",
            "queued signal": LIBC + "libc.sigqueue($server, 15, 0)",
            "signal of a pipe": "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, $server)\n"
            "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)\nos.write(w, b'x')",
        },
    ),
    **rewards(
        "alarm",
        {
            "kill another": "import os\nos.kill($victim, 9)",
            "stop another": "import os\nos.kill($victim, 19)",
        },
    ),
    **rewards(
        "claim",
        {
            "outlive the parent": LIBC + "assert libc.prctl(1, 0, 0, 0, 0) == 0",
            "leave the group": "import os\nos.setsid()",
            "own group": "import os\nos.setpgid(0, 0)",
            "slow another": "import os\nos.setpriority(os.PRIO_PROCESS, $victim, 19)",
            "move another": "import os\nos.sched_setaffinity($victim, os.sched_getaffinity($victim))",
            "limit another": "import resource\nresource.prlimit($victim, resource.RLIMIT_CORE, (0, 0))",
            "first to be killed": "open('/proc/$victim/oom_score_adj', 'w').write('1000')",
            "signal itself": "import os, signal\nsignal.signal(10, lambda *a: None)\nos.kill(os.getpid(), 10)",
        },
    ),
}

VECTORS = "here = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), {n})\nthere = (ctypes.c_size_t * 2)($address, {n})\n"
TRACING = {
    **rewards(
        "claim",
        {
            "be traced": LIBC + "assert libc.ptrace(0, 0, 0, 0) == 0",
            "attach": LIBC
            + "assert libc.ptrace(16, $victim, 0, 0) == 0\nos.waitpid($victim, 0x40000000)\n"
            "libc.ptrace(17, $victim, 0, 0)",
            "seize": LIBC + "assert libc.ptrace(0x4206, $victim, 0, 0) == 0",
            "write another's memory": LIBC
            + "buffer = ctypes.create_string_buffer(1)\n"
            + VECTORS.format(n=0)
            + "assert libc.process_vm_writev($victim, here, 1, there, 1, 0) == 0",
            "take another's file": LIBC
            + "file = libc.syscall(438, os.pidfd_open($victim), 0, 0)\nassert file >= 0",
            "open another's memory": "open('/proc/$victim/mem', 'r+b', 0)",
            "own memory file": "open('/proc/self/mem', 'r+b', 0)",
            "compare with another": LIBC
            + "assert libc.syscall($kcmp, os.getpid(), $victim, 1, 0, 0) >= 0",
            "dumpable": LIBC + "assert libc.prctl(4, 1, 0, 0, 0) == 0",
        },
    ),
    **rewards(
        "leak",
        {
            "process_vm_readv": LIBC
            + "buffer = ctypes.create_string_buffer(44)\n"
            + VECTORS.format(n=43)
            + "libc.process_vm_readv($victim, here, 1, there, 1, 0)\ndata = buffer.value",
            "memory file": "file = open('/proc/$victim/mem', 'rb', 0)\nfile.seek($address)\ndata = file.read(43)",
        },
    ),
}

SELF = rewards(
    "claim",
    {
        "umask": "import os\nos.umask(0o22)",
        "nice": "import os\nos.nice(1)",
        "limit": "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
        "read limits": "import resource\nresource.getrlimit(resource.RLIMIT_NOFILE)",
        "parent": "import os\nassert os.getppid() > 0",
        "kernel name": "import os\nos.uname()",
        "load": "import os\nos.getloadavg()",
        "memory of the machine": LIBC
        + "assert libc.sysinfo(ctypes.create_string_buffer(200)) == 0",
        "personality": LIBC + "assert libc.personality(0xffffffff) >= 0",
        "process name": LIBC + "assert libc.prctl(15, b'init', 0, 0, 0) == 0",
        "capabilities": LIBC
        + "assert libc.syscall($capget, (ctypes.c_uint * 2)(0x20080522), bytes(24)) == 0",
        "another lock": LIBC + "assert libc.syscall(444, None, 0, 1) > 0",
        "processor": "import os\nos.sched_setaffinity(0, os.sched_getaffinity(0))",
        "timer": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 100)",
        "terminal": "import fcntl\nfcntl.fcntl(0, fcntl.F_GETFL)",
        "user": "import os\nos.setuid(os.getuid())",
    },
)
