"""The reply of AttachVolume is lost. The pod still runs, and a later pod finds its bytes."""
import json, os, pathlib, re, subprocess, time
import boto3, pytest, yaml
from kubernetes import client, config

CLAIM, POD = yaml.safe_load_all(pathlib.Path(__file__).with_name("pod-with-claim.yaml").read_text())
NAME = os.environ["MOORING_NAME"] = f"pytest-{os.getpid()}"

def mooring(*args):
    return subprocess.run([os.environ.get("MOORING", "mooring"), *args], check=True, stdout=subprocess.PIPE, text=True).stdout

@pytest.fixture
def cluster(tmp_path):
    mooring("up", "--detach", "--name", NAME, "--check", "--time-scale", "10", "--ready-file", str(tmp_path / "ready.json"))
    yield json.loads((tmp_path / "ready.json").read_text())
    mooring("down")

def test_a_lost_reply_loses_no_bytes(cluster):
    config.load_kube_config(cluster["kubeconfig"])
    core = client.CoreV1Api()
    def log_with(text):
        while text not in (log := core.read_namespaced_pod_log("web", "default")):
            time.sleep(0.05)
        return log
    mooring("fault", "add", "lost", "--on", "ec2/AttachVolume", "--effect", "drop_reply", "--first", "1")
    core.create_namespaced_persistent_volume_claim("default", CLAIM)
    core.create_namespaced_pod("default", POD)
    mooring("wait", "--for", "pvc/data=Bound", "--for", "pod/web=Running")
    ec2 = boto3.client("ec2", "us-east-1", endpoint_url=cluster["ec2"], aws_access_key_id="a", aws_secret_access_key="b")
    assert ec2.describe_volumes(Filters=[{"Name": "attachment.device", "Values": ["/dev/xvdaa"]}])["Volumes"]
    assert json.loads(mooring("fault", "ls", "--output", "json"))["data"]["faults"][0]["hits"] == 1
    log_with("wrote record 3")
    core.delete_namespaced_pod("web", "default")
    mooring("wait", "--for", "pod/web=gone")
    core.create_namespaced_pod("default", POD)
    mooring("wait", "--for", "pod/web=Running")
    assert int(re.search(r"found (\d+) records, verified", log_with("found"))[1]) >= 3
    mooring("fault", "rm", "--all")
    mooring("check", "--rest")
