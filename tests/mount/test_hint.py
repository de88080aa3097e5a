"""`shardfs hint`: the coming list of a job, what is fetched by it, and lists that mean nothing."""

import os
import random
import subprocess

from lib.content import MIB, compare, read_all
from lib.mounting import program, shardfs
from lib.waiting import until

SIZE = 8 * MIB


def put_shards(store, directory, count):
    names = [f"{directory}/shard-{i:06d}.tar" for i in range(count)]
    store.put_many({name: (SIZE, i + 1) for i, name in enumerate(names)})
    return {name: i + 1 for i, name in enumerate(names)}


def keys_got(store):
    return {request["key"] for request in store.log() if request["kind"] == "get"}


def hint(mounted, *arguments, **options):
    return shardfs("hint", mounted.path, *arguments, env=mounted.env, **options)


def test_the_coming_list_is_fetched_ahead(store, mount, passthrough):
    """Shuffled, so that no name foretells the next; the directory was never listed."""
    seeds = put_shards(store, "train", 24)
    order = list(seeds)
    random.Random(4).shuffle(order)
    mounted = mount(passthrough=passthrough)
    done = hint(mounted, *order)
    assert (done.returncode, done.stdout) == (0, "24 accepted, 0 unknown\n"), done
    until(lambda: order[0] in keys_got(store), "the first of the list is begun before anything is opened")
    for at, name in enumerate(order):
        compare(read_all(mounted.path / name), SIZE, seeds[name], what=name)
        if at + 1 < len(order):
            until(lambda: order[at + 1] in keys_got(store), lambda: f"{order[at + 1]} is begun while {name} is read")
        assert len(keys_got(store)) <= at + 1 + 8, "only the next ones are fetched"
    assert store.stats().heads == 0


def test_names_from_stdin_and_from_a_file(store, mount, tmp_path):
    seeds = put_shards(store, "train", 6)
    names = list(seeds)
    mounted = mount()
    text = "\n".join([*names[:4], "", "train/none.tar"]) + "\n"
    for arguments in (["-"], ["--from-file", "-"]):
        done = subprocess.run([program(), "hint", mounted.path, *arguments], env=mounted.env, input=text, text=True,
                              capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "4 accepted, 1 unknown\n"), done
    (tmp_path / "list").write_text(text)
    done = hint(mounted, names[4], "--from-file", tmp_path / "list")
    assert (done.returncode, done.stdout) == (0, "5 accepted, 1 unknown\n"), done
    done = hint(mounted, "--from-file", tmp_path / "none")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    link = tmp_path / "link"
    os.symlink(mounted.path, link)
    done = shardfs("hint", link, link / names[0], mounted.path / names[1], names[2], env=mounted.env)
    assert (done.returncode, done.stdout) == (0, "3 accepted, 0 unknown\n"), done


def test_what_means_nothing_is_counted(store, mount):
    put_shards(store, "train", 3)
    mounted = mount()
    store.reset()
    nonsense = ["../etc/passwd", "/etc/passwd", "train/../train/shard-000000.tar", "", "train", "train/none", "x" * 5000]
    done = hint(mounted, *nonsense)
    assert (done.returncode, done.stdout) == (1, f"0 accepted, {len(nonsense)} unknown\n"), done
    names = "\n".join(f"none-{i}/shard-{j}.tar" for i in range(1000) for j in range(20))
    done = subprocess.run([program(), "hint", mounted.path, "-"], env=mounted.env, input=names, text=True,
                          capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "0 accepted, 20000 unknown\n"), done
    stats = store.stats()
    assert stats.gets == 0 and stats.heads == 0
    assert stats.lists <= 200, "a list of nonsense is no storm of requests"


def test_a_long_list(store, mount):
    """More than one request of the control socket holds; each name that exists is taken, in order."""
    seeds = put_shards(store, "train", 30)
    mounted = mount()
    names = list(seeds)
    lines = []
    for i in range(100_000):
        lines.append(names[i // 3334] if i % 3334 == 0 else f"train/not-a-shard-of-this-directory-{i:09d}.tar")
    done = subprocess.run([program(), "hint", mounted.path, "-"], env=mounted.env, input="\n".join(lines), text=True,
                          capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "30 accepted, 99970 unknown\n"), done
    until(lambda: names[0] in keys_got(store), "the first one is begun")


def test_without_a_mount_or_names(tmp_path, run_folder):
    done = shardfs("hint", tmp_path, "a.tar")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and not done.stdout
    done = shardfs("hint", tmp_path)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
