"""A mock-ec2 program of its own for each case, and the helpers of cases."""

import functools
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request
from xml.etree import ElementTree

from botocore.config import Config
from botocore.exceptions import ClientError

# Time limit of each wait, in seconds.
PATIENCE = 90.0

INSTANCES = [
    {"name": "node-a", "zone": "us-east-1a"},
    {"name": "node-b", "zone": "us-east-1a"},
    {"name": "node-c", "zone": "us-east-1b"},
    # At most three devices, including the root volume.
    {"name": "narrow", "zone": "us-east-1a", "instanceType": "d3.8xlarge"},
    {"name": "two-cards", "zone": "us-east-1a", "instanceType": "r8gb.48xlarge"},
]

CASES = {}


def case(held=(), flags=()):
    """Registers a case under its function's name. Transitions in `held` complete only when the case says so; `flags`
    are the program's, with {directory} for a temporary directory of the case."""

    def register(function):
        assert function.__name__ not in CASES, f"two cases are called {function.__name__}"

        @functools.wraps(function)
        def run(binary, session):
            with Cloud(binary, session, held, flags) as cloud:
                function(cloud)

        CASES[function.__name__] = run
        return function

    return register


class Cloud:
    """A running mock-ec2 and a boto3 client of it."""

    def __init__(self, binary, session, held, flags):
        self.session = session
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mooring-ec2-"))
        ready = self.directory / "ready.json"
        instances = self.directory / "instances.json"
        instances.write_text(json.dumps(INSTANCES))
        arguments = ["--listen", "127.0.0.1:0", "--ready-file", ready, "--instances", instances]
        arguments += [flag.format(directory=self.directory) for flag in flags]
        if held:
            hours = 3_600_000
            rules = [{"operation": name, "quantiles": [[0, hours], [1, hours]]} for name in held]
            latency = self.directory / "latency.yaml"
            latency.write_text(json.dumps({"base": "instant", "rules": rules}))
            arguments += ["--latency", latency]
        self.log = (self.directory / "log").open("w+")
        self.process = subprocess.Popen([binary, *map(str, arguments)], stdout=self.log, stderr=self.log)
        try:
            self.ready = json.loads(until(lambda: self.started(ready)))
        except BaseException:
            self.close()
            raise
        self.endpoint = self.ready["endpoint"]
        self.ec2 = self.client("ec2")

    def started(self, ready):
        assert self.process.poll() is None, (self.directory / "log").read_text()
        return ready.read_text() if ready.exists() else None

    def client(self, service, retries=None, **more):
        """A client of this cloud; without retries by default."""
        retries = retries or {"total_max_attempts": 1}
        settings = Config(connect_timeout=PATIENCE, read_timeout=PATIENCE, retries=retries)
        client = self.session.client(service, endpoint_url=self.endpoint, config=settings, **more)
        # An older SDK does not know all elements, and ignores unknown ones.
        if service == "ec2" and "VolumeArn" in client.meta.service_model.shape_for("Volume").members:
            client.meta.events.register("before-parse.ec2.*", known_elements)
        return client

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # The admin API.

    def admin(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.endpoint}/admin/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def end(self, volume, which="volume"):
        """Completes the volume's transition in progress."""
        done = self.admin("POST", f"volumes/{volume}/complete", {"which": which})
        assert done["changed"], f"nothing was under way: {done}"

    def mounted(self, instance, *volumes):
        self.admin("PUT", f"instances/{instance}/mounts", {"volumes": list(volumes)})

    def fault(self, operation, when, effect, at="before"):
        fault = {"name": "fault", "match": {"plane": "ec2", "op": operation}, "when": when, "effect": effect, "at": at}
        self.admin("POST", "faults", fault)

    def switch(self, **switches):
        self.admin("POST", "switches", switches)

    # Operations of customers.

    def instance(self, name):
        found = self.ec2.describe_instances(Filters=[{"Name": "tag:Name", "Values": [name]}])
        return found["Reservations"][0]["Instances"][0]["InstanceId"]

    def volume(self, size=4, zone="us-east-1a", **more):
        """Creates a gp3 volume and waits until it is available."""
        more.setdefault("VolumeType", "gp3")
        made = self.ec2.create_volume(Size=size, AvailabilityZone=zone, **more)["VolumeId"]
        self.state_becomes(made, "available")
        return made

    def attach(self, volume, instance, device="/dev/sdf"):
        return self.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device=device)

    def attached(self, volume, instance, device="/dev/sdf"):
        """Attaches and waits until it is attached."""
        self.attach(volume, instance, device)
        self.attachment_becomes(volume, "attached")

    def describe(self, volume):
        return self.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]

    def state_becomes(self, volume, state):
        return until(lambda: self.describe(volume)["State"] == state)

    def attachment(self, volume):
        """The state of its only attachment."""
        (only,) = self.describe(volume)["Attachments"]
        return only["State"]

    def attachment_becomes(self, volume, state):
        return until(lambda: self.attachment(volume) == state)

    def mapping(self, instance):
        """Device names and volumes of the instance."""
        found = self.ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        return [(item["DeviceName"], item["Ebs"]["VolumeId"]) for item in found["BlockDeviceMappings"]]

    def instance_state(self, instance):
        found = self.ec2.describe_instances(InstanceIds=[instance])
        return found["Reservations"][0]["Instances"][0]["State"]["Name"]

    def instance_becomes(self, instance, state):
        return until(lambda: self.instance_state(instance) == state)


def known_elements(operation_model, response_dict, **_):
    """Asserts that the SDK's EC2 model has every element of a response, at the same place."""
    if response_dict["status_code"] >= 300:
        return
    root = ElementTree.fromstring(response_dict["body"])
    assert root.tag == f"{NAMESPACE}{operation_model.name}Response", root.tag
    top = [element for element in root if element.tag != f"{NAMESPACE}requestId"]
    assert len(top) == len(root) - 1, "one request id"
    if operation_model.output_shape is None:
        # Actions without output, such as DeleteVolume.
        assert [element.tag for element in top] == [f"{NAMESPACE}return"], top
    else:
        known(operation_model.output_shape, top, operation_model.name)


NAMESPACE = "{http://ec2.amazonaws.com/doc/2016-11-15/}"


def known(shape, elements, path):
    tags = [element.tag.removeprefix(NAMESPACE) for element in elements]
    if shape.type_name == "list":
        assert set(tags) <= {"item"}, f"{path}: {tags}"
        for element in elements:
            known(shape.member, list(element), path)
    elif shape.type_name == "structure":
        assert len(tags) == len(set(tags)), f"{path}: twice in {tags}"
        members = {member.serialization.get("name", name): member for name, member in shape.members.items()}
        for tag, element in zip(tags, elements):
            assert tag in members, f"{path} has no {tag}"
            known(members[tag], list(element), f"{path}.{tag}")
    else:
        assert not tags, f"{path}: {tags} inside of a {shape.type_name}"


def until(probe):
    """Calls `probe` until its result is true, and returns that."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def refused(code, call, status=400, **parameters):
    """Asserts that `call` is refused with `code`, and returns the message."""
    try:
        answer = call(**parameters)
    except ClientError as error:
        said, http = error.response["Error"], error.response["ResponseMetadata"]
        seen = (said["Code"], http["HTTPStatusCode"])
        assert seen == (code, status), f"{seen}: {said['Message']}"
        assert http["RequestId"] == http["HTTPHeaders"]["x-amzn-requestid"], http
        return said["Message"]
    raise AssertionError(f"not refused: {answer}")


def equal(seen, wanted):
    assert seen == wanted, f"\nseen   {seen!r}\nwanted {wanted!r}"
