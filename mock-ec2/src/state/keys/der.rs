//! DER encoding of the parts of a key.

/// Encodes an element of `tag` with `content`.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        length @ 0..128 => out.push(length as u8),
        length => {
            let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
            out.push(0x80 | bytes.len() as u8);
            out.extend(bytes);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Encodes a sequence of the concatenated elements in `content`.
pub(super) fn sequence(content: Vec<u8>) -> Vec<u8> {
    element(0x30, &content)
}

/// Encodes a non-negative big-endian number.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = bytes.iter().copied().skip_while(|b| *b == 0).collect();
    let sign = digits.first().is_none_or(|first| *first >= 0x80);
    element(2, &[if sign { vec![0] } else { Vec::new() }, digits].concat())
}
