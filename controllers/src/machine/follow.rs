//! Response body of a log that grows while it is read. It does not depend on a log type: its caller provides new lines
//! and the end.

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use substrate::body::{Body, BoxError, boxed};
use substrate::latest;

/// Streams lines, one frame each. `read` returns the new ones, and true if there will be no more; it is called again at
/// each notification of `grown`. To miss no line, subscribe to `grown` before the first read.
pub fn follow(grown: latest::Receiver<()>, read: impl FnMut() -> (Vec<String>, bool) + Send + 'static) -> Body {
    let state = (grown, read, Vec::<String>::new().into_iter());
    boxed(StreamBody::new(futures_util::stream::unfold(state, |(mut grown, mut read, mut lines)| async move {
        loop {
            if let Some(line) = lines.next() {
                return Some((Ok::<_, BoxError>(Frame::data(Bytes::from(line))), (grown, read, lines)));
            }
            let (new, done) = read();
            lines = new.into_iter();
            if lines.len() > 0 {
                continue;
            }
            if done || grown.changed().await.is_err() {
                return None;
            }
        }
    })))
}
