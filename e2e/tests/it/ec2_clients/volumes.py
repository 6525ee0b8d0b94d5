"""CreateVolume and DeleteVolume."""

from cloud import case, equal, refused, until


@case(held=["CreateVolume"])
def f01_create_volume_answers_creating_with_every_field_and_becomes_available(cloud):
    made = cloud.ec2.create_volume(AvailabilityZone="us-east-1a", Size=4, VolumeType="gp3")
    http = made.pop("ResponseMetadata")
    equal(http["RequestId"], http["HTTPHeaders"]["x-amzn-requestid"])
    assert len(http["RequestId"]) == 36, http
    wanted = {
        "AvailabilityZone": "us-east-1a",
        "AvailabilityZoneId": "use1-az1",
        "Encrypted": False,
        "Iops": 3000,
        "MultiAttachEnabled": False,
        "Size": 4,
        "SnapshotId": "",
        "State": "creating",
        "Tags": [],
        "Throughput": 125,
        "VolumeType": "gp3",
    }
    equal({key: made.get(key) for key in wanted}, wanted)
    assert made["CreateTime"].tzinfo is not None
    volume = made["VolumeId"]
    described = cloud.ec2.describe_volumes(VolumeIds=[volume])
    equal(described["Volumes"][0]["State"], "creating")
    assert described["ResponseMetadata"]["RequestId"] != http["RequestId"]
    refused("IncorrectState", cloud.attach, volume=volume, instance=cloud.instance("node-a"))
    cloud.end(volume)
    cloud.state_becomes(volume, "available")


@case()
def f14_an_attached_volume_cannot_be_deleted(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.attached(volume, node)
    refused("VolumeInUse", cloud.ec2.delete_volume, VolumeId=volume)
    equal(cloud.attachment(volume), "attached")
    cloud.ec2.detach_volume(VolumeId=volume, InstanceId=node)
    cloud.state_becomes(volume, "available")
    cloud.ec2.delete_volume(VolumeId=volume)
    cloud.ec2.get_waiter("volume_deleted").wait(VolumeIds=[volume], WaiterConfig={"Delay": 0, "MaxAttempts": 100})
    refused("InvalidVolume.NotFound", cloud.ec2.describe_volumes, VolumeIds=[volume])


@case()
def f23_a_repeated_client_token_gives_the_same_volume_in_its_present_state(cloud):
    request = {"AvailabilityZone": "us-east-1a", "Size": 4, "VolumeType": "gp3", "ClientToken": "a" * 64}
    first = cloud.ec2.create_volume(**request)["VolumeId"]
    cloud.state_becomes(first, "available")
    cloud.attached(first, cloud.instance("node-a"))
    again = cloud.ec2.create_volume(**request)
    equal((again["VolumeId"], again["State"]), (first, "in-use"))
    found = cloud.ec2.describe_volumes(Filters=[{"Name": "size", "Values": ["4"]}])["Volumes"]
    equal([volume["VolumeId"] for volume in found], [first])
    too_long = refused("InvalidParameterValue", cloud.ec2.create_volume, **{**request, "ClientToken": "a" * 65})
    equal(too_long, "Client token must be less than or equal to 64 characters")


@case()
def f24_a_client_token_with_other_parameters_is_a_mismatch(cloud):
    request = {"AvailabilityZone": "us-east-1a", "Size": 4, "VolumeType": "gp3", "ClientToken": "token"}
    volume = cloud.ec2.create_volume(**request)["VolumeId"]
    for change in ({"Size": 5}, {"VolumeType": "gp2"}, {"Encrypted": True}):
        refused("IdempotentParameterMismatch", cloud.ec2.create_volume, **{**request, **change})
    cloud.state_becomes(volume, "available")
    cloud.ec2.delete_volume(VolumeId=volume)
    cloud.ec2.get_waiter("volume_deleted").wait(VolumeIds=[volume], WaiterConfig={"Delay": 0, "MaxAttempts": 100})
    said = refused("IdempotentParameterMismatch", cloud.ec2.create_volume, **request)
    equal(
        said,
        "The client token you have provided is associated with a resource that is already deleted. "
        "Please use a different client token.",
    )


@case()
def f27_the_iops_probe_is_answered_by_the_limit_before_the_dry_run(cloud):
    probe = {"AvailabilityZone": "us-east-1a", "Size": 4, "Iops": 2147483647}
    for kind, said in {
        "gp3": "Volume iops of 2147483647 is too high; maximum is 80000",
        "io1": "Volume iops of 2147483647 is too high; maximum is 64000",
    }.items():
        equal(refused("InvalidParameterValue", cloud.ec2.create_volume, VolumeType=kind, DryRun=True, **probe), said)
        equal(refused("InvalidParameterValue", cloud.ec2.create_volume, VolumeType=kind, **probe), said)
    io2 = refused("InvalidParameterCombination", cloud.ec2.create_volume, VolumeType="io2", DryRun=True, **probe)
    assert "256K IOPS" in io2 and "too high" not in io2, io2
    for kind in ("gp2", "standard"):
        try:
            cloud.ec2.create_volume(VolumeType=kind, DryRun=True, **probe)
        except cloud.ec2.exceptions.ClientError as error:
            assert "parameter iops is not supported" in error.response["Error"]["Message"].lower(), error
        else:
            raise AssertionError(f"{kind} was not refused")
    refused("DryRunOperation", cloud.ec2.create_volume, 412, **{**probe, "VolumeType": "gp3", "Iops": 3000, "DryRun": True})


@case()
def f28_sizes_and_types_out_of_range_are_refused(cloud):
    zone = {"AvailabilityZone": "us-east-1a"}
    for size, kind in ((0, "gp3"), (99999, "gp3"), (65537, "gp3"), (3, "io2"), (16385, "gp2"), (124, "st1"), (1025, "standard")):
        iops = {"Iops": 100} if kind == "io2" else {}
        refused("InvalidParameterValue", cloud.ec2.create_volume, Size=size, VolumeType=kind, **zone, **iops)
    refused("UnknownVolumeType", cloud.ec2.create_volume, Size=4, VolumeType="banana", **zone)
    equal(cloud.ec2.describe_volumes(Filters=[{"Name": "status", "Values": ["available", "creating"]}])["Volumes"], [])


@case()
def f29_zones_are_known_by_name_and_by_id(cloud):
    said = refused("InvalidZone.NotFound", cloud.ec2.create_volume, AvailabilityZone="us-east-1z", Size=4)
    assert "us-east-1z" in said, said
    refused("InvalidZone.NotFound", cloud.ec2.create_volume, AvailabilityZoneId="use1-az9", Size=4)
    zones = {zone["ZoneName"]: zone["ZoneId"] for zone in cloud.ec2.describe_availability_zones()["AvailabilityZones"]}
    made = cloud.ec2.create_volume(AvailabilityZoneId=zones["us-east-1b"], Size=4)
    equal((made["AvailabilityZone"], made["AvailabilityZoneId"]), ("us-east-1b", zones["us-east-1b"]))
    both = cloud.ec2.create_volume(AvailabilityZone="us-east-1b", AvailabilityZoneId=zones["us-east-1b"], Size=4)
    equal(both["AvailabilityZone"], "us-east-1b")


@case()
def f51_one_connection_serves_many_requests(cloud):
    for _ in range(20):
        cloud.ec2.describe_volumes()
    refused("InvalidVolume.NotFound", cloud.ec2.describe_volumes, VolumeIds=["vol-0123456789abcdef0"])
    cloud.ec2.describe_volumes()
    pool = cloud.ec2._endpoint.http_session._manager.connection_from_url(cloud.endpoint)
    equal((pool.num_connections, pool.num_requests), (1, 22))
