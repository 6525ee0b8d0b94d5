"""Behaviour of requests of any kind: errors, filters, pages, throttling, tags."""

import xml.etree.ElementTree

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from cloud import case, equal, refused

NO_VOLUME = "vol-0123456789abcdef0"
NO_INSTANCE = "i-0123456789abcdef0"


@case()
def f20_an_unknown_id_has_its_own_not_found_code(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    said = refused("InvalidVolume.NotFound", cloud.attach, volume=NO_VOLUME, instance=node)
    equal(said, f"The volume '{NO_VOLUME}' does not exist.")
    said = refused("InvalidInstanceID.NotFound", cloud.attach, volume=volume, instance=NO_INSTANCE)
    equal(said, f"The instance ID '{NO_INSTANCE}' does not exist")
    for call in (cloud.ec2.detach_volume, cloud.ec2.delete_volume):
        refused("InvalidVolume.NotFound", call, VolumeId=NO_VOLUME)
    refused("InvalidVolume.NotFound", cloud.ec2.modify_volume, VolumeId=NO_VOLUME, Size=8)
    refused("InvalidVolume.NotFound", cloud.ec2.create_snapshot, VolumeId=NO_VOLUME)
    refused("InvalidInstanceID.NotFound", cloud.ec2.describe_instances, InstanceIds=[NO_INSTANCE])
    refused("InvalidInstanceID.NotFound", cloud.ec2.stop_instances, InstanceIds=[NO_INSTANCE])


@case()
def f21_a_malformed_id_is_not_one_that_is_not_found(cloud):
    said = refused("InvalidParameterValue", cloud.ec2.describe_volumes, VolumeIds=["banana"])
    assert "banana" in said, said
    refused("InvalidParameterValue", cloud.ec2.delete_volume, VolumeId="vol-xyz")
    refused("InvalidInstanceID.Malformed", cloud.ec2.describe_instances, InstanceIds=["banana"])
    refused("InvalidInstanceID.Malformed", cloud.attach, volume=cloud.volume(), instance="i-")
    refused("InvalidParameterValue", cloud.ec2.describe_snapshots, SnapshotIds=["banana"])


@case()
def f22_an_error_names_only_the_ids_that_are_missing(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    said = refused("InvalidVolume.NotFound", cloud.ec2.describe_volumes, VolumeIds=[volume, NO_VOLUME])
    equal(said, f"The volume '{NO_VOLUME}' does not exist.")
    other = "vol-0123456789abcdef1"
    said = refused("InvalidVolume.NotFound", cloud.ec2.describe_volumes, VolumeIds=[NO_VOLUME, volume, other])
    assert NO_VOLUME in said and other in said and volume not in said, said
    said = refused("InvalidInstanceID.NotFound", cloud.ec2.describe_instances, InstanceIds=[node, NO_INSTANCE])
    assert NO_INSTANCE in said and node not in said, said


@case()
def f25_a_dry_run_says_that_it_would_do_it_and_does_nothing(cloud):
    volume, attached, node = cloud.volume(), cloud.volume(), cloud.instance("node-a")
    cloud.attached(attached, node)
    said = "Request would have succeeded, but DryRun flag is set."
    for call, parameters in (
        (cloud.ec2.create_volume, {"AvailabilityZone": "us-east-1a", "Size": 4}),
        (cloud.ec2.attach_volume, {"VolumeId": volume, "InstanceId": node, "Device": "/dev/sdg"}),
        (cloud.ec2.detach_volume, {"VolumeId": attached, "InstanceId": node}),
        (cloud.ec2.delete_volume, {"VolumeId": volume}),
        (cloud.ec2.modify_volume, {"VolumeId": volume, "Size": 8}),
        (cloud.ec2.create_snapshot, {"VolumeId": volume}),
        (cloud.ec2.create_tags, {"Resources": [volume], "Tags": [{"Key": "a", "Value": "b"}]}),
        (cloud.ec2.terminate_instances, {"InstanceIds": [node]}),
    ):
        equal(refused("DryRunOperation", call, 412, DryRun=True, **parameters), said)
    described = cloud.describe(volume)
    equal((described["State"], described["Size"], described.get("Tags")), ("available", 4, None))
    equal((cloud.attachment(attached), cloud.instance_state(node)), ("attached", "running"))
    equal(cloud.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"], [])
    # Parameters are checked first.
    refused("InvalidVolume.NotFound", cloud.ec2.delete_volume, DryRun=True, VolumeId=NO_VOLUME)


@case()
def f26_a_dry_describe_gives_no_data(cloud):
    for call in (
        cloud.ec2.describe_volumes,
        cloud.ec2.describe_instances,
        cloud.ec2.describe_snapshots,
        # The EBS driver's health check.
        cloud.ec2.describe_availability_zones,
    ):
        refused("DryRunOperation", call, 412, DryRun=True)


@case()
def f31_a_page_has_as_many_items_as_asked_and_the_last_has_no_token(cloud):
    made = {cloud.volume() for _ in range(7)}
    everything = {volume["VolumeId"] for volume in cloud.ec2.describe_volumes()["Volumes"]}
    assert made < everything
    first = cloud.ec2.describe_volumes(MaxResults=5)
    equal(len(first["Volumes"]), 5)
    assert first["NextToken"], first
    pages = list(cloud.ec2.get_paginator("describe_volumes").paginate(PaginationConfig={"PageSize": 5}))
    seen = [volume["VolumeId"] for page in pages for volume in page["Volumes"]]
    equal(sorted(seen), sorted(everything))
    assert "NextToken" not in pages[-1], pages[-1]
    # A page may hold fewer entries than asked for, but no duplicates.
    for operation, key in (("describe_instances", "Reservations"), ("describe_tags", "Tags")):
        whole = getattr(cloud.ec2, operation)()[key]
        pages = list(cloud.ec2.get_paginator(operation).paginate(PaginationConfig={"PageSize": 5}))
        equal([item for page in pages for item in page[key]], whole)


@case()
def f32_fewer_than_five_items_cannot_be_asked_for(cloud):
    for count in (1, 2, 4):
        refused("InvalidParameterValue", cloud.ec2.describe_volumes, MaxResults=count)


@case()
def f33_a_page_of_named_ids_is_refused(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    said = refused("InvalidParameterCombination", cloud.ec2.describe_volumes, MaxResults=5, VolumeIds=[volume])
    equal(said, "The parameter volumeSet cannot be used with the parameter maxResults")
    refused("InvalidParameterCombination", cloud.ec2.describe_instances, MaxResults=5, InstanceIds=[node])


@case()
def f34_documented_filters_work_and_others_are_refused(cloud):
    plain, shared = cloud.volume(), cloud.volume(VolumeType="io2", Iops=100, MultiAttachEnabled=True)
    node = cloud.instance("node-a")
    cloud.attached(plain, node)

    def found(**filters):
        asked = [{"Name": name.replace("_", "-").replace("--", "."), "Values": values} for name, values in filters.items()]
        volumes = cloud.ec2.describe_volumes(Filters=asked)["Volumes"]
        return [volume["VolumeId"] for volume in volumes if volume["VolumeId"] in (plain, shared)]

    equal(found(multi_attach_enabled=["true"]), [shared])
    equal(found(multi_attach_enabled=["false"]), [plain])
    equal(found(attachment__instance_id=[node]), [plain])
    equal(found(attachment__device=["/dev/sdf"]), [plain])
    equal(found(volume_type=["gp3", "io2"], status=["available"]), [shared])
    refused("InvalidParameterValue", cloud.ec2.describe_volumes, Filters=[{"Name": "colour", "Values": ["red"]}])


@case()
def f47_a_burst_empties_the_bucket(cloud):
    for _ in range(300):
        cloud.ec2.describe_volumes()
    # Without refill, so that the count does not depend on the clock.
    cloud.switch(throttle={"unfiltered-describe": {"refill": 0}, "describe": {}})
    for _ in range(50):
        cloud.ec2.describe_volumes()
    said = refused("RequestLimitExceeded", cloud.ec2.describe_volumes, 503)
    equal(said, "Request limit exceeded.")
    # Other classes have other buckets.
    cloud.ec2.describe_volumes(MaxResults=5)
    cloud.ec2.describe_availability_zones()


@case()
def f48_tags_of_the_wrong_kind_are_refused(cloud):
    zone = {"AvailabilityZone": "us-east-1a", "Size": 4}

    def tags(keys, kind="volume"):
        return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": "x"} for key in keys]}]

    refused("InvalidParameterValue", cloud.ec2.create_volume, TagSpecifications=tags(["a"], "instance"), **zone)
    refused("InvalidParameterValue", cloud.ec2.create_volume, TagSpecifications=tags(["aws:mine"]), **zone)
    many = [f"key-{number:02}" for number in range(51)]
    refused("TagLimitExceeded", cloud.ec2.create_volume, TagSpecifications=tags(many), **zone)
    volume = cloud.volume(TagSpecifications=tags(many[:50]))
    more = {"Resources": [volume], "Tags": [{"Key": "one-more", "Value": ""}]}
    refused("TagLimitExceeded", cloud.ec2.create_tags, **more)
    # An existing tag is replaced.
    cloud.ec2.create_tags(Resources=[volume], Tags=[{"Key": "key-00", "Value": "y"}])
    kept = {tag["Key"]: tag["Value"] for tag in cloud.describe(volume)["Tags"]}
    equal((len(kept), kept["key-00"]), (50, "y"))


@case()
def f49_tag_filters_take_wildcards(cloud):
    names = {}
    for name in ("banana", "berry", "cherry"):
        tags = [{"ResourceType": "volume", "Tags": [{"Key": "fruit", "Value": name}]}]
        names[cloud.volume(TagSpecifications=tags)] = name

    def found(name, *values):
        volumes = cloud.ec2.describe_volumes(Filters=[{"Name": name, "Values": list(values)}])["Volumes"]
        return sorted(names[volume["VolumeId"]] for volume in volumes)

    equal(found("tag:fruit", "b*"), ["banana", "berry"])
    equal(found("tag:fruit", "?erry"), ["berry"])
    equal(found("tag:fruit", "banana", "ch*"), ["banana", "cherry"])
    equal(found("tag-key", "fru*"), ["banana", "berry", "cherry"])
    equal(found("tag:fruit", "B*"), [])


@case()
def f50_an_unknown_action_is_an_error_that_sdks_can_read(cloud):
    request = AWSRequest("POST", cloud.endpoint + "/", data={"Action": "FlyToTheMoon", "Version": "2016-11-15"})
    credentials = cloud.session.get_credentials()
    SigV4Auth(credentials, "ec2", "us-east-1").add_auth(request)
    answer = URLLib3Session().send(request.prepare())
    equal(answer.status_code, 400)
    assert answer.headers["content-type"].startswith("text/xml"), answer.headers
    root = xml.etree.ElementTree.fromstring(answer.text)
    equal((root.tag, root.findtext("Errors/Error/Code")), ("Response", "InvalidAction"))
    equal(root.findtext("RequestID"), answer.headers["x-amzn-requestid"])
    # The same for an action that the SDK knows but this cloud does not.
    refused("InvalidAction", cloud.ec2.describe_vpn_gateways)
