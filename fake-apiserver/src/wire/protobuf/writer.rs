//! Writer of the protobuf wire format: fields of a message, in the order of the calls.

/// Wire types (encoding specification, "Message Structure").
pub(crate) const VARINT: u64 = 0;
/// Eight bytes.
pub(crate) const FIXED64: u64 = 1;
/// A length and that many bytes.
pub(crate) const LENGTH: u64 = 2;
/// Four bytes.
pub(crate) const FIXED32: u64 = 5;

/// A message under construction.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Creates a writer that appends to `bytes`, with some room.
    pub(crate) fn after(bytes: &[u8], room: usize) -> Self {
        let mut all = Vec::with_capacity(bytes.len() + room);
        all.extend_from_slice(bytes);
        Self(all)
    }

    /// Returns the bytes.
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

    /// Writes an integer; negative ones take ten bytes, as `int32` and `int64` do.
    pub(crate) fn integer(&mut self, field: u32, value: i64) {
        self.tag(field, VARINT);
        self.raw_varint(value as u64);
    }

    /// Writes a boolean.
    pub(crate) fn boolean(&mut self, field: u32, value: bool) {
        self.integer(field, value.into());
    }

    /// Writes a `double`.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes bytes or a string.
    pub(crate) fn bytes(&mut self, field: u32, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.tag(field, LENGTH);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Writes a message within this one, even if it is empty.
    pub(crate) fn message<T>(&mut self, field: u32, write: impl FnOnce(&mut Self) -> T) -> T {
        let mut inner = Self::default();
        let result = write(&mut inner);
        self.bytes(field, inner.0);
        result
    }
}
