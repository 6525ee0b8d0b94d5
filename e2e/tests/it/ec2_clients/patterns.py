"""The requests of the EBS CSI driver and Terraform to the cloud. Neither program runs: their rules are reimplemented
here."""

import hashlib

from cloud import case, equal, refused, until


def create_request(name, attempt=1):
    """The driver's CreateVolume parameters for a claim; the token changes with the attempt."""
    token = hashlib.sha256((name if attempt == 1 else f"{name}-{attempt}").encode()).hexdigest()
    tags = {
        "CSIVolumeName": name,
        "ebs.csi.aws.com/cluster": "true",
        "kubernetes.io/created-for/pvc/name": "data",
        "kubernetes.io/created-for/pvc/namespace": "default",
        "kubernetes.io/cluster/mooring": "owned",
        "KubernetesCluster": "mooring",
        "Name": f"mooring-dynamic-{name}",
    }
    return {
        "AvailabilityZone": "us-east-1a",
        "AvailabilityZoneId": "use1-az1",
        "ClientToken": token,
        "Encrypted": False,
        "MultiAttachEnabled": False,
        "Size": 4,
        "VolumeType": "gp3",
        "TagSpecifications": [{"ResourceType": "volume", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}],
    }


@case()
def csi_driver_provisions_attaches_detaches_and_deletes(cloud):
    ec2 = cloud.ec2
    refused("DryRunOperation", ec2.describe_availability_zones, 412, DryRun=True)
    name = "pvc-0d0a4a52-7a5c-4a7e-9d43-0d1d2d3d4d5d"
    made = ec2.create_volume(**create_request(name))
    volume = made["VolumeId"]
    assert made["Size"] == 4, made
    # It describes volumes in batches, by id and by tag.
    until(lambda: ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"] in ("available", "in-use"))
    asked = [name, *(f"pvc-{number}" for number in range(499))]
    found = ec2.describe_volumes(Filters=[{"Name": "tag:CSIVolumeName", "Values": asked[:200]}])["Volumes"]
    equal([v["VolumeId"] for v in found], [volume])
    # Its largest batches have more names than AWS accepts.
    by_name = [{"Name": "tag:CSIVolumeName", "Values": asked}]
    refused("FilterLimitExceeded", ec2.describe_volumes, Filters=by_name)

    # The device name is the first free one of its list, and must be returned byte for byte.
    node = cloud.instance("node-a")
    instance = ec2.describe_instances(InstanceIds=[node])["Reservations"][0]["Instances"][0]
    used = {mapping["DeviceName"] for mapping in instance["BlockDeviceMappings"]}
    device = next(name for name in ("/dev/xvdaa", "/dev/xvdab") if name not in used)
    assert len(instance["NetworkInterfaces"]) == 1 and instance["RootDeviceName"] in used, instance
    (kind,) = ec2.describe_instance_types(InstanceTypes=[instance["InstanceType"]])["InstanceTypes"]
    assert kind["EbsInfo"].get("MaximumEbsCards", 1) == 1, kind
    ec2.attach_volume(VolumeId=volume, InstanceId=node, Device=device)

    def attached():
        (attachment,) = cloud.describe(volume)["Attachments"]
        equal((attachment["InstanceId"], attachment["Device"]), (node, device))
        return attachment["State"] == "attached"

    until(attached)
    refused("VolumeInUse", ec2.delete_volume, VolumeId=volume)

    # The driver sends neither Device nor Force.
    ec2.detach_volume(VolumeId=volume, InstanceId=node)
    until(lambda: not cloud.describe(volume)["Attachments"])
    # The driver takes this error for already detached.
    refused("IncorrectState", ec2.detach_volume, VolumeId=volume, InstanceId=node)
    ec2.delete_volume(VolumeId=volume)
    until(lambda: not ec2.describe_volumes(Filters=[{"Name": "volume-id", "Values": [volume]}])["Volumes"])
    refused("InvalidVolume.NotFound", ec2.delete_volume, VolumeId=volume)
    # The same claim again: its token is used, and the driver continues with the next one.
    refused("IdempotentParameterMismatch", ec2.create_volume, **create_request(name))
    assert ec2.create_volume(**create_request(name, attempt=2))["VolumeId"] != volume


@case()
def csi_driver_describes_five_hundred_volumes_at_once_and_one_unknown_fails_all(cloud):
    volumes = [cloud.ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"] for _ in range(500)]
    found = cloud.ec2.describe_volumes(VolumeIds=volumes)["Volumes"]
    equal({v["VolumeId"] for v in found}, set(volumes))
    said = refused("InvalidVolume.NotFound", cloud.ec2.describe_volumes, VolumeIds=[*volumes[:499], "vol-0123456789abcdef0"])
    equal(said, "The volume 'vol-0123456789abcdef0' does not exist.")
    # The labeler continues until the response has no token.
    more, seen = {}, 0
    while True:
        page = cloud.ec2.describe_instances(MaxResults=5, **more)
        seen += sum(len(reservation["Instances"]) for reservation in page["Reservations"])
        if "NextToken" not in page:
            break
        more = {"NextToken": page["NextToken"]}
    equal(seen, 5)


@case()
def csi_driver_snapshots_restores_and_lists(cloud):
    ec2, volume = cloud.ec2, cloud.volume(size=2)
    tags = [{"Key": "CSIVolumeSnapshotName", "Value": "snapshot-1"}]
    request = {"Description": "Created by AWS EBS CSI driver for volume " + volume, "VolumeId": volume}
    made = ec2.create_snapshot(TagSpecifications=[{"ResourceType": "snapshot", "Tags": tags}], **request)
    assert made["StartTime"] and made["VolumeSize"] == 2, made
    named = [{"Name": "tag:CSIVolumeSnapshotName", "Values": ["snapshot-1"]}]
    until(lambda: ec2.describe_snapshots(Filters=named)["Snapshots"][0]["State"] == "completed")
    (found,) = ec2.describe_snapshots(Filters=named)["Snapshots"]
    equal((found["SnapshotId"], found["Tags"]), (made["SnapshotId"], tags))
    by_volume = [{"Name": "volume-id", "Values": [volume]}]
    page = ec2.describe_snapshots(MaxResults=5, Filters=by_volume)
    equal([s["SnapshotId"] for s in page["Snapshots"]], [made["SnapshotId"]])
    assert "NextToken" not in page, page
    restored = ec2.create_volume(SnapshotId=made["SnapshotId"], **{**create_request("pvc-2"), "Size": 2})
    equal((restored["SnapshotId"], restored["Size"]), (made["SnapshotId"], 2))
    (clone,) = ec2.copy_volumes(SourceVolumeId=volume, Size=3, VolumeType="gp3", ClientToken="clone")["Volumes"]
    (again,) = ec2.copy_volumes(SourceVolumeId=volume, Size=3, VolumeType="gp3", ClientToken="clone")["Volumes"]
    equal((clone["Size"], again["VolumeId"]), (3, clone["VolumeId"]))
    ec2.delete_snapshot(SnapshotId=made["SnapshotId"])
    refused("InvalidSnapshot.NotFound", ec2.delete_snapshot, SnapshotId=made["SnapshotId"])


@case(held=["InitializeVolume"])
def csi_driver_waits_for_a_volume_to_be_initialized(cloud):
    snapshot = cloud.ec2.create_snapshot(VolumeId=cloud.volume())["SnapshotId"]
    until(lambda: cloud.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]["State"] == "completed")
    volume = cloud.volume(SnapshotId=snapshot)

    def status(of):
        (told,) = cloud.ec2.describe_volume_status(VolumeIds=[of])["VolumeStatuses"]
        return {detail["Name"]: detail["Status"] for detail in told["VolumeStatus"]["Details"]}["initialization-state"], told

    word, told = status(volume)
    equal(word, "initializing")
    assert told["InitializationStatusDetails"]["EstimatedTimeToCompleteInSeconds"] > 0, told
    # A volume that is not from a snapshot is initialised at once.
    equal(status(cloud.volume())[0], "completed")


@case()
def csi_driver_modifies_a_volume_and_its_tags(cloud):
    ec2, volume = cloud.ec2, cloud.volume(size=4)
    refused("InvalidVolumeModification.NotFound", ec2.describe_volumes_modifications, VolumeIds=[volume])
    told = ec2.modify_volume(VolumeId=volume, Size=8, Iops=4000)["VolumeModification"]
    equal(told["ModificationState"], "modifying")

    def done():
        (latest,) = ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
        return latest["ModificationState"] in ("optimizing", "completed")

    until(done)
    described = cloud.describe(volume)
    equal((described["Size"], described["Iops"]), (8, 4000))
    # A VolumeAttributesClass changes tags.
    ec2.create_tags(Resources=[volume], Tags=[{"Key": "team", "Value": "storage"}, {"Key": "tier", "Value": "hot"}])
    ec2.delete_tags(Resources=[volume], Tags=[{"Key": "tier"}])
    equal(cloud.describe(volume)["Tags"], [{"Key": "team", "Value": "storage"}])
    refused("InvalidParameterValue", ec2.modify_volume, VolumeId=volume, Iops=2147483647)
    refused("UnknownVolumeType", ec2.modify_volume, VolumeId=volume, VolumeType="banana")


@case()
def terraform_volume_is_created_read_changed_and_destroyed(cloud):
    ec2 = cloud.ec2
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "Name", "Value": "data"}, {"Key": "env", "Value": "test"}]}]
    request = {"AvailabilityZone": "us-east-1a", "Encrypted": True, "Size": 10, "TagSpecifications": tags, "VolumeType": "gp3"}
    volume = ec2.create_volume(ClientToken="terraform-20261120000000000000000001", **request)["VolumeId"]
    until(lambda: ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"] == "available")
    read = cloud.describe(volume)
    wanted = {"Size": 10, "VolumeType": "gp3", "Iops": 3000, "Throughput": 125, "Encrypted": True, "SnapshotId": ""}
    equal({key: read.get(key) for key in wanted}, wanted)
    assert read["KmsKeyId"].startswith("arn:aws:kms:us-east-1:000000000000:key/"), read
    equal({tag["Key"] for tag in read["Tags"]}, {"Name", "env"})

    # Changed in place: differing tags, and size and type by ModifyVolume.
    ec2.delete_tags(Resources=[volume], Tags=[{"Key": "env"}])
    ec2.create_tags(Resources=[volume], Tags=[{"Key": "Name", "Value": "renamed"}])
    told = ec2.modify_volume(VolumeId=volume, Size=20, VolumeType="gp3", Iops=3500, Throughput=200)
    equal(told["VolumeModification"]["TargetSize"], 20)

    def modified():
        (latest,) = ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
        return latest["ModificationState"] in ("optimizing", "completed")

    until(modified)
    read = cloud.describe(volume)
    equal((read["Size"], read["Tags"]), (20, [{"Key": "Name", "Value": "renamed"}]))

    ec2.delete_volume(VolumeId=volume)

    def gone():
        try:
            return ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"] == "deleted"
        except ec2.exceptions.ClientError as error:
            equal(error.response["Error"]["Code"], "InvalidVolume.NotFound")
            return True

    until(gone)


@case()
def terraform_attachment_is_found_by_id_and_filters_at_once(cloud):
    ec2, volume, node = cloud.ec2, cloud.volume(), cloud.instance("node-a")

    def attachments():
        filters = [
            {"Name": "attachment.device", "Values": ["/dev/sdh"]},
            {"Name": "attachment.instance-id", "Values": [node]},
        ]
        found = ec2.describe_volumes(VolumeIds=[volume], Filters=filters)["Volumes"]
        return [a["State"] for v in found for a in v["Attachments"] if a["InstanceId"] == node]

    equal(attachments(), [])
    # It waits for the instance before it attaches.
    equal(cloud.instance_state(node), "running")
    ec2.attach_volume(Device="/dev/sdh", InstanceId=node, VolumeId=volume)
    until(lambda: attachments() == ["attached"])
    ec2.detach_volume(Device="/dev/sdh", Force=False, InstanceId=node, VolumeId=volume)
    until(lambda: attachments() == [])
    # Destroyed twice, as with a stale plan.
    refused("IncorrectState", ec2.detach_volume, Device="/dev/sdh", Force=False, InstanceId=node, VolumeId=volume)


@case()
def terraform_data_sources_find_zones_volumes_snapshots_and_instances(cloud):
    ec2 = cloud.ec2
    state = [{"Name": "state", "Values": ["available"]}]
    zones = ec2.describe_availability_zones(AllAvailabilityZones=False, Filters=state)["AvailabilityZones"]
    equal([zone["ZoneName"] for zone in zones], ["us-east-1a", "us-east-1b", "us-east-1c"])
    equal({zone["OptInStatus"] for zone in zones}, {"opt-in-not-required"})
    zone = ec2.describe_availability_zones(ZoneNames=["us-east-1b"])["AvailabilityZones"][0]
    equal((zone["ZoneId"], zone["ZoneType"], zone["RegionName"]), ("use1-az2", "availability-zone", "us-east-1"))
    equal([region["RegionName"] for region in ec2.describe_regions(RegionNames=["us-east-1"])["Regions"]], ["us-east-1"])

    tags = [{"ResourceType": "volume", "Tags": [{"Key": "Name", "Value": "data"}]}]
    volume = cloud.volume(TagSpecifications=tags)
    named = [{"Name": "tag:Name", "Values": ["data"]}, {"Name": "volume-type", "Values": ["gp3"]}]
    equal([v["VolumeId"] for v in ec2.describe_volumes(Filters=named)["Volumes"]], [volume])
    snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    own = [{"Name": "volume-id", "Values": [volume]}]
    found = ec2.describe_snapshots(OwnerIds=["self"], RestorableByUserIds=["self"], Filters=own)["Snapshots"]
    equal([s["SnapshotId"] for s in found], [snapshot])
    running = [{"Name": "instance-state-name", "Values": ["running"]}, {"Name": "tag:Name", "Values": ["node-*"]}]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=running)
    instances = [i for page in pages for reservation in page["Reservations"] for i in reservation["Instances"]]
    equal(len(instances), 3)
    for instance in instances:
        assert instance["PrivateDnsName"] and instance["SubnetId"] and instance["VpcId"], instance
    told = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [volume]}])["Tags"]
    equal(told, [{"Key": "Name", "ResourceId": volume, "ResourceType": "volume", "Value": "data"}])
