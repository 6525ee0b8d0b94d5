//! Checks the initial state of a cluster.

use std::collections::BTreeSet;

use mock_ec2::VolumeSpec;

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::model::{Begin, Manifest};
use crate::scenario::source_span::Spanned;

impl Steps<'_> {
    /// Checks the initial volumes and objects.
    pub(super) fn begin(&mut self, begin: doc::Begin) -> Begin {
        let mut checked = Begin::default();
        for volume in begin.volumes {
            let volume = volume_of(volume);
            checked.volumes.extend(self.kept(volume));
        }
        let mut seen = BTreeSet::new();
        for object in begin.objects {
            let place = object.place;
            let manifest = self.manifest(place, object.value).and_then(|manifest: Manifest| {
                let name = manifest.object.to_string();
                if seen.insert(name.clone()) {
                    return Ok(manifest);
                }
                Err(Mistake::new(place, format!("{name} is there twice"), "the second one"))
            });
            checked.objects.extend(self.kept(manifest));
        }
        checked
    }

    /// Returns the value, or records its error.
    fn kept<T>(&self, checked: Checked<T>) -> Option<T> {
        checked.map_err(|mistake| self.heed(Err(mistake))).ok()
    }
}

fn volume_of(volume: Spanned<VolumeSpec>) -> Checked<VolumeSpec> {
    let wrong = |(field, reason)| Mistake::new(volume.place, format!("{field}: {reason}"), "this volume");
    volume.value.check().map_err(wrong)?;
    Ok(volume.value)
}
