//! The HTML file around the data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::Page;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn page(page: &Page) -> String {
    let data = substrate::encode::text(page);
    let body = format!(
        "<noscript><h1>{}</h1><p>This page draws its data with a script of its own. It loads nothing.</p></noscript>\n\
         <main id=\"page\"></main>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n",
        escaped(&page.title),
        inert(&data)
    );
    document(&page.title, STYLE, Some(SCRIPT), &body)
}

/// Returns an HTML file that loads nothing and runs no script but `script`, which `body` contains.
pub(crate) fn document(title: &str, style: &str, script: Option<&str>, body: &str) -> String {
    let script = script.map_or_else(|| "'none'".to_owned(), |script| format!("'{}'", hash(script)));
    let policy = format!(
        "default-src 'none'; script-src {script}; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(style)
    );
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title} · mooring</title>\n<style>{style}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n"
    )
}

/// Escapes JSON so that no HTML parser takes it for markup. These characters occur only within its strings.
fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out += &format!("\\u{:04x}", u32::from(c)),
            _ => out.push(c),
        }
    }
    out
}

/// Escapes text for HTML, attributes included.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            _ => out.push(c),
        }
    }
    out
}

/// Hash of a text in the form of a content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}
