//! Messages on the channels of `kubectl exec` and `attach` in one stream of bytes: the channel, the length (4 bytes,
//! big-endian) and the content of each. The channels are those of `v5.channel.k8s.io`
//! (apimachinery `pkg/util/remotecommand/constants.go`).

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Input of the program.
pub const STDIN: u8 = 0;
/// Output of the program.
pub const STDOUT: u8 = 1;
/// Error output of the program.
pub const STDERR: u8 = 2;
/// Result: a Status in JSON, the last message of a session.
pub const RESULT: u8 = 3;
/// Size of the terminal: `{"Width":80,"Height":24}`.
pub const RESIZE: u8 = 4;
/// End of the channel whose number is the content.
pub const CLOSE: u8 = 255;

/// Largest content of a message in bytes.
pub const LARGEST: usize = 1 << 20;
/// Length of the channel and the length.
const HEAD: usize = 5;

/// Message that is too long.
#[derive(Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ChannelError {
    /// a message of {0} bytes is too long: at most 1048576 are possible
    TooLong(usize),
}

/// Encodes a message.
pub fn encode(channel: u8, content: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEAD + content.len());
    out.put_u8(channel);
    out.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
    out.put_slice(content);
    out.freeze()
}

/// Decoder of a stream.
#[derive(Debug, Default)]
pub struct Decoder(BytesMut);

impl Decoder {
    /// Adds received bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Takes the next complete message, if there is one.
    ///
    /// # Errors
    /// If it is longer than [`LARGEST`].
    pub fn take(&mut self) -> Result<Option<(u8, Bytes)>, ChannelError> {
        let Some(mut head) = self.0.get(..HEAD) else { return Ok(None) };
        let channel = head.get_u8();
        let length = head.get_u32() as usize;
        if length > LARGEST {
            return Err(ChannelError::TooLong(length));
        }
        if self.0.len() < HEAD + length {
            return Ok(None);
        }
        self.0.advance(HEAD);
        Ok(Some((channel, self.0.split_to(length).freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in_however_the_stream_is_cut() {
        let stream = [encode(STDOUT, b"hello"), encode(STDIN, b""), encode(RESULT, &[7; 300])].concat();
        for piece in [1, 2, 7, stream.len()] {
            let (mut decoder, mut out) = (Decoder::default(), Vec::new());
            for bytes in stream.chunks(piece) {
                decoder.add(bytes);
                while let Some((channel, content)) = decoder.take().unwrap() {
                    out.push((channel, content.len()));
                }
            }
            assert_eq!(out, [(STDOUT, 5), (STDIN, 0), (RESULT, 300)], "pieces of {piece} bytes");
        }
        let mut decoder = Decoder::default();
        decoder.add(&[STDIN, 255, 255, 255, 255]);
        assert_eq!(decoder.take(), Err(ChannelError::TooLong(u32::MAX as usize)));
    }
}
