//! Lines of a body, one for each event of a watch in JSON.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use substrate::body::{Body, BoxError};

/// A body that is read line by line.
pub(super) struct Lines {
    body: Body,
    /// Bytes behind the last whole line.
    rest: BytesMut,
}

impl Lines {
    pub(super) fn of(body: Body) -> Self {
        Self { body, rest: BytesMut::new() }
    }

    /// Reads the next line with its newline; `None` at the end of the body. A last line without a newline is dropped.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                return Some(Ok(self.rest.split_to(searched + at + 1).freeze()));
            }
            searched = self.rest.len();
            match self.body.frame().await? {
                Ok(frame) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
