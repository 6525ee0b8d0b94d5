//! A log that is read while it grows, as a body. It knows no log: its caller says what is new, and when there is an end.

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use substrate::body::{Body, BoxError, boxed};
use substrate::latest;

/// The lines that come, one frame each. `read` gives those that are new, and whether there will be no more; it is asked
/// again each time that `grown` says so. Who subscribes to that before the first look misses nothing between a look and
/// the wait after it.
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
