//! The Lease that replicas compete for (`resourcelock.LeaseLock`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::record::Record;
use crate::kube::{Api, ApiError, Client};

/// Lease as last seen.
pub(super) struct Lock {
    api: Api<Lease>,
    namespace: String,
    name: String,
    /// Timeout of a request.
    limit: Option<Duration>,
    lease: Option<Arc<Lease>>,
}

impl Lock {
    pub fn new(client: &Client, namespace: &str, name: &str, limit: Option<Duration>) -> Self {
        let api = client.namespaced::<Lease>(namespace);
        Self { api, namespace: namespace.to_owned(), name: name.to_owned(), limit, lease: None }
    }

    /// Returns namespace and name.
    pub fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the Lease's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the Lease as last seen.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_deref()
    }

    async fn limited<T>(&self, request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        match self.limit {
            None => request.await,
            Some(limit) => tokio::time::timeout(limit, request).await.unwrap_or_else(|_| {
                let text = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)";
                Err(ApiError::Transport(text.to_owned()))
            }),
        }
    }

    /// Reads it; None if it does not exist.
    pub async fn get(&mut self) -> Result<Option<Record>, ApiError> {
        match self.limited(self.api.get(&self.name)).await {
            Ok(lease) => {
                let record = Record::read(&lease.spec.clone().unwrap_or_default());
                self.lease = Some(lease);
                Ok(Some(record))
            }
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub async fn create(&mut self, record: &Record) -> Result<(), ApiError> {
        let (name, namespace) = (Some(self.name.clone()), Some(self.namespace.clone()));
        let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(record.spec()) };
        self.lease = Some(self.limited(self.api.create(&lease)).await?);
        Ok(())
    }

    /// Updates the Lease as last seen; fails if it has changed since.
    pub async fn update(&mut self, record: &Record) -> Result<(), ApiError> {
        let Some(seen) = &self.lease else {
            return Err(ApiError::Transport("lease not initialized, call get or create first".to_owned()));
        };
        let lease = Lease { metadata: seen.metadata.clone(), spec: Some(record.spec()) };
        self.lease = Some(self.limited(self.api.replace(&lease)).await?);
        Ok(())
    }
}
