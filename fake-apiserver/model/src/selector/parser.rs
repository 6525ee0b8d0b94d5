//! Parser of label selectors, with upstream's error messages (apimachinery `pkg/labels/selector.go`).

use super::label::{Requirement, Test};
use crate::names;

/// Operators between a key and values, as messages list them.
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    End,
    Identifier(&'a str),
    /// `in` and `notin`; at the position of a value they are identifiers.
    Word(&'a str),
    Symbol(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Identifier(text) | Self::Word(text) | Self::Symbol(text) => text,
        }
    }

    /// Returns the token as it counts at the position of a value.
    fn value(self) -> Self {
        match self {
            Self::Word(text) => Self::Identifier(text),
            other => other,
        }
    }
}

/// Parses a selector.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    Parser { tokens: tokens(text), at: 0 }.selector()
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    // Upstream's lexer stops at a zero byte.
    let mut rest = text.split('\0').next().unwrap_or_default();
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else { break };
        let length = if is_symbol(first) {
            let double = ["==", "!="].iter().any(|double| rest.starts_with(double));
            if double { 2 } else { 1 }
        } else {
            rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        found.push(match token {
            "in" | "notin" => Token::Word(token),
            _ if is_symbol(first) => Token::Symbol(token),
            _ => Token::Identifier(token),
        });
    }
    found
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Returns the next token at the position of a value, without taking it.
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End).value()
    }

    /// Takes the next token.
    fn next(&mut self) -> Token<'a> {
        let token = self.tokens.get(self.at).copied().unwrap_or(Token::End);
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Identifier(_) | Token::Symbol("!") => {}
                other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
            }
            requirements.push(self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next().value() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {}
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
            if !matches!(self.peek(), Token::Identifier(_) | Token::Symbol("!")) {
                return Err(format!("found '{}', expected: identifier after ','", self.peek().text()));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut first = self.next().value();
        let absent = first == Token::Symbol("!");
        if absent {
            first = self.next().value();
        }
        let Token::Identifier(key) = first else {
            return Err(format!("found '{}', expected: identifier", first.text()));
        };
        let why = names::qualified(key);
        if !why.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", why.join("; ")));
        }
        let key = key.to_owned();
        if absent {
            return Ok(Requirement { key, test: Test::DoesNotExist });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let operator = self.next();
        let values = match operator {
            Token::Word(_) => self.values()?,
            Token::Symbol("=" | "==" | "!=" | ">" | "<") => vec![self.exact()?],
            other => return Err(format!("found '{}', expected: {OPERATORS}", other.text())),
        };
        check(&key, operator, &values)?;
        let number = || values.first().and_then(|value| value.parse().ok()).unwrap_or_default();
        let test = match operator.text() {
            "notin" | "!=" => Test::NotIn(values),
            ">" => Test::GreaterThan(number()),
            "<" => Test::LessThan(number()),
            _ => Test::In(values),
        };
        Ok(Requirement { key, test })
    }

    /// Parses the values in parentheses, sorted and without duplicates.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next().value();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let first = self.peek();
        let mut values = match first {
            Token::Symbol(")") => vec![String::new()],
            Token::Identifier(_) | Token::Symbol(",") => self.identifiers()?,
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        };
        if self.next() != Token::Symbol(")") {
            return Err(format!("found '{}', expected: ')'", first.text()));
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    /// Parses values between commas; a missing one is the empty string.
    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next().value() {
                Token::Identifier(value) => {
                    values.push(value.to_owned());
                    match self.peek() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek() {
                        Token::Symbol(")") => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Symbol(",") => values.push(String::new()),
                        _ => {}
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }

    /// Parses the single value of an operator; a missing one is the empty string.
    fn exact(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next().value() {
            Token::Identifier(value) => Ok(value.to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }
}

/// Validates the values of a requirement.
fn check(key: &str, operator: Token<'_>, values: &[String]) -> Result<(), String> {
    let mut errors = Vec::new();
    if matches!(operator.text(), ">" | "<") {
        for (i, value) in values.iter().enumerate().filter(|(_, value)| !is_number(value)) {
            errors.push(format!(
                "values[{i}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
    }
    for (i, value) in values.iter().enumerate() {
        let why = names::label_value(value);
        if !why.is_empty() {
            errors.push(format!("values[{i}][{key}]: Invalid value: {value:?}: {}", why.join("; ")));
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

/// Returns true if Go parses the text as a 64-bit integer.
fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_errors_have_upstreams_words() {
        for (text, why) in [
            ("=", "found '=', expected: !, identifier, or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (1", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (1,", "unable to parse requirement: found '', expected: ',', or identifier"),
            ("a,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
                 be an integer",
            ),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
        let refused = parse("-a").unwrap_err();
        assert!(
            refused.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric"
            ),
            "{refused}"
        );
        let refused = parse("a=-").unwrap_err();
        assert!(
            refused
                .starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be"),
            "{refused}"
        );
    }

    #[test]
    fn values_stand_once_and_in_order_and_words_may_be_values() {
        let test = |text: &str| parse(text).unwrap().remove(0).test;
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(test("a in (b,a,b)"), Test::In(texts(&["a", "b"])));
        assert_eq!(test("a in ()"), Test::In(texts(&[""])));
        assert_eq!(test("a notin (,x)"), Test::NotIn(texts(&["", "x"])));
        assert_eq!(test("a in (in, notin)"), Test::In(texts(&["in", "notin"])));
        assert_eq!(test("in=in"), Test::In(texts(&["in"])));
        assert_eq!(test("a="), Test::In(texts(&[""])));
    }
}
