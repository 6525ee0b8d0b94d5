"""ModifyVolume and DescribeVolumesModifications."""

from cloud import case, equal, refused, until


def progress(cloud, volume):
    """The state of the volume's modification, and its size."""
    (latest,) = cloud.ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
    return latest["ModificationState"], cloud.describe(volume)["Size"]


@case(held=["ModifyVolume", "OptimizeVolume"])
def f35_a_modification_goes_from_modifying_to_optimizing_to_completed(cloud):
    volume = cloud.volume(size=4)
    answer = cloud.ec2.modify_volume(VolumeId=volume, Size=8, VolumeType="gp3", Iops=4000, Throughput=250)
    told = answer["VolumeModification"]
    wanted = {
        "VolumeId": volume,
        "ModificationState": "modifying",
        "OriginalSize": 4,
        "TargetSize": 8,
        "OriginalIops": 3000,
        "TargetIops": 4000,
        "OriginalThroughput": 125,
        "TargetThroughput": 250,
        "OriginalVolumeType": "gp3",
        "TargetVolumeType": "gp3",
        "Progress": 0,
    }
    equal({key: told.get(key) for key in wanted}, wanted)
    equal(progress(cloud, volume), ("modifying", 4))
    cloud.end(volume, "modification")
    until(lambda: progress(cloud, volume) == ("optimizing", 8))
    cloud.end(volume, "modification")
    until(lambda: progress(cloud, volume) == ("completed", 8))
    (done,) = cloud.ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
    equal(done["Progress"], 100)
    assert done["EndTime"] >= done["StartTime"]
    equal((cloud.describe(volume)["Iops"], cloud.describe(volume)["Throughput"]), (4000, 250))


@case(held=["OptimizeVolume"])
def f36_a_volume_that_is_being_modified_cannot_be_modified_again(cloud):
    volume = cloud.volume(size=4)
    cloud.ec2.modify_volume(VolumeId=volume, Size=5)
    until(lambda: progress(cloud, volume)[0] == "optimizing")
    said = refused("IncorrectModificationState", cloud.ec2.modify_volume, VolumeId=volume, Size=6)
    equal(said, f"Volume {volume} cannot be modified in modification state OPTIMIZING")
    for size in (6, 7, 8):
        cloud.end(volume, "modification")
        until(lambda: progress(cloud, volume)[0] == "completed")
        cloud.ec2.modify_volume(VolumeId=volume, Size=size)
        until(lambda: progress(cloud, volume)[0] == "optimizing")
    cloud.end(volume, "modification")
    until(lambda: progress(cloud, volume)[0] == "completed")
    # At most four a day.
    refused("VolumeModificationRateExceeded", cloud.ec2.modify_volume, VolumeId=volume, Size=9)


@case()
def f37_a_volume_never_shrinks(cloud):
    volume = cloud.volume(size=8)
    refused("InvalidParameterValue", cloud.ec2.modify_volume, VolumeId=volume, Size=4)
    equal(cloud.describe(volume)["Size"], 8)
    refused("InvalidVolumeModification.NotFound", cloud.ec2.describe_volumes_modifications, VolumeIds=[volume])


@case()
def f38_io2_without_iops_keeps_three_thousand(cloud):
    volume = cloud.volume(size=8)
    told = cloud.ec2.modify_volume(VolumeId=volume, VolumeType="io2")["VolumeModification"]
    equal((told["TargetVolumeType"], told["TargetIops"], told["TargetSize"]), ("io2", 3000, 8))
    until(lambda: progress(cloud, volume)[0] == "completed")
    described = cloud.describe(volume)
    equal((described["VolumeType"], described["Iops"], described.get("Throughput")), ("io2", 3000, None))


@case()
def f39_only_the_latest_modification_is_listed(cloud):
    volume, never = cloud.volume(size=4), cloud.volume()
    for size in (5, 6):
        cloud.ec2.modify_volume(VolumeId=volume, Size=size)
        until(lambda: progress(cloud, volume)[0] == "completed")
    every = cloud.ec2.describe_volumes_modifications()["VolumesModifications"]
    equal([(m["VolumeId"], m["OriginalSize"], m["TargetSize"]) for m in every], [(volume, 5, 6)])
    found = cloud.ec2.describe_volumes_modifications(Filters=[{"Name": "volume-id", "Values": [never]}])
    equal(found["VolumesModifications"], [])


@case()
def f40_a_volume_that_was_never_modified_is_an_error(cloud):
    never, volume = cloud.volume(), cloud.volume()
    refused("InvalidVolumeModification.NotFound", cloud.ec2.describe_volumes_modifications, VolumeIds=[never])
    cloud.ec2.modify_volume(VolumeId=volume, Size=8)
    said = refused("InvalidVolumeModification.NotFound", cloud.ec2.describe_volumes_modifications, VolumeIds=[volume, never])
    # One unknown id fails the whole request, and clients parse the id from the message.
    assert never in said and volume not in said, said
