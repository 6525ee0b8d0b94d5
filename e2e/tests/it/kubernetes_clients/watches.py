"""Watches, informers and leader election."""

import threading

from kubernetes import client, informer, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from cluster import MERGE, case, equal, until


def next_events(stream, count):
    """The next events as (type, name)."""
    events = []
    for event in stream:
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == count:
            return events
    raise AssertionError(f"the stream ended after {events}")


@case()
def a_watch_tells_what_is_there_and_what_happens(cluster):
    cluster.settings("a")
    watcher = watch.Watch()
    stream = watcher.stream(cluster.core.list_namespaced_config_map, "default", timeout_seconds=90)
    equal(next_events(stream, 1), [("ADDED", "a")])
    cluster.settings("b", k="1")
    cluster.core.patch_namespaced_config_map("b", "default", {"data": {"k": "2"}}, _content_type=MERGE)
    cluster.core.delete_namespaced_config_map("a", "default")
    equal(next_events(stream, 3), [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")])
    watcher.stop()


@case()
def a_watch_goes_on_from_a_version(cluster):
    since = cluster.settings("a").metadata.resource_version
    cluster.settings("b")
    stream = watch.Watch().stream(
        cluster.core.list_namespaced_config_map, "default", resource_version=since, timeout_seconds=3)
    equal([(event["type"], event["object"].metadata.name) for event in stream], [("ADDED", "b")])


@case()
def a_version_that_is_gone_is_an_error_of_its_own(cluster):
    since = cluster.settings("a").metadata.resource_version
    cluster.settings("b")
    cluster.admin("POST", "compact", {})
    stream = watch.Watch().stream(
        cluster.core.list_namespaced_config_map, "default", resource_version=since, timeout_seconds=90)
    try:
        list(stream)
    except ApiException as error:
        equal(error.status, 410)
        assert error.reason.startswith("Expired: too old resource version"), error.reason
    else:
        raise AssertionError("the watch did not fail")


@case()
def a_selector_makes_its_own_events(cluster):
    since = cluster.settings("a").metadata.resource_version
    stream = watch.Watch().stream(
        cluster.core.list_namespaced_config_map, "default", label_selector="on=yes", resource_version=since,
        timeout_seconds=90)
    for value in ("yes", "no"):
        patch = {"metadata": {"labels": {"on": value}}}
        cluster.core.patch_namespaced_config_map("a", "default", patch, _content_type=MERGE)
    equal(next_events(stream, 2), [("ADDED", "a"), ("DELETED", "a")])


@case()
def an_informer_keeps_up_with_the_cluster(cluster):
    cluster.settings("a")
    shared = informer.SharedInformer(cluster.core.list_namespaced_config_map, namespace="default")
    seen = []
    for kind in (informer.ADDED, informer.MODIFIED, informer.DELETED):
        shared.add_event_handler(kind, lambda obj, kind=kind: seen.append((kind, obj.metadata.name)))
    shared.start()
    try:
        until(lambda: shared.cache.get_by_key("default/a"))
        cluster.settings("b")
        until(lambda: shared.cache.get_by_key("default/b"))
        cluster.core.delete_namespaced_config_map("a", "default")
        until(lambda: not shared.cache.get_by_key("default/a"))
        wanted = [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        # Handlers are called after the cache has changed.
        until(lambda: len([event for event in seen if event[0] != informer.MODIFIED]) >= len(wanted))
        equal([event for event in seen if event[0] != informer.MODIFIED], wanted)
    finally:
        shared.stop()


def leads(cluster, lock):
    """Returns whether a candidate becomes the leader."""
    leading = threading.Event()
    config = electionconfig.Config(
        lock, lease_duration=30, renew_deadline=20, retry_period=1, onstarted_leading=leading.set,
        onstopped_leading=lambda: None)
    threading.Thread(target=leaderelection.LeaderElection(config).run, daemon=True).start()
    return leading


@case()
def one_of_two_candidates_leads_by_a_lease(cluster):
    first = leads(cluster, LeaseLock("lock", "default", "one"))
    assert first.wait(90)
    second = leads(cluster, LeaseLock("lock", "default", "two"))
    lease = client.CoordinationV1Api(cluster.api).read_namespaced_lease("lock", "default")
    equal(lease.spec.holder_identity, "one")
    # Longer than the first candidate's renewal.
    assert not second.wait(2)


@case()
def a_candidate_leads_by_a_config_map(cluster):
    assert leads(cluster, ConfigMapLock("lock", "default", "one")).wait(90)
    held = cluster.core.read_namespaced_config_map("lock", "default").metadata.annotations
    assert "one" in held["control-plane.alpha.kubernetes.io/leader"], held
