//! Scores of nodes that have the images of a pod (plugin ImageLocality, `plugins/imagelocality`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::cache::SchedulerCache;
use super::node_info::NodeInfo;
use super::scores::MAX;

const MB: i64 = 1024 * 1024;
/// Sum of sizes up to which a node has no score, and the sum for each container from which it has the highest.
const LEAST: i64 = 23 * MB;
const MOST_FOR_EACH: i64 = 1000 * MB;

/// Returns the name of an image with its tag (`normalizedImageName`).
fn tagged(name: &str) -> String {
    if name.rfind(':') <= name.rfind('/') { format!("{name}:latest") } else { name.to_owned() }
}

/// Returns the names of images that a pod uses, as often as it uses them.
fn images(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    // A container without an image uses none.
    let containers = containers.map(|container| container.image.as_deref().unwrap_or_default());
    let volumes = spec.volumes.iter().flatten().filter_map(|volume| volume.image.as_ref());
    let volumes = volumes.map(|image| image.reference.as_deref().unwrap_or_default());
    containers.chain(volumes).map(tagged).collect()
}

/// Returns the sizes of a node's images by name.
fn sizes(node: &Node) -> BTreeMap<&str, i64> {
    let all = node.status.iter().flat_map(|status| status.images.iter().flatten());
    let named = all.flat_map(|image| {
        let size = image.size_bytes.unwrap_or(0);
        image.names.iter().flatten().map(move |name| (name.as_str(), size))
    });
    named.collect()
}

/// Returns the score of each of `nodes`, which passed the filters. An image counts by its size, and by the share of all
/// nodes that have it: pods shall not gather on the only node with an image.
pub fn scores(cache: &SchedulerCache, pod: &Pod, nodes: &[&NodeInfo]) -> Vec<i64> {
    let images = images(pod);
    let all: Vec<BTreeMap<&str, i64>> =
        cache.nodes.values().filter_map(|info| Some(sizes(info.node.as_ref()?))).collect();
    let holders = |name: &str| all.iter().filter(|sizes| sizes.contains_key(name)).count();
    let holders: Vec<usize> = images.iter().map(|name| holders(name)).collect();
    let containers =
        pod.spec.as_ref().map_or(0, |spec| spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len));
    let score = |info: &&NodeInfo| {
        let sizes = info.node.as_ref().map(|node| sizes(node)).unwrap_or_default();
        let sum = images
            .iter()
            .zip(&holders)
            .filter_map(|(name, holders)| Some(scaled(*sizes.get(name.as_str())?, *holders, all.len())));
        priority(sum.sum(), containers)
    };
    nodes.iter().map(score).collect()
}

/// Returns the size of an image that so many of all nodes have (`scaledImageScore`).
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream computes with float64")]
fn scaled(size: i64, holders: usize, nodes: usize) -> i64 {
    (size as f64 * (holders as f64 / nodes as f64)) as i64
}

/// Returns the score of a sum of sizes (`calculatePriority`).
fn priority(sum: i64, containers: usize) -> i64 {
    let most = MOST_FOR_EACH.saturating_mul(i64::try_from(containers.max(1)).unwrap_or(i64::MAX));
    MAX * (sum.clamp(LEAST, most) - LEAST) / (most - LEAST)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn a_name_without_a_tag_is_the_latest() {
        assert_eq!(
            ["web", "h:80/web", "web:1", "h:80/web:1"].map(tagged),
            ["web:latest", "h:80/web:latest", "web:1", "h:80/web:1"]
        );
    }

    // Sizes of upstream's TestImageLocalityPriority.
    #[test]
    fn large_images_on_many_nodes_are_the_score() {
        let mut cache = SchedulerCache::default();
        let nodes = [("a", vec![("x:latest", 40), ("y:1", 300)]), ("b", vec![("y:1", 300)]), ("c", vec![])];
        for (name, images) in nodes {
            let images: Vec<_> =
                images.iter().map(|(name, size)| json!({ "names": [name], "sizeBytes": size * MB })).collect();
            let node = json!({ "metadata": { "name": name }, "status": { "images": images } });
            cache.store_node(Arc::new(from_value(node).expect("a node")));
        }
        let pod = |images: &[&str]| -> Pod {
            let containers: Vec<_> = images.iter().map(|image| json!({ "name": "c", "image": image })).collect();
            from_value(json!({ "metadata": {}, "spec": { "containers": containers } })).expect("a pod")
        };
        let infos: Vec<&NodeInfo> = cache.nodes.values().collect();
        // Two thirds of 300 MB on two nodes: 100 * (200 - 23) / (1000 - 23).
        assert_eq!(scores(&cache, &pod(&["y:1"]), &infos), [18, 18, 0]);
        // A third of 40 MB is less than the least sum.
        assert_eq!(scores(&cache, &pod(&["x"]), &infos), [0, 0, 0]);
        // 100 * (213 - 23) / (2000 - 23), and 100 * (200 - 23) / (2000 - 23).
        assert_eq!(scores(&cache, &pod(&["x", "y:1"]), &infos), [9, 8, 0]);
    }
}
