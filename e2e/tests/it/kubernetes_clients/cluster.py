"""A fake-apiserver program of its own for each case, and the helpers of cases."""

import functools
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

# Time limit of each wait, in seconds.
PATIENCE = 90.0
# The media types of patches.
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

CASES = {}


def case(*flags):
    """Registers a case under its function's name; `flags` are the program's."""

    def register(function):
        assert function.__name__ not in CASES, f"two cases are called {function.__name__}"

        @functools.wraps(function)
        def run(binary):
            with Cluster(binary, flags) as cluster:
                function(cluster)

        CASES[function.__name__] = run
        return function

    return register


class Cluster:
    """A running fake-apiserver and a client of it, configured by its kubeconfig."""

    def __init__(self, binary, flags):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mooring-api-"))
        ready, self.kubeconfig = self.directory / "ready.json", self.directory / "kubeconfig"
        arguments = ["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
        arguments += ["--ready-file", ready, "--kubeconfig", self.kubeconfig, *flags]
        self.log = (self.directory / "log").open("w+")
        self.process = subprocess.Popen([binary, *map(str, arguments)], stdout=self.log, stderr=self.log)
        try:
            self.ready = json.loads(until(lambda: self.started(ready)))
        except BaseException:
            self.close()
            raise
        # TLS, with the certificate authority and the user of the kubeconfig.
        self.configuration = client.Configuration()
        config.load_kube_config(str(self.kubeconfig), client_configuration=self.configuration)
        # Clients that the library creates itself use the same configuration.
        client.Configuration.set_default(self.configuration)
        self.api = client.ApiClient(self.configuration)
        self.core = client.CoreV1Api(self.api)
        self.storage = client.StorageV1Api(self.api)
        self.apps = client.AppsV1Api(self.api)

    def started(self, ready):
        assert self.process.poll() is None, (self.directory / "log").read_text()
        return ready.read_text() if ready.exists() else None

    def plain(self):
        """A client without TLS."""
        configuration = client.Configuration()
        configuration.host = self.ready["httpEndpoint"]
        return client.ApiClient(configuration)

    def admin(self, method, path, body=None):
        """The program's own admin API."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.ready['httpEndpoint']}/admin/v1/{path}"
        request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def settings(self, name, **data):
        """Creates a ConfigMap."""
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)
        return self.core.create_namespaced_config_map("default", body)

    def pod(self, name, **spec):
        """Creates a pod."""
        body = {"metadata": {"name": name, "labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec}}
        return self.core.create_namespaced_pod("default", body)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def until(probe):
    """Calls `probe` until its result is true, and returns that."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = probe()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def equal(found, wanted):
    assert found == wanted, f"{found!r} is not {wanted!r}"


def refused(status, reason, call, *arguments, **parameters):
    """Expects a failure; returns its Status."""
    try:
        answer = call(*arguments, **parameters)
    except ApiException as error:
        body = json.loads(error.body)
        equal((error.status, body["kind"], body["reason"]), (status, "Status", reason))
        return body
    raise AssertionError(f"it was not refused: {answer}")
