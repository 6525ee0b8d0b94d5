"""Snapshots, and the actions that emulators tend to lack."""

from cloud import case, equal, refused, until

NO_SNAPSHOT = "snap-0123456789abcdef0"
SOON = {"Delay": 0, "MaxAttempts": 20_000}


def snapshot_of(cloud, volume):
    """Creates a snapshot and waits until it is completed."""
    snapshot = cloud.ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    cloud.ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot], WaiterConfig=SOON)
    return snapshot


@case(held=["CreateSnapshot"])
def f41_a_snapshot_is_pending_before_it_is_completed(cloud):
    volume = cloud.volume()
    made = cloud.ec2.create_snapshot(VolumeId=volume, Description="before the upgrade")
    wanted = {"VolumeId": volume, "State": "pending", "VolumeSize": 4, "Description": "before the upgrade", "Tags": []}
    equal({key: made.get(key) for key in wanted}, wanted)
    snapshot = made["SnapshotId"]

    def described():
        return cloud.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]

    equal((described()["State"], described()["Progress"]), ("pending", "0%"))
    request = {"AvailabilityZone": "us-east-1a", "SnapshotId": snapshot}
    refused("IncorrectState", cloud.ec2.create_volume, **request)
    cloud.admin("POST", f"snapshots/{snapshot}/complete")
    cloud.ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot], WaiterConfig=SOON)
    equal(described()["Progress"], "100%")


@case()
def f42_a_volume_is_not_smaller_than_its_snapshot(cloud):
    snapshot = snapshot_of(cloud, cloud.volume(size=10))
    request = {"AvailabilityZone": "us-east-1a", "SnapshotId": snapshot}
    said = refused("InvalidParameterValue", cloud.ec2.create_volume, Size=9, **request)
    assert snapshot in said, said
    # The default size is the snapshot's.
    equal(cloud.ec2.create_volume(**request)["Size"], 10)
    equal(cloud.ec2.create_volume(Size=11, **request)["SnapshotId"], snapshot)


@case()
def f43_a_snapshot_keeps_the_size_of_its_moment(cloud):
    volume = cloud.volume(size=10)
    snapshot = snapshot_of(cloud, volume)
    cloud.ec2.modify_volume(VolumeId=volume, Size=20)
    until(lambda: cloud.describe(volume)["Size"] == 20)
    equal(cloud.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]["VolumeSize"], 10)
    cloud.ec2.delete_volume(VolumeId=volume)
    equal(cloud.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]["VolumeSize"], 10)


@case()
def f44_an_unknown_snapshot_is_not_found_with_a_text(cloud):
    said = f"The snapshot '{NO_SNAPSHOT}' does not exist."
    for call, parameters in (
        (cloud.ec2.describe_snapshots, {"SnapshotIds": [NO_SNAPSHOT]}),
        (cloud.ec2.delete_snapshot, {"SnapshotId": NO_SNAPSHOT}),
        (cloud.ec2.create_volume, {"SnapshotId": NO_SNAPSHOT, "AvailabilityZone": "us-east-1a"}),
    ):
        equal(refused("InvalidSnapshot.NotFound", call, **parameters), said)


@case()
def f45_the_actions_that_emulators_lack_exist(cloud):
    volume = cloud.volume()
    snapshot = snapshot_of(cloud, volume)
    (status,) = cloud.ec2.describe_volume_status(VolumeIds=[volume])["VolumeStatuses"]
    details = {detail["Name"]: detail["Status"] for detail in status["VolumeStatus"]["Details"]}
    equal((status["VolumeStatus"]["Status"], details["initialization-state"]), ("ok", "completed"))
    (copy,) = cloud.ec2.copy_volumes(SourceVolumeId=volume, Size=8)["Volumes"]
    equal((copy["Size"], copy["SourceVolumeId"], copy["State"]), (8, volume, "creating"))
    cloud.state_becomes(copy["VolumeId"], "available")
    zones = {"AvailabilityZones": ["us-east-1a"]}
    enabled = cloud.ec2.enable_fast_snapshot_restores(SourceSnapshotIds=[snapshot, NO_SNAPSHOT], **zones)
    equal([(done["SnapshotId"], done["State"]) for done in enabled["Successful"]], [(snapshot, "enabling")])
    (failed,) = enabled["Unsuccessful"]
    code = failed["FastSnapshotRestoreStateErrors"][0]["Error"]["Code"]
    equal((failed["SnapshotId"], code), (NO_SNAPSHOT, "InvalidSnapshot.NotFound"))
    locked = cloud.ec2.lock_snapshot(SnapshotId=snapshot, LockMode="governance", LockDuration=1)
    equal((locked["SnapshotId"], locked["LockState"], locked["LockDuration"]), (snapshot, "governance", 1))
    refused("OperationNotPermitted", cloud.ec2.delete_snapshot, SnapshotId=snapshot)
