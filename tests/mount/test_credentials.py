"""Keys that come from elsewhere, end and are renewed under a mount; the site's variables; and where no secret may be."""

import datetime
import os
import pathlib
import resource
import signal
import subprocess

import pytest

from lib.content import MIB, compare, read_all
from lib.mounting import environment, mounts_below, program, shardfs
from lib.waiting import until
from lib.web import Web

NO_KEYS = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


def in_seconds(seconds):
    return (datetime.datetime.utcnow() + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def role_answer(key, secret, token, expires):
    return ("<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}"
            f"</SessionToken><Expiration>{expires}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
            "</AssumeRoleWithWebIdentityResponse>")


def test_keys_are_renewed_before_they_end_with_the_token_of_a_replaced_file(store, mount, folder):
    """The token file is replaced, the keys end; the mount has new ones before, and no reader sees any of it."""
    store.put_many({"a": (MIB, 1), "b": (MIB, 2)})
    store.credentials("KEY-one", "secret-one", "session-one")
    store.credentials("KEY-two", "secret-two", "session-two")
    token = folder / "token"
    token.write_text("one")

    def sts(_method, _path, _headers, body):
        name = "two" if body.endswith("WebIdentityToken=two") else "one"
        return 200, role_answer(f"KEY-{name}", f"secret-{name}", f"session-{name}", in_seconds(4 if name == "one" else 3600))

    with Web(sts) as service:
        mounted = mount(env={**NO_KEYS, "AWS_ENDPOINT_URL_STS": service.url, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
                             "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}, metadata_ttl="0s")
        compare(read_all(mounted.path / "a"), MIB, 1)
        fresh = token.with_suffix(".new")
        fresh.write_text("two")
        fresh.rename(token)
        until(lambda: service.seen[-1][2].endswith("=two") and "new credentials" in mounted.log, "the keys are renewed")
        store.credentials("KEY-one")
        store.reset()
        compare(read_all(mounted.path / "b"), MIB, 2)
        assert not {400, 403} & set(store.stats().statuses), "the new keys were there before the old ones were refused"
        said = str(mounted.stats()) + pathlib.Path(f"/proc/{mounted.pid}/cmdline").read_text()
        mounted.umount()
        said += mounted.log + str(mounted.started)
        for secret in ("secret-one", "secret-two", "session-one", "session-two", "WebIdentityToken"):
            assert secret not in said


def test_token_service_is_down_when_the_store_refuses_the_keys(store, mount, folder):
    """No EACCES: the reader waits until there are keys again."""
    store.put_generated("a", MIB, 1)
    store.credentials("KEY-one", "secret-one", "t")
    store.credentials("KEY-two", "secret-two", "t")
    (folder / "token").write_text("x")
    state = {"down": False, "refused": 0, "name": "one"}

    def sts(*_):
        if state["down"]:
            state["refused"] += 1
            state["down"] = state["refused"] < 4  # more than the tries of one load
            return 503, ""
        return 200, role_answer(f"KEY-{state['name']}", f"secret-{state['name']}", "t", in_seconds(3600))

    with Web(sts) as service:
        mounted = mount(env={**NO_KEYS, "AWS_ENDPOINT_URL_STS": service.url, "AWS_ROLE_ARN": "r",
                             "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token")})
        assert os.listdir(mounted.path) == ["a"]
        state.update(down=True, name="two")
        store.fault("status", {"access_key": "KEY-one"}, status=400, code="ExpiredToken", times=-1)
        compare(read_all(mounted.path / "a"), MIB, 1)
        assert state["refused"] == 4


def test_secret_changed_under_the_keys_name(store, mount, folder):
    """The old secret gives bad signatures only: the file is read again."""
    file = folder / "credentials"
    file.write_text(f"[default]\naws_access_key_id = {store.access_key}\naws_secret_access_key = {store.secret_key}\n")
    store.put_generated("a", MIB, 1)
    mounted = mount(env={**NO_KEYS, "AWS_SHARED_CREDENTIALS_FILE": str(file)})
    store.credentials(store.access_key, "another-secret")
    file.write_text(f"[default]\naws_access_key_id = {store.access_key}\naws_secret_access_key = another-secret\n")
    compare(read_all(mounted.path / "a"), MIB, 1)


def test_variables_of_a_prolog(store, folder, mount):
    """shardfs mount DIR, with all else from the site's own variables."""
    store.put("sets/one/a", b"bytes")
    config = folder / "config.toml"
    config.write_text("""path-style = true
[variables]
endpoint-url = "VERDA_S3_ENDPOINT"
bucket = "VERDA_S3_BUCKET"
prefix = "DATA_PREFIX"
access-key-id = "VERDA_S3_ACCESS_KEY"
secret-access-key = "VERDA_S3_SECRET_KEY"
""")
    env = {**environment(), "VERDA_S3_ENDPOINT": store.endpoint, "VERDA_S3_BUCKET": store.bucket,
           "VERDA_S3_ACCESS_KEY": store.access_key, "VERDA_S3_SECRET_KEY": store.secret_key, "DATA_PREFIX": "sets/one/"}
    point = folder / "point"
    point.mkdir()
    done = shardfs("mount", point, "--config", config, "--cache-size", "0", env=env)
    assert done.returncode == 0, done
    try:
        assert (point / "a").read_bytes() == b"bytes"
    finally:
        assert shardfs("umount", point).returncode == 0
    del env["VERDA_S3_BUCKET"]
    done = shardfs("mount", point, "--config", config, env=env)
    assert done.returncode == 2 and "the source is missing" in done.stderr


def test_places_without_keys_are_all_named(folder):
    (folder / "point").mkdir()
    with Web(lambda *_: (403, "")) as metadata:
        env = {**environment(), "AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.url,
               "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "absent"), "AWS_ROLE_ARN": "r"}
        done = shardfs("mount", "s3://bucket", folder / "point", "--cache-size", "0", env=env)
    assert done.returncode == 1 and not mounts_below(folder)
    line = done.stderr.splitlines()[-1]
    for part in ("environment: has none", "profile 'default': has none", f"there is no token in {folder}/absent",
                 "container: has none", "instance metadata: ", "answer 403"):
        assert part in line, done.stderr


@pytest.mark.parametrize("allowed", [False, True])
def test_core_dump(store, folder, allowed):
    """A process that dies with keys in its memory leaves none of them on the disk."""
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text()[0] in "|/":
        pytest.skip("core dumps of this machine go elsewhere")
    (folder / "point").mkdir()
    env = environment(store, SHARDFS_RUNTIME_DIR=str(folder / "run"))  # it can't tidy up
    child = subprocess.Popen([program(), "mount", store.url(), str(folder / "point"), "--foreground", "--endpoint-url",
                              store.endpoint, "--path-style", "--cache-size", "0", f"--core-dumps={allowed}".lower()],
                             env=env, cwd=folder, stderr=subprocess.DEVNULL,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)))
    until(lambda: mounts_below(folder) and shardfs("stats", folder / "point", env=env).returncode == 0,
          "the mount answers")
    child.send_signal(signal.SIGABRT)
    _, status = os.waitpid(child.pid, 0)
    child.returncode = status
    assert os.WIFSIGNALED(status)
    subprocess.run(["umount", "-l", folder / "point"], check=True)
    if not os.WCOREDUMP(status) and allowed:
        pytest.skip("this machine writes no core dumps")
    assert os.WCOREDUMP(status) == allowed
