//! Cache of discovery and OpenAPI documents.

use std::collections::BTreeMap;

use super::answer::Answer;
use super::{discovery, openapi};
use crate::kinds::KindRef;

/// Cache of answers for the present definitions: building a document takes longer than keeping it.
#[derive(Debug, Default)]
pub struct Kept {
    custom: Vec<KindRef>,
    answers: BTreeMap<(String, String), Answer>,
}

/// Maximum number of cached answers: a server has about 60 documents, and clients use few representations.
const MOST_KEPT: usize = 128;

impl Kept {
    /// Answers a GET of a discovery or OpenAPI document, from the cache as long as the definitions do not change. None
    /// for any other path, and for a representation that does not exist.
    pub fn respond(&mut self, path: &str, accept: &str, custom: &[KindRef]) -> Option<Answer> {
        if self.custom != custom || self.answers.len() >= MOST_KEPT {
            *self = Self { custom: custom.to_vec(), answers: BTreeMap::new() };
        }
        let asked = (path.to_owned(), accept.to_owned());
        if let Some(kept) = self.answers.get(&asked) {
            return Some(kept.clone());
        }
        let answer = discovery::respond(path, accept, custom).or_else(|| openapi::respond(path, accept, custom))?;
        self.answers.insert(asked, answer.clone());
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn custom(plural: &str) -> Vec<KindRef> {
        let source = json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {"group": "example.com",
            "scope": "Cluster", "names": {"plural": plural, "singular": "a", "kind": "A"}, "versions": [{"name": "v1",
                "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        crate::custom::Registry::default().kinds(&source)
    }

    #[test]
    fn answers_are_kept_until_definitions_change() {
        let (a, b) = (custom("as"), custom("bs"));
        for (path, name) in [("/openapi/v2", "/bs/"), ("/apis/example.com/v1", r#""name":"bs""#)] {
            let mut kept = Kept::default();
            let mut ask = |custom: &[KindRef]| kept.respond(path, "application/json", custom).unwrap().body;
            let first = ask(&a);
            // The same allocation, not an equal one.
            assert_eq!(ask(&a).as_ptr(), first.as_ptr(), "{path}");
            let other = ask(&b);
            assert!(other != first && String::from_utf8_lossy(&other).contains(name), "{path}");
        }
    }

    #[test]
    fn few_answers_are_kept_and_no_missing_one() {
        let mut kept = Kept::default();
        for path in ["/openapi/v9", "/apis/example.com/v1", "/healthz"] {
            assert_eq!(kept.respond(path, "*/*", &[]), None, "{path}");
        }
        assert!(kept.answers.is_empty());
        for i in 0..2 * MOST_KEPT {
            kept.respond("/apis", &format!("*/*;q=0.{i}"), &[]);
        }
        assert!(kept.answers.len() <= MOST_KEPT);
    }
}
