//! Names of images (`distribution/reference` ParseNormalizedNamed), and the names that say that there is no such image.

use std::fmt;

/// Registry of a name that has none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Tag that no image has.
const MISSING_TAG: &str = "404";
/// Words in the path or in the tag of an image that does not exist.
const MISSING: [&str; 4] = ["does-not-exist", "doesnt-exist", "non-existent", "nonexistent"];

/// Name of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageName<'n> {
    registry: &'n str,
    path: &'n str,
    tag: Option<&'n str>,
    digest: Option<&'n str>,
}

impl<'n> ImageName<'n> {
    /// Reads a name.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn parse(text: &'n str) -> Result<Self, String> {
        if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(format!("invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"));
        }
        let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
        // A colon before the last slash belongs to the registry.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let has_upper = |text: &str| text.chars().any(char::is_uppercase);
        let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost" || has_upper(first);
        let (registry, path) = match name.split_once('/') {
            Some((first, path)) if is_host(first) => (first, path),
            _ => (DEFAULT_REGISTRY, name),
        };
        if has_upper(path) {
            let library = library(registry, path);
            return Err(format!("invalid reference format: repository name ({library}{path}) must be lowercase"));
        }
        let is_valid = is_registry(registry)
            && path.split('/').all(is_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if is_valid { Ok(Self { registry, path, tag, digest }) } else { Err("invalid reference format".to_owned()) }
    }

    /// Returns the last part of its path.
    pub fn last(&self) -> &'n str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns false if there is no such image: its registry begins with `invalid.` or ends with `.invalid`, as in RFC
    /// 2606, or its path or tag says so.
    pub fn exists(&self) -> bool {
        let host = self.registry.split(':').next().unwrap_or_default();
        let is_reserved = host.starts_with("invalid.") || host.ends_with(".invalid");
        let tag = self.tag.unwrap_or_default();
        let is_missing = MISSING.iter().any(|word| self.path.contains(word) || tag.contains(word));
        !is_reserved && !is_missing && tag != MISSING_TAG
    }
}

impl fmt::Display for ImageName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, path, tag, digest } = self;
        write!(f, "{registry}/{}{path}", library(registry, path))?;
        match (tag, digest) {
            (None, None) => write!(f, ":latest"),
            (tag, digest) => {
                tag.iter().try_for_each(|tag| write!(f, ":{tag}"))?;
                digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
            }
        }
    }
}

/// Returns the part before a path that has only a name.
fn library(registry: &str, path: &str) -> &'static str {
    if registry == DEFAULT_REGISTRY && !path.contains('/') { "library/" } else { "" }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(is_part) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    // An IPv6 address is in brackets.
    text.starts_with('[') || (host.split('.').all(is_label) && port.is_none_or(is_port))
}

fn is_component(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_gap = |gap: &str| matches!(gap, "." | "_" | "__") || gap.bytes().all(|byte| byte == b'-');
    text.starts_with(is_word) && text.ends_with(is_word) && text.split(is_word).all(is_gap)
}

fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128 && text.starts_with(is_word) && text.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.');
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && algorithm.chars().all(is_part)
            && hex.len() >= 32
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("busybox", "docker.io/library/busybox:latest", true)]
    #[case("mooring/writer:2", "docker.io/mooring/writer:2", true)]
    #[case("localhost:5000/a/b", "localhost:5000/a/b:latest", true)]
    #[case("registry.k8s.io/e2e-test-images/a_b--c:1.2-3", "registry.k8s.io/e2e-test-images/a_b--c:1.2-3", true)]
    #[case("invalid.registry.k8s.io/invalid/alpine:3.1", "invalid.registry.k8s.io/invalid/alpine:3.1", false)]
    #[case("registry.invalid:443/a", "registry.invalid:443/a:latest", false)]
    #[case("invalid", "docker.io/library/invalid:latest", true)]
    #[case("webserver:404", "docker.io/library/webserver:404", false)]
    #[case("foo:non-existent", "docker.io/library/foo:non-existent", false)]
    #[case("localhost/an-image-that-doesnt-exist", "localhost/an-image-that-doesnt-exist:latest", false)]
    fn a_name_says_whether_there_is_an_image(#[case] text: &str, #[case] full: &str, #[case] exists: bool) {
        let name = ImageName::parse(text).unwrap();
        assert_eq!((name.to_string().as_str(), name.exists()), (full, exists));
    }

    #[test]
    fn a_name_may_have_a_digest() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (text, full) in [("a/b", "docker.io/a/b"), ("a/b:1", "docker.io/a/b:1")] {
            let text = format!("{text}@{digest}");
            assert_eq!(ImageName::parse(&text).unwrap().to_string(), format!("{full}@{digest}"));
        }
        assert!(ImageName::parse("a@sha256:0").is_err());
        let hex = ImageName::parse(&digest["sha256:".len()..]).unwrap_err();
        assert!(hex.contains("64-byte hexadecimal"), "{hex}");
    }

    #[rstest]
    #[case("Busybox", "repository name (library/Busybox) must be lowercase")]
    #[case("a/B:1", "repository name (a/B) must be lowercase")]
    #[case("a:", "invalid reference format")]
    #[case("a b", "invalid reference format")]
    #[case("a//b", "invalid reference format")]
    #[case("a..b", "invalid reference format")]
    #[case("-a", "invalid reference format")]
    #[case("a:b:c", "invalid reference format")]
    #[case("host.:1/a", "invalid reference format")]
    #[case("a:$tag", "invalid reference format")]
    fn a_wrong_name_is_refused(#[case] text: &str, #[case] why: &str) {
        let refused = ImageName::parse(text).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}
