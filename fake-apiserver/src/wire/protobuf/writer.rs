//! Writes the protobuf wire format: fields of a message, in the order of the calls.

/// The wire types that are written here (encoding specification, "Message Structure").
pub(crate) const VARINT: u64 = 0;
/// Eight bytes.
pub(crate) const FIXED64: u64 = 1;
/// A length and so many bytes.
pub(crate) const LENGTH: u64 = 2;
/// Four bytes.
pub(crate) const FIXED32: u64 = 5;

/// A message that is being written.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// A writer that goes on after `bytes`, with room for some more.
    pub(crate) fn after(bytes: &[u8], room: usize) -> Self {
        let mut all = Vec::with_capacity(bytes.len() + room);
        all.extend_from_slice(bytes);
        Self(all)
    }

    /// The bytes.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire: u64) {
        self.raw_varint(u64::from(field) << 3 | wire);
    }

    /// An integer; negative ones take ten bytes, as `int32` and `int64` do.
    pub(crate) fn integer(&mut self, field: u32, value: i64) {
        self.tag(field, VARINT);
        self.raw_varint(value as u64);
    }

    /// A boolean.
    pub(crate) fn boolean(&mut self, field: u32, value: bool) {
        self.integer(field, value.into());
    }

    /// A `double`.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes or text.
    pub(crate) fn bytes(&mut self, field: u32, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.tag(field, LENGTH);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A message within this one, empty or not.
    pub(crate) fn message<T>(&mut self, field: u32, write: impl FnOnce(&mut Self) -> T) -> T {
        let mut inner = Self::default();
        let result = write(&mut inner);
        self.bytes(field, inner.0);
        result
    }
}
