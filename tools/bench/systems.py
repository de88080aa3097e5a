"""The mounts that stand beside shardfs, where the machine has them: s3fs and rclone, as Debian ships them.

Each is mounted with its own disk cache and the options that its documentation recommends for large reads.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time


class PeerMount:
    """A mount of the whole bucket with a new, empty cache folder, of which path is the prefix's folder."""

    def __init__(self, bench, name, store, prefix=""):
        self._bench, self.name, self._store, self._prefix = bench, name, store, prefix

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=self._bench.folder))
        self.root, self.cache = self.folder / "mnt", self.folder / "cache"
        self.path = self.root / self._prefix
        self.root.mkdir()
        self.cache.mkdir()
        key, secret = self._store.access_key, self._store.secret_key
        others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment = {**others, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret,
                       "AWSACCESSKEYID": key, "AWSSECRETACCESSKEY": secret, "AWS_EC2_METADATA_DISABLED": "true"}
        command = _COMMANDS[self.name](self._store, self.root, self.cache)
        subprocess.run(command, env=environment, check=True, timeout=60,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            if os.path.ismount(self.root):
                break
            time.sleep(0.02)
        else:
            raise RuntimeError(f"{self.name} did not mount")
        return self

    def __exit__(self, *_):
        for _ in range(100):
            if subprocess.run(["fusermount3", "-u", self.root], stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        else:
            subprocess.run(["umount", "-l", self.root], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _s3fs(store, root, cache):
    options = [f"url={store.endpoint}", "use_path_request_style", f"use_cache={cache}", "parallel_count=16",
               "multipart_size=10", "ro", "stat_cache_expire=300", "max_stat_cache_size=100000"]
    return ["s3fs", store.bucket, str(root), "-o", ",".join(options)]


def _rclone(store, root, cache):
    return ["rclone", "mount", f":s3:{store.bucket}", str(root), "--s3-provider", "Other", "--s3-endpoint",
            store.endpoint, "--s3-env-auth", "--read-only", "--vfs-cache-mode", "full", "--cache-dir", str(cache),
            "--dir-cache-time", "5m", "--vfs-read-chunk-size", "8M", "--vfs-read-ahead", "128M", "--use-server-modtime",
            "--daemon"]


_COMMANDS = {"s3fs": _s3fs, "rclone": _rclone}


def installed():
    """The names of the peers that this machine has."""
    return [name for name in _COMMANDS if shutil.which(name)]
