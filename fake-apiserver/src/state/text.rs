//! Trees as JSON text, byte for byte as serde_json writes them. That most strings need no escape is seen eight bytes at
//! a time.

use std::cell::RefCell;

use bytes::Bytes;
use substrate::json::Value;

/// What is kept of the buffer between two uses, at most.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    /// Where everything is written first: it stays in the processor's caches, and what is made of it has its exact size.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What `write` writes into an empty buffer, in no more memory than it needs.
pub(super) fn bytes(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut buffer = BUFFER.take();
    write(&mut buffer);
    let bytes = Bytes::copy_from_slice(&buffer);
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES);
    BUFFER.set(buffer);
    bytes
}

/// Appends `value` to `out`.
pub(super) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(_) => slowly(value, out),
        Value::String(text) => string(text, out),
        Value::Array(list) => {
            out.push(b'[');
            for (i, value) in list.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(value, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                string(key, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

fn slowly<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Writing text and numbers into memory cannot fail.
    let _ = serde_json::to_writer(out, value);
}

fn string(text: &str, out: &mut Vec<u8>) {
    if !is_plain(text.as_bytes()) {
        return slowly(text, out);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Whether this is ASCII that needs no escape; a "no" may be wrong.
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // A byte minus a greater one sets its highest bit; so does what is not ASCII. Borrows only err towards "no".
    let odd = |word: u64| {
        let (quote, backslash) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
        (word | word.wrapping_sub(ONES * 0x20) | quote.wrapping_sub(ONES) | backslash.wrapping_sub(ONES)) & HIGH
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().fold(odd(u64::from_ne_bytes(last)), |sum, word| sum | odd(u64::from_ne_bytes(*word))) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use substrate::json::json;

    use super::*;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_character_is_written_as_serde_json_writes_it() {
        for c in (0..0x300).filter_map(char::from_u32) {
            for place in 0..10 {
                let value = json!(format!("{}{c}{}", "a".repeat(place), "b".repeat(9 - place)));
                assert_eq!(written(&value), value.to_string());
            }
        }
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".{0,12}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_tree_is_written_as_serde_json_writes_it(value in tree()) {
            prop_assert_eq!(written(&value), value.to_string());
        }
    }
}
