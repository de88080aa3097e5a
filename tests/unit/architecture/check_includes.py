#!/usr/bin/env python3
"""Reads the sources under src/ and include/ and fails where one breaks the table of rooms.

Usage: check_includes.py PROJECT_ROOT | check_includes.py --self-test

The table is docs/decisions/0001-rooms-and-libraries.md in a form that a program can read. A header that is in none of
the lists below is refused: a new library is a decision, not an include.
"""

import pathlib
import re
import sys
import tempfile

ROOMS = {"base": 0, "store": 1, "readahead": 1, "s3": 2, "cache": 2, "tree": 2, "fetch": 3, "fs": 4, "fuse": 5,
         "control": 5, "app": 6}
ALL_ROOMS = frozenset(ROOMS)

# Third-party headers, and the rooms that may include them.
LIBRARIES = [
    (r"(fmt|spdlog)/", ALL_ROOMS),
    (r"tl/expected\.hpp$", ALL_ROOMS),
    (r"(oneapi/)?tbb/", ALL_ROOMS),
    (r"(curl|openssl)/", {"s3"}),
    (r"pugixml\.hpp$", {"s3"}),
    (r"nlohmann/", {"s3", "control", "app"}),
    (r"(sqlite3|xxhash)\.h$", {"cache"}),
    (r"(fuse3/|fuse[_a-z]*\.h$)", {"fuse"}),
    (r"prometheus/", {"control"}),
    (r"(CLI|toml\+\+|systemd)/", {"app"}),
    (r"boost/", set()),
    (r"doctest/", set()),
]

STANDARD = frozenset("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio
cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem format forward_list fstream functional
future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore
set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view syncstream
system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
version
""".split())

# POSIX, the C library, Linux and the compiler.
SYSTEM = re.compile(r"(sys|linux|asm|net|netinet|arpa|sanitizer)/[\w/]+\.h$|[a-z]+intrin\.h$|(" + "|".join("""
aio alloca byteswap dirent dlfcn elf endian err errno execinfo fcntl fnmatch ftw getopt glob grp ifaddrs inttypes
langinfo libgen limits locale malloc mntent netdb poll pthread pwd regex resolv sched semaphore signal spawn stdarg
stddef stdint stdio stdlib string strings syslog termios time ucontext unistd utime wait wordexp
""".split()) + r")\.h$")

MAX_LINES = 500
SOURCES = {".h", ".hpp", ".cc", ".cpp", ".c", ".inc"}
INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*)$")
TARGET = re.compile(r'(?:<([^>]+)>|"([^"]+)")')
VAGUE = r"\w*(?:Manager|Util|Helper)s?"
TYPE = re.compile(r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[[^\]]*\]\]\s*)?(" + VAGUE +
                  r")\b|\busing\s+(" + VAGUE + r")\s*=|\btypedef\b[^;]*\b(" + VAGUE + r")\s*;")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)


def without_text(source, strings):
    """The source with comments blanked, and strings too where asked; line numbers stay the same."""

    def blank(match):
        found = match.group(0)
        if found.startswith("/") or strings:
            return "\n" * found.count("\n") or " "
        return found

    return NOT_CODE.sub(blank, source)


def quoted_problem(room, target):
    first = target.split("/")[0]
    if first == "shardfs":
        return None
    if room is None:
        return "a public header may include only the standard library, tl/expected.hpp and shardfs/"
    if first == "teststore" and "/" in target:
        return None if room == "app" else "the test store may be included only by app"
    if first not in ROOMS or "/" not in target:
        return f'"{target}" names no room: write "room/file.h"'
    if first != room and ROOMS[first] >= ROOMS[room]:
        return f"{room} ({ROOMS[room]}) may not include {first} ({ROOMS[first]}): only rooms with a lower number"
    return None


def angled_problem(room, target):
    if target in STANDARD:
        return None
    if room is None:
        if target == "tl/expected.hpp":
            return None
        return "a public header may include only the standard library, tl/expected.hpp and shardfs/"
    for pattern, rooms in LIBRARIES:
        if re.match(pattern, target):
            if room in rooms:
                return None
            return f"<{target}> is allowed in {', '.join(sorted(rooms)) or 'no room'}, not in {room}"
    if SYSTEM.match(target):
        return None
    if target.split("/")[0] in ROOMS or target.startswith("shardfs/"):
        return f'<{target}> is our own: write "{target}"'
    return f"<{target}> is in no list of allowed headers"


def file_problems(room, source):
    """Yields (line, message). room: None for the public headers."""
    lines = source.splitlines()
    if len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines; a source file has at most {MAX_LINES}"
    for number, line in enumerate(without_text(source, strings=False).splitlines(), 1):
        include = INCLUDE.match(line)
        if not include:
            continue
        target = TARGET.match(include.group(1))
        if not target:
            yield number, "an include must name its file"
            continue
        angled, quoted = target.groups()
        problem = angled_problem(room, angled) if angled else quoted_problem(room, quoted)
        if problem:
            yield number, problem
    code = without_text(source, strings=True)
    for found in TYPE.finditer(code):
        name = next(group for group in found.groups() if group)
        yield code.count("\n", 0, found.start()) + 1, f"{name} does not say what it is: no Manager, Util or Helper"


def problems(root):
    """All problems of a project, as lines of text, and the number of files that were read."""
    root = pathlib.Path(root)
    found = []
    read = 0
    for top in ("src", "include"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            read += 1
            name = path.relative_to(root)
            place = path.relative_to(root / top).parts
            if top == "src" and (len(place) < 2 or place[0] not in ROOMS):
                found.append(f"{name}:1: in no room of the table")
                continue
            if top == "include" and place[0] != "shardfs":
                found.append(f"{name}:1: public headers live in include/shardfs")
                continue
            room = place[0] if top == "src" else None
            source = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{name}:{line}: {message}" for line, message in file_problems(room, source)]
    return found, read


# What the self-test puts into a file, and what the check must say about it; None: nothing.
CASES = [
    ("src/store/a.h", '#include "base/error.h"\n', None),
    ("src/store/a.h", '#include "store/b.h"\n', None),
    ("src/store/a.h", '#include "readahead/policy.h"\n', "store (1) may not include readahead (1)"),
    ("src/base/a.h", '#include "store/object.h"\n', "base (0) may not include store (1)"),
    ("src/fetch/a.cc", '\n#  include   "fs/file_system.h"\n', "a.cc:2: fetch (3) may not include fs (4)"),
    ("src/control/a.cc", '#include "fuse/session.h"\n', "control (5) may not include fuse (5)"),
    ("src/fs/deep/a.cc", '#include "fuse/session.h"\n', "fs (4) may not include fuse (5)"),
    ("src/app/a.cc", '#include "fuse/session.h"\n#include "control/server.h"\n', None),
    ("src/app/a.cc", '#include "teststore/server.h"\n', None),
    ("src/s3/a.cc", '#include "teststore/server.h"\n', "only by app"),
    ("src/s3/a.cc", '#include "transport.h"\n', "names no room"),
    ("src/s3/a.cc", '#include "../cache/cache.h"\n', "names no room"),
    ("src/s3/a.cc", "#include <cache/cache.h>\n", "is our own"),
    ("src/s3/a.cc", "#include HEADER\n", "must name its file"),
    ("src/fetch/a.cc", "#include <fmt/format.h>\n#include <spdlog/logger.h>\n#include <tl/expected.hpp>\n", None),
    ("src/tree/a.cc", "#include <tbb/concurrent_hash_map.h>\n#include <oneapi/tbb/parallel_for.h>\n", None),
    ("src/s3/a.cc", "#include <curl/curl.h>\n#include <openssl/hmac.h>\n#include <pugixml.hpp>\n", None),
    ("src/fetch/a.cc", "#include <curl/curl.h>\n", "allowed in s3, not in fetch"),
    ("src/app/a.cc", "#include <openssl/hmac.h>\n", "allowed in s3, not in app"),
    ("src/control/a.cc", "#include <pugixml.hpp>\n", "allowed in s3, not in control"),
    ("src/control/a.cc", "#include <nlohmann/json.hpp>\n#include <prometheus/registry.h>\n", None),
    ("src/cache/a.cc", "#include <nlohmann/json.hpp>\n", "allowed in app, control, s3, not in cache"),
    ("src/cache/a.cc", "#include <sqlite3.h>\n#include <xxhash.h>\n", None),
    ("src/fs/a.cc", "#include <sqlite3.h>\n", "allowed in cache, not in fs"),
    ("src/fs/a.cc", "#include <xxhash.h>\n", "allowed in cache, not in fs"),
    ("src/fuse/a.cc", "#include <fuse_lowlevel.h>\n#include <fuse3/fuse.h>\n", None),
    ("src/fs/a.h", "#include <fuse_lowlevel.h>\n", "allowed in fuse, not in fs"),
    ("src/app/a.h", "#include <fuse3/fuse.h>\n", "allowed in fuse, not in app"),
    ("src/app/a.cc", "#include <prometheus/registry.h>\n", "allowed in control, not in app"),
    ("src/app/a.cc", "#include <CLI/CLI.hpp>\n#include <toml++/toml.h>\n#include <systemd/sd-daemon.h>\n", None),
    ("src/control/a.cc", "#include <CLI/CLI.hpp>\n", "allowed in app, not in control"),
    ("src/control/a.cc", "#include <toml++/toml.h>\n", "allowed in app, not in control"),
    ("src/control/a.cc", "#include <systemd/sd-daemon.h>\n", "allowed in app, not in control"),
    ("src/s3/a.cc", "#include <boost/beast.hpp>\n", "allowed in no room"),
    ("src/s3/a.cc", "#include <absl/strings/str_cat.h>\n", "in no list"),
    ("src/s3/a.cc", "#include <unistd.h>\n#include <sys/socket.h>\n#include <linux/fuse.h>\n#include <vector>\n", None),
    ("src/s3/a.cc", "// #include <absl/a.h>\n/*\n#include <absl/b.h>\n*/\n", None),
    ("include/shardfs/a.h", '#include <string>\n#include <tl/expected.hpp>\n#include "shardfs/b.h"\n', None),
    ("include/shardfs/a.h", '#include "base/error.h"\n', "a public header may include only"),
    ("include/shardfs/a.h", "#include <fmt/format.h>\n", "a public header may include only"),
    ("include/shardfs/a.h", "#include <unistd.h>\n", "a public header may include only"),
    ("include/other/a.h", "", "public headers live in include/shardfs"),
    ("src/fs/a.cc", '#include "shardfs/version.h"\n', None),
    ("src/rumpus/a.cc", "", "in no room"),
    ("src/a.cc", "", "in no room"),
    ("src/fs/a.cc", "\n" * MAX_LINES, None),
    ("src/fs/a.cc", "\n" * (MAX_LINES + 1), "501 lines"),
    ("include/shardfs/a.h", "\n" * (MAX_LINES + 1), "501 lines"),
    ("src/fs/a.h", "\nclass CacheManager {\n};\n", "a.h:2: CacheManager does not say"),
    ("src/fs/a.h", "struct PathUtil;\n", "PathUtil does not say"),
    ("src/fs/a.h", "struct PathUtils {};\n", "PathUtils does not say"),
    ("src/fs/a.h", "enum class OpenHelper { kOne };\n", "OpenHelper does not say"),
    ("src/fs/a.h", "class [[nodiscard]] OpenHelper final {};\n", "OpenHelper does not say"),
    ("src/fs/a.h", "using OpenHelper = int;\n", "OpenHelper does not say"),
    ("src/fs/a.h", "typedef struct x OpenHelper;\n", "OpenHelper does not say"),
    ("include/shardfs/a.h", "class ClientHelper {};\n", "ClientHelper does not say"),
    ("src/fs/a.h", "class Managers2 {}; struct Utility {}; class HelperThread {};\n", None),
    ("src/fs/a.h", '// a class CacheManager {\n/* struct PathUtil */\nauto s = "class XHelper";\nauto c = \'"\';\n', None),
]


def self_test():
    failures = 0
    for place, source, wanted in CASES:
        with tempfile.TemporaryDirectory() as root:
            path = pathlib.Path(root) / place
            path.parent.mkdir(parents=True)
            path.write_text(source, encoding="utf-8")
            found, read = problems(root)
        good = read == 1 and (not found if wanted is None else len(found) == 1 and wanted in found[0])
        if not good:
            failures += 1
            print(f"{place} with {source[:80]!r}\n  wanted: {wanted}\n  found: {found}")
    print(f"{len(CASES)} cases, {failures} failed")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1:
        print(__doc__)
        return 2
    found, read = problems(arguments[0])
    print("\n".join(found + [f"{read} files, {len(found)} problems"]))
    return 1 if found or read == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
