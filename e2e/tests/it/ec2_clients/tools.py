"""Features of the SDK itself: retries, waiters, signatures, resources, the EBS direct API, the metadata service."""

import base64
import concurrent.futures
import hashlib
import pathlib

from botocore.exceptions import WaiterError
from botocore.utils import InstanceMetadataFetcher, InstanceMetadataRegionFetcher

from cloud import case, equal, refused, until

SOON = {"Delay": 0, "MaxAttempts": 20_000}
STANDARD = {"mode": "standard", "total_max_attempts": 5}


@case()
def sdk_retries_a_throttled_attach(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.fault("AttachVolume", {"first": 2}, {"error": "RequestLimitExceeded"})
    ec2 = cloud.client("ec2", STANDARD)
    answer = ec2.attach_volume(VolumeId=volume, InstanceId=node, Device="/dev/sdf")
    equal((answer["State"], answer["ResponseMetadata"]["RetryAttempts"]), ("attaching", 2))


@case()
def sdk_gets_through_a_bucket_that_others_empty(cloud):
    # Fewer a second than four threads send on a busy machine.
    cloud.switch(throttle={"DescribeVolumes": {"size": 2, "refill": 4}})
    ec2 = cloud.client("ec2", {"mode": "standard", "total_max_attempts": 20})
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ec2.describe_volumes(MaxResults=5), range(12)))
    assert all("Volumes" in answer for answer in answers)
    assert any(answer["ResponseMetadata"]["RetryAttempts"] for answer in answers)


@case()
def sdk_makes_one_volume_when_the_first_reply_is_lost(cloud):
    cloud.fault("CreateVolume", {"first": 1}, {"drop_reply": True}, at="after_effect")
    # The SDK generates the token, and sends it again on a retry.
    made = cloud.client("ec2", STANDARD).create_volume(AvailabilityZone="us-east-1a", Size=7)
    equal(made["ResponseMetadata"]["RetryAttempts"], 1)
    found = cloud.ec2.describe_volumes(Filters=[{"Name": "size", "Values": ["7"]}])["Volumes"]
    equal([volume["VolumeId"] for volume in found], [made["VolumeId"]])


@case()
def sdk_learns_that_an_attach_was_done_when_its_reply_was_lost(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.fault("AttachVolume", {"first": 1}, {"drop_reply": True}, at="after_effect")
    # AttachVolume has no token: the retry finds the volume attached.
    ec2 = cloud.client("ec2", STANDARD)
    refused("VolumeInUse", ec2.attach_volume, VolumeId=volume, InstanceId=node, Device="/dev/sdf")
    cloud.attachment_becomes(volume, "attached")


@case(held=["AttachVolume", "CreateVolume"])
def waiters_wait_until_a_volume_is_available_in_use_and_deleted(cloud):
    ec2, node = cloud.ec2, cloud.instance("node-a")
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
    try:
        ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig={"Delay": 0, "MaxAttempts": 3})
    except WaiterError as error:
        equal(error.last_response["Volumes"][0]["State"], "creating")
    else:
        raise AssertionError("it is not available yet")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ec2.get_waiter("volume_available").wait, VolumeIds=[volume], WaiterConfig={"Delay": 0, "MaxAttempts": 10**6})
        cloud.end(volume)
        waiting.result()
    cloud.attach(volume, node)
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig=SOON)
    cloud.end(volume, "attachment")
    cloud.attachment_becomes(volume, "attached")
    ec2.detach_volume(VolumeId=volume)
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig=SOON)
    ec2.delete_volume(VolumeId=volume)
    ec2.get_waiter("volume_deleted").wait(VolumeIds=[volume], WaiterConfig=SOON)
    try:
        ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig=SOON)
    except WaiterError as error:
        assert "InvalidVolume.NotFound" in str(error), error
    else:
        raise AssertionError("there is no such volume")


@case()
def resources_of_the_sdk_follow_a_volume(cloud):
    resource = cloud.session.resource("ec2", endpoint_url=cloud.endpoint)
    volume = resource.create_volume(AvailabilityZone="us-east-1a", Size=1)
    cloud.state_becomes(volume.id, "available")
    volume.reload()
    # As on AWS: the list of tags is absent, not empty.
    equal((volume.state, volume.tags, volume.attachments), ("available", None, []))
    volume.create_tags(Tags=[{"Key": "Name", "Value": "data"}])
    volume.reload()
    equal(volume.tags, [{"Key": "Name", "Value": "data"}])
    (node,) = resource.instances.filter(Filters=[{"Name": "tag:Name", "Values": ["node-a"]}])
    volume.attach_to_instance(InstanceId=node.id, Device="/dev/sdf")
    cloud.attachment_becomes(volume.id, "attached")
    assert volume.id in [held.id for held in node.volumes.all()]
    equal(node.private_dns_name.split(".")[1], "ec2")


@case(flags=["--credential", "mooring:mooring"])
def signatures_are_verified_when_there_are_credentials(cloud):
    assert cloud.ec2.describe_volumes()["Volumes"]
    wrong = {"aws_access_key_id": "mooring", "aws_secret_access_key": "other"}
    refused("SignatureDoesNotMatch", cloud.client("ec2", **wrong).describe_volumes, 403)
    unknown = {"aws_access_key_id": "unknown", "aws_secret_access_key": "mooring"}
    refused("AuthFailure", cloud.client("ec2", **unknown).describe_volumes, 401)


@case(flags=["--volume-dir", "{directory}/volumes"])
def ebs_direct_api_lists_the_blocks_that_changed(cloud):
    block = 512 << 10
    volume = cloud.volume(size=1)
    file = pathlib.Path(cloud.directory, "volumes", volume)

    def write(number, text):
        with file.open("r+b") as bytes_:
            bytes_.seek(number * block)
            bytes_.write(text)

    def snapshot():
        made = cloud.ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
        cloud.ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[made], WaiterConfig=SOON)
        return made

    write(3, b"first")
    first = snapshot()
    write(3, b"second")
    write(1024, b"new")
    second = snapshot()
    ebs = cloud.client("ebs")
    listed = ebs.list_snapshot_blocks(SnapshotId=first)
    equal(([b["BlockIndex"] for b in listed["Blocks"]], listed["BlockSize"], listed["VolumeSize"]), ([3], block, 1))
    changed = ebs.list_changed_blocks(FirstSnapshotId=first, SecondSnapshotId=second)["ChangedBlocks"]
    equal([b["BlockIndex"] for b in changed], [3, 1024])
    refused("ResourceNotFoundException", ebs_refusal(ebs), 404, SnapshotId="snap-0123456789abcdef0")


@case(flags=["--volume-dir", "{directory}/volumes"])
def ebs_direct_api_writes_a_snapshot_block_by_block(cloud):
    size, ebs = 512 << 10, cloud.client("ebs")
    started = ebs.start_snapshot(VolumeSize=1, Description="written", Tags=[{"Key": "team", "Value": "storage"}])
    snapshot = started["SnapshotId"]
    equal((started["Status"], started["BlockSize"]), ("pending", size))
    digests = []
    for index, letter in enumerate((b"a", b"b", b"c")):
        digest = hashlib.sha256(letter * size).digest()
        digests.append(digest)
        ebs.put_snapshot_block(
            SnapshotId=snapshot, BlockIndex=index * 1000, BlockData=letter * size, DataLength=size,
            Checksum=base64.b64encode(digest).decode(), ChecksumAlgorithm="SHA256",
        )
    whole = base64.b64encode(hashlib.sha256(b"".join(digests)).digest()).decode()
    sums = {"ChecksumAlgorithm": "SHA256", "ChecksumAggregationMethod": "LINEAR"}
    refused("ValidationException", ebs.complete_snapshot, SnapshotId=snapshot, ChangedBlocksCount=2)
    ebs.complete_snapshot(SnapshotId=snapshot, ChangedBlocksCount=3, Checksum=whole, **sums)
    cloud.ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot], WaiterConfig=SOON)
    listed = ebs.list_snapshot_blocks(SnapshotId=snapshot)["Blocks"]
    equal([block["BlockIndex"] for block in listed], [0, 1000, 2000])
    read = ebs.get_snapshot_block(SnapshotId=snapshot, BlockIndex=1000, BlockToken=listed[1]["BlockToken"])
    equal((read["BlockData"].read(3), read["DataLength"]), (b"bbb", size))


@case()
def deleted_snapshots_come_back_from_the_recycle_bin(cloud):
    rules, ec2 = cloud.client("rbin"), cloud.ec2
    week = {"RetentionPeriodValue": 7, "RetentionPeriodUnit": "DAYS"}
    rule = rules.create_rule(ResourceType="EBS_SNAPSHOT", RetentionPeriod=week)["Identifier"]
    equal([found["Identifier"] for found in rules.list_rules(ResourceType="EBS_SNAPSHOT")["Rules"]], [rule])
    snapshot = ec2.create_snapshot(VolumeId=cloud.volume())["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot], WaiterConfig=SOON)
    ec2.delete_snapshot(SnapshotId=snapshot)
    equal([found["SnapshotId"] for found in ec2.list_snapshots_in_recycle_bin()["Snapshots"]], [snapshot])
    equal(ec2.restore_snapshot_from_recycle_bin(SnapshotId=snapshot)["State"], "completed")
    rules.delete_rule(Identifier=rule)
    equal(rules.list_rules(ResourceType="EBS_SNAPSHOT")["Rules"], [])


@case()
def other_services_say_what_is_served(cloud):
    equal(cloud.client("sts").get_caller_identity()["Account"], "000000000000")
    for service, call in (("s3", "list_buckets"), ("iam", "list_roles"), ("kms", "list_keys"), ("eks", "list_clusters")):
        client = cloud.client(service)
        try:
            getattr(client, call)()
        except client.exceptions.ClientError as error:
            text = error.response["Error"]["Message"]
            assert text.startswith(f"The service {service} is not served here. Served: ec2, "), text
        else:
            raise AssertionError(f"{service} is not served")


def ebs_refusal(ebs):
    """Errors of the EBS direct API have no request id in the body."""

    def call(**parameters):
        try:
            return ebs.list_snapshot_blocks(**parameters)
        except ebs.exceptions.ClientError as error:
            http = error.response["ResponseMetadata"]
            http["RequestId"] = http["HTTPHeaders"]["x-amzn-requestid"] = http.get("RequestId", "")
            raise

    return call


@case(flags=["--imds-listen", "127.0.0.1:0"])
def metadata_service_tells_the_sdk_its_region(cloud):
    (first, *_) = cloud.ready["imds"]
    # Without the worker's environment, which disables the metadata service.
    asked = {"base_url": first["endpoint"], "num_attempts": 1, "timeout": 90, "env": {}}
    equal(InstanceMetadataRegionFetcher(**asked).retrieve_region(), "us-east-1")
    # It serves no credentials.
    equal(InstanceMetadataFetcher(**asked).retrieve_iam_role_credentials(), {})
