"""`shardfs slurm prolog` and `epilog` as Slurm calls them, one job and node after the other, without a Slurm: scontrol and
scancel only write down that they were called. The suite `slurm` has the real one."""

import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import daemons, environment, gone, mounts_below, program
from lib.waiting import until

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
ALICE, BOB = pwd.getpwnam("nobody"), pwd.getpwnam("games")


class Node:
    """One node with its site file; prolog() and epilog() run the packaged scripts."""

    def __init__(self, store, folder, name="n1"):
        self.store, self.folder, self.name = store, folder, name
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.work.chmod(0o777)
        self.bin = folder / "bin"
        self.bin.mkdir(exist_ok=True)
        for tool in ("scontrol", "scancel"):
            self.tool(tool, f'echo {tool} "$@" >>{folder}/called')
        self.keys = folder / "site.env"
        self.keys.write_text("".join(f"{name}={value}\n" for name, value in self.key_pair(store).items()))
        self.keys.chmod(0o600)

    @staticmethod
    def key_pair(store):
        return {"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}

    def tool(self, name, text):
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def options(self):
        return {"endpoint-url": self.store.endpoint, "path-style": "true", "region": self.store.region,
                "cache-dir": str(self.folder / "cache"), "cache-size": "256M", "cache-min-free": "0",
                "log-file": str(self.folder / "log"), "log-level": "info"}

    def site(self, mounts, own=None, **keys):
        """mounts: {name: {key: value}}; own: the table job-mounts."""
        table = [f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in keys.items()]
        for name, values in mounts.items():
            values = {"source": self.store.url("").rstrip("/"), "environment-file": str(self.keys), **values}
            table += [f"[mounts.{name}]"] + [f"{key} = {json.dumps(value)}" for key, value in values.items()]
            table += [f"[mounts.{name}.options]"] + [f"{key} = {json.dumps(v)}" for key, v in self.options().items()]
        if own is not None:
            table += ["[job-mounts]"] + [f"{key} = {json.dumps(value)}" for key, value in own.items()]
            table += ["[job-mounts.options]"] + [f"{key} = {json.dumps(v)}" for key, v in self.options().items()]
        (self.folder / "slurm.toml").write_text("\n".join(table) + "\n")
        return self

    def script(self, which, job, user=ALICE, comment="", partition="p", **variables):
        given = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(user.pw_uid), "SLURM_JOB_GID": str(user.pw_gid),
                 "SLURM_JOB_USER": user.pw_name, "SLURM_JOB_PARTITION": partition, "SLURMD_NODENAME": self.name,
                 "SLURM_JOB_COMMENT": comment, "SLURM_JOB_WORK_DIR": str(self.work), "SLURM_JOB_STDOUT": "%j.out"}
        env = environment(SHARDFS=program(), SHARDFS_SITE=str(self.folder / "slurm.toml"), **{**given, **variables})
        # The node's own keys, which no job's mount may use.
        env.update(self.key_pair(self.store), PATH=f"{self.bin}:{os.environ['PATH']}")
        return subprocess.run([PACKAGING / "slurm" / f"{which}.d" / "50-shardfs"], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=90, check=False)

    def prolog(self, job, **options):
        return self.script("prolog", job, **options)

    def epilog(self, job, **options):
        done = self.script("epilog", job, **options)
        assert done.returncode == 0, done.stderr
        return done

    def output(self, job):
        path = self.work / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def called(self):
        path = self.folder / "called"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def node(store, folder):
    store.put_generated("a", MIB, 1)
    yield Node(store, folder)
    shutil.rmtree(pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"]) / "slurm", ignore_errors=True)


def as_user(user, *command):
    return subprocess.run(["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *command],
                          capture_output=True, text=True, errors="replace", check=False)


def runtime_files():
    """Files of the mounts and of the ledger, its empty locks left out."""
    folder = pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"])
    return {str(path) for path in folder.rglob("*") if path.is_file() and path.parent.name + path.suffix != "slurm.lock"}


others_files = set()


@pytest.fixture(autouse=True)
def note_others_files():
    """What other tests left: of daemons that they killed."""
    others_files.clear()
    others_files.update(runtime_files())


def left_behind():
    return sorted(runtime_files() - others_files)


def test_a_job_from_prolog_to_epilog(node, store, folder):
    path = folder / "data-7"
    node.site({"data": {"path": f"{folder}/data-{{job}}", "for-all-jobs": True}})
    assert node.prolog(7).returncode == 0
    assert len(daemons()) == 1
    again = node.prolog(7)  # Slurm may call it twice
    assert again.returncode == 0 and len(daemons()) == 1
    compare(read_all(path / "a"), MIB, 1)
    done = node.epilog(7)
    assert re.search(rf"shardfs: n1: {path}: read 1 MiB, from the store 1 MiB, hit ratio 0\.\d+ \(estimated\), "
                     r"readers waited \d+\.\d s", done.stdout), done.stdout
    assert node.output(7) == done.stdout
    assert (node.work / "7.out").stat().st_uid == ALICE.pw_uid
    assert node.epilog(7).stdout == ""
    assert not mounts_below(folder) and not daemons() and not left_behind()
    gets = store.stats().gets
    assert node.prolog(8).returncode == 0  # the cache stays
    compare(read_all(folder / "data-8" / "a"), MIB, 1)
    node.epilog(8)
    assert store.stats().gets == gets and node.called() == ""


def test_metrics_of_a_job(node, folder):
    (folder / "textfile").mkdir()
    site = {"path": f"{folder}/data-{{job}}", "for-all-jobs": True}
    node.site({"data": site})
    with (folder / "slurm.toml").open("a") as file:
        file.write(f'metrics-file = "{folder}/textfile"\nmetrics-labels = "cluster=c"\n')
    assert node.prolog(7).returncode == 0
    text = next((folder / "textfile").iterdir()).read_text()
    for label in ('slurm_job="7"', f'slurm_user="{ALICE.pw_name}"', 'cluster="c"'):
        assert label in text
    node.epilog(7)
    assert not list((folder / "textfile").iterdir())


def test_only_the_jobs_user_reads(node, folder):
    node.site({"data": {"path": f"{folder}/data-{{job}}", "for-all-jobs": True}})
    assert node.prolog(1, user=ALICE).returncode == 0 and node.prolog(2, user=BOB).returncode == 0
    for job, reader, other in ((1, ALICE, BOB), (2, BOB, ALICE)):
        path = f"{folder}/data-{job}"
        assert as_user(reader, "cmp", f"{path}/a", f"{path}/a").returncode == 0
        for command in (["cat", f"{path}/a"], ["ls", path], ["stat", f"{path}/a"]):
            refused = as_user(other, *command)
            assert refused.returncode != 0 and "Permission denied" in refused.stderr
    node.epilog(1, user=ALICE)
    assert mounts_below(folder) == [f"{folder}/data-2"]
    node.epilog(2, user=BOB)


def test_two_jobs_share_a_mount(node, folder):
    node.site({"data": {"path": f"{folder}/data", "for-all-jobs": True, "shared": True}})
    assert node.prolog(1, user=ALICE).returncode == 0 and node.prolog(2, user=BOB).returncode == 0
    assert len(daemons()) == 1
    for user in (ALICE, BOB):
        assert as_user(user, "cat", f"{folder}/data/a").returncode == 0
    assert "shared with 1 other" in node.epilog(1).stdout
    compare(read_all(folder / "data/a"), MIB, 1)
    assert "shared" not in node.epilog(2, user=BOB).stdout
    assert not mounts_below(folder) and not daemons()


def test_another_jobs_mount_is_in_the_way(node, folder):
    """Not shared, and both at the same path: the second job can't run here; the first is not disturbed."""
    node.site({"data": {"path": f"{folder}/data", "for-all-jobs": True}})
    assert node.prolog(1, user=ALICE).returncode == 0
    assert node.prolog(2, user=BOB).returncode == 0
    assert "scancel 2" in node.called()
    assert f"{folder}/data is in use by job 1 of nobody" in node.output(2)
    assert as_user(ALICE, "cat", f"{folder}/data/a").returncode == 0
    node.epilog(2, user=BOB)
    assert mounts_below(folder) == [f"{folder}/data"]
    node.epilog(1)


def test_a_dead_mount_is_replaced(node, folder):
    node.site({"data": {"path": f"{folder}/data", "for-all-jobs": True, "shared": True}}, command_timeout="1s",
              umount_timeout="1s")
    assert node.prolog(1).returncode == 0
    first, = daemons()
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first), "the daemon ends")
    with pytest.raises(OSError):
        os.listdir(folder / "data")
    assert node.prolog(2).returncode == 0
    compare(read_all(folder / "data/a"), MIB, 1)
    second, = daemons()
    os.kill(second, signal.SIGSTOP)  # alive, and never answers
    assert node.prolog(3).returncode == 0
    compare(read_all(folder / "data/a"), MIB, 1)
    third, = daemons()
    assert third not in (first, second)
    for job in (1, 2, 3):
        node.epilog(job)
    assert not mounts_below(folder) and not daemons() and not left_behind()


def test_a_process_inside_at_the_epilog(node, folder):
    node.site({"data": {"path": f"{folder}/data", "for-all-jobs": True}}, umount_timeout="1s")
    assert node.prolog(1).returncode == 0
    holder = subprocess.Popen(["sleep", "1000"], cwd=folder / "data", user=ALICE.pw_uid)
    try:
        node.epilog(1)
        assert not mounts_below(folder) and not daemons()
    finally:
        holder.kill()
        holder.wait()


@pytest.mark.parametrize("policy,code,calls", [("drain", 1, "scontrol update NodeName=n1 State=DRAIN Reason=shardfs: data: "),
                                               ("cancel", 0, "scancel 5"), ("continue", 0, "")])
def test_a_store_that_is_down(node, store, folder, policy, code, calls):
    node.site({"data": {"path": f"{folder}/data", "for-all-jobs": True}}, on_failure=policy)
    store.stop()
    done = node.prolog(5)
    assert done.returncode == code
    for text in (done.stderr, node.output(5)):
        assert "shardfs: n1: job 5: data: can't mount s3://bucket" in text
    assert node.called().startswith(calls) and bool(node.called()) == bool(calls)
    assert not mounts_below(folder) and not daemons() and not left_behind()
    assert node.epilog(5).stdout == ""


def test_a_step_that_overruns_its_limit(node, folder):
    node.site({"data": {"path": f"{folder}/data", "for-all-jobs": True}}, mount_timeout="300ms", systemd_scope="always")
    node.tool("systemd-run", "echo half-way; sleep 60")
    done = node.prolog(5)
    assert done.returncode == 1
    assert "not done within 0.3 s" in node.output(5) and "half-way" in node.output(5)


def test_the_daemon_gets_a_scope_of_its_own(node, folder):
    node.tool("systemd-run", f'echo "$@" >>{folder}/scopes; while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    node.site({"data": {"path": f"{folder}/data", "for-all-jobs": True}}, systemd_scope="always")
    assert node.prolog(5).returncode == 0
    assert re.match(r"--scope .*-- \S*shardfs mount s3://bucket ", (folder / "scopes").read_text())
    pid, = daemons()
    assert os.getsid(pid) == pid
    node.epilog(5)


@pytest.mark.parametrize("comment,said", [
    ("shardfs:absent", "no mount named absent"), ("shardfs:gpu", "not for the partition p"),
    ("shardfs:x=s3://bucket", "define mounts"), ("shardfs:../x", "comment"), ("shardfs-keys:x", "comment"),
    ("shardfs:x=s3://AKIAXXXXXXXX:hush@bucket", "seems to hold a key")])
def test_a_comment_that_makes_no_sense(node, folder, comment, said):
    """The job's fault: it is cancelled, and the node stays."""
    node.site({"gpu": {"path": f"{folder}/data", "partitions": ["gpu"]}})
    done = node.prolog(5, comment=f"for the paper {comment}")
    assert done.returncode == 0 and node.called() == "scancel 5\n"
    assert said in node.output(5) and said in done.stderr
    assert "hush" not in node.output(5) + done.stderr
    assert not daemons()


def test_partitions_and_wishes(node, folder):
    node.site({"gpu": {"path": f"{folder}/gpu", "partitions": ["gpu"], "for-all-jobs": True},
               "wish": {"path": f"{folder}/wish"}})
    assert node.prolog(1, partition="cpu", comment="other words").returncode == 0
    assert not mounts_below(folder)
    assert node.prolog(2, partition="gpu", comment="shardfs:wish more").returncode == 0
    assert sorted(mounts_below(folder)) == [f"{folder}/gpu", f"{folder}/wish"]
    node.epilog(2)
    assert not mounts_below(folder)


@pytest.mark.parametrize("text,said", [
    ("on-failure = 'explode'", "on-failure"), ("colour = 1", "colour: unknown"), ("[mounts.a]\nsource='s3://bucket'", "source and path"),
    ("[mounts.a]\nsource='b'\npath='/x'", "source"), ("[mounts.a]\nsource='s3://bucket'\npath='x'", "absolute path"),
    ("[mounts.a]\nsource='s3://bucket'\npath='/x'\n[mounts.a.options]\ncache-size='much'", "cache-size"),
    ("[mounts.a]\nsource='s3://bucket'\npath='/x'\n[mounts.a.options]\nuid=5", "decided for each job"),
    ("mount-timeout = 'soon'", "mount-timeout"), ("not toml", "line 1"), (None, "No such file")])
def test_a_wrong_site_file(node, folder, text, said):
    site = folder / "slurm.toml"
    if text is None:
        site.mkdir()
        said = "directory"
    else:
        site.write_text(text)
    done = node.prolog(5)
    assert done.returncode == 1 and said in done.stderr and said in node.output(5)
    assert "State=DRAIN" in node.called() and str(site) in node.called()


def test_a_place_that_a_user_could_move(node, folder):
    """Whoever may rename a folder on the way could have the mount lie anywhere."""
    theirs = folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, ALICE.pw_uid, ALICE.pw_gid)
    (folder / "link").symlink_to("/tmp")
    for path, said in ((theirs / "data", "may be changed by others"), (folder / "link" / "x", "not a folder")):
        node.site({"data": {"path": str(path), "for-all-jobs": True}})
        assert node.prolog(5).returncode == 1
        assert said in node.output(5)
    assert not daemons()


class TestOwn:
    """Mounts that a job defines, with its own keys."""

    @pytest.fixture
    def node(self, node, folder):
        return node.site({}, own={"allow": True, "folder": f"{folder}/jobs"})

    @staticmethod
    def keys_of(user, folder, store, name="keys", profile="default", **more):
        path = folder / name
        path.write_text(f"[{profile}]\naws_access_key_id = {store.access_key}\naws_secret_access_key = {store.secret_key}\n")
        path.chmod(0o600)
        os.chown(path, user.pw_uid, user.pw_gid)
        return path

    def test_keys_of_the_job(self, node, store, folder):
        keys = self.keys_of(ALICE, folder, store, profile="team")
        comment = f"shardfs:own=s3://bucket shardfs-credentials:{keys} shardfs-profile:team"
        done = node.prolog(5, comment=comment)
        assert done.returncode == 0 and node.called() == "", done.stderr
        assert as_user(ALICE, "cat", f"{folder}/jobs/5/own/a").returncode == 0
        assert as_user(BOB, "cat", f"{folder}/jobs/5/own/a").returncode != 0
        pid, = daemons()
        shown = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() + pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        assert store.secret_key.encode() not in shown
        for path in pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"]).rglob("*"):
            assert path.stat().st_uid == 0 and path.stat().st_mode & 0o077 == 0
        node.epilog(5, comment=comment)
        assert not left_behind() and not (folder / "jobs/5").exists() and not mounts_below(folder)

    def test_a_program_gives_the_keys(self, node, store, folder):
        """It runs as the job's user, at the prolog and whenever the daemon needs new keys."""
        answer = json.dumps({"Version": 1, "AccessKeyId": store.access_key, "SecretAccessKey": store.secret_key})
        given = folder / "answer"
        given.write_text(answer)
        who = folder / "who"
        who.touch()
        keys = folder / "keys"
        keys.write_text(f"[default]\ncredential_process = sh -c 'id -u >>{who}; id -G >>{who}; env >>{folder}/env; cat {given}'\n")
        for path in (who, given, keys):
            os.chown(path, ALICE.pw_uid, ALICE.pw_gid)
            path.chmod(0o600)
        assert node.prolog(5, comment=f"shardfs:own=s3://bucket shardfs-credentials:{keys}").returncode == 0
        compare(read_all(folder / "jobs/5/own/a"), MIB, 1)
        assert set(who.read_text().split()) == {str(ALICE.pw_uid), str(ALICE.pw_gid)}
        for path in pathlib.Path(os.environ["SHARDFS_RUNTIME_DIR"]).rglob("*"):
            assert not path.is_file() or store.secret_key not in path.read_text()
        node.epilog(5)

    def test_users_do_not_share_what_their_keys_fetched(self, node, store, folder):
        """Endpoint and keys are a job's word: another user must not get what came in that way."""
        gets = []
        for job, user in ((1, ALICE), (2, BOB), (3, ALICE)):
            comment = f"shardfs:own=s3://bucket shardfs-credentials:{self.keys_of(user, folder, store, user.pw_name)}"
            assert node.prolog(job, user=user, comment=comment).returncode == 0
            before = store.stats().gets
            compare(read_all(folder / f"jobs/{job}/own/a"), MIB, 1)
            node.epilog(job, user=user)
            gets.append(store.stats().gets - before)
        assert gets[0] == gets[1] > 0 and gets[2] == 0

    @pytest.mark.parametrize("fault", ["other user's", "absent", "no such profile", "none"])
    def test_nothing_else_is_used_in_their_place(self, node, store, folder, fault):
        """The script's environment holds the node's own valid keys, and root could read every file."""
        words = {"other user's": f"shardfs-credentials:{self.keys_of(BOB, folder, store, 'theirs')}",
                 "absent": f"shardfs-credentials:{folder}/absent",
                 "no such profile": f"shardfs-credentials:{self.keys_of(ALICE, folder, store)} shardfs-profile:x",
                 "none": ""}
        done = node.prolog(5, comment=f"shardfs:own=s3://bucket {words[fault]}")
        assert done.returncode == 0 and node.called() == "scancel 5\n"
        assert "own: the job's keys: " in node.output(5)
        assert store.secret_key not in node.output(5) + done.stderr
        assert not daemons() and not mounts_below(folder) and not left_behind()
        assert store.stats().raw["connections_accepted"] <= 1  # the test's own

    def test_output_that_the_user_may_not_write(self, node, folder):
        """Root's pen is not lent: the line goes to the node's log only."""
        precious = folder / "precious"
        precious.write_text("x")
        done = node.prolog(5, comment="shardfs:no", SLURM_JOB_STDOUT=str(precious))
        assert precious.read_text() == "x" and "can't write to its output" in done.stderr
        fifo = folder / "fifo"
        os.mkfifo(fifo, 0o666)
        fifo.chmod(0o666)
        assert node.prolog(5, comment="shardfs:no", SLURM_JOB_STDOUT=str(fifo)).returncode == 0


def test_the_example_of_a_site_file(node, folder):
    """It is read, and gives a job that asks for nothing nothing."""
    shutil.copy(PACKAGING / "slurm" / "slurm.toml", folder / "slurm.toml")
    done = node.prolog(5)
    assert done.returncode == 0 and not done.stderr and not node.called() and not daemons()
    done = node.prolog(5, comment="shardfs:absent")
    assert "no mount named absent" in done.stderr
