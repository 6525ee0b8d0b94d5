//! Commands in containers, for hooks and probes.

use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use substrate::body::{BoxError, boxed};
use substrate::channels::{self, Decoder};
use substrate::json::Value;

use super::context::ContainerContext;

/// Runs a command in a container.
pub(super) async fn in_container(
    room: &ContainerContext,
    uid: &str,
    container: &str,
    words: &[String],
) -> Result<(), String> {
    // The request stays open until the result has come.
    let open = boxed(StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>()));
    let answer = room.runtime.exec(uid, container, words, open).await.map_err(|error| error.to_string())?;
    let (mut body, mut decoder, mut output) = (answer, Decoder::default(), String::new());
    while let Some(Ok(frame)) = body.frame().await {
        decoder.add(frame.data_ref().map_or(&[][..], |data| data));
        while let Some((channel, content)) = decoder.take().map_err(|error| error.to_string())? {
            if channel != channels::RESULT {
                output += &String::from_utf8_lossy(&content);
                continue;
            }
            let status: Value = serde_json::from_slice(&content).unwrap_or_default();
            return if status["status"] == "Success" { Ok(()) } else { Err(output) };
        }
    }
    Err("the container runtime gave no result".to_owned())
}
