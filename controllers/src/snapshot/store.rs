//! Cache of the objects that a loop has seen or written (`utils.StoreObjectUpdate`). The loops read it instead of the
//! informer's, which lags behind their own writes.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kube::Kind;

/// Objects by namespace and name.
#[derive(Debug)]
pub(super) struct Store<K>(Mutex<BTreeMap<(String, String), Arc<K>>>);

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

fn version<K: Kind>(of: &str, object: &K) -> Result<i64, String> {
    let (text, name) = (object.resource_version(), object.name());
    text.parse().map_err(|_| format!("error parsing {of} {text:?} of {name:?}"))
}

impl<K: Kind> Store<K> {
    /// Stores an object unless a newer one is stored; returns true if it was stored. An equal version counts as newer,
    /// so that a resync processes it.
    ///
    /// # Errors
    /// If an object is stored and one of the two has no version, like an object that does not come from the server.
    pub fn update(&self, object: &Arc<K>) -> Result<bool, String> {
        let mut all = self.0.lock();
        let key = (object.namespace().to_owned(), object.name().to_owned());
        if let Some(old) = all.get(&key) {
            let new = version("ResourceVersion", &**object)?;
            if version("old ResourceVersion", &**old)? > new {
                return Ok(false);
            }
        }
        all.insert(key, object.clone());
        Ok(true)
    }

    /// Returns an object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.0.lock().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Removes an object and returns it.
    pub fn remove(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.0.lock().remove(&(namespace.to_owned(), name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use substrate::json::{from_value, json};

    use super::*;

    fn at(version: &str) -> Arc<Pod> {
        Arc::new(from_value(json!({ "metadata": { "name": "p", "resourceVersion": version } })).unwrap())
    }

    #[test]
    fn an_older_version_is_dropped_and_an_object_without_one_stays() {
        let store = Store::default();
        assert_eq!(
            [store.update(&at("9")), store.update(&at("10")), store.update(&at("10"))],
            [(); 3].map(|()| Ok(true))
        );
        assert_eq!(store.update(&at("9")), Ok(false));
        assert_eq!(store.get("", "p").unwrap().resource_version(), "10");
        store.remove("", "p");
        assert_eq!(store.update(&at("")), Ok(true));
        assert_eq!(store.update(&at("11")), Err("error parsing old ResourceVersion \"\" of \"p\"".to_owned()));
        assert_eq!(store.get("", "p").unwrap().resource_version(), "");
    }
}
