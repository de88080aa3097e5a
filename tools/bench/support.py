"""What the benchmarks share: settings, a shaped store, a mount, medians of runs in turns, rows of a table.

The store is tools/teststore: 30 ms to the first byte, 50 ms a listing page, 90 MB/s a connection, like one across a
network. Everything lies in a temporary folder and is taken down at the end.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "mount"))
from lib.teststore import TestStore  # noqa: E402
import systems  # noqa: E402

FIRST_BYTE_MS = 30
LIST_MS = 50
CONNECTION_MBPS = 90
PIECE = 1 << 20


@dataclasses.dataclass
class Row:
    """One line of the table. target: the least ratio, or None; met: set when it is not about the ratio."""
    what: str
    ours: str
    beside: str = ""
    ratio: float | None = None
    target: str = ""
    met: bool | None = None


class Bench:
    """Settings of one run, and its temporary folder, which close() removes."""

    def __init__(self, arguments):
        self.build = pathlib.Path(arguments.build).resolve()
        self.turns = arguments.turns
        self.quick = arguments.quick
        self.peers = not arguments.no_peers
        self.program = str(self.build / "shardfs")
        if not os.access(self.program, os.X_OK):
            sys.exit(f"there is no {self.program}: build it with tools/test --build-only, or name a build with --build")
        os.environ["SHARDFS"] = self.program  # lib.teststore finds its program beside it
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shardfs-bench-", dir=arguments.work))

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def python(self):
        """One that has torch and webdataset."""
        given = os.environ.get("SHARDFS_DEMO_PYTHON")
        venv = REPOSITORY / "build" / "venv" / "bin" / "python"
        return given or (str(venv) if venv.exists() else sys.executable)

    def store(self, bucket="bench", **options):
        return TestStore(bucket, **{"no_auth": True, "first_byte_ms": FIRST_BYTE_MS, "list_ms": LIST_MS,
                                    "connection_mbps": CONNECTION_MBPS, **options})

    def systems(self, store, prefix, *options):
        """Name to a function that mounts it anew with an empty cache: shardfs, and the peers that the machine has."""
        ours = {"shardfs": lambda: self.mount(store, prefix, *options)}
        if not self.peers:
            return ours
        return {**ours, **{name: lambda name=name: systems.PeerMount(self, name, store, prefix)
                           for name in systems.installed()}}

    def raw_get(self, connections, urls, folder=None, ca=None):
        """The network's own limit: the dict that tools/bench/raw_get.cc prints. ca: the CA bundle of https URLs."""
        program = self.folder / "raw_get"
        if not program.exists():
            source = REPOSITORY / "tools" / "bench" / "raw_get.cc"
            subprocess.run(["c++", "-O2", "-std=c++20", "-o", program, source, "-lcurl", "-lpthread"], check=True)
        environment = {**os.environ, **({"RAW_GET_CA": ca} if ca else {})}
        done = subprocess.run([program, str(connections), folder or "null", *urls], check=True, capture_output=True,
                              env=environment)
        return json.loads(done.stdout)

    def mount(self, store, prefix="", *options, cache=None):
        return Mount(self, store, prefix, options, cache)

    def progress(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)


class Mount:
    """A mount with a new, empty cache folder, or with the given one, which is kept."""

    def __init__(self, bench, store, prefix, options, cache=None):
        self._bench = bench
        self.cache = cache
        self._url = store.url(prefix)
        self._store = store
        access = ["--ca-bundle", store.certificate] if store.tls else ["--no-sign-request"]
        self._options = ["--endpoint-url", store.endpoint, "--region", store.region, "--path-style", *access,
                         "--config", "/dev/null", "--cache-min-free", "0", *options]

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mount-", dir=self._bench.folder))
        self.path = self.folder / "mnt"
        self.path.mkdir()
        if self.cache is None:
            self.cache = self.folder / "cache"
            self.cache.mkdir(mode=0o700)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and k != "SHARDFS_CONFIG"}
        environment["AWS_EC2_METADATA_DISABLED"] = "true"
        if self._store.tls:
            environment |= {"AWS_ACCESS_KEY_ID": self._store.access_key, "AWS_SECRET_ACCESS_KEY": self._store.secret_key}
        command = [self._bench.program, "mount", self._url, self.path, "--cache-dir", self.cache, *self._options]
        # The daemon must not hold a pipe of ours: its messages go to a file.
        with open(self.folder / "messages", "w+") as messages:
            status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=messages,
                                    stderr=subprocess.STDOUT).returncode
            messages.seek(0)
            if status != 0:
                raise RuntimeError(f"mount failed ({status}): {messages.read().strip()}")
        self.process = self.stats()["pid"]
        return self

    def __exit__(self, *_):
        done = subprocess.run([self._bench.program, "umount", self.path], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            print(done.stdout, file=sys.stderr)
            subprocess.run(["umount", "-l", self.path], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def stats(self):
        done = subprocess.run([self._bench.program, "stats", "--json", self.path], check=True, capture_output=True)
        return json.loads(done.stdout)

    def passthrough(self):
        """Whether the kernel reads complete shards itself, and if not, why."""
        stats = self.stats()
        return bool(stats.get("passthrough")), stats.get("passthrough_reason", "")

    def cpu_s(self):
        """Of the daemon until now."""
        with open(f"/proc/{self.process}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_whole(path):
    """Reads a file in pieces of 1 MiB and drops the bytes: how many there were."""
    piece = bytearray(PIECE)
    total = 0
    file = os.open(path, os.O_RDONLY)
    try:
        while (count := os.readv(file, [piece])) > 0:
            total += count
    finally:
        os.close(file)
    return total


def read_all_of(paths):
    """As a job's reader does it: the bytes of the files, one after the other."""
    return sum(read_whole(path) for path in paths)


def in_processes(count, job):
    """job(index) in so many forked processes at once; each result must be JSON. The list of results."""
    children = []
    for index in range(count):
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)
            status = 1
            try:
                with os.fdopen(send, "w") as out:
                    json.dump(job(index), out)
                status = 0
            finally:
                os._exit(status)
        os.close(send)
        children.append((child, receive))
    results, failed = [], 0
    for child, receive in children:
        with os.fdopen(receive) as answers:
            text = answers.read()
        failed += os.waitpid(child, 0)[1] != 0
        results.append(text)
    if failed:
        raise RuntimeError(f"{failed} of {count} processes failed")
    return [json.loads(text) for text in results]


def drop_page_cache():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


def seconds_of(job):
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def in_turns(turns, jobs):
    """Runs the jobs (name to function) turns times, the order reversed every other time: name to list of results."""
    results = {name: [] for name in jobs}
    names = list(jobs)
    for turn in range(turns):
        for name in names if turn % 2 == 0 else reversed(names):
            results[name].append(jobs[name]())
    return results


def median(values):
    return statistics.median(values)


def spread(values):
    """The median, and the least and greatest where they differ: "812 (790-830)"."""
    def figure(value):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    if len(values) < 2 or min(values) == max(values):
        return figure(median(values))
    return f"{figure(median(values))} ({figure(min(values))}–{figure(max(values))})"


def markdown(rows):
    lines = ["| work | shardfs | beside it | ratio | target |", "|---|---|---|---|---|"]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        verdict = "" if row.met is None else (", met" if row.met else ", **missed**")
        lines.append(f"| {row.what} | {row.ours} | {row.beside} | {ratio} | {row.target}{verdict} |")
    return "\n".join(lines)


def machine():
    """In one line: what the figures depend on, and how busy it was."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{os.cpu_count()} processors, {memory:.0f} GiB, Linux {os.uname().release.split('-')[0]}; "
            f"load at the end {os.getloadavg()[0]:.1f}")


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", default=os.environ.get("SHARDFS_BUILD", REPOSITORY / "build"), metavar="DIR",
                        help="where shardfs is built (default: $SHARDFS_BUILD, or build)")
    parser.add_argument("--work", metavar="DIR", help="for the cache and the local copy (default: $TMPDIR)")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the bytes: tries the benchmark itself")
    parser.add_argument("--no-peers", action="store_true", help="leave out s3fs and rclone")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    return parser


def main(description, measure):
    """The whole of one benchmark's program. measure(bench): rows and a dict of figures."""
    given = arguments(description).parse_args()
    bench = Bench(given)
    try:
        rows, figures = measure(bench)
    finally:
        bench.close()
    print(markdown(rows))
    print(machine())
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(figures, indent=1) + "\n")
