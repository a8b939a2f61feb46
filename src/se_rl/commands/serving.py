"""`se-rl serve`: a run's page in the browser, live while the run goes on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from se_rl.commands.ctrl_c import CtrlC
from se_rl.commands.parsing import require_run, verb

PORT = 8777


def add_serve(verbs: Any) -> None:
    """The verb `serve`."""
    parser = verb(
        verbs,
        "serve",
        "a run's page in the browser of this machine, live while the run goes on",
        "se-rl serve out/demo",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"where to listen (default: {PORT}; 0 takes any)"
    )
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> None:
    from se_rl.records.files import to_json
    from se_rl.report.live_server import PageServer

    require_run(options.folder)
    # a shell that starts it in the background has the signal ignored
    with CtrlC(), PageServer(options.folder, port=options.port) as server:
        told = f"page: {server.url} (for this machine only; Ctrl-C ends it)"
        print(to_json({"url": server.url}) if options.json else told, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
