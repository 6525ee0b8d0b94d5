"""A CSI driver as one program: Mooring's own, with the services of all nodes, of the program in the first argument."""
import json
import os
import subprocess
import sys

mooring, scale = sys.argv[1], sys.argv[2]
with open(os.environ["MOORING_READY"]) as file:
    ready = json.load(file)
common = [mooring, "component", "csi-mock", "--time-scale", scale, "--ec2-endpoint", os.environ["AWS_EC2_ENDPOINT"]]
services = [common + ["--mode", "controller", "--endpoint", os.environ["CSI_ENDPOINT"]]]
for node in ready["nodes"]:
    root = node["root"]
    services.append(common + [
        "--mode", "node", "--node-id", node["instance"], "--node-name", node["node"], "--root", root,
        "--endpoint", f"unix://{root}/csi.sock", "--registration-dir", node["pluginsRegistry"],
        "--volume-dir", ready["volumeDir"], "--zone", "us-east-1a", "--backend", "directory", "--no-plug",
    ])
running = [subprocess.Popen(service) for service in services]
# A service that ends takes the others along, as one container does.
os.wait()
sys.exit(1)
