"""AttachVolume and DetachVolume."""

from cloud import case, equal, refused, until


@case(held=["AttachVolume"])
def f02_an_attach_is_seen_attaching_by_volume_and_instance(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    answer = cloud.attach(volume, node, "/dev/xvdaa")
    wanted = {"VolumeId": volume, "InstanceId": node, "Device": "/dev/xvdaa", "State": "attaching"}
    equal({key: answer[key] for key in wanted}, wanted)
    described = cloud.describe(volume)
    (attachment,) = described["Attachments"]
    # The volume is in-use at once, with the requested device name, byte for byte.
    equal((described["State"], attachment["State"], attachment["Device"]), ("in-use", "attaching", "/dev/xvdaa"))
    equal(attachment["DeleteOnTermination"], False)
    reservations = cloud.ec2.describe_instances(InstanceIds=[node])["Reservations"]
    mapped = {item["DeviceName"]: item["Ebs"] for item in reservations[0]["Instances"][0]["BlockDeviceMappings"]}
    equal((mapped["/dev/xvdaa"]["VolumeId"], mapped["/dev/xvdaa"]["Status"]), (volume, "attaching"))
    cloud.end(volume, "attachment")
    cloud.attachment_becomes(volume, "attached")


@case(held=["DetachVolume"])
def f03_detaching_and_busy_can_be_seen(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.attached(volume, node)
    equal(cloud.ec2.detach_volume(VolumeId=volume, InstanceId=node)["State"], "detaching")
    equal((cloud.attachment(volume), cloud.describe(volume)["State"]), ("detaching", "in-use"))
    # A second call returns the current state, not an error that a driver would take for success.
    equal(cloud.ec2.detach_volume(VolumeId=volume, InstanceId=node)["State"], "detaching")
    cloud.end(volume, "attachment")
    cloud.state_becomes(volume, "available")
    equal(cloud.describe(volume)["Attachments"], [])

    cloud.attached(volume, node)
    cloud.mounted(node, volume)
    equal(cloud.ec2.detach_volume(VolumeId=volume, InstanceId=node)["State"], "detaching")
    cloud.attachment_becomes(volume, "busy")
    equal(cloud.describe(volume)["State"], "in-use")
    cloud.mounted(node)
    cloud.state_becomes(volume, "available")


@case()
def f04_a_second_instance_is_refused_and_the_first_keeps_the_volume(cloud):
    volume, first, second = cloud.volume(), cloud.instance("node-a"), cloud.instance("node-b")
    cloud.attached(volume, first)
    said = refused("VolumeInUse", cloud.attach, volume=volume, instance=second)
    equal(said, f"{volume} is already attached to an instance")
    (attachment,) = cloud.describe(volume)["Attachments"]
    equal((attachment["InstanceId"], attachment["State"]), (first, "attached"))
    assert ("/dev/sdf", volume) in cloud.mapping(first)
    assert volume not in [held for _, held in cloud.mapping(second)]


@case()
def f05_the_same_instance_under_another_name_is_refused(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.attached(volume, node, "/dev/sdf")
    refused("VolumeInUse", cloud.attach, volume=volume, instance=node, device="/dev/sdg")
    equal([device for device, held in cloud.mapping(node) if held == volume], ["/dev/sdf"])


@case()
def f06_an_attach_across_zones_is_refused(cloud):
    volume, far = cloud.volume(zone="us-east-1a"), cloud.instance("node-c")
    refused("InvalidVolume.ZoneMismatch", cloud.attach, volume=volume, instance=far)
    equal(cloud.describe(volume)["State"], "available")


@case()
def f07_the_limit_of_the_type_holds_and_agrees_with_what_it_says(cloud):
    node = cloud.instance("narrow")
    (kind,) = cloud.ec2.describe_instance_types(InstanceTypes=["d3.8xlarge"])["InstanceTypes"]
    # The limit is shared with network interfaces; there is one.
    equal(kind["EbsInfo"]["AttachmentLimitType"], "shared")
    most = kind["EbsInfo"]["MaximumEbsAttachments"]
    volumes = [cloud.volume() for _ in range(most)]
    # The root volume occupies a slot, too.
    for letter, volume in zip("fghijk", volumes[1:]):
        cloud.attached(volume, node, f"/dev/sd{letter}")
    said = refused("AttachmentLimitExceeded", cloud.attach, volume=volumes[0], instance=node, device="/dev/sdz")
    assert said.startswith(f"You may attach up to {most} devices for this instance type."), said
    equal(cloud.describe(volumes[0])["State"], "available")

    cloud.switch(limitMode="stick")
    cloud.attach(volumes[0], node, "/dev/sdz")
    equal(cloud.attachment(volumes[0]), "attaching")
    cloud.ec2.detach_volume(VolumeId=volumes[1], InstanceId=node)
    cloud.attachment_becomes(volumes[0], "attached")


@case()
def f08_a_device_name_in_use_is_refused_by_either_spelling(cloud):
    first, second, node = cloud.volume(), cloud.volume(), cloud.instance("node-a")
    cloud.attached(first, node, "/dev/xvdb")
    said = refused("InvalidParameterValue", cloud.attach, volume=second, instance=node, device="/dev/xvdb")
    equal(said, "Invalid value '/dev/xvdb' for unixDevice. Attachment point /dev/xvdb is already in use")
    said = refused("InvalidParameterValue", cloud.attach, volume=second, instance=node, device="/dev/sdb")
    assert "already in use" in said, said
    equal(dict(cloud.mapping(node))["/dev/xvdb"], first)
    equal(cloud.describe(second)["State"], "available")


@case()
def f09_the_roots_device_name_is_in_use(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    before = cloud.mapping(node)
    for device in ("/dev/sda1", "/dev/xvda"):
        said = refused("InvalidParameterValue", cloud.attach, volume=volume, instance=node, device=device)
        assert "already in use" in said, said
    equal(cloud.mapping(node), before)


@case()
def f10_an_invalid_device_name_is_refused(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    for device in ("banana", "/dev/xvdeo", "/dev/sdf1", "/dev/"):
        said = refused("InvalidParameterValue", cloud.attach, volume=volume, instance=node, device=device)
        equal(said, f"Value ({device}) for parameter device is invalid. {device} is not a valid EBS device name.")


@case()
def f11_a_volume_that_is_available_cannot_be_detached(cloud):
    volume = cloud.volume()
    said = refused("IncorrectState", cloud.ec2.detach_volume, VolumeId=volume)
    equal(said, f"Volume '{volume}' is in the 'available' state.")
    refused("IncorrectState", cloud.ec2.detach_volume, VolumeId=volume, InstanceId=cloud.instance("node-a"))


@case()
def f12_a_single_attachment_is_found_without_its_instance(cloud):
    volume, node = cloud.volume(), cloud.instance("node-a")
    cloud.attached(volume, node)
    equal(cloud.ec2.detach_volume(VolumeId=volume)["InstanceId"], node)
    cloud.state_becomes(volume, "available")


@case()
def f13_a_detach_from_the_wrong_instance_detaches_nothing(cloud):
    (first, second), (a, b) = (cloud.volume(), cloud.volume()), (cloud.instance("node-a"), cloud.instance("node-b"))
    cloud.attached(first, a)
    cloud.attached(second, b)
    wrong = {"VolumeId": first, "InstanceId": b, "Device": "/dev/sdf"}
    refused("InvalidAttachment.NotFound", cloud.ec2.detach_volume, **wrong)
    for volume, node in ((first, a), (second, b)):
        (attachment,) = cloud.describe(volume)["Attachments"]
        equal((attachment["InstanceId"], attachment["State"]), (node, "attached"))


@case()
def f15_force_frees_a_busy_volume_and_poisons_its_device_name(cloud):
    (volume, other, third), node = (cloud.volume() for _ in range(3)), cloud.instance("node-a")
    cloud.attached(volume, node)
    cloud.mounted(node, volume)
    cloud.ec2.detach_volume(VolumeId=volume, InstanceId=node)
    cloud.attachment_becomes(volume, "busy")
    cloud.ec2.detach_volume(VolumeId=volume, InstanceId=node, Force=True)
    cloud.state_becomes(volume, "available")
    cloud.mounted(node)
    # An attachment under the same name sticks, a later one under another name completes; a reboot clears the name.
    cloud.attach(other, node, "/dev/sdf")
    cloud.attached(third, node, "/dev/sdg")
    equal(cloud.attachment(other), "attaching")
    cloud.ec2.reboot_instances(InstanceIds=[node])
    cloud.attachment_becomes(other, "attached")


@case()
def f16_the_root_volume_stays_while_its_instance_runs(cloud):
    node = cloud.instance("node-a")
    (root,) = [volume for _, volume in cloud.mapping(node)]
    refused("OperationNotPermitted", cloud.ec2.detach_volume, VolumeId=root, InstanceId=node)
    equal(cloud.attachment(root), "attached")
    cloud.ec2.stop_instances(InstanceIds=[node])
    cloud.instance_becomes(node, "stopped")
    cloud.ec2.detach_volume(VolumeId=root, InstanceId=node)
    cloud.state_becomes(root, "available")


@case()
def f30_an_io2_volume_with_multi_attach_has_two_instances_at_once(cloud):
    a, b = cloud.instance("node-a"), cloud.instance("node-b")
    volume = cloud.volume(VolumeType="io2", Iops=100, MultiAttachEnabled=True)
    equal(cloud.describe(volume)["MultiAttachEnabled"], True)
    for node in (a, b):
        cloud.attach(volume, node)
    both = until(lambda: [x for x in [cloud.describe(volume)["Attachments"]] if all(y["State"] == "attached" for y in x)])
    equal(sorted(attachment["InstanceId"] for attachment in both[0]), sorted([a, b]))
    refused("VolumeInUse", cloud.attach, volume=volume, instance=a, device="/dev/sdg")
    # The instance must be given.
    refused("MissingParameter", cloud.ec2.detach_volume, VolumeId=volume)
    cloud.ec2.detach_volume(VolumeId=volume, InstanceId=a)
    until(lambda: len(cloud.describe(volume)["Attachments"]) == 1)
    equal(cloud.describe(volume)["State"], "in-use")


@case()
def f46_the_ebs_card_is_in_each_view_of_an_attachment(cloud):
    node, volume = cloud.instance("two-cards"), cloud.volume()
    (kind,) = cloud.ec2.describe_instance_types(InstanceTypes=["r8gb.48xlarge"])["InstanceTypes"]
    equal(kind["EbsInfo"]["MaximumEbsCards"], 2)
    answer = cloud.ec2.attach_volume(VolumeId=volume, InstanceId=node, Device="/dev/sdf", EbsCardIndex=1)
    equal(answer["EbsCardIndex"], 1)
    cloud.attachment_becomes(volume, "attached")
    equal(cloud.describe(volume)["Attachments"][0]["EbsCardIndex"], 1)
    reservations = cloud.ec2.describe_instances(InstanceIds=[node])["Reservations"]
    cards = {i["DeviceName"]: i["Ebs"]["EbsCardIndex"] for i in reservations[0]["Instances"][0]["BlockDeviceMappings"]}
    equal(cards["/dev/sdf"], 1)
    plain = {"VolumeId": cloud.volume(), "InstanceId": cloud.instance("node-a"), "Device": "/dev/sdf"}
    refused("InvalidParameterValue", cloud.ec2.attach_volume, EbsCardIndex=1, **plain)
