//! JUnit XML for the test reports of CI systems.

use std::fmt::Write as _;

/// Runs of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Name of the scenario.
    pub name: String,
    /// Path of the file as the user gave it.
    pub file: String,
    /// One case for each seed, in order.
    pub cases: Vec<Case>,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Seed in words.
    pub name: String,
    /// File and line of the failure. The file may be a fragment that the suite's file includes.
    pub at: Option<(String, u64)>,
    /// Wall time.
    pub seconds: f64,
    /// Result.
    pub ended: Ended,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The run passed.
    Passed,
    /// The run failed: a stable word, and the message.
    Failed(String, String),
    /// The run has no verdict: a stable word, and the message.
    Broken(String, String),
    /// The run did not start, for this reason.
    Skipped(String),
}

/// Report of all suites.
pub fn render(suites: &[Suite]) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let all: Vec<&Case> = suites.iter().flat_map(|suite| &suite.cases).collect();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<testsuites name=\"mooring\" {}>", counts(&all));
    for suite in suites {
        let (name, file) = (attribute(&suite.name), attribute(&suite.file));
        let cases: Vec<&Case> = suite.cases.iter().collect();
        let _ = writeln!(out, "  <testsuite name=\"{name}\" file=\"{file}\" {}>", counts(&cases));
        for case in cases {
            let (file, line) = match &case.at {
                Some((file, line)) => (attribute(file), format!(" line=\"{line}\"")),
                None => (file.clone(), String::new()),
            };
            let _ = write!(
                out,
                "    <testcase name=\"{}\" classname=\"{name}\" file=\"{file}\"{line} time=\"{:.3}\"",
                attribute(&case.name),
                case.seconds
            );
            let _ = match &case.ended {
                Ended::Passed => writeln!(out, "/>"),
                Ended::Failed(kind, text) => writeln!(out, ">{}</testcase>", cause("failure", kind, text)),
                Ended::Broken(kind, text) => writeln!(out, ">{}</testcase>", cause("error", kind, text)),
                Ended::Skipped(why) => writeln!(out, "><skipped message=\"{}\"/></testcase>", attribute(why)),
            };
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

fn counts(cases: &[&Case]) -> String {
    let count = |of: fn(&Ended) -> bool| cases.iter().filter(|case| of(&case.ended)).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        cases.len(),
        count(|e| matches!(e, Ended::Failed(..))),
        count(|e| matches!(e, Ended::Broken(..))),
        count(|e| matches!(e, Ended::Skipped(_))),
        cases.iter().map(|case| case.seconds).sum::<f64>()
    )
}

fn cause(element: &str, kind: &str, text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    format!(
        "<{element} type=\"{}\" message=\"{}\">{}</{element}>",
        attribute(kind),
        attribute(first.trim()),
        escaped(text, false)
    )
}

fn attribute(text: &str) -> String {
    escaped(text, true)
}

/// Escapes `text` for XML. Characters that XML cannot represent, such as control characters, are shown as `\u{1b}`.
fn escaped(text: &str, attribute: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            // XML parsers replace line ends and tabs in attributes by spaces, and a carriage return in text by a line
            // feed.
            '\r' => out += "&#13;",
            '\n' | '\t' if attribute => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\n' | '\t' => out.push(c),
            '\u{0}'..' ' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::{BytesStart, Event};

    use super::*;

    const WILD: &str = "a <b> & \"c\" 'd' ]]>\n\tnext\rline \u{1b}[31m \u{0} \u{fffe} é 漢";
    const TAMED: &str = "a <b> & \"c\" 'd' ]]>\n\tnext\rline \\u{1b}[31m \\u{0} \\u{fffe} é 漢";

    fn case(seed: u64, ended: Ended) -> Case {
        Case { name: format!("seed {seed}"), at: Some(("part.yaml".into(), 7)), seconds: 0.25, ended }
    }

    fn suite() -> Suite {
        let failed = Ended::Failed("expectation-failed".into(), WILD.into());
        let broken = Ended::Broken("panicked".into(), "\n\nboom\nmore".into());
        let skipped = Ended::Skipped("--fail-fast".into());
        let cases = [Ended::Passed, failed, broken, skipped];
        let cases = cases.into_iter().zip(1..).map(|(ended, seed)| case(seed, ended)).collect();
        Suite { name: format!("x {WILD}"), file: "a&b.yaml".into(), cases }
    }

    fn value(element: &BytesStart<'_>, name: &str) -> String {
        let found = element.try_get_attribute(name).unwrap().unwrap_or_else(|| panic!("{name}"));
        found.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap().into_owned()
    }

    #[test]
    fn a_reader_of_xml_reads_what_was_written() {
        let xml = render(&[suite()]);
        let mut reader = Reader::from_str(&xml);
        let (mut seen, mut text, mut within) = (Vec::new(), String::new(), false);
        loop {
            match reader.read_event().unwrap_or_else(|e| panic!("{e}: {xml}")) {
                Event::Start(e) | Event::Empty(e) => {
                    let name = e.name().as_ref().to_owned();
                    match name.as_str() {
                        "testsuite" => {
                            assert_eq!(
                                (value(&e, "name"), value(&e, "file")),
                                (format!("x {TAMED}"), "a&b.yaml".into())
                            );
                            let counts = ["tests", "failures", "errors", "skipped", "time"].map(|n| value(&e, n));
                            assert_eq!(counts, ["4", "1", "1", "1", "1.000"]);
                        }
                        "testcase" => {
                            assert_eq!((value(&e, "line"), value(&e, "file")), ("7".into(), "part.yaml".into()))
                        }
                        "failure" => {
                            within = true;
                            assert_eq!(value(&e, "message"), "a <b> & \"c\" 'd' ]]>");
                        }
                        "error" => assert_eq!(value(&e, "message"), "boom"),
                        "skipped" => assert_eq!(value(&e, "message"), "--fail-fast"),
                        _ => {}
                    }
                    seen.push(name);
                }
                Event::End(e) => within &= e.name().as_ref() != "failure",
                Event::Text(e) if within => text += &e,
                Event::GeneralRef(e) if within => {
                    let char = e.resolve_char_ref().unwrap().map(String::from);
                    text += &char.unwrap_or_else(|| quick_xml::escape::resolve_predefined_entity(&e).unwrap().into());
                }
                Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(seen.iter().filter(|name| *name == "testcase").count(), 4);
        assert_eq!(text, TAMED);
    }
}
