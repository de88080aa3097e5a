"""Jobs that read through mounts which the prolog made."""

import io
import os
import re
import shutil
import signal
import subprocess
import tarfile

import pytest

from cluster import ALICE, BOB, PACKAGING, free_ports
from lib.content import MIB
from lib.mounting import daemons
from lib.waiting import until

SIZE = 8 * MIB
SHARDS = 6

EPOCHS = """
for epoch in 1 2; do
  for shard in $(ls $DATA); do sha256sum $DATA/$shard; done | sed "s|.*/||;s|^|epoch $epoch: |" | sort >/dev/null
  echo "$SLURMD_NODENAME epoch $epoch: $(cat $DATA/* | wc -c) bytes"
  [ $epoch = 2 ] || { touch $SLURM_SUBMIT_DIR/first.$SLURMD_NODENAME
    until [ -e $SLURM_SUBMIT_DIR/go ]; do sleep 0.1; done; }
done
"""


@pytest.fixture
def shards(store):
    for number in range(SHARDS):
        store.put_generated(f"train/shard-{number:06}.tar", SIZE, number)


def summaries(output):
    return re.findall(r"^shardfs: (n[12]): (\S+): read (.*), from the store (.*), hit ratio (\S+) \(estimated\), readers waited "
                      r"(\S+) s(.*)$", output, re.MULTILINE)


@pytest.mark.limit_s(300)
def test_two_nodes_two_epochs(cluster, store, shards):
    """The quickstart's job: the second epoch asks the store for nothing, nor does the next job."""
    (cluster.work / "step.sh").write_text(f"export DATA={cluster.folder}/data/$SLURMD_NODENAME/$SLURM_JOB_ID\n{EPOCHS}")
    job = cluster.submit("srun bash step.sh", "-N2", "--ntasks-per-node=1")
    until(lambda: all((cluster.work / f"first.{node}").exists() for node in ("n1", "n2")), "both have read it once",
          patience_s=120)
    assert len(cluster.mounts()) == len(daemons()) == 2
    gets = store.stats().gets
    assert store.stats().body_bytes < 2.5 * SHARDS * SIZE
    (cluster.work / "go").touch()
    cluster.wait(job, "COMPLETED")
    assert store.stats().gets == gets
    output = cluster.output(job)
    for node in ("n1", "n2"):
        for epoch in (1, 2):
            assert f"{node} epoch {epoch}: {SHARDS * SIZE} bytes" in output
    assert sorted(node for node, *_ in summaries(output)) == ["n1", "n2"], output
    assert not cluster.mounts() and not daemons()
    before = store.stats().gets
    assert f"{SHARDS * SIZE}\n" in cluster.run("cat $DATA/* | wc -c")
    assert store.stats().gets == before
    print(f"{output}\nprolog {cluster.seconds('prolog')}, epilog {cluster.seconds('epilog')}")


@pytest.mark.limit_s(300)
def test_array_job(cluster, store, shards):
    output = cluster.submit('f=$(ls $DATA | sed -n "$((SLURM_ARRAY_TASK_ID + 1))p"); echo "task $f $(cat $DATA/$f | wc -c)"',
                            f"--array=0-{SHARDS - 1}", "-o", "array-%A_%a.out")
    until(lambda: not cluster.slurm("squeue", "-h"), "the array ends", patience_s=120)
    for task in range(SHARDS):
        text = (cluster.work / f"array-{output}_{task}.out").read_text()
        assert f"task shard-{task:06}.tar {SIZE}" in text
        assert len(summaries(text)) == 1, text
    assert not cluster.mounts() and not daemons()


def test_two_users_on_one_node(cluster, store, shards):
    """At once, each with a mount of his own; neither reads the other's."""
    wait = "touch on.$SLURM_JOB_ID; until [ -e go ]; do sleep 0.1; done; cat $DATA/* | wc -c"
    jobs = {user: cluster.submit(f"cd {cluster.work}; {wait}", "-w", "n1", user=user) for user in (ALICE, BOB)}
    until(lambda: all((cluster.work / f"on.{job}").exists() for job in jobs.values()), "both run", patience_s=60)
    for user, other in ((ALICE, BOB), (BOB, ALICE)):
        path = f"{cluster.folder}/data/n1/{jobs[user]}"
        for reader, allowed in ((user, True), (other, False)):
            done = subprocess.run(["setpriv", f"--reuid={reader.pw_uid}", f"--regid={reader.pw_gid}", "--clear-groups", "head",
                                   "-c", "1", f"{path}/shard-000000.tar"], capture_output=True, check=False)
            assert (done.returncode == 0) == allowed, done.stderr
    (cluster.work / "go").touch()
    for job in jobs.values():
        cluster.wait(job, "COMPLETED")
        assert f"{SHARDS * SIZE}\n" in cluster.output(job)
    assert not cluster.mounts() and not daemons()


def test_shared_by_two_jobs(cluster, store, shards):
    cluster.site(shared=True, path="{node}/all")
    wait = "touch on.$SLURM_JOB_ID; until [ -e go.$SLURM_JOB_ID ]; do sleep 0.1; done; "
    read = f"cat {cluster.folder}/data/n1/all/* | wc -c"
    first, second = (cluster.submit(f"cd {cluster.work}; {wait}{read}", "-w", "n1", user=user) for user in (ALICE, BOB))
    until(lambda: all((cluster.work / f"on.{job}").exists() for job in (first, second)), "both run", patience_s=60)
    assert len(daemons()) == 1
    for job, left in ((first, 1), (second, 0)):
        (cluster.work / f"go.{job}").touch()
        cluster.wait(job, "COMPLETED")
        assert f"{SHARDS * SIZE}\n" in cluster.output(job)
        assert len(cluster.mounts()) == len(daemons()) == left


def test_own_mount_with_the_jobs_keys(cluster, store, shards):
    keys = cluster.work / "keys"
    keys.write_text(f"[default]\naws_access_key_id={store.access_key}\naws_secret_access_key={store.secret_key}\n")
    keys.chmod(0o600)
    os.chown(keys, ALICE.pw_uid, ALICE.pw_gid)
    script = f"cat {cluster.folder}/data/own-$SLURMD_NODENAME/$SLURM_JOB_ID/mine/* | wc -c"
    comment = f"paper 3 shardfs:mine=s3://{store.bucket}/train shardfs-credentials:{keys}"
    assert f"{SHARDS * SIZE}\n" in cluster.run(script, comment=comment)
    refused = cluster.submit(script, comment=comment, user=BOB)
    cluster.wait(refused, "CANCELLED")
    assert "mine: the job's keys: " in cluster.output(refused)
    assert not cluster.mounts() and not daemons() and set(cluster.nodes().values()) == {"idle"}


def test_failing_prolog_drains_the_node(cluster, store, shards):
    cluster.site(endpoint="http://127.0.0.1:9")
    job = cluster.submit("true", "-w", "n1")
    until(lambda: "launch" in cluster.shown(job) and "held" in cluster.shown(job), "the job is held", patience_s=60)
    assert "can't mount s3://bucket/train" in cluster.output(job)
    until(lambda: cluster.nodes()["n1"].startswith("drain"), "n1 is drained")
    assert cluster.nodes()["n2"] == "idle"
    assert "shardfs: train: can't mount" in cluster.slurm("sinfo", "-h", "-R", "-o", "%E")
    assert "can't mount s3://bucket/train" in (cluster.folder / "n1.log").read_text()
    assert not cluster.mounts() and not daemons()


def test_failing_prolog_that_cancels_the_job(cluster, store, shards):
    cluster.site(endpoint="http://127.0.0.1:9", on_failure="cancel")
    job = cluster.submit("touch ran", "-w", "n1")
    cluster.wait(job, "CANCELLED")
    assert "can't mount s3://bucket/train" in cluster.output(job)
    assert set(cluster.nodes().values()) == {"idle"} and not (cluster.work / "ran").exists()


def test_unknown_mount_cancels_the_job(cluster):
    job = cluster.submit("true", comment="shardfs:trian")
    cluster.wait(job, "CANCELLED")
    assert "no mount named trian" in cluster.output(job)
    assert set(cluster.nodes().values()) == {"idle"}


@pytest.mark.limit_s(300)
def test_killed_at_its_time_limit(cluster, store, shards):
    job = cluster.submit("cd $DATA; cat * >/dev/null; exec sleep 600 <shard-000000.tar", "-t", "1", "-w", "n1")
    cluster.wait(job, "TIMEOUT", patience_s=200)
    assert "DUE TO TIME LIMIT" in cluster.output(job) and len(summaries(cluster.output(job))) == 1
    assert not cluster.mounts() and not daemons()
    assert set(cluster.nodes().values()) == {"idle"}


def test_a_process_inside_at_the_epilog(cluster, store, shards):
    """Not the job's own, which Slurm ends: a shell of the user's."""
    cluster.site(umount_timeout="1s")
    job = cluster.submit(f"cd {cluster.work}; touch on; until [ -e go ]; do sleep 0.1; done", "-w", "n1")
    until((cluster.work / "on").exists, "it runs", patience_s=60)
    holder = subprocess.Popen(["sleep", "1000"], cwd=f"{cluster.folder}/data/n1/{job}", user=ALICE.pw_uid)
    try:
        (cluster.work / "go").touch()
        cluster.wait(job, "COMPLETED")
        assert not cluster.mounts() and not daemons()
        assert holder.poll() is None
    finally:
        holder.kill()
        holder.wait()
    assert set(cluster.nodes().values()) == {"idle"}


def test_daemon_killed_under_a_job(cluster, store, shards):
    """The job's next read fails at once, the epilog clears up, and the next job reads."""
    script = f"cd {cluster.work}; touch on; until [ -e go ]; do sleep 0.1; done; cat $DATA/*"
    job = cluster.submit(script, "-w", "n1")
    until((cluster.work / "on").exists, "it runs", patience_s=60)
    os.kill(daemons()[0], signal.SIGKILL)
    (cluster.work / "go").touch()
    cluster.wait(job, "FAILED")
    assert "Transport endpoint is not connected" in cluster.output(job)
    assert not cluster.mounts()
    assert f"{SHARDS * SIZE}\n" in cluster.run("cat $DATA/* | wc -c")


@pytest.mark.limit_s(300)
def test_many_jobs_leave_nothing(cluster, store, shards):
    cluster.submit("cat $DATA/shard-000000.tar | wc -c", "--array=0-39", "-o", "many-%a.out")
    until(lambda: not cluster.slurm("squeue", "-h"), "all have ended", patience_s=240)
    texts = [(cluster.work / f"many-{task}.out").read_text() for task in range(40)]
    assert all(f"{SIZE}\n" in text for text in texts)
    assert not cluster.mounts() and not daemons()
    left = [path for path in (cluster.folder.parent / "run").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert not left
    print(f"prolog at most {max(cluster.seconds('prolog')):.2f} s, epilog {max(cluster.seconds('epilog')):.2f} s")


EXAMPLES = PACKAGING / "examples"


@pytest.fixture
def tars(store):
    for number in range(4):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            for member in range(8):
                name = tarfile.TarInfo(f"{number}-{member}.jpg")
                name.size = 100_000
                tar.addfile(name, io.BytesIO(bytes(name.size)))
        store.put(f"train/shard-{number:06}.tar", content.getvalue())
    return len(content.getvalue())


def example(cluster, name, *arguments, **variables):
    exported = ",".join(["ALL", *(f"{key}={value}" for key, value in variables.items())])
    return int(cluster.slurm("sbatch", "--parsable", f"--export={exported}", *arguments, EXAMPLES / name, user=ALICE))


@pytest.mark.limit_s(200)
def test_example_for_one_node(cluster, tars):
    cluster.site(path="{node}/train")
    job = example(cluster, "one-node.sbatch", "-w", "n1", DATA=f"{cluster.folder}/data/n1/train")
    cluster.wait(job, "COMPLETED")
    output = cluster.output(job)
    assert re.findall(r"epoch (\d): (\d+) bytes", output) == [("1", str(4 * tars)), ("2", str(4 * tars))], output
    assert len(summaries(output)) == 1


@pytest.mark.limit_s(300)
@pytest.mark.skipif(shutil.which("torchrun") is None, reason="no torchrun here")
def test_example_with_torchrun(cluster, tars):
    cluster.site(shared=True, path="all")  # the nodes share this host's mounts
    port = free_ports(1)[0]
    job = example(cluster, "torchrun.sbatch", DATA=f"{cluster.folder}/data/all", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                  EXAMPLES=EXAMPLES, GLOO_SOCKET_IFNAME="lo",
                  TORCHRUN_OPTIONS="-r 1 -t 1")  # without them torch 1.13 fails under Python 3.11
    cluster.wait(job, "COMPLETED", patience_s=200)
    output = cluster.output(job)
    assert re.findall(r"epoch (\d): (\d+) bytes by (\d) ranks", output) == \
        [("1", str(4 * tars), "2"), ("2", str(4 * tars), "2")], output
    assert len(summaries(output)) == 2


@pytest.mark.limit_s(200)
def test_example_of_an_array(cluster, tars):
    cluster.site(shared=True, path="all")
    job = example(cluster, "array.sbatch", DATA=f"{cluster.folder}/data/all")
    until(lambda: not cluster.slurm("squeue", "-h"), "the array ends", patience_s=120)
    for task in range(4):
        text = (cluster.work / f"array-{job}_{task}.out").read_text()
        assert f"shard-{task:06}.tar: 8 members, {tars} bytes" in text
