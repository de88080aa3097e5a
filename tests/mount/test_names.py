"""Long directories, fixed lists of names, and names that are to be looked at again."""

import json
import os
import time

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import environment, mounts_below, shardfs
from lib.teststore import TestStore
from lib.waiting import until


def test_long_directory_is_listed_in_several_pages_at_once(folder, mount):
    """60,000 names: every one once, and far fewer rounds than pages."""
    with TestStore(list_ms=50) as store:
        store.put_many({f"img_{i:06}.jpg": b"x" * (i % 7) for i in range(60000)})
        store.reset()
        mounted = mount(store=store)
        store.reset()
        before = time.monotonic()
        names = os.listdir(mounted.path)
        print(f"60,000 names in {time.monotonic() - before:.2f} s, {store.stats().lists} pages")
        assert sorted(names) == [f"img_{i:06}.jpg" for i in range(60000)]
        stats = store.stats()
        assert stats.max_concurrent_requests >= 8
        assert stats.lists <= 150 and stats.heads == 0
        assert os.stat(mounted.path / "img_000013.jpg").st_size == 6
        mounted.umount()


def test_store_that_lists_out_of_order(store, mount):
    store.put_many({f"{i:05}": b"x" for i in range(4500)})
    store.fault("unordered", {"kind": "list"}, times=-1)
    mounted = mount()
    assert sorted(os.listdir(mounted.path)) == [f"{i:05}" for i in range(4500)]


def write_manifest(path, store, objects, lines=False):
    rows = [(key, size, etag) for key, (size, etag) in objects.items()]
    if lines:
        path.write_text("".join(json.dumps({"Key": k, "Size": s, "ETag": e}) + "\n" for k, s, e in rows))
    else:
        path.write_text("key,size,etag\n" + "".join(f'"{k}",{s},{e.strip(chr(34))}\n' for k, s, e in rows))


@pytest.mark.parametrize("lines", [False, True], ids=["csv", "json"])
def test_manifest_mounts_its_list_without_any_listing(store, mount, folder, lines):
    objects = {f"set/{i // 4}/{i}.tar": (MIB, store.put_generated(f"set/{i // 4}/{i}.tar", MIB, i)) for i in range(8)}
    store.put("set/0/not-listed", b"x")
    write_manifest(folder / "list", store, objects, lines)
    mounted = mount("set/", manifest=folder / "list")
    assert sorted(os.listdir(mounted.path)) == ["0", "1"]
    assert sorted(os.listdir(mounted.path / "0")) == ["0.tar", "1.tar", "2.tar", "3.tar"]
    assert os.stat(mounted.path / "1/7.tar").st_size == MIB
    assert not os.path.exists(mounted.path / "0/not-listed")
    compare(read_all(mounted.path / "1/5.tar"), MIB, 5)
    assert store.stats().lists == 0 and store.stats().heads == 1


def test_manifest_names_a_version_and_no_other_is_read(store, mount, folder):
    etag = store.put_generated("a", MIB, 1)
    write_manifest(folder / "list", store, {"a": (MIB, etag)})
    mounted = mount(manifest=folder / "list")
    store.put_generated("a", MIB, 2)
    with pytest.raises(OSError) as failed:
        (mounted.path / "a").read_bytes()
    assert failed.value.errno == 116  # ESTALE


def test_manifest_that_makes_no_sense_is_refused(store, folder):
    (folder / "point").mkdir()
    for text, said in (("a,1\n", "line 1: a: there is no ETag"), ("b,1,x\n", "has no object below s3://bucket/set")):
        (folder / "list").write_text(text)
        done = shardfs("mount", store.url("set/"), folder / "point", "--manifest", folder / "list", "--cache-size", "0",
                       "--endpoint-url", store.endpoint, "--path-style", env=environment(store))
        assert done.returncode == 1 and said in done.stderr, done
        assert not mounts_below(folder)


def test_refresh_shows_what_changed(store, mount):
    """With names that are believed for ever, also by the kernel."""
    store.put("dir/a", b"one")
    store.put("other/b", b"b")
    mounted = mount(metadata_ttl="inf")
    assert (mounted.path / "dir/a").read_bytes() == b"one"
    assert os.listdir(mounted.path / "other") == ["b"]
    store.put("dir/a", b"second")
    store.put("dir/new", b"x")
    store.remove("other/b")
    assert os.stat(mounted.path / "dir/a").st_size == 3 and os.listdir(mounted.path / "other") == ["b"]
    assert shardfs("refresh", mounted.path / "dir", env=mounted.env).returncode == 0

    def seen():
        return sorted(os.listdir(mounted.path / "dir")), (mounted.path / "dir/a").read_bytes()

    # The kernel is told by a thread of its own.
    until(lambda: seen() == (["a", "new"], b"second"), seen)
    assert os.listdir(mounted.path / "other") == ["b"], "only what was named is looked at again"
    done = shardfs("refresh", mounted.path, env=mounted.env)
    assert done.returncode == 0, done
    until(lambda: os.listdir(mounted.path / "other") == [] if os.path.exists(mounted.path / "other") else True, "b is gone")


def test_refresh_outside_of_a_mount(folder):
    done = shardfs("refresh", folder)
    assert done.returncode == 1 and "is not in a mount of shardfs" in done.stderr
