"""Instances that stop and terminate with attached volumes."""

import pathlib
import re

import botocore

from cloud import case, equal, refused, until

SOON = {"Delay": 0, "MaxAttempts": 20_000}


@case()
def f17_a_stopped_instance_takes_a_volume_and_keeps_it(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.ec2.stop_instances(InstanceIds=[node])
    cloud.ec2.get_waiter("instance_stopped").wait(InstanceIds=[node], WaiterConfig=SOON)
    cloud.attached(volume, node)
    cloud.ec2.start_instances(InstanceIds=[node])
    cloud.ec2.get_waiter("instance_running").wait(InstanceIds=[node], WaiterConfig=SOON)
    equal(cloud.attachment(volume), "attached")


@case()
def f18_a_terminated_instance_takes_no_volume(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.ec2.terminate_instances(InstanceIds=[node])
    cloud.ec2.get_waiter("instance_terminated").wait(InstanceIds=[node], WaiterConfig=SOON)
    said = refused("IncorrectState", cloud.attach, volume=volume, instance=node)
    equal(said, f"Instance '{node}' is not 'running'.")
    equal(cloud.describe(volume)["State"], "available")


@case(held=["ImplicitDetach", "TerminateInstances"])
def f19_a_data_volume_of_an_ended_instance_is_let_go_later(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.attached(volume, node)
    changed = cloud.ec2.terminate_instances(InstanceIds=[node])["TerminatingInstances"][0]
    equal((changed["PreviousState"]["Name"], changed["CurrentState"]["Name"]), ("running", "shutting-down"))
    equal((cloud.describe(volume)["State"], cloud.attachment(volume)), ("in-use", "detaching"))
    refused("IncorrectState", cloud.attach, volume=cloud.volume(), instance=node, device="/dev/sdg")
    cloud.end(volume, "attachment")
    cloud.state_becomes(volume, "available")


@case()
def instances_are_run_with_tags_and_end_with_their_root_volume(cloud):
    tags = [{"ResourceType": kind, "Tags": [{"Key": "owner", "Value": kind}]} for kind in ("instance", "volume")]
    run = cloud.ec2.run_instances(
        ImageId="ami-0123456789abcdef0", InstanceType="t3.micro", MinCount=2, MaxCount=2, TagSpecifications=tags
    )
    ids = [instance["InstanceId"] for instance in run["Instances"]]
    equal([instance["State"]["Name"] for instance in run["Instances"]], ["pending", "pending"])
    cloud.ec2.get_waiter("instance_exists").wait(InstanceIds=ids, WaiterConfig=SOON)
    cloud.ec2.get_waiter("instance_running").wait(InstanceIds=ids, WaiterConfig=SOON)
    cloud.ec2.get_waiter("instance_status_ok").wait(InstanceIds=ids, WaiterConfig=SOON)
    cloud.ec2.get_waiter("system_status_ok").wait(InstanceIds=ids, WaiterConfig=SOON)
    described = cloud.ec2.describe_instances(InstanceIds=ids)["Reservations"]
    equal(len({reservation["ReservationId"] for reservation in described}), 1)
    (root,) = [volume for _, volume in cloud.mapping(ids[0])]
    equal(cloud.describe(root)["Tags"], [{"Key": "owner", "Value": "volume"}])
    cloud.ec2.terminate_instances(InstanceIds=ids)
    cloud.ec2.get_waiter("instance_terminated").wait(InstanceIds=ids, WaiterConfig=SOON)
    until(lambda: not cloud.ec2.describe_volumes(Filters=[{"Name": "volume-id", "Values": [root]}])["Volumes"])


def numbers(version):
    return [int(number) for number in version.split(".")]


@case()
def instance_types_are_those_that_every_botocore_knows(cloud):
    """The table is generated from one version of botocore. An older one has fewer types, a newer one more."""
    table = pathlib.Path(__file__).parents[4] / "mock-ec2/src/state/instance_types/types.txt"
    (made_from,) = re.findall(r"InstanceType of botocore (\S+)\.", table.read_text())
    known = set(cloud.ec2.meta.service_model.shape_for("InstanceType").enum)
    pages = cloud.ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 100})
    ours = {kind["InstanceType"] for page in pages for kind in page["InstanceTypes"]}
    if numbers(botocore.__version__) <= numbers(made_from):
        equal(sorted(known - ours), [])
    if numbers(botocore.__version__) >= numbers(made_from):
        equal(sorted(ours - known), [])
    for name in ("t1.micro", "m5.large", "mac2.metal", "u-6tb1.metal"):
        equal((name in ours, name in known), (True, True))
