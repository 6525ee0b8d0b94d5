"""A node, a volume and a snapshot from creation to deletion with Apache Libcloud, over GET; argument: signature version.

Prints `ok` on success.
"""

import sys
import time
import urllib.parse

from libcloud.compute.base import NodeImage
from libcloud.compute.providers import get_driver
from libcloud.compute.types import NodeState, Provider, StorageVolumeState, VolumeSnapshotState


def equal(found, wanted):
    assert found == wanted, f"{found!r} is not {wanted!r}"


def becomes(ask, wanted):
    for _ in range(4_500):
        found = ask()
        if found == wanted:
            return
        time.sleep(0.02)
    raise AssertionError(f"it stayed {found!r}, not {wanted!r}")


def main(endpoint, version):
    place = urllib.parse.urlsplit(endpoint)
    driver = get_driver(Provider.EC2)(
        "mooring", "mooring", region="us-east-1", secure=False, host=place.hostname, port=place.port,
        signature_version=version,
    )
    (zone, *_) = driver.list_locations()
    equal(zone.name, "us-east-1a")

    size = next(size for size in driver.list_sizes() if size.id == "t3.micro")
    node = driver.create_node(
        name="worker", image=NodeImage("ami-0123456789abcdef0", None, driver), size=size, location=zone,
        ex_metadata={"team": "storage"}, ex_clienttoken=f"once-{version}",
    )
    becomes(lambda: next(n.state for n in driver.list_nodes() if n.id == node.id), NodeState.RUNNING)
    (node,) = driver.list_nodes(ex_node_ids=[node.id])
    equal((node.name, node.extra["tags"]["team"]), ("worker", "storage"))

    volume = driver.create_volume(10, "data", location=zone, ex_volume_type="gp3")
    found = lambda: next((v for v in driver.list_volumes() if v.id == volume.id), None)  # noqa: E731
    becomes(lambda: found().state, StorageVolumeState.AVAILABLE)
    equal((found().name, found().size, found().extra["volume_type"]), ("data", 10, "gp3"))
    driver.ex_create_tags(volume, {"team": "storage"})
    equal(driver.ex_describe_tags(volume)["team"], "storage")
    driver.ex_delete_tags(volume, {"team": "storage"})
    equal("team" in driver.ex_describe_tags(volume), False)

    assert driver.attach_volume(node, volume, "/dev/sdf")
    becomes(lambda: found().state, StorageVolumeState.INUSE)
    equal([v.id for v in driver.list_volumes(node) if v.id == volume.id], [volume.id])
    equal(found().extra["instance_id"], node.id)

    snapshot = driver.create_volume_snapshot(volume, "nightly", ex_metadata={"team": "storage"})
    kept = lambda: [s for s in driver.list_volume_snapshots(volume) if s.id == snapshot.id]  # noqa: E731
    becomes(lambda: kept()[0].state, VolumeSnapshotState.AVAILABLE)
    equal((kept()[0].name, kept()[0].size), ("nightly", 10))
    equal([s.id for s in driver.list_snapshots(owner="self") if s.id == snapshot.id], [snapshot.id])
    restored = driver.create_volume(12, "restored", location=zone, snapshot=snapshot)
    becomes(lambda: next(v.state for v in driver.list_volumes() if v.id == restored.id), StorageVolumeState.AVAILABLE)
    equal(next(v.extra["snapshot_id"] for v in driver.list_volumes() if v.id == restored.id), snapshot.id)

    # A modification is listed until it is complete.
    driver.ex_modify_volume(volume, {"Size": 20})
    becomes(lambda: found().size, 20)
    assert volume.id in [m.volume_id for m in driver.ex_describe_volumes_modifications()]

    assert driver.detach_volume(volume)
    becomes(lambda: found().state, StorageVolumeState.AVAILABLE)
    assert driver.destroy_volume_snapshot(snapshot)
    equal(kept(), [])
    for gone in (volume, restored):
        assert driver.destroy_volume(gone)
    becomes(lambda: found(), None)

    assert driver.reboot_node(node)
    assert driver.stop_node(node)
    becomes(lambda: next(n.state for n in driver.list_nodes() if n.id == node.id), NodeState.STOPPED)
    assert driver.start_node(node)
    becomes(lambda: next(n.state for n in driver.list_nodes() if n.id == node.id), NodeState.RUNNING)
    assert driver.destroy_node(node)
    print("ok")


main(*sys.argv[1:])
