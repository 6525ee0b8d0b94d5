//! A client of the cloud for programs in a cluster: a tower service, and one method.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use substrate::body::{BoxError, HttpService, call};
use tower::Service;

use super::failure::{Error, ErrorKind, Result};
use super::kubernetes::{Answer, Body, complete};
use crate::runner::ec2::{self, perform_once};

/// A client of the cloud. Each request is sent once.
#[derive(Clone)]
pub struct Ec2 {
    service: HttpService,
    agent: Arc<str>,
}

impl fmt::Debug for Ec2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ec2").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for Ec2
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        call(self.service.clone(), complete(request, &self.agent))
    }
}

impl Ec2 {
    pub(super) fn new(service: HttpService, agent: &str) -> Self {
        Self { service, agent: agent.into() }
    }

    /// Calls an action with its parameters, as in `call("DescribeVolumes", &[("VolumeId.1", id)])`, and returns the XML
    /// of the answer.
    ///
    /// # Errors
    /// The error code and message of the cloud, or a broken connection.
    pub async fn call(&self, action: &str, parameters: &[(&str, &str)]) -> Result<String> {
        let parameters: Vec<(String, String)> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        match perform_once(&self.service, &self.agent, action, &parameters).await {
            Ok(ec2::Answer::Done(xml)) => Ok(xml),
            Ok(ec2::Answer::Error(code, message)) => {
                Err(Error::new(ErrorKind::Refused, format!("{action}: {code}: {message}")))
            }
            Err(error) => Err(Error::new(ErrorKind::Refused, format!("{action}: the cloud does not answer: {error}"))),
        }
    }
}
