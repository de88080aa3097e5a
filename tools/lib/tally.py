"""Adds up the suites of one run of tools/test: `tally.py RESULTS SUITE...`.

RESULTS has for each suite its exit status (SUITE.status) and what its runner wrote: meson's testlog.json, where a doctest
program counts its test cases and any other test counts one, or pytest's JUnit file. A suite that ran no test, or whose
runner failed without a failed test, counts one failure. Prints a line a suite, the skipped tests with their reasons and
then "N passed, N failed, N skipped"; exits 1 when anything failed.
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

DOCTEST = re.compile(r"\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)  # what was skipped, and what failed outside a test


def meson_log(path: Path) -> Count:
    count = Count()
    for line in path.read_text().splitlines():
        test = json.loads(line)
        name = test["name"]
        cases = DOCTEST.findall(COLOUR.sub("", test.get("stdout") or ""))
        good = test["result"] in ("OK", "EXPECTEDFAIL")
        if test["result"] == "SKIP":
            count.skipped += 1
            count.notes.append(f"skipped {name}: {(test.get('stdout') or 'no reason').strip().splitlines()[-1]}")
        elif not cases:
            count.passed += good
            count.failed += not good
        else:
            passed, failed, skipped = (sum(int(case[i]) for case in cases) for i in range(3))
            count.passed += passed
            count.failed += failed if good or failed else 1
            count.skipped += skipped
            if skipped:
                count.notes.append(f"skipped {name}: {skipped} test cases that are marked so in the source")
            if not good and not failed:
                count.notes.append(f"failed {name}: {test['result'].lower()} after its test cases")
    return count


def junit(path: Path) -> Count:
    count = Count()
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif skipped is None or skipped.get("type") == "pytest.xfail":
            count.passed += 1
        else:
            count.skipped += 1
            count.notes.append(f"skipped {name}: {skipped.get('message')}")
    return count


def suite(results: Path, name: str) -> Count:
    status = int((results / f"{name}.status").read_text())
    try:
        count = meson_log(path) if (path := results / f"{name}.json").exists() else junit(results / f"{name}.xml")
    except (OSError, ValueError, ElementTree.ParseError) as error:
        count = Count(notes=[f"failed: no result to read ({error.__class__.__name__})"])
    if status and not count.failed:
        count.failed = 1
        count.notes.append(f"failed: the runner ended with status {status}" + (", out of time" if status == 124 else ""))
    elif not (count.passed or count.failed):
        count.failed = 1
        count.notes.append("failed: no test ran")
    return count


def main(results: Path, names: list[str]) -> int:
    counts = {name: suite(results, name) for name in names}
    for name, count in counts.items():
        print(f"{name}: {count.passed} passed, {count.failed} failed, {count.skipped} skipped.")
        for note in count.notes:
            print(f"  {note}")
    passed, failed, skipped = (sum(getattr(c, f) for c in counts.values()) for f in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
