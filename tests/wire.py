"""Plays replies seen in the field, in files of the form that ``tests/wire`` has, through the public API.

``python tests/wire.py DIR [DIR...]`` plays every sidecar in the folders from a local HTTP server, on both backends, the
bytes whole, cut where the sidecar says, and one at a time. It prints a line of JSON for each run, and how many passed
and failed. The exit status is 1 where one failed. ``--backend trio`` runs them on trio alone.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from support import wire_suite


def main(arguments: list[str]) -> int:
    """Play the cases in the folders named in ``arguments``; return the exit status."""
    parser = argparse.ArgumentParser(description="Play replies seen in the field.")
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path)
    parser.add_argument("--backend", choices=wire_suite.BACKENDS, action="append")
    options = parser.parse_args(arguments)
    if missing := [str(folder) for folder in options.folders if not folder.is_dir()]:
        parser.error(f"no such folder: {', '.join(missing)}")
    outcomes: list[wire_suite.Outcome] = []
    for folder in options.folders:
        for backend in options.backend or wire_suite.BACKENDS:
            for outcome in wire_suite.run_folder(folder, backend):
                print(outcome.line(), flush=True)  # noqa: T201 -- what it is for
                outcomes.append(outcome)
    print(wire_suite.summary(outcomes))  # noqa: T201 -- likewise
    return int(not outcomes or any(not outcome.ok for outcome in outcomes))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # scripted faults are logged, as they should be
    sys.exit(main(sys.argv[1:]))
