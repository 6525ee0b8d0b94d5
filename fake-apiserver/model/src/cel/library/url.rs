//! URLs as Go's `net/url` parses them.

use cel::common::types::{CelBool, CelMap, CelMapKey, CelString};
use cel::common::value::Val;
use cel::{DeclarationError, Env, ExecutionError};

use super::values::{fails, opaque, texts};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Url {
    scheme: String,
    /// Host with port, as written.
    host: String,
    /// User info, query and fragment: only for comparisons.
    user: String,
    fragment: String,
    /// Text after a scheme without a slash.
    opaque: String,
    /// As written.
    path: String,
    query: String,
}
opaque!(Url, "kubernetes.URL");

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn url: (CelString) -> Result<Url>)?;
    cel::add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    cel::add_member_overload!(env, fn get_scheme: (Url) -> CelString)?;
    cel::add_member_overload!(env, fn get_host: (Url) -> CelString)?;
    cel::add_member_overload!(env, fn get_hostname: (Url) -> CelString)?;
    cel::add_member_overload!(env, fn get_port: (Url) -> CelString)?;
    cel::add_member_overload!(env, fn get_escaped_path: (Url) -> CelString)?;
    cel::add_member_overload!(env, fn get_query: (Url) -> CelMap)
}

/// Checks that a text is an absolute URL or an absolute path.
///
/// # Errors
/// The reason why it is not, in Go's words.
pub(super) fn request_uri(text: &str) -> Result<(), String> {
    parse(text, true).map(drop).map_err(|why| format!("parse {text:?}: {why}"))
}

/// Parses a URL like Go's `Parse`, or with `request` like its `ParseRequestURI`, which knows no fragment and no
/// relative path.
fn parse(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    let mut rest = text;
    if !request && let Some((before, fragment)) = text.split_once('#') {
        unescape(fragment, false)?;
        (rest, url.fragment) = (before, fragment.to_owned());
    }
    if let Some((scheme, after)) = scheme(rest)? {
        (url.scheme, rest) = (scheme.to_ascii_lowercase(), after);
    }
    if let Some((before, query)) = rest.split_once('?') {
        (rest, url.query) = (before, query.to_owned());
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
    }
    let has_authority = !url.scheme.is_empty() || !request && !rest.starts_with("///");
    if let Some(after) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.bytes().any(|b| !b.is_ascii_alphanumeric() && !b"-._:~!$&'()*+,;=%@".contains(&b)) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        unescape(user, false)?;
        check_host(host)?;
        (url.user, url.host, rest) = (user.to_owned(), host.to_owned(), path);
    }
    unescape(rest, false)?;
    rest.clone_into(&mut url.path);
    Ok(url)
}

/// Splits a URL into the scheme and the text after its colon.
fn scheme(text: &str) -> Result<Option<(&str, &str)>, String> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok(Some((&text[..i], &text[i + 1..]))),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(_) => {
            let Some(end) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
            &host[end + 1..]
        }
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let digits = port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !digits {
        return Err(format!("invalid port {port:?} after host"));
    }
    let fits = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|c| !fits(*c)) {
        Some(wrong) => Err(format!("invalid character {:?} in host name", wrong.to_string())),
        None => unescape(host, false).map(drop),
    }
}

/// Decodes escapes; in a query, a plus is a space.
fn unescape(text: &str, query: bool) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(b) = bytes.get(i) {
        if *b == b'%' {
            let digits = bytes.get(i + 1..i + 3).and_then(|d| std::str::from_utf8(d).ok());
            let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
            let Some(byte) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()) else {
                let shown: String = text[i..].chars().take(3).collect();
                return Err(format!("invalid URL escape {shown:?}"));
            };
            found.push(byte);
            i += 3;
        } else {
            found.push(if query && *b == b'+' { b' ' } else { *b });
            i += 1;
        }
    }
    Ok(String::from_utf8_lossy(&found).into_owned())
}

fn url(text: &CelString<'_>) -> Result<Url, ExecutionError> {
    let wrong = |why: String| fails("url", format!("URL parse error during conversion from string: {why}"));
    request_uri(text.inner()).map_err(wrong)?;
    parse(text.inner(), false).map_err(wrong)
}

fn is_url(text: &CelString<'_>) -> CelBool {
    request_uri(text.inner()).is_ok().into()
}

fn get_scheme(url: &Url) -> CelString<'static> {
    url.scheme.clone().into()
}

fn get_host(url: &Url) -> CelString<'static> {
    unescape(&url.host, false).unwrap_or_default().into()
}

/// Returns the host without port and brackets, and the port.
fn parts(url: &Url) -> (&str, &str) {
    match url.host.strip_prefix('[').and_then(|host| host.rsplit_once(']')) {
        Some((host, port)) => (host, port.trim_start_matches(':')),
        None => url.host.rsplit_once(':').unwrap_or((&url.host, "")),
    }
}

fn get_hostname(url: &Url) -> CelString<'static> {
    parts(url).0.to_owned().into()
}

fn get_port(url: &Url) -> CelString<'static> {
    parts(url).1.to_owned().into()
}

fn get_escaped_path(url: &Url) -> CelString<'static> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b);
    let written = url.path.as_str();
    if written.bytes().all(|b| plain(b) || b"!'()*[]%".contains(&b)) {
        return written.to_owned().into();
    }
    let path = unescape(written, false).unwrap_or_default();
    let escaped: String =
        path.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
    escaped.into()
}

fn get_query(url: &Url) -> CelMap<'static> {
    #[expect(clippy::disallowed_types, reason = "the evaluator's own map")]
    let mut found: std::collections::HashMap<String, Vec<String>> = std::collections::HashMap::new();
    for part in url.query.split('&').filter(|part| !part.is_empty() && !part.contains(';')) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if let (Ok(key), Ok(value)) = (unescape(key, true), unescape(value, true)) {
            found.entry(key).or_default().push(value);
        }
    }
    #[expect(clippy::disallowed_types, reason = "the evaluator's own map")]
    let map: std::collections::HashMap<CelMapKey<'static>, Box<dyn Val>> = found
        .into_iter()
        .map(|(key, values)| -> (_, Box<dyn Val>) { (CelMapKey::from(key), Box::new(texts(values))) })
        .collect();
    map.into()
}
