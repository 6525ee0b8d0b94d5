//! Variables in the words of a command (upstream `third_party/forked/golang/expansion`).

use std::collections::BTreeMap;

/// Expands variables as Kubernetes does in the command of a container: `$(NAME)` becomes the value, `$$(NAME)` becomes
/// the text `$(NAME)`, and an unknown variable stays unchanged.
pub fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(literal) = after.strip_prefix('$') {
            out.push('$');
            rest = literal;
            continue;
        }
        let named = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        match named.and_then(|(name, tail)| Some((variables.get(name)?, tail))) {
            Some((value, tail)) => {
                out.push_str(value);
                rest = tail;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_as_a_kubelet_does() {
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, is) in
            [("$(A)-$(B)", "1-$(B)"), ("$$(A)", "$(A)"), ("$A $", "$A $"), ("$(A", "$(A"), ("é$(A)", "é1")]
        {
            assert_eq!(expanded(text, &variables), is, "{text}");
        }
    }
}
