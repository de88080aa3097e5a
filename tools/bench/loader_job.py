#!/usr/bin/env python3
"""A job as its user would write it, for one training framework's own loader: makes a data set, or reads one epoch of it
with two workers and prints samples, seconds and a checksum as JSON. Run by loaders.py.

    loader_job.py make  webdataset|mds|parquet|lmdb FOLDER MEGABYTES
    loader_job.py epoch webdataset|mds|parquet|lmdb FOLDER
"""

import json
import os
import pathlib
import random
import sys
import time
import zlib

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

SAMPLE_BYTES = 100_000
SHARD_BYTES = 25_000_000
WORKERS = 2


def samples(megabytes):
    source = random.Random(7)
    for index in range(megabytes * 1_000_000 // SAMPLE_BYTES):
        yield index, source.randbytes(SAMPLE_BYTES)


def checksum(data):
    return zlib.crc32(data)


class Webdataset:
    def make(self, folder, megabytes):
        import webdataset
        with webdataset.ShardWriter(f"{folder}/shard-%05d.tar", maxsize=SHARD_BYTES, verbose=0) as out:
            for index, data in samples(megabytes):
                out.write({"__key__": f"{index:08d}", "bin": data})

    def loader(self, folder):
        import webdataset
        shards = sorted(str(path) for path in pathlib.Path(folder).glob("*.tar"))
        data = webdataset.WebDataset(shards, shardshuffle=100, seed=1, empty_check=False).map(lambda s: checksum(s["bin"]))
        return DataLoader(data, batch_size=16, num_workers=WORKERS)


class Mds:
    def make(self, folder, megabytes):
        from streaming import MDSWriter
        with MDSWriter(out=folder, columns={"data": "bytes"}, size_limit=SHARD_BYTES) as out:
            for _, data in samples(megabytes):
                out.write({"data": data})

    def loader(self, folder):
        from streaming import StreamingDataset

        class Checked(StreamingDataset):
            def __getitem__(self, index):
                return checksum(super().__getitem__(index)["data"])

        data = Checked(local=folder, remote=None, shuffle=True, batch_size=16)
        return DataLoader(data, batch_size=16, num_workers=WORKERS)


class Parquet:
    def make(self, folder, megabytes):
        import pyarrow
        import pyarrow.parquet
        rows, shard = [], 0
        for _, data in samples(megabytes):
            rows.append(data)
            if len(rows) * SAMPLE_BYTES >= SHARD_BYTES:
                pyarrow.parquet.write_table(pyarrow.table({"data": rows}), f"{folder}/part-{shard:05d}.parquet",
                                            compression="none", row_group_size=50)
                rows, shard = [], shard + 1
        assert not rows

    def loader(self, folder):
        class Rows(IterableDataset):
            def __iter__(self):
                import pyarrow.parquet
                files = sorted(pathlib.Path(folder).glob("*.parquet"))
                me = get_worker_info()
                for path in files[me.id::me.num_workers]:
                    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=16):
                        for value in batch.column(0):
                            yield checksum(value.as_buffer())

        return DataLoader(Rows(), batch_size=16, num_workers=WORKERS)


class Lmdb:
    def make(self, folder, megabytes):
        import lmdb
        with lmdb.open(f"{folder}/data.lmdb", map_size=2 * megabytes * 1_000_000, subdir=False, lock=False) as env:
            with env.begin(write=True) as out:
                for index, data in samples(megabytes):
                    out.put(f"{index:08d}".encode(), data)

    def loader(self, folder):
        import lmdb
        with lmdb.open(f"{folder}/data.lmdb", readonly=True, subdir=False, lock=False) as env:
            count = env.stat()["entries"]

        class Items(Dataset):
            env = None

            def __len__(self):
                return count

            def __getitem__(self, index):
                if self.env is None:
                    self.env = lmdb.open(f"{folder}/data.lmdb", readonly=True, subdir=False, lock=False, readahead=False)
                with self.env.begin(buffers=True) as items:
                    return checksum(items.get(f"{index:08d}".encode()))

        return DataLoader(Items(), batch_size=16, num_workers=WORKERS, shuffle=True)


LOADERS = {"webdataset": Webdataset, "mds": Mds, "parquet": Parquet, "lmdb": Lmdb}


def main():
    what, name, folder = sys.argv[1:4]
    loader = LOADERS[name]()
    if what == "make":
        os.makedirs(folder, exist_ok=True)
        return loader.make(folder, int(sys.argv[4]))
    torch.manual_seed(3)
    start = time.perf_counter()
    count = total = 0
    for batch in loader.loader(folder):
        values = batch.tolist() if torch.is_tensor(batch) else list(batch)
        count += len(values)
        total += sum(values)
    print(json.dumps({"samples": count, "seconds": time.perf_counter() - start, "checksum": total}))


if __name__ == "__main__":
    main()
