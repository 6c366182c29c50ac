"""Makes the results behind docs/claims.md anew, or what is missing of them, and writes the pages.

Results are kept cell by cell in docs/claims/results; an interrupted call continues. Without arguments, every version
that docs/claims/claims.toml names is executed, the shortest first.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Mapping
from pathlib import Path

from weir import engine, methods
from weir._duration import clock_text
from weir.cli._scenarios import catalogue_files
from weir.scenario import Scenario, load
from weir.study import StudyError
from weir.study.claims import (
    Asked,
    Pages,
    Papers,
    Plan,
    Store,
    Work,
    execute,
    obstacle_of,
    read_papers,
    read_where,
    verify,
    wanted_units,
    work_of,
    write,
)

ROOT = Path(__file__).parent.parent
PLACE = ROOT / "docs" / "claims"


def main() -> int:
    """Executes, checks or lists, as the arguments say; then writes the pages."""
    asked = _arguments()
    papers, store = read_papers(PLACE / "claims.toml"), Store(PLACE / "results")
    scenarios = {name: load(file) for name, file in catalogue_files().items() if name != "demo"}
    if asked.check is not None:
        return _check(papers, scenarios, store, asked.check or datetime.datetime.now(datetime.UTC).date().isoformat())
    plan = Plan(_works(asked, papers, scenarios, store), asked.workers)
    for work in plan.works if asked.list else ():
        print(f"{work.unit}: {len(work.missing)} of {work.total} cells, {clock_text(sum(work.seconds.values()))}")
    print(f"{plan.cells} cells to execute, about {clock_text(plan.left_s())}", flush=True)
    failures = []
    if not asked.list and plan.cells and not asked.force and (engine.commit() or "").endswith("+"):
        raise StudyError(
            "crates, cc or python has changes that no commit has, and a result names the commit that it comes from: "
            "commit them first, or use --force"
        )
    if not asked.list:
        try:
            failures = execute(plan, store, ROOT / "runs" / "claims", force=asked.force, tell=_tell)
        except engine.EngineError as error:
            failures = [str(error)]
        for failure in failures:
            print(failure, file=sys.stderr, flush=True)
        print("writing the pages of what is stored", flush=True)
        store = Store(PLACE / "results")
        for file in write(Pages(papers, scenarios, store), ROOT / "docs"):
            print(f"wrote {file.relative_to(ROOT)}")
    return 1 if failures else 0


def _check(papers: Papers, scenarios: Mapping[str, Scenario], store: Store, seed: str) -> int:
    print(f"stored cells drawn with seed {seed}; repeat with --check {seed}", flush=True)
    found = verify(papers, scenarios, store, seed=seed, tell=_tell)
    for text in found.stale:
        print(f"note: {text}")
    for text in found.failures:
        print(text, file=sys.stderr)
    print(f"{len(found.cells)} cells executed again, {len(found.failures)} figures differ")
    if found.failures:
        print(
            "If the change of the simulator is meant, make the stored results anew: make claims ARGS=--anew",
            file=sys.stderr,
        )
    return 1 if found.failures or not found.cells else 0


def _tell(text: str) -> None:
    print(f"{datetime.datetime.now():%H:%M} {text}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--paper", action="append", default=[], help="only claims of this paper, such as A")
    parser.add_argument(
        "--only", action="append", default=[], help="only this claim or scenario, such as E2 or E2/congestion-collapse"
    )
    parser.add_argument("--method", action="append", default=[], help="only by this method")
    parser.add_argument("--version", action="append", default=[], help="only this version: full, quick or realtime")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="FACTOR=A,B",
        help="only cells with these values; also FACTOR=A,FACTOR=B",
    )
    parser.add_argument("--workers", type=int, default=engine.default_workers(), help="number of processes")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also what this machine cannot carry in real time, results with warnings that it was too busy, and "
        "results of changed sources",
    )
    parser.add_argument(
        "--unknown",
        action="store_true",
        help="also cells whose result is of a commit that this history does not have, or of changed sources",
    )
    parser.add_argument("--anew", action="store_true", help="also cells that have a result")
    parser.add_argument(
        "--check", nargs="?", const="", metavar="SEED", help="execute a few stored cells again and compare"
    )
    parser.add_argument("--list", action="store_true", help="say what is missing, and execute nothing")
    return parser.parse_args()


def _works(asked: argparse.Namespace, papers: Papers, scenarios: Mapping[str, Scenario], store: Store) -> list[Work]:
    words = Asked(asked.paper, asked.only, asked.method, asked.version, read_where(asked.where))
    units, words = wanted_units(words, papers, scenarios)
    if asked.unknown and not engine.history():
        raise StudyError("--unknown: this checkout does not have the whole history: `git fetch --unshallow`")
    lacking = {name: why for name in papers.versions if (why := methods.get(name).available()) is not None}
    for name in dict.fromkeys(unit.method for unit in units if unit.method in lacking):
        print(f"not by {name}: {lacking[name]}", file=sys.stderr)
    found, history = [], engine.history() if asked.unknown else None
    for unit in (unit for unit in units if unit.method not in lacking):
        sized, recorded = scenarios[unit.scenario].version(unit.version), papers.recorded.get(unit.scenario)
        work = work_of(unit, sized, recorded, store, words.where, anew=asked.anew, history=history)
        if work.missing and (why := obstacle_of(work)) is not None:
            print(f"not {unit}: {why}", file=sys.stderr)
        else:
            found.append(work)
    return sorted(found, key=lambda work: sum(work.seconds.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StudyError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
