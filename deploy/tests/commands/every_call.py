"""python -m deploy.tests.commands.every_call: each call of `up`, `rollback` and `down` fails once.

A life of an endpoint after another: in the first one the first call of each of its commands fails,
in the next one the second, until no command has so many calls; calls that change nothing fail, too.
A command that was stopped is called again, and ends where it would have. So for each kind of fault.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from deploy.tests.commands.test_up import put
from deploy.tests.support.aws_faults import Fault, FaultyAws, faulty_aws
from deploy.tests.support.runs import caller, left_of, lifecycle, live, run_here, until_done
from simulator.tests.support.control_plane import ControlPlane, control_plane
from simulator.tests.support.simulator import fake_model

KINDS: dict[str, dict[str, Any]] = {
    "refused": {"code": "AccessDeniedException"},
    "throttled": {"code": "ThrottlingException"},
    "busy": {"code": "InternalFailure", "status": 500},
    "cut": {"cut": True},
    "lost": {"lose": True},
    "half": {"half": True},
}
MOST_STOPS = 3


def main() -> int:
    """How many commands did not end well."""
    kinds = sys.argv[1:] or list(KINDS)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with control_plane(folder / "log") as plane, faulty_aws(plane.url) as aws:
            plane.client("s3").create_bucket(Bucket="models")
            # Each fault is one: botocore asks only once.
            with caller(plane, aws, AWS_MAX_ATTEMPTS="1"):
                for kind in kinds:
                    wrong += sweep(plane, aws, folder, kind)
    return min(wrong, 1)


def sweep(plane: ControlPlane, aws: FaultyAws, folder: Path, kind: str) -> int:
    """All lives with one kind of fault; how many commands did not end well."""
    archive = fake_model(folder, "shop-a.tar.gz")
    put(plane, archive, "calm")
    with contextlib.redirect_stdout(io.StringIO()):
        ends = live(plane, aws, lifecycle(folder / kind / "calm", "calm"), "calm")
    wrong, runs, place, met = 0, 0, 0, True
    while met:
        met = False
        endpoint = f"{kind}-{place}"
        put(plane, archive, endpoint)
        life = lifecycle(folder / kind / endpoint, endpoint)
        for (command, config), end in zip(life, ends, strict=True):
            fault = Fault(with_reads=True, after=place, **KINDS[kind])
            failed = fail_once(aws, command, config, fault)
            left = left_of(plane, endpoint, [path for _, path in life])
            met, runs = met or fault.met > place, runs + 1
            if failed or left != end.left:
                wrong += 1
                print(f"{kind} at call {place + 1} of {command}: {failed or left}", flush=True)
        place += 1
    print(f"{kind}: {runs} commands, {wrong} of them ended otherwise", flush=True)
    return wrong


def fail_once(aws: FaultyAws, command: str, config: Path, fault: Fault) -> str:
    """The command with a fault, and again until it is done; what went wrong, or nothing."""
    faults = [fault]

    def run() -> str:
        with contextlib.redirect_stdout(io.StringIO()):
            output = run_here(aws, command, config, *faults)
        faults.clear()
        return output

    try:
        until_done(run, MOST_STOPS)
    except Exception:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    sys.exit(main())
