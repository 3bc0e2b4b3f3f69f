"""Runs recorded behaviour of the TypeScript framework Mastra through the public API.

``python tests/vectors.py DIR [DIR...]`` runs every vector of every ``*.json`` below the folders and prints a line of
JSON for each, and how many passed, departed by a rule, wait, and failed. The exit status is 1 where one failed.
``--backend trio`` runs them on trio.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from support import vector_suite, virtual_time


def main(arguments: list[str]) -> int:
    """Run the vectors below the folders named in ``arguments``; return the exit status."""
    parser = argparse.ArgumentParser(description="Run recorded vectors.")
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path)
    parser.add_argument("--backend", choices=virtual_time.BACKENDS, default="asyncio")
    options = parser.parse_args(arguments)
    if missing := [str(folder) for folder in options.folders if not folder.is_dir()]:
        parser.error(f"no such folder: {', '.join(missing)}")
    outcomes: list[vector_suite.Outcome] = []
    for folder in options.folders:
        for vector in vector_suite.find_vectors(folder):
            outcomes.append(vector_suite.run_vector(vector, options.backend))
            print(outcomes[-1].line())  # noqa: T201 -- what it is for
    print(vector_suite.summary(outcomes))  # noqa: T201 -- likewise
    return int(any(outcome.ok is False for outcome in outcomes))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # scripted faults are logged, as they should be
    sys.exit(main(sys.argv[1:]))
