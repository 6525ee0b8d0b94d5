//! Query parameters.

/// Returns the parameters of a query, decoded, in order.
pub fn query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescaped(key), unescaped(value))
        })
        .collect()
}

/// Decodes `%xx` and `+`; keeps invalid escapes.
fn unescaped(text: &str) -> String {
    let (bytes, mut plain, mut i) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[i], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                i += 2;
            }
            (b'+', _) => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        i += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded() {
        let pairs = query("sinceTime=2026-01-01T00%3A00%3A00Z&follow&x=a+b%zz");
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("sinceTime", "2026-01-01T00:00:00Z"), ("follow", ""), ("x", "a b%zz")]);
    }
}
