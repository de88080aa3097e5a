"""Cluster: munged, slurmctld and two slurmd, all with their files in one folder, on free ports; jobs of two users."""

import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess

from lib.mounting import MARK, mounts_below, program
from lib.waiting import until

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "slurm"
ALICE, BOB = pwd.getpwnam("nobody"), pwd.getpwnam("games")
NODES = ("n1", "n2")
PATIENCE_S = 60

CONFIGURATION = """
ClusterName=shardfs-tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PrologFlags=Alloc
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/%n.pid
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
Prolog={folder}/prolog
Epilog={folder}/epilog
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname={host} Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname={host} Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=train Nodes=n1,n2 Default=YES OverSubscribe=YES State=UP MaxTime=60
"""


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.store = None
        self.work = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        munge = self.folder / "munge"
        for name in ("munge", "state"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        munge.chmod(0o755)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o600)
        subprocess.run(["munged", "--force", f"--socket={munge}/socket", f"--key-file={munge}/key", f"--pid-file={munge}/pid",
                        f"--log-file={munge}/log", f"--seed-file={munge}/seed"], check=True, capture_output=True)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], folder=self.folder, ports=free_ports(3)))
        for which in ("prolog", "epilog"):
            # As /etc/default/shardfs would; the mark lets the tests find their daemons.
            lines = [f"export {MARK}={os.environ[MARK]} SHARDFS_RUNTIME_DIR={os.environ['SHARDFS_RUNTIME_DIR']}",
                     f"export SHARDFS={program()} SHARDFS_SITE={self.folder}/slurm.toml PATH={os.environ['PATH']}",
                     f"begun=$(date +%s.%N); {PACKAGING}/{which}.d/50-shardfs; code=$?",
                     f'echo "$SLURM_JOB_ID $SLURMD_NODENAME $begun $(date +%s.%N) $code" >>{self.folder}/{which}.calls',
                     "exit $code"]
            (self.folder / which).write_text("#!/bin/bash\n" + "\n".join(lines) + "\n")
            (self.folder / which).chmod(0o755)
        subprocess.run(["slurmctld"], env=self.env, check=True, capture_output=True)
        for node in NODES:
            subprocess.run(["slurmd", "-N", node], env=self.env, check=True, capture_output=True)
        until(lambda: self.nodes() == {"n1": "idle", "n2": "idle"}, "both nodes are idle", patience_s=PATIENCE_S)

    def stop(self):
        for path in [*self.folder.glob("*.pid"), *self.folder.glob("munge/pid")]:
            try:
                pid = int(path.read_text())
                os.kill(pid, signal.SIGTERM)
                until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"{path.name} ends", patience_s=20)
            except (ValueError, FileNotFoundError, ProcessLookupError):
                continue

    def slurm(self, *command, user=None, patience_s=PATIENCE_S):
        """Its output. Repeated where the controller was too busy to answer."""
        as_user = [] if user is None else ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        done = subprocess.run([*as_user, *map(str, command)], env=self.env, cwd=self.work, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=patience_s, check=False)
        if done.returncode != 0 and "timed out" in done.stderr:
            return self.slurm(*command, user=user, patience_s=patience_s)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def nodes(self):
        return dict(line.split() for line in self.slurm("sinfo", "-h", "-N", "-o", "%N %t").splitlines())

    def fresh(self, store):
        """A site file for this store, an empty folder for mounts and another for what jobs write."""
        self.store = store
        for name in ("cache", "work", "data"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.work.chmod(0o777)
        for which in ("prolog", "epilog"):
            (self.folder / f"{which}.calls").unlink(missing_ok=True)
        keys = self.folder / "site.env"
        keys.write_text(f"AWS_ACCESS_KEY_ID={store.access_key}\nAWS_SECRET_ACCESS_KEY={store.secret_key}\n")
        keys.chmod(0o600)
        self.site()

    def site(self, endpoint=None, shared=False, path="{node}/{job}", **keys):
        options = {"endpoint-url": endpoint or self.store.endpoint, "path-style": "true", "region": self.store.region,
                   "cache-dir": str(self.folder / "cache"), "cache-size": "512M", "cache-min-free": "0",
                   "log-file": str(self.folder / "shardfs.log"), "log-level": "info"}
        shown = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
        lines = [f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in keys.items()]
        lines += ["[mounts.train]", f'source = "{self.store.url("train/").rstrip("/")}"', 'partitions = ["train"]',
                  f'path = "{self.folder}/data/{path}"', f'environment-file = "{self.folder}/site.env"',
                  f"shared = {json.dumps(shared)}", "[mounts.train.options]", *shown]
        lines += ["[job-mounts]", "allow = true", f'folder = "{self.folder}/data/own-{{node}}"', "[job-mounts.options]", *shown]
        (self.folder / "slurm.toml").write_text("\n".join(lines) + "\n")

    def submit(self, script, *arguments, user=ALICE, comment="shardfs:train"):
        """The job's id. DATA is the mount of the job on the node that the script runs on."""
        text = f'#!/bin/bash\nexport DATA={self.folder}/data/$SLURMD_NODENAME/$SLURM_JOB_ID\n{script}\n'
        command = ["sbatch", "--parsable", "-o", "%j.out", f"--comment={comment}", *arguments]
        path = self.work / f"job-{len(list(self.work.iterdir()))}.sh"
        path.write_text(text)
        return int(self.slurm(*command, path, user=user))

    def shown(self, job):
        return self.slurm("scontrol", "show", "job", "-o", job)

    def state(self, job):
        return re.search(r"JobState=(\S+)", self.shown(job))[1]

    def ended(self, job):
        return self.state(job) not in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING")

    def wait(self, job, state, patience_s=PATIENCE_S):
        """Fails the test unless the job, and its epilogs, end with that state."""
        until(lambda: self.state(job) == state or self.ended(job), lambda: f"job {job} ends: {self.shown(job)}",
              patience_s=patience_s)
        assert self.state(job) == state, f"{self.shown(job)}\n{self.output(job)}"

    def run(self, script, *arguments, **options):
        """The job's output, when it and its epilogs have ended well."""
        job = self.submit(script, *arguments, **options)
        self.wait(job, "COMPLETED")
        return self.output(job)

    def output(self, job):
        path = self.work / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def seconds(self, which):
        """Of each call of the prolog or epilog."""
        lines = (self.folder / f"{which}.calls").read_text().splitlines()
        return [float(end) - float(begin) for _, _, begin, end, _ in map(str.split, lines)]

    def mounts(self):
        return mounts_below(self.folder / "data")

    def cancel_all(self):
        for user in (ALICE, BOB):
            self.slurm("scancel", "-u", user.pw_name)
        until(lambda: not self.slurm("squeue", "-h"), "no job is left", patience_s=PATIENCE_S)
        for node, state in self.nodes().items():
            if state.startswith(("drain", "drng", "down")):
                self.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
        until(lambda: set(self.nodes().values()) == {"idle"}, "the nodes are idle", patience_s=PATIENCE_S)
