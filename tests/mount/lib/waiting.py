"""Waiting: for a condition with a deadline, and for work in threads and child processes that must not outlive a test."""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import threading
import time

PATIENCE_S = 60  # generous: whoever waits so long has hung


def until(condition, what, patience_s=PATIENCE_S):
    """Returns the condition's first true value. what: a text, or a function that makes one."""
    deadline = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what() if callable(what) else what}")
        time.sleep(0.01)
    return value


class Together:
    """Runs functions in threads; join() fails the test with the first exception, or when one does not end."""

    def __init__(self, *functions):
        self._errors = []
        self._threads = [threading.Thread(target=self._run, args=[function], daemon=True) for function in functions]
        for thread in self._threads:
            thread.start()

    def _run(self, function):
        try:
            function()
        except BaseException as error:  # pylint: disable=broad-except
            self._errors.append(error)

    def running(self):
        return sum(thread.is_alive() for thread in self._threads)

    def join(self, patience_s=PATIENCE_S):
        deadline = time.monotonic() + patience_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._errors:
            raise self._errors[0]
        assert not self.running(), f"{self.running()} of {len(self._threads)} have not ended within {patience_s} s"


class Child:
    """A forked process that runs a function; what it returns or raises comes back by result()."""

    living = set()

    def __init__(self, function):
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run_child(function, write)
        os.close(write)
        Child.living.add(self)

    def result(self, patience_s=PATIENCE_S):
        with contextlib.closing(self):
            parts = []
            deadline = time.monotonic() + patience_s
            while True:
                ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
                assert ready, f"the child process has not ended within {patience_s} s"
                part = os.read(self._read, 1 << 20)
                if not part:
                    break
                parts.append(part)
        assert parts, "the child process died"
        raised, value = pickle.loads(b"".join(parts))
        if raised:
            raise value
        return value

    def await_end(self, patience_s=PATIENCE_S):
        """Its wait status. For one that was sent a signal."""
        with contextlib.closing(self):
            return until(self._poll, "the child process ends", patience_s)

    def _poll(self):
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.pid = 0
        return (status,)

    @classmethod
    def end_all(cls):
        """Those that a failed test did not wait for."""
        for child in list(cls.living):
            child.close()

    def close(self):
        Child.living.discard(self)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self._read >= 0:
            os.close(self._read)
            self._read = -1


def _run_child(function, write):
    Child.living.clear()  # they are the parent's
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    try:
        try:
            answer = (False, function())
        except BaseException as error:  # pylint: disable=broad-except
            answer = (True, error)
        data = memoryview(pickle.dumps(answer))
        while data:
            data = data[os.write(write, data):]
    finally:
        os._exit(0)


def in_child(function, patience_s=PATIENCE_S):
    """For what would stop the whole test if it hung: a page fault holds Python's lock."""
    return Child(function).result(patience_s)
