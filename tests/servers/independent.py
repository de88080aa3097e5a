"""S3 servers that others wrote, started on a free port of this machine: versitygw, and moto's.

A bucket of one looks to the fixtures like the test store: endpoint, region, url(), env().
"""

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request

from lib.content import whole
from lib.waiting import until

ACCESS_KEY, SECRET_KEY, REGION = "shardfs-tests-key", "shardfs-tests-secret", "us-east-1"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    name = ""

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.port = 0
        self.access_key, self.secret_key = ACCESS_KEY, SECRET_KEY
        self.buckets = 0

    @staticmethod
    def missing():
        """Why it can't be started; empty if it can."""
        return "" if importlib.util.find_spec("boto3") else "boto3 is not installed (tools/setup python)"

    def command(self):
        raise NotImplementedError

    def set_up(self):
        """Once it answers."""

    def unchecked(self):
        """Where checks are slow, none are made within it."""
        return contextlib.nullcontext()

    def __enter__(self):
        self.port = free_port()
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.folder)
        try:
            until(self.is_up, f"{self.name} answers", patience_s=90)
            self.set_up()
        except BaseException:
            self.__exit__()
            print((self.folder / "log").read_text(errors="replace")[-4000:])
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def is_up(self):
        assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")[-4000:]
        try:
            urllib.request.urlopen(self.endpoint, timeout=10).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def client(self, service="s3"):
        import boto3
        import botocore.config
        return boto3.client(service, endpoint_url=self.endpoint, region_name=REGION, aws_access_key_id=self.access_key,
                            aws_secret_access_key=self.secret_key,
                            config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}))

    def fresh_bucket(self):
        self.buckets += 1
        return Bucket(self, f"bucket-{self.buckets}")


class Bucket:
    def __init__(self, server, bucket):
        self.server = server
        self.bucket = bucket
        self.endpoint = server.endpoint
        self.region = REGION
        self.client = server.client()
        self.client.create_bucket(Bucket=bucket)

    def url(self, prefix=""):
        return f"s3://{self.bucket}/{prefix}"

    def env(self):
        return {"AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": self.server.access_key,
                "AWS_SECRET_ACCESS_KEY": self.server.secret_key, "AWS_EC2_METADATA_DISABLED": "true"}

    def put(self, key, data):
        return self.client.put_object(Bucket=self.bucket, Key=key, Body=data)["ETag"]

    def put_generated(self, key, size, seed):
        return self.put(key, whole(size, seed))

    def put_in_parts(self, key, size, seed, part_bytes):
        data = whole(size, seed)
        upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        parts = []
        for number, begin in enumerate(range(0, size, part_bytes), start=1):
            done = self.client.upload_part(Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=number,
                                           Body=data[begin:begin + part_bytes])
            parts.append({"PartNumber": number, "ETag": done["ETag"]})
        return self.client.complete_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload,
                                                     MultipartUpload={"Parts": parts})["ETag"]

    def put_many(self, objects):
        """objects: a mapping from key (str, or bytes of UTF-8) to (size, seed) of generated content."""
        with self.server.unchecked():
            for key, (size, seed) in objects.items():
                self.put_generated(os.fsdecode(key), size, seed)

    def remove(self, key):
        self.client.delete_object(Bucket=self.bucket, Key=key)


class VersityGateway(Server):
    """Its posix backend: objects are files in a folder."""
    name = "versitygw"

    @staticmethod
    def missing():
        return Server.missing() or ("" if shutil.which("versitygw") else "not installed (tools/setup versitygw)")

    def command(self):
        (self.folder / "objects").mkdir()
        return ["versitygw", "--quiet", "--port", f"127.0.0.1:{self.port}", "--access", self.access_key,
                "--secret", self.secret_key, "--region", REGION, "posix", str(self.folder / "objects")]


class Moto(Server):
    """Checks no signature until it is told to, and then those of the users that it knows."""
    name = "moto"

    @staticmethod
    def missing():
        return Server.missing() or ("" if importlib.util.find_spec("moto.server") else "not installed "
                                    "(tools/setup python)")

    def command(self):
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def set_up(self):
        users = self.client("iam")
        users.create_user(UserName="tests")
        key = users.create_access_key(UserName="tests")["AccessKey"]
        users.put_user_policy(UserName="tests", PolicyName="all", PolicyDocument=(
            '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'))
        self.access_key, self.secret_key = key["AccessKeyId"], key["SecretAccessKey"]
        self.check_after("0")

    def check_after(self, actions):
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/moto-api/reset-auth", data=actions.encode(),
                                                      headers={"Content-Type": "text/plain"})).close()

    @contextlib.contextmanager
    def unchecked(self):
        self.check_after("inf")
        yield
        self.check_after("0")


SERVERS = [VersityGateway, Moto]
