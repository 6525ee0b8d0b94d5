"""Runs cases that arrive as lines on standard input and answers each with a line of JSON."""

import faulthandler
import json
import sys
import threading
import traceback

import access  # noqa: F401  (each module registers its cases)
import custom  # noqa: F401
import objects  # noqa: F401
import watches  # noqa: F401
from cluster import CASES


def main(binary):
    # The server of an ended case's candidate is gone.
    threading.excepthook = lambda _: None
    for line in sys.stdin:
        name = line.strip()
        # A hanging case prints its traceback and ends the worker.
        faulthandler.dump_traceback_later(300, exit=True)
        try:
            if name == "names":
                outcome = {"names": sorted(CASES)}
            else:
                CASES[name](binary)
                outcome = {}
        except Exception:
            outcome = {"error": traceback.format_exc()}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(outcome), flush=True)


main(sys.argv[1])
