#!/usr/bin/env python3
"""Runs all benchmarks and writes the table of docs/benchmarks.md, and all figures as JSON."""

import datetime
import json
import pathlib
import sys

import cold
import identical
import listing
import loaders
import order
import plot
import small
import sparse
import support
import trouble
import warm

BENCHMARKS = {"warm": warm, "cold": cold, "sparse": sparse, "order": order, "small": small, "loaders": loaders,
              "trouble": trouble, "listing": listing, "identical": identical}

PAGE = support.REPOSITORY / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: tools/bench/all.py writes these lines -->", "<!-- end of figures -->"


def write_page(table, note):
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{note}\n\n{table}\n{END}{after}")


def main():
    parser = support.arguments(__doc__)
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="some of them, separated by commas")
    parser.add_argument("--no-page", action="store_true", help="leave docs/benchmarks.md as it is")
    given = parser.parse_args()
    rows, figures = [], {}
    for name in given.only.split(","):
        benchmark = BENCHMARKS[name]
        print(name, file=sys.stderr)
        bench = support.Bench(given)
        try:
            some, figures[name] = benchmark.measure(bench)
        finally:
            bench.close()
        rows += some
    table = support.markdown(rows)
    figures["machine"] = support.machine()
    print(table)
    print(figures["machine"])
    json_file = pathlib.Path(given.json) if given.json else bench.build / "bench.json"
    json_file.write_text(json.dumps(figures, indent=1) + "\n")
    if not given.no_page and not given.quick:
        plot.draw(rows, PAGE.parent / "benchmarks.svg")
        write_page(table, f"Measured on {datetime.date.today()}: {figures['machine']}; medians of {given.turns} turns, "
                   "least and greatest in brackets.")
    return 0 if all(row.met is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
