"""Runs cases that arrive as lines on standard input and answers each with a line of JSON."""

import faulthandler
import json
import sys
import traceback

import boto3

import anything  # noqa: F401  (each module registers its cases)
import attachments  # noqa: F401
import instances  # noqa: F401
import modifications  # noqa: F401
import patterns  # noqa: F401
import tools  # noqa: F401
import snapshots  # noqa: F401
import volumes  # noqa: F401
from cloud import CASES


def main(binary):
    # One session, so that the service's model is read only once.
    session = boto3.Session(aws_access_key_id="mooring", aws_secret_access_key="mooring", region_name="us-east-1")
    for line in sys.stdin:
        name = line.strip()
        # A hanging case prints its traceback and ends the worker.
        faulthandler.dump_traceback_later(300, exit=True)
        try:
            if name == "names":
                outcome = {"names": sorted(CASES)}
            else:
                CASES[name](binary, session)
                outcome = {}
        except Exception:
            outcome = {"error": traceback.format_exc()}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(outcome), flush=True)


main(sys.argv[1])
