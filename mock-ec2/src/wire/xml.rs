//! Writer of XML text: elements only, everything escaped, into one string.

use std::fmt::{self, Display, Write};

/// XML under construction.
#[derive(Debug, Default)]
pub struct Xml(String);

impl Xml {
    /// Creates a document with its declaration.
    pub fn document() -> Self {
        Self("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned())
    }

    /// Reserves `bytes` more.
    pub fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes);
    }

    /// Writes the root element with a namespace.
    pub fn root(&mut self, tag: &str, namespace: &str, content: impl FnOnce(&mut Self)) {
        self.open_root(tag, namespace);
        content(self);
        self.close(tag);
    }

    /// Writes an element with child elements.
    pub fn element(&mut self, tag: &str, content: impl FnOnce(&mut Self)) {
        self.open(tag);
        content(self);
        self.close(tag);
    }

    /// Writes an element with text, even if it is empty.
    pub fn text(&mut self, tag: &str, text: &str) {
        self.open(tag);
        self.escape(text);
        self.close(tag);
    }

    /// Writes an element with a displayable value.
    pub fn value(&mut self, tag: &str, value: impl Display) {
        self.open(tag);
        // Writing to a string cannot fail.
        let _ = write!(Escaped(self), "{value}");
        self.close(tag);
    }

    /// Writes an element with a whole number.
    pub fn number(&mut self, tag: &str, number: u64) {
        self.open(tag);
        let _ = write!(self.0, "{number}");
        self.close(tag);
    }

    /// Writes an element with `true` or `false`.
    pub fn flag(&mut self, tag: &str, flag: bool) {
        self.open(tag);
        self.0.push_str(if flag { "true" } else { "false" });
        self.close(tag);
    }

    /// Writes an element, unless the value is None.
    pub fn optional(&mut self, tag: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.value(tag, value);
        }
    }

    /// Writes a list: `<tag><item>…</item>…</tag>`, even if it is empty.
    pub fn list<T>(&mut self, tag: &str, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Self, T)) {
        self.open(tag);
        for item in items {
            self.element("item", |xml| write(xml, item));
        }
        self.close(tag);
    }

    /// Writes text inside the open element.
    pub fn raw(&mut self, text: &str) {
        self.escape(text);
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.0
    }

    /// Writes only the start tag of the root element, for answers in pieces.
    pub(super) fn open_root(&mut self, tag: &str, namespace: &str) {
        for part in ["<", tag, " xmlns=\"", namespace, "\">"] {
            self.0.push_str(part);
        }
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn open(&mut self, tag: &str) {
        self.0.push('<');
        self.0.push_str(tag);
        self.0.push('>');
    }

    pub(super) fn close(&mut self, tag: &str) {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
    }

    fn escape(&mut self, text: &str) {
        let mut rest = text;
        // Most text needs no escapes and is copied as a whole. All characters to escape begin with one of these bytes;
        // 0xef begins U+FFFE and U+FFFF, among others.
        while let Some(at) = rest.bytes().position(|b| matches!(b, b'&' | b'<' | b'>' | b'"' | 0xef) || b < 0x20) {
            let (plain, special) = rest.split_at(at);
            self.0.push_str(plain);
            let mut chars = special.chars();
            let Some(c) = chars.next() else { break };
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\t' | '\n' => self.0.push(c),
                // A bare carriage return would be read as a newline.
                '\r' => self.0.push_str("&#13;"),
                // XML 1.0 has no other control characters, not even escaped.
                c if u32::from(c) < 0x20 => self.0.push('\u{fffd}'),
                '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
            rest = chars.as_str();
        }
        self.0.push_str(rest);
    }
}

/// Writer that escapes its input.
struct Escaped<'a>(&'a mut Xml);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.escape(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_stays_well_formed() {
        let mut xml = Xml::default();
        xml.text("a", "<b> & \"c\"\r\u{1}é\u{ffff}");
        assert_eq!(xml.finish(), "<a>&lt;b&gt; &amp; &quot;c&quot;&#13;\u{fffd}é\u{fffd}</a>");
    }
}
