"""`s3`: a local S3 with a bucket filled from a folder, for docker compose and for trying things."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from merlin_simulator.errors import PlatformFailed
from merlin_simulator.interrupts import leaving_at_once

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_DESCRIPTION = """\
Serve the S3 protocol on a port, make a bucket, and put every *.tar.gz of a folder and its
sub-folders into it. No account is needed: every access key is let in, and none, so listen on
127.0.0.1 unless the network is your own. What is in the bucket is gone when this ends (SIGTERM or
Ctrl-C; exit 0).

For a health check: GET /-/ready answers 503 until the bucket is filled, then 200."""
_EPILOG = """\
example:
  python -m simulator s3 --port 9000 --bucket models --fill archives &
  python -m simulator up --models s3://models --s3-endpoint-url http://127.0.0.1:9000 ..."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`s3 --port P --bucket NAME [--fill FOLDER]`."""
    parser = commands.add_parser(
        "s3",
        help="serve a local S3 with a bucket filled from a folder",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    add("--port", type=int, required=True, help="the port; 0 takes a free one and says which")
    add(
        "--public-url",
        metavar="URL",
        help="what callers ask, where it is another address: a published port of Docker",
    )
    add("--bucket", required=True, metavar="NAME", help="the bucket to make; 3 to 63 characters")
    add("--fill", type=Path, metavar="FOLDER", help="where the archives are; without: left empty")
    add("--prefix", default="", metavar="P", help="put them below this prefix (none)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT: 0; 1 when it could not start."""
    with leaving_at_once():
        # boto3 and moto: other commands start without them.
        from merlin_simulator.archives.local_s3 import run_local_s3

    for signal_number in _SIGNALS:
        signal.signal(signal_number, _leave)
    filled = threading.Event()
    try:
        with run_local_s3(options.host, options.port, filled, options.public_url) as url:
            shown = options.public_url or url
            print(f"local S3 listening: {shown} (bucket {options.bucket})", flush=True)
            _fill(url, options)
            filled.set()
            print(f"local S3 ready: s3://{options.bucket}/{options.prefix} at {shown}", flush=True)
            while True:
                signal.pause()
    except PlatformFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _fill(url: str, options: argparse.Namespace) -> None:
    from merlin_simulator.archives.local_s3 import fill, make_bucket

    if options.fill is None:
        make_bucket(url, options.bucket)
        return
    for count, (key, size) in enumerate(
        fill(url, options.bucket, options.fill, options.prefix), start=1
    ):
        print(f"  {count}: {key} ({size / 1e6:.1f} MB)", flush=True)


def _leave(signal_number: int, frame: FrameType | None) -> None:
    """Unwind from wherever the main thread is, once: the server is stopped on the way."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # Without a last look through moto's modules the end takes a tenth: 0.04 s, not 0.4 s.
    gc.freeze()
    raise SystemExit(0)
