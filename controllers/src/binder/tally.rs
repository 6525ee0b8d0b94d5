//! Numbers of bound and unbound volumes and claims, for metrics (`pkg/controller/volume/persistentvolume/metrics`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::object::{claim_class, claim_phase, volume_class, volume_phase};
use crate::metrics::{Family, Metrics, families, plugin};

/// Labels of a sample, with its family.
type Sample = (&'static Family, Vec<String>);

/// Samples by family name and labels. A sample without objects stays with zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: BTreeMap<(&'static str, Vec<String>), (&'static Family, u64)>,
    /// Samples that changed since the gauges were last set.
    changed: Vec<Sample>,
}

impl Tally {
    /// Counts a stored volume.
    pub fn add_volume(&mut self, volume: &PersistentVolume) {
        samples_of_volume(volume).into_iter().for_each(|sample| self.change(sample, 1));
    }

    /// Removes a volume from the counts.
    pub fn remove_volume(&mut self, volume: &PersistentVolume) {
        samples_of_volume(volume).into_iter().for_each(|sample| self.change(sample, -1));
    }

    /// Counts a stored claim.
    pub fn add_claim(&mut self, claim: &PersistentVolumeClaim) {
        self.change(sample_of_claim(claim), 1);
    }

    /// Removes a claim from the counts.
    pub fn remove_claim(&mut self, claim: &PersistentVolumeClaim) {
        self.change(sample_of_claim(claim), -1);
    }

    fn change(&mut self, (family, labels): Sample, by: i64) {
        let (_, count) = self.counts.entry((family.name, labels.clone())).or_insert((family, 0));
        *count = count.checked_add_signed(by).expect("an object is counted before it is taken back");
        self.changed.push((family, labels));
    }

    /// Sets the gauges that changed.
    pub fn show(&mut self, metrics: &Metrics) {
        for (family, labels) in std::mem::take(&mut self.changed) {
            let (_, count) = self.counts[&(family.name, labels.clone())];
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            metrics.set(family, &labels, count);
        }
    }
}

fn samples_of_volume(volume: &PersistentVolume) -> [Sample; 2] {
    let is_bound = volume_phase(volume) == "Bound";
    let spec = volume.spec.as_ref();
    let driver = spec.and_then(|spec| spec.csi.as_ref()).map(|csi| plugin(&csi.driver));
    let in_tree = || if spec.is_some_and(|spec| spec.host_path.is_some()) { "kubernetes.io/host-path" } else { "" };
    let mode = spec.and_then(|spec| spec.volume_mode.clone()).unwrap_or_else(|| "Filesystem".to_owned());
    let by_class = if is_bound { &families::BOUND_PV } else { &families::UNBOUND_PV };
    [
        (by_class, vec![volume_class(volume).to_owned()]),
        (&families::TOTAL_PV, vec![driver.unwrap_or_else(|| in_tree().to_owned()), mode]),
    ]
}

fn sample_of_claim(claim: &PersistentVolumeClaim) -> Sample {
    let family = if claim_phase(claim) == "Bound" { &families::BOUND_PVC } else { &families::UNBOUND_PVC };
    let attributes = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone()).unwrap_or_default();
    let namespace = claim.metadata.namespace.clone().unwrap_or_default();
    (family, vec![namespace, claim_class(claim).to_owned(), attributes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_moves_from_unbound_to_bound_and_goes() {
        let claim = |phase: &str| -> PersistentVolumeClaim {
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": "data", "namespace": "default" },
                "spec": { "storageClassName": "gp3" },
                "status": { "phase": phase },
            }))
            .unwrap()
        };
        let (metrics, mut tally) = (Metrics::default(), Tally::default());
        let mut shown = |change: &mut dyn FnMut(&mut Tally)| {
            change(&mut tally);
            tally.show(&metrics);
            let text = metrics.text();
            let labels = "{namespace=\"default\",storage_class=\"gp3\",volume_attributes_class=\"\"}";
            ["pv_collector_bound_pvc_count", "pv_collector_unbound_pvc_count"].map(|name| {
                let start = format!("{name}{labels} ");
                text.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
            })
        };
        assert_eq!(shown(&mut |tally| tally.add_claim(&claim("Pending"))), [None, Some("1".to_owned())]);
        let bound = |tally: &mut Tally| {
            tally.remove_claim(&claim("Pending"));
            tally.add_claim(&claim("Bound"));
        };
        assert_eq!(shown(&mut { bound }), [Some("1".to_owned()), Some("0".to_owned())]);
        let gone = |tally: &mut Tally| tally.remove_claim(&claim("Bound"));
        assert_eq!(shown(&mut { gone }), [Some("0".to_owned()), Some("0".to_owned())]);
    }
}
