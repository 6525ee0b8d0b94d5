//! Metrics of several processes of one program, over HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response, StatusCode, header};
use parking_lot::Mutex;
use substrate::HttpService;
use substrate::body::{Body, from_service, full};
use substrate::process::Process;
use substrate::world::World;

use super::Metrics;
use crate::node_agent::serve::{Listener, ServeError};

/// Metrics of the running processes, by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AllMetrics(Arc<Mutex<BTreeMap<String, Metrics>>>);

impl AllMetrics {
    /// Replaces the metrics of a process, which has started.
    pub fn add(&self, process: &str, metrics: Metrics) {
        self.0.lock().insert(process.to_owned(), metrics);
    }

    /// Serves them on an address as long as the world runs, and returns the bound address.
    ///
    /// # Errors
    /// If it cannot listen on the address.
    pub async fn serve(&self, world: &World, address: SocketAddr) -> Result<SocketAddr, ServeError> {
        let listener = Listener::plain(address).await?;
        let (address, service) = (listener.address(), self.service());
        let listener = Mutex::new(Some(listener));
        Process::start(world, "metrics", move |ctx| {
            if let Some(listener) = listener.lock().take() {
                listener.serve(&ctx, service.clone());
            }
            pending()
        });
        Ok(address)
    }

    fn service(&self) -> HttpService {
        let all = self.clone();
        from_service(tower::service_fn(move |request: Request<Body>| {
            std::future::ready(Ok::<_, Infallible>(all.respond(&request)))
        }))
    }

    fn respond(&self, request: &Request<Body>) -> Response<Body> {
        let all = self.0.lock();
        let path = request.uri().path();
        let only = all.values().next().filter(|_| all.len() == 1);
        let chosen = path.strip_prefix("/metrics").and_then(|rest| match rest.strip_prefix('/') {
            Some(process) => all.get(process),
            None => only.filter(|_| rest.is_empty()),
        });
        if let Some(metrics) = chosen {
            return metrics.response();
        }
        let names: Vec<String> = all.keys().map(|process| format!("/metrics/{process}")).collect();
        let mut unknown = Response::new(full(format!("there is no {path}; there are {}\n", names.join(", "))));
        *unknown.status_mut() = StatusCode::NOT_FOUND;
        unknown.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_the_usual_path_and_several_have_their_names() {
        let all = AllMetrics::default();
        let status =
            |all: &AllMetrics, path: &str| all.respond(&Request::get(path).body(full("")).unwrap()).status().as_u16();
        assert_eq!(status(&all, "/metrics"), 404);
        all.add("csi-attacher", Metrics::default());
        assert_eq!([status(&all, "/metrics"), status(&all, "/metrics/csi-attacher")], [200, 200]);
        all.add("csi-resizer", Metrics::default());
        assert_eq!([status(&all, "/metrics"), status(&all, "/metrics/csi-resizer")], [404, 200]);
        assert_eq!([status(&all, "/metrics/none"), status(&all, "/metricsx"), status(&all, "/")], [404; 3]);
    }
}
