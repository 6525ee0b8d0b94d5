//! Requests on a unix socket with any `:authority`.
//!
//! gRPC for Python, Ruby and C++ sends the percent-encoded socket path as `:authority`. Host names contain no `%`, so
//! the HTTP/2 library refuses such a request before any handler sees it. On a unix socket the authority has no meaning,
//! since the socket has one server. So each `%` in it is replaced by `-` on arrival.
//!
//! The change is made in place, in the compressed header block (RFC 7541). The codes of `%` and `-` have six bits each,
//! so no length changes, and the client's header table keeps its size. Of that table only the entries called
//! `:authority` are tracked.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Start of an HTTP/2 connection (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Longest header block that is buffered, in bytes: far more than the HTTP/2 library accepts.
const LONGEST_BLOCK: usize = 256 << 10;
/// Bytes per read.
const CHUNK: usize = 16 << 10;

/// Name of the header, as text and in the code of RFC 7541, appendix B.
const NAME: &[u8] = b":authority";
const NAME_CODED: [u8; 8] = [0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// Its index in the static table.
const STATIC_NAME: usize = 1;
/// Number of entries of the static table; higher indexes are the client's.
const STATIC: usize = 61;
/// Largest number of entries in a table of 4096 bytes; each counts its text plus 32 bytes.
const ENTRIES: usize = 128;
/// A shorter entry certainly fits into the table. An entry that does not fit would empty the table.
const LONGEST_ENTRY: usize = 2048;
/// Number of symbols by code length in bits, in the order of the codes. Longer codes are for characters that an
/// authority cannot contain.
const CODES: [(u32, u32); 10] =
    [(5, 10), (6, 26), (7, 32), (8, 6), (10, 5), (11, 3), (12, 2), (13, 6), (14, 2), (15, 3)];
/// Codes of `%` and `-`: six bits each, with a difference in the last two.
const PERCENT: u32 = 0b01_0101;
const SIX: u32 = 6;

/// Stream whose requests have no `%` in their `:authority`.
#[derive(Debug)]
pub(super) struct AnyAuthority<S> {
    stream: S,
    /// Read but not parsed.
    raw: BytesMut,
    /// Parsed.
    ready: BytesMut,
    state: State,
    /// Header table of the client: true for entries called `:authority`, newest first.
    table: VecDeque<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may become HTTP/2.
    Preface,
    /// Remaining bytes of a frame that pass unchanged.
    Frame(usize),
    /// Not HTTP/2, or not parseable: everything passes unchanged.
    Plain,
}

impl<S> AnyAuthority<S> {
    pub fn new(stream: S) -> Self {
        let (raw, ready) = (BytesMut::new(), BytesMut::new());
        Self { stream, raw, ready, state: State::Preface, table: VecDeque::new() }
    }

    /// Passes all complete parts; the rest waits for more bytes.
    fn sift(&mut self) {
        while !self.raw.is_empty() {
            match self.state {
                State::Plain => self.pass(self.raw.len()),
                State::Preface if self.raw.starts_with(PREFACE) => {
                    self.pass(PREFACE.len());
                    self.state = State::Frame(0);
                }
                State::Preface if PREFACE.starts_with(&self.raw) => return,
                State::Preface => self.state = State::Plain,
                State::Frame(0) => match self.frame() {
                    Some(Some(whole)) => self.state = State::Frame(whole),
                    Some(None) => return,
                    // The HTTP/2 library reports the error.
                    None => self.state = State::Plain,
                },
                State::Frame(left) => {
                    let now = left.min(self.raw.len());
                    self.pass(now);
                    self.state = State::Frame(left - now);
                }
            }
        }
    }

    fn pass(&mut self, length: usize) {
        self.ready.extend_from_slice(&self.raw[..length]);
        self.raw.advance(length);
    }

    /// Returns the number of next bytes that can pass after parsing: one frame, or all frames of a header block.
    /// `Some(None)` if there are too few; None if they are invalid.
    fn frame(&mut self) -> Option<Option<usize>> {
        let Some(first) = Frame::read(&self.raw, 0) else { return Some(None) };
        if first.kind != HEADERS {
            return Some(Some(first.end));
        }
        let mut pieces = Vec::new();
        let mut frame = first;
        loop {
            if frame.end > LONGEST_BLOCK {
                return None;
            }
            if frame.end > self.raw.len() {
                return Some(None);
            }
            pieces.push(frame.fragment(&self.raw)?);
            if frame.flags & END_HEADERS != 0 {
                break;
            }
            frame = match Frame::read(&self.raw, frame.end) {
                Some(next) if next.kind == CONTINUATION => next,
                Some(_) => return None,
                None => return Some(None),
            };
        }
        let mut block: Vec<u8> = pieces.iter().flat_map(|piece| &self.raw[piece.clone()]).copied().collect();
        correct(&mut block, &mut self.table)?;
        let mut rest = &block[..];
        for piece in pieces {
            let (own, more) = rest.split_at(piece.len());
            self.raw[piece].copy_from_slice(own);
            rest = more;
        }
        Some(Some(frame.end))
    }
}

/// Header of a frame at a position in the bytes.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    payload: usize,
    end: usize,
}

impl Frame {
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let header = bytes.get(at..at + FRAME_HEADER)?;
        let length = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        let payload = at + FRAME_HEADER;
        Some(Self { kind: header[3], flags: header[4], payload, end: payload + length })
    }

    /// Returns the range of the header block fragment.
    fn fragment(self, bytes: &[u8]) -> Option<Range<usize>> {
        let (mut from, mut to) = (self.payload, self.end);
        if self.kind == HEADERS && self.flags & PADDED != 0 {
            to = to.checked_sub(usize::from(*bytes.get(from)?))?;
            from += 1;
        }
        if self.kind == HEADERS && self.flags & PRIORITY != 0 {
            from += 5;
        }
        (from <= to).then_some(from..to)
    }
}

/// Replaces `%` in each `:authority` of a header block; None if the block is invalid.
fn correct(block: &mut [u8], table: &mut VecDeque<bool>) -> Option<()> {
    let mut at = 0;
    while at < block.len() {
        let first = block[at];
        let (bits, literal, kept) = match first {
            0x80.. => (7, false, false),
            0x40.. => (6, true, true),
            0x20.. => (5, false, false),
            _ => (4, true, false),
        };
        let (index, next) = integer(block, at, bits)?;
        at = next;
        if !literal {
            continue;
        }
        let begin = at;
        let named = match index {
            0 => {
                let (name, coded) = string(block, at)?;
                at = name.end;
                &block[name] == if coded { &NAME_CODED[..] } else { NAME }
            }
            STATIC_NAME => true,
            index => index.checked_sub(STATIC + 1).and_then(|n| table.get(n)).is_some_and(|named| *named),
        };
        let (value, coded) = string(block, at)?;
        at = value.end;
        if named {
            let value = &mut block[value];
            if coded { replace_coded(value) } else { replace(value) }
        }
        if kept {
            if at - begin > LONGEST_ENTRY {
                return None;
            }
            table.push_front(named);
            table.truncate(ENTRIES);
        }
    }
    Some(())
}

/// Parses an integer with a prefix of `bits` bits at `at`; returns it and its end (RFC 7541, 5.1).
fn integer(block: &[u8], at: usize, bits: u32) -> Option<(usize, usize)> {
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    let mut next = at + 1;
    if value < most {
        return Some((value, next));
    }
    for shift in [0, 7, 14] {
        let byte = usize::from(*block.get(next)?);
        next += 1;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, next));
        }
    }
    // Larger than any valid header field.
    None
}

/// Returns the range of the string at `at`, and true if it is coded (RFC 7541, 5.2).
fn string(block: &[u8], at: usize) -> Option<(Range<usize>, bool)> {
    let coded = block.get(at)? & 0x80 != 0;
    let (length, from) = integer(block, at, 7)?;
    let to = from.checked_add(length).filter(|to| *to <= block.len())?;
    Some((from..to, coded))
}

fn replace(value: &mut [u8]) {
    for byte in value.iter_mut().filter(|byte| **byte == b'%') {
        *byte = b'-';
    }
}

/// Replaces `%` in a coded string.
fn replace_coded(value: &mut [u8]) {
    let end = value.len() * 8;
    let mut at = 0;
    while let Some((code, bits)) = symbol(value, at, end) {
        at += bits as usize;
        if (code, bits) == (PERCENT, SIX) {
            // 010101 becomes 010110.
            for bit in [at - 2, at - 1] {
                value[bit / 8] ^= 0x80 >> (bit % 8);
            }
        }
    }
}

/// Returns code and length of the symbol at the bit `at`. Codes of one length are consecutive. The first of the next
/// length is the successor of the last, shifted left.
fn symbol(value: &[u8], at: usize, end: usize) -> Option<(u32, u32)> {
    let (mut code, mut bits, mut first) = (0, 0, 0);
    for (length, count) in CODES {
        let step = length - bits;
        first <<= step;
        for _ in 0..step {
            let bit = at + bits as usize;
            if bit >= end {
                return None;
            }
            code = code << 1 | u32::from(value[bit / 8] >> (7 - bit % 8) & 1);
            bits += 1;
        }
        if code < first + count {
            return Some((code, bits));
        }
        first += count;
    }
    None
}

impl<S: AsyncRead + Unpin> AsyncRead for AnyAuthority<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        while this.ready.is_empty() {
            let mut chunk = [0; CHUNK];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                // An incomplete rest passes unchanged.
                let rest = this.raw.split();
                this.ready.unsplit(rest);
                break;
            }
            this.raw.extend_from_slice(read.filled());
            this.sift();
        }
        let now = this.ready.len().min(buffer.remaining());
        buffer.put_slice(&this.ready[..now]);
        this.ready.advance(now);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AnyAuthority<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Returns the output for `bytes` that arrive in chunks of this size.
    async fn sifted(bytes: &[u8], chunk: usize) -> Vec<u8> {
        let (mut there, here) = tokio::io::duplex(1 << 20);
        let (bytes, mut out) = (bytes.to_vec(), Vec::new());
        let send = async move {
            for part in bytes.chunks(chunk) {
                there.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let mut stream = AnyAuthority::new(here);
        let (_, read) = tokio::join!(send, stream.read_to_end(&mut out));
        read.unwrap();
        out
    }

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
        [PREFACE, &frame(4, 0, &[]), &frames.concat()].concat()
    }

    /// Returns `%2Frun%2Fcsi.sock` coded by RFC 7541, and the same with `-`.
    fn coded(sign: u32) -> Vec<u8> {
        // Codes of the other characters, from appendix B.
        let codes = [
            (sign, 6),
            (2, 5),
            (0x63, 7),
            (0x2c, 6),
            (0x2d, 6),
            (0x2a, 6),
            (sign, 6),
            (2, 5),
            (0x63, 7),
            (4, 5),
            (8, 5),
            (6, 5),
            (0x17, 6),
            (8, 5),
            (7, 5),
            (4, 5),
            (0x75, 7),
        ];
        let mut bits: Vec<u32> = codes.iter().flat_map(|(code, n)| (0..*n).rev().map(move |i| code >> i & 1)).collect();
        bits.resize(bits.len().next_multiple_of(8), 1);
        bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | *bit as u8)).collect()
    }

    fn literal(first: &[u8], value: &[u8], is_coded: bool) -> Vec<u8> {
        let length = u8::try_from(value.len()).unwrap() | if is_coded { 0x80 } else { 0 };
        [first, &[length], value].concat()
    }

    const WRONG: &[u8] = b"%2Frun%2Fcsi.sock";
    const RIGHT: &[u8] = b"-2Frun-2Fcsi.sock";

    #[tokio::test]
    async fn each_way_to_write_an_authority_is_understood_however_the_bytes_arrive() {
        let (wrong, right) = (coded(0x15), coded(0x16));
        assert_ne!(wrong, right);
        let name = [&[0x40, 10][..], NAME].concat();
        let name_coded = [&[0x40, 0x88][..], &NAME_CODED].concat();
        for (first, is_coded) in [
            (&[0x41][..], false),
            (&[0x01], true),
            (&[0x11], false),
            (&name, false),
            (&name, true),
            (&name_coded, true),
        ] {
            let (wrong, right) = if is_coded { (&wrong[..], &right[..]) } else { (WRONG, RIGHT) };
            // Before it `:method POST`, after it a literal with a `%` that must stay.
            let block = |value: &[u8]| {
                [&[0x83][..], &literal(first, value, is_coded), &literal(&[0x44], b"/a%2Fb", false)].concat()
            };
            let sent = connection(&[frame(HEADERS, END_HEADERS, &block(wrong)), frame(0, 1, b"data %2F")]);
            let come = connection(&[frame(HEADERS, END_HEADERS, &block(right)), frame(0, 1, b"data %2F")]);
            for chunk in [1, 7, sent.len()] {
                assert_eq!(sifted(&sent, chunk).await, come, "{first:?} in chunks of {chunk}");
            }
        }
    }

    #[tokio::test]
    async fn a_name_out_of_the_clients_table_and_a_block_of_several_frames_are_followed() {
        let name = [&[0x40, 10][..], NAME].concat();
        let block = |value: &[u8]| {
            [
                literal(&name, value, false),
                literal(&[0x40, 1, b'x'], b"%", false),
                // The older entry is `:authority`, the newer one another header.
                literal(&[0x0f, 48], value, false),
                literal(&[0x0f, 47], b"%", false),
            ]
            .concat()
        };
        let frames = |value: &[u8]| {
            let block = block(value);
            let (begin, end) = block.split_at(20);
            let padded = [&[3, 0, 0, 0, 0, 0][..], begin, &[b'%'; 3]].concat();
            connection(&[frame(HEADERS, PADDED | PRIORITY, &padded), frame(CONTINUATION, END_HEADERS, end)])
        };
        assert_eq!(sifted(&frames(WRONG), 5).await, frames(RIGHT));
    }

    #[tokio::test]
    async fn malformed_and_non_http_2_bytes_pass_unchanged() {
        let http = b"GET /%2F HTTP/1.1\r\nHost: %2F\r\n\r\n".to_vec();
        let strange = connection(&[frame(HEADERS, END_HEADERS, &[0x41, 0xff, 0xff, 0xff, 0xff, 0xff])]);
        let lonely = connection(&[frame(HEADERS, 0, &[0x41]), frame(0, 0, b"%")]);
        let padded = connection(&[frame(HEADERS, END_HEADERS | PADDED, &[200, 1])]);
        let cut = connection(&[frame(HEADERS, END_HEADERS, &literal(&[0x41], WRONG, false))]);
        for bytes in [http, strange, lonely, padded, cut[..cut.len() - 3].to_vec(), PREFACE[..5].to_vec()] {
            assert_eq!(sifted(&bytes, 3).await, bytes);
        }
    }

    #[test]
    fn the_codes_follow_one_another() {
        // `0` is the first, `~` the last but one of thirteen bits. Longer codes do not occur in an authority.
        assert_eq!(symbol(&[0b0000_0000], 0, 8), Some((0, 5)));
        assert_eq!(symbol(&[0xff, 0b1110_1000], 0, 16), Some((0x1ffd, 13)));
        assert_eq!(symbol(&[0xff, 0xff, 0xff], 0, 24), None);
        assert_eq!(symbol(&[0b0101_0111], 0, 5), None, "it is not whole");
    }
}
