//! ConfigMaps, Secrets and tokens that a pod's containers refer to.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Pod, Secret, Service};

use super::context::ProgramContext;
use super::service_variables;
use super::unprepared::Unprepared;
use crate::kube::{ApiError, ListParams};
use crate::node_agent::volumes::pod_facts::request_token;

/// Lifetime of a token in seconds, as in the volume that the admission plugin ServiceAccount adds.
const TOKEN_SECONDS: i64 = 3607;

/// Contents of an object by key.
pub(super) type Data = BTreeMap<String, String>;

/// Contents of objects by name; None for one that does not exist.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    pub config_maps: BTreeMap<String, Option<Data>>,
    pub secrets: BTreeMap<String, Option<Data>>,
    /// Tokens of the pod's service account, by audience.
    pub tokens: BTreeMap<String, String>,
    /// Variables of the Services.
    pub services: Data,
}

impl References {
    /// Returns the content of a ConfigMap; None if it is optional and missing.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Option<&Data>, String> {
        found("configmap", name, self.config_maps.get(name), optional)
    }

    /// Returns the content of a Secret; None if it is optional and missing.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<&Data>, String> {
        found("secret", name, self.secrets.get(name), optional)
    }

    /// Returns one key of a ConfigMap.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn config_map_key(&self, name: &str, key: &str, optional: Option<bool>) -> Result<Option<String>, String> {
        of_key("ConfigMap", name, key, self.config_map(name, optional)?, optional)
    }

    /// Returns one key of a Secret.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn secret_key(&self, name: &str, key: &str, optional: Option<bool>) -> Result<Option<String>, String> {
        of_key("Secret", name, key, self.secret(name, optional)?, optional)
    }

    /// Returns a token of the pod's service account.
    pub fn token(&self, audience: &str) -> Option<&str> {
        self.tokens.get(audience).map(String::as_str)
    }

    /// Reads what a pod refers to.
    ///
    /// # Errors
    /// The object that cannot be read, and the reason.
    pub async fn read(room: &ProgramContext, pod: &Pod) -> Result<Self, Unprepared> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let wanted = Wanted::by(pod);
        let mut references = Self::default();
        for name in wanted.config_maps {
            let map = existing(room.client.namespaced::<ConfigMap>(namespace).get(&name).await)?;
            let data = map.map(|map| {
                let mut data = texts(map.binary_data.as_ref(), "configmap", &name)?;
                data.extend(map.data.iter().flatten().map(|(key, text)| (key.clone(), text.clone())));
                Ok(data)
            });
            references.config_maps.insert(name, data.transpose()?);
        }
        for name in wanted.secrets {
            let secret = existing(room.client.namespaced::<Secret>(namespace).get(&name).await)?;
            let data = secret.map(|secret| texts(secret.data.as_ref(), "secret", &name));
            references.secrets.insert(name, data.transpose()?);
        }
        for audience in wanted.audiences {
            let token =
                request_token(&room.client, pod, &audience, Some(TOKEN_SECONDS)).await.map_err(Unprepared::config)?;
            references.tokens.insert(audience, token.token);
        }
        let services = room.client.namespaced::<Service>(namespace).list(&ListParams::default()).await;
        let services = services.map_err(Unprepared::config)?.items;
        let (of_server, name) = service_variables::SERVER;
        let server = existing(room.client.namespaced::<Service>(of_server).get(name).await)?;
        let endpoints = existing(room.client.namespaced::<Endpoints>(of_server).get(name).await)?;
        let server = (server.as_deref(), endpoints.as_deref());
        references.services = service_variables::variables(pod, &services, server);
        Ok(references)
    }
}

/// Returns None for an object that does not exist.
pub(super) fn existing<T>(answer: Result<T, ApiError>) -> Result<Option<T>, Unprepared> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Unprepared::config(error)),
    }
}

/// Returns the contents of an object, which must be text: a program gets no changed bytes.
fn texts(data: Option<&BTreeMap<String, ByteString>>, kind: &str, name: &str) -> Result<Data, Unprepared> {
    let text = |(key, bytes): (&String, &ByteString)| match std::str::from_utf8(&bytes.0) {
        Ok(text) => Ok((key.clone(), text.to_owned())),
        Err(_) => Err(Unprepared::config(format!("{kind} {name:?}: key {key} is not UTF-8, and only text is served"))),
    };
    data.into_iter().flatten().map(text).collect()
}

/// Names of the objects that a pod refers to.
#[derive(Debug, Default)]
struct Wanted {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
    audiences: BTreeSet<String>,
}

impl Wanted {
    fn by(pod: &Pod) -> Self {
        let mut wanted = Self::default();
        let Some(spec) = &pod.spec else { return wanted };
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            for source in container.env_from.iter().flatten() {
                wanted.config_maps.extend(source.config_map_ref.as_ref().map(|map| map.name.clone()));
                wanted.secrets.extend(source.secret_ref.as_ref().map(|secret| secret.name.clone()));
            }
            for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
                wanted.config_maps.extend(source.config_map_key_ref.as_ref().map(|key| key.name.clone()));
                wanted.secrets.extend(source.secret_key_ref.as_ref().map(|key| key.name.clone()));
            }
        }
        for volume in spec.volumes.iter().flatten() {
            wanted.config_maps.extend(volume.config_map.as_ref().map(|map| map.name.clone()));
            wanted.secrets.extend(volume.secret.as_ref().and_then(|secret| secret.secret_name.clone()));
            for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
                wanted.config_maps.extend(source.config_map.as_ref().map(|map| map.name.clone()));
                wanted.secrets.extend(source.secret.as_ref().map(|secret| secret.name.clone()));
                let token = source.service_account_token.as_ref();
                wanted.audiences.extend(token.map(|token| token.audience.clone().unwrap_or_default()));
            }
        }
        wanted
    }
}

fn found<'a>(
    kind: &str,
    name: &str,
    object: Option<&'a Option<Data>>,
    optional: Option<bool>,
) -> Result<Option<&'a Data>, String> {
    match object.and_then(Option::as_ref) {
        None if optional != Some(true) => Err(format!("{kind} {name:?} not found")),
        object => Ok(object),
    }
}

fn of_key(
    kind: &str,
    name: &str,
    key: &str,
    data: Option<&Data>,
    optional: Option<bool>,
) -> Result<Option<String>, String> {
    let Some(data) = data else { return Ok(None) };
    match data.get(key) {
        None if optional != Some(true) => Err(format!("couldn't find key {key} in {kind} {name}")),
        value => Ok(value.cloned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_text_or_refused() {
        let data = |bytes: &[u8]| BTreeMap::from([("key".to_owned(), ByteString(bytes.to_vec()))]);
        let text = texts(Some(&data("é".as_bytes())), "secret", "s").expect("text");
        assert_eq!(text["key"], "é");
        let refused = texts(Some(&data(&[0xff])), "secret", "s").expect_err("bytes");
        assert!(refused.message.contains("secret \"s\": key key is not UTF-8"), "{}", refused.message);
    }
}
