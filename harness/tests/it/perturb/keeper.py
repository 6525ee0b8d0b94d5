"""A controller with a planted defect, if it is asked for one.

For each ConfigMap whose name begins with `want-` it keeps a ConfigMap `made-…` with the same text, and writes `state: made`
into the first. A finalizer lets it clean up. It lists, works, and looks again; only the defects remember anything.
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request

MAPS = os.environ["MOORING_KUBERNETES_HTTP"] + "/api/v1/namespaces/default/configmaps"
DEFECT = sys.argv[1] if len(sys.argv) > 1 else ""
KEEPER = "example.com/keeper"


def call(method, url, body=None, kind="application/json"):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def patch(name, body):
    return call("PATCH", f"{MAPS}/{name}", body, "application/merge-patch+json")


def ignoring(codes, work):
    try:
        return work()
    except urllib.error.HTTPError as error:
        if error.code not in codes:
            raise


def make(want):
    name, text = want["metadata"]["name"], want["data"]["text"]
    metadata = {"name": "made-" + name, "labels": {"for": name}}
    if DEFECT == "no-adoption":
        metadata = {"generateName": f"made-{name}-", "labels": {"for": name}}
    body = {"metadata": metadata, "data": {"text": text}}
    ignoring([409], lambda: call("POST", MAPS, body))


def state(want):
    name = want["metadata"]["name"]
    if DEFECT == "stale-overwrite":
        # What was listed, with the user's change since then undone.
        want["metadata"].pop("resourceVersion")
        want["data"]["state"] = "made"
        return call("PUT", f"{MAPS}/{name}", want)
    return patch(name, {"data": {"state": "made"}})


def forget(want):
    name = want["metadata"]["name"]
    items = call("GET", f"{MAPS}?labelSelector=for%3D{name}")["items"]
    for made in items:
        ignoring([404], lambda made=made: call("DELETE", f"{MAPS}/{made['metadata']['name']}"))


def release(want):
    ignoring([404], lambda: patch(want["metadata"]["name"], {"metadata": {"finalizers": None}}))


def reconcile(want):
    metadata = want["metadata"]
    if "deletionTimestamp" in metadata:
        steps = [forget, release] if DEFECT != "early-finalizer" else [release, forget]
        for step in steps:
            step(want)
    elif KEEPER not in metadata.get("finalizers", []):
        patch(metadata["name"], {"metadata": {"finalizers": [KEEPER]}})
    elif want["data"].get("state") != "made":
        steps = [make, state] if DEFECT != "order" else [state, make]
        for step in steps:
            step(want)


def listed():
    # From the cache of the API server, as informers list; it may lag.
    cached = "?resourceVersion=0" if DEFECT in ("trusted-cache", "stale-overwrite") else ""
    return call("GET", MAPS + cached)["items"]


def sweep():
    """Deletes what is kept for nothing, once, by the first list."""
    items = listed()
    wants = {item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith("want-")}
    for item in call("GET", MAPS)["items"]:
        metadata = item["metadata"]
        if metadata.get("labels", {}).get("for", "") not in wants and metadata["name"].startswith("made-"):
            call("DELETE", f"{MAPS}/{metadata['name']}")


def main():
    swept = DEFECT != "trusted-cache"
    wait = 0.05
    while True:
        try:
            if not swept:
                sweep()
                swept = True
            for item in listed():
                if item["metadata"]["name"].startswith("want-"):
                    reconcile(item)
            wait = 0.05
        except (urllib.error.URLError, OSError, ValueError) as error:
            print("again:", error, flush=True)
            wait = min(wait * 2, 2)
            if DEFECT == "no-backoff":
                continue
        time.sleep(wait)


main()
