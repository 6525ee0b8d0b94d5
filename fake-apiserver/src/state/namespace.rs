//! The life of namespaces, as the namespace and service-account controllers of kube-controller-manager run it.
//!
//! Ordinary deletes empty a terminating namespace at once: first its pods, and after the last pod the rest. Objects with
//! finalizers or grace periods stay, and the namespace is removed with the last of them.

use std::sync::Arc;

use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::command::{DeleteOptions, Part, Target, WriteOptions};
use super::history::Event;
use super::key_range::{prefix, within};
use super::namespace_upkeep::NamespaceUpkeep;
use super::object::{Object, key};
use super::status::{Cause, Status};
use super::value::{self, is_terminating, text};
use crate::kinds::{self, Kind, KindRef};

/// ConfigMap with the CA that pods trust.
const ROOT_CA: &str = "kube-root-ca.crt";
/// Annotation that describes it.
const DESCRIPTION: &str = "kubernetes.io/description";
const ROOT_CA_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

impl Store {
    /// Sets the work that this server does on namespaces.
    pub fn keep_namespaces(&mut self, upkeep: NamespaceUpkeep) {
        self.upkeep = upkeep;
    }

    /// Refuses a create in a namespace that does not exist or is terminating (admission `NamespaceLifecycle`).
    pub(super) fn admit_namespace(&self, namespace: Option<&str>, kind: &Kind, name: &str) -> Result<(), Status> {
        let Some(namespace) = namespace else { return Ok(()) };
        let namespaces = kinds::NAMESPACES;
        let found = self.get(namespaces, namespace).ok_or_else(|| Status::not_found(namespaces, namespace))?;
        let is_ending = text(&found.value, &["status", "phase"]) == "Terminating" || is_terminating(&found.value);
        if !is_ending || self.defects.fills_ending_namespaces {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(kind, name, &why);
        status.details.causes = vec![Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }];
        Err(status)
    }

    /// Does the work that follows the commits from `first` on: gives a new namespace its service account and, if
    /// published, the CA certificate; empties a terminating namespace, and removes an empty one.
    pub(super) fn settle(&mut self, now: Now, first: usize) {
        let mut next = first;
        while let Some(event) = self.committed.get(next).cloned() {
            next += 1;
            self.follow(now, &event);
        }
    }

    fn follow(&mut self, now: Now, event: &Arc<Event>) {
        self.follow_quotas(now, event);
        self.follow_flows(now, event);
        self.follow_tokens(now, event);
        if event.kind == kinds::NAMESPACES {
            if let Some(namespace) = event.new.as_ref().filter(|_| self.upkeep != NamespaceUpkeep::Nothing) {
                if is_terminating(&namespace.value) {
                    let was = event.old.as_ref().is_some_and(|old| is_terminating(&old.value));
                    if !was {
                        self.empty(now, &event.key.clone());
                    }
                    self.finalize_if_empty(now, &event.key.clone());
                } else if event.old.is_none() {
                    self.give_service_account(now, &event.key.clone());
                    self.give_root_ca(now, &event.key.clone());
                }
            }
        } else if event.kind == kinds::VALIDATING_ADMISSION_POLICIES {
            if self.upkeep == NamespaceUpkeep::Whole {
                self.follow_policy(now, event);
            }
        } else if event.kind == kinds::CUSTOM_RESOURCE_DEFINITIONS {
            self.follow_definition(now, event);
        } else if event.kind == kinds::CONFIG_MAPS
            && event.old.is_some()
            && event.new.is_some()
            && let Some((namespace, ROOT_CA)) = event.key.split_once('/')
        {
            self.restore_root_ca(now, namespace);
        } else if event.new.is_none() && (event.kind.namespaced || event.kind.custom.is_some()) {
            if event.kind.custom.is_some() {
                self.finish_definition(now, &format!("{}.{}", event.kind.plural, event.kind.group));
            }
            let Some((namespace, name)) = event.key.split_once('/') else { return };
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            if event.kind == kinds::PODS {
                self.follow_last_pod(now, &namespace);
            }
            self.finalize_if_empty(now, &namespace);
            if event.kind == kinds::SERVICE_ACCOUNTS && name == "default" {
                self.give_service_account(now, &namespace);
            } else if event.kind == kinds::CONFIG_MAPS && name == ROOT_CA {
                self.give_root_ca(now, &namespace);
            }
        }
    }

    /// Creates the service account for pods that name none (kube-controller-manager `serviceaccount-controller`).
    fn give_service_account(&mut self, now: Now, namespace: &str) {
        if self.upkeep != NamespaceUpkeep::Whole {
            return;
        }
        let active = self.get(kinds::NAMESPACES, namespace).is_some_and(|found| !is_terminating(&found.value));
        if active {
            let object = json!({"metadata": {"name": "default"}});
            // Fails only if it exists already.
            let _ = self.create(now, kinds::SERVICE_ACCOUNTS, Some(namespace), object, WriteOptions::default());
        }
    }

    /// Publishes the server's CA certificate in a namespace, if it has one (kube-controller-manager
    /// `root-ca-certificate-publisher-controller`).
    pub(super) fn give_root_ca(&mut self, now: Now, namespace: &str) {
        let Some(ca) = self.root_ca.as_ref().or(self.authority.as_ref()).filter(|_| self.publishes).cloned() else {
            return;
        };
        if self.get(kinds::NAMESPACES, namespace).is_none_or(|found| is_terminating(&found.value)) {
            return;
        }
        let metadata = json!({"name": ROOT_CA, "annotations": {"kubernetes.io/description": ROOT_CA_TEXT}});
        let object = json!({"metadata": metadata, "data": {"ca.crt": &*ca}});
        // Fails only if it exists already, or if a quota or a policy refuses it.
        let _ = self.create(now, kinds::CONFIG_MAPS, Some(namespace), object, WriteOptions::default());
    }

    /// Restores the published CA certificate of a namespace after a client changed it.
    fn restore_root_ca(&mut self, now: Now, namespace: &str) {
        let Some(ca) = self.root_ca.as_ref().or(self.authority.as_ref()).filter(|_| self.publishes).cloned() else {
            return;
        };
        let place = key(Some(namespace), ROOT_CA);
        let Some(found) = self.get(kinds::CONFIG_MAPS, &place).map(Object::unfolded) else { return };
        let data = json!({"ca.crt": &*ca});
        let is_described = !text(&found.value, &["metadata", "annotations", DESCRIPTION]).is_empty();
        if found.value["data"] == data && is_described {
            return;
        }
        let mut restored: Value = found.value.clone();
        value::set(&mut restored, "data", Some(data));
        let annotations = value::metadata(&mut restored).entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(DESCRIPTION, ROOT_CA_TEXT.into());
        }
        self.put(now, kinds::CONFIG_MAPS, place, restored);
    }

    /// Returns true if a namespace has objects of a kind.
    pub(super) fn holds_any(&self, kind: &Kind, namespace: &str) -> bool {
        let prefix = prefix(Some(namespace));
        let mut objects = within(self.kind_store(kind).objects(), &prefix, &prefix);
        objects.next().is_some()
    }

    /// Deletes the rest of a terminating namespace after its last pod has gone.
    fn follow_last_pod(&mut self, now: Now, namespace: &str) {
        let is_ending = self.get(kinds::NAMESPACES, namespace).is_some_and(|found| is_terminating(&found.value));
        if is_ending && self.upkeep != NamespaceUpkeep::Nothing && !self.holds_any(kinds::PODS, namespace) {
            self.empty(now, namespace);
        }
    }

    /// Deletes the pods in a namespace, and the rest unless pods stay for now. Objects with finalizers stay, too.
    fn empty(&mut self, now: Now, namespace: &str) {
        self.delete_each(now, namespace, &[KindRef::from(kinds::PODS)]);
        if !self.holds_any(kinds::PODS, namespace) {
            self.delete_each(now, namespace, &self.stored_kinds());
        }
    }

    fn delete_each(&mut self, now: Now, namespace: &str, kinds: &[KindRef]) {
        let spares = self.defects.spares_custom_objects;
        for kind in kinds.iter().filter(|kind| kind.namespaced && !(spares && kind.custom.is_some())) {
            let prefix = prefix(Some(namespace));
            let names: Vec<String> = within(self.kind_store(kind).objects(), &prefix, &prefix)
                .map(|(_, object)| value::name(&object.value).to_owned())
                .collect();
            for name in names {
                let target =
                    Target { kind: kind.clone(), namespace: Some(namespace.to_owned()), name, part: Part::Main };
                // Fails only if it is gone already.
                let _ = self.delete(now, &target, DeleteOptions::default());
            }
        }
    }

    /// Removes the finalizer `kubernetes` from an empty terminating namespace.
    fn finalize_if_empty(&mut self, now: Now, namespace: &str) {
        if self.upkeep == NamespaceUpkeep::Nothing {
            return;
        }
        let namespaces = kinds::NAMESPACES;
        let Some(found) = self.get(namespaces, namespace).filter(|n| is_terminating(&n.value)).cloned() else { return };
        let prefix = prefix(Some(namespace));
        let (forgets, spares) = (self.defects.forgets_terminating, self.defects.spares_custom_objects);
        let holds = |kind: &Kind| {
            let mut objects = within(self.kind_store(kind).objects(), &prefix, &prefix);
            let counts = !(spares && kind.custom.is_some());
            counts && objects.any(|(_, object)| !(forgets && is_terminating(&object.value)))
        };
        if self.stored_kinds().into_iter().filter(|k| k.namespaced).any(|kind| holds(&kind)) {
            self.report_content(now, namespace);
            return;
        }
        let held = value::list(&found.value, &["spec", "finalizers"]);
        let rest: Vec<Value> = held.iter().filter(|f| *f != "kubernetes").cloned().collect();
        if rest.is_empty() && value::finalizers(&found.value).is_empty() {
            self.remove(namespaces, namespace);
        } else if rest.len() != held.len() {
            let mut object = found.value.clone();
            if let Some(spec) = value::map_mut(&mut object, "spec") {
                spec.insert("finalizers", rest.into());
            }
            self.put(now, namespaces, key(None, namespace), object);
        }
    }
}
