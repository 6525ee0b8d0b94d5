//! Forms of bindings: a bound claim and its PersistentVolume refer to each other by uid and are both `Bound`; a
//! PersistentVolume without a claim is `Available`, and one whose claim is gone is `Released` or has failed; a claim without
//! a volume is `Pending`.
//!
//! Not compared: a PersistentVolume that a claim waits for without its uid, because the binder may refuse the pair; the
//! annotations that name a provisioner, because a claim whose volume a user made has none.

use substrate::json::Value;

use super::{Comparison, is_there, key, name, text};

impl Comparison<'_> {
    /// Compares each claim and each PersistentVolume with the other side of its binding.
    pub(super) fn bindings(&mut self) {
        if !self.has_all(&["persistentvolume-binder-controller"]) {
            return;
        }
        let stored = &self.machines.stored;
        for claim in stored.claims.iter().filter(|claim| is_there(claim)) {
            let differs = self.form_of_bound_claim(claim);
            self.judge(None, differs.map(|differs| format!("pvc/{} {differs}", key(claim))));
        }
        for pv in stored.volumes.iter().filter(|pv| is_there(pv)) {
            let differs = self.unlike_its_binding(pv);
            self.judge(None, differs.map(|differs| format!("persistentvolume/{} {differs}", name(pv))));
        }
    }

    fn form_of_bound_claim(&self, claim: &Value) -> Option<String> {
        let (volume, phase) = (text(&claim["spec"]["volumeName"]), text(&claim["status"]["phase"]));
        if volume.is_empty() {
            return (phase != "Pending").then(|| format!("has no volume, and is {phase}"));
        }
        if phase != "Bound" {
            return None;
        }
        if claim["status"]["capacity"]["storage"].is_null() {
            return Some("is Bound, and has no capacity".to_owned());
        }
        let pv = self.machines.stored.volumes.iter().find(|pv| name(pv) == volume)?;
        let (of, uid) = (&pv["spec"]["claimRef"]["uid"], &claim["metadata"]["uid"]);
        if of != uid {
            return Some(format!("is Bound, and its PersistentVolume has the claim `{}`, not {}", text(of), text(uid)));
        }
        let phase = text(&pv["status"]["phase"]);
        (phase != "Bound").then(|| format!("is Bound, and its PersistentVolume is {phase}"))
    }

    fn unlike_its_binding(&self, pv: &Value) -> Option<String> {
        let (claim, phase) = (&pv["spec"]["claimRef"], text(&pv["status"]["phase"]));
        if claim.is_null() {
            return (phase != "Available").then(|| format!("has no claim, and is `{phase}`"));
        }
        let uid = text(&claim["uid"]);
        let is_its = |of: &Value| text(&of["metadata"]["uid"]) == uid;
        if uid.is_empty() || self.machines.stored.claims.iter().any(is_its) {
            return None;
        }
        (!["Released", "Failed"].contains(&phase)).then(|| {
            let of = format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]));
            format!("is {phase}, and its pvc/{of} is gone")
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::super::tests::found_by;

    /// Returns the differences of the healthy cluster after `change`.
    fn found(left_out: &[&str], change: impl FnOnce(&mut Json)) -> Vec<String> {
        let arrange = |cluster: &mut Json| {
            cluster["claims"][0]["metadata"]["uid"] = json!("c");
            cluster["volumes"][0]["spec"]["claimRef"]["uid"] = json!("c");
            change(cluster);
        };
        found_by(left_out, arrange, |comparison| comparison.bindings())
    }

    #[rstest]
    #[case("/volumes/0/spec/claimRef/uid", json!("former"),
        &["pvc/default/data is Bound, and its PersistentVolume has the claim `former`, not c",
          "persistentvolume/pv-1 is Bound, and its pvc/default/data is gone"])]
    #[case("/volumes/0/spec/claimRef/uid", json!(""),
        &["pvc/default/data is Bound, and its PersistentVolume has the claim ``, not c"])]
    #[case("/volumes/0/status/phase", json!("Available"),
        &["pvc/default/data is Bound, and its PersistentVolume is Available"])]
    #[case("/claims/0/spec/volumeName", json!(""), &["pvc/default/data has no volume, and is Bound"])]
    fn both_sides_of_a_binding_agree(#[case] at: &str, #[case] value: Json, #[case] messages: &[&str]) {
        assert_eq!(found(&[], |_| ()), Vec::<String>::new());
        let change = |cluster: &mut Json| *cluster.pointer_mut(at).unwrap() = value.clone();
        assert_eq!(found(&[], change), messages);
        assert_eq!(found(&["persistentvolume-binder-controller"], change), Vec::<String>::new());
    }

    #[test]
    fn a_volume_without_a_claim_is_available() {
        let free = |phase: &'static str| {
            move |cluster: &mut Json| {
                cluster["claims"] = json!([]);
                cluster["volumes"][0]["spec"]["claimRef"] = Json::Null;
                cluster["volumes"][0]["status"]["phase"] = json!(phase);
            }
        };
        assert_eq!(found(&[], free("Available")), Vec::<String>::new());
        assert_eq!(found(&[], free("Pending")), ["persistentvolume/pv-1 has no claim, and is `Pending`"]);
    }
}
