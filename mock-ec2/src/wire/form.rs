//! `application/x-www-form-urlencoded` bodies with EC2's flattened lists (`Filter.1.Value.2`).

use std::collections::BTreeMap;

use crate::state::error::Ec2Error;

/// Largest number of parameters in a request; the largest real ones have a thousand ids.
const MOST_PARAMETERS: usize = 5_000;

/// Parameters of a request. Each is taken once; remaining ones were not understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form(BTreeMap<String, String>);

impl Form {
    /// Decodes a body or a query string.
    ///
    /// # Errors
    /// `InvalidRequest` for another format, `InvalidParameterCombination` for a duplicate parameter.
    pub fn parse(text: &[u8]) -> Result<Self, Ec2Error> {
        let mut form = Self::default();
        form.add(text)?;
        Ok(form)
    }

    /// Creates a form of these parameters, which must be unique.
    pub fn of<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(parameters.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Adds the parameters of another string.
    ///
    /// # Errors
    /// Like [`Form::parse`].
    pub fn add(&mut self, text: &[u8]) -> Result<(), Ec2Error> {
        for pair in text.split(|b| *b == b'&').filter(|pair| !pair.is_empty()) {
            let (name, value) = match pair.iter().position(|b| *b == b'=') {
                Some(at) => (&pair[..at], &pair[at + 1..]),
                None => (pair, &[][..]),
            };
            let (name, value) = (decode(name)?, decode(value)?);
            if self.0.len() >= MOST_PARAMETERS {
                let text = format!("The request has more than {MOST_PARAMETERS} parameters.");
                return Err(Ec2Error::InvalidRequest(text));
            }
            if self.0.contains_key(&name) {
                let text = format!("The parameter {name} may not be given more than once");
                return Err(Ec2Error::InvalidParameterCombination(text));
            }
            self.0.insert(name, value);
        }
        Ok(())
    }

    /// Takes a parameter; an empty value counts as absent, as in EC2.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    /// Takes a parameter whose value may be empty.
    pub fn take_verbatim(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes a required parameter.
    ///
    /// # Errors
    /// `MissingParameter`.
    pub fn require(&mut self, name: &str) -> Result<String, Ec2Error> {
        self.take(name).ok_or_else(|| Ec2Error::MissingParameter(name.to_owned()))
    }

    /// Takes a whole number.
    ///
    /// # Errors
    /// `InvalidParameterValue`.
    pub fn take_number(&mut self, name: &str) -> Result<Option<u64>, Ec2Error> {
        let Some(text) = self.take(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| bad(name, &text, "a whole number"))
    }

    /// Takes a boolean; None if absent.
    ///
    /// # Errors
    /// `InvalidParameterValue`.
    pub fn take_flag(&mut self, name: &str) -> Result<Option<bool>, Ec2Error> {
        match self.take(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") || text == "1" => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") || text == "0" => Ok(Some(false)),
            Some(text) => Err(bad(name, &text, "true or false")),
        }
    }

    /// Takes the list `name.1`, `name.2`, … in the order of the numbers. Some clients count from 0.
    ///
    /// # Errors
    /// `UnknownParameter` for an item without a number.
    pub fn take_list(&mut self, name: &str) -> Result<Vec<String>, Ec2Error> {
        let numbers = self.numbers(name)?;
        Ok(numbers.into_iter().filter_map(|n| self.take_verbatim(&format!("{name}.{n}"))).collect())
    }

    /// Returns the numbers of the structures `name.1.…`, `name.2.…`, in order. Some clients count from 0.
    ///
    /// # Errors
    /// `UnknownParameter` for a structure without a number.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>, Ec2Error> {
        let prefix = format!("{name}.");
        let mut numbers = Vec::new();
        for (key, _) in self.0.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix)) {
            let item = key[prefix.len()..].split('.').next().unwrap_or_default();
            match item.parse::<u64>() {
                Ok(number) if item == number.to_string() => numbers.push(number),
                _ => return Err(Ec2Error::UnknownParameter(key.clone())),
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Drops all parameters that begin with `prefix`.
    pub fn discard(&mut self, prefix: &str) {
        self.0.retain(|name, _| !name.starts_with(prefix));
    }

    /// Returns the first remaining parameter whose name begins with `prefix`.
    pub fn first_with(&self, prefix: &str) -> Option<String> {
        let (name, _) = self.0.range(prefix.to_owned()..).next()?;
        name.starts_with(prefix).then(|| name.clone())
    }

    /// Checks that all parameters were taken.
    ///
    /// # Errors
    /// `UnknownParameter` for the first parameter that was not taken.
    pub fn finish(self) -> Result<(), Ec2Error> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Ec2Error::UnknownParameter(name)),
        }
    }
}

fn bad(name: &str, text: &str, expected: &str) -> Ec2Error {
    Ec2Error::InvalidParameterValue(format!("Value ({text}) for parameter {name} is invalid. Expected {expected}."))
}

fn decode(text: &[u8]) -> Result<String, Ec2Error> {
    let malformed = |what: &str| Ec2Error::InvalidRequest(format!("The request is not a valid form: {what}."));
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        out.push(match first {
            b'+' => b' ',
            b'%' => {
                let ([high, low], tail) =
                    rest.split_first_chunk().ok_or_else(|| malformed("`%` without two hex digits"))?;
                rest = tail;
                let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
                match (digit(*high), digit(*low)) {
                    (Some(high), Some(low)) => high * 16 + low,
                    _ => return Err(malformed("`%` without two hex digits")),
                }
            }
            other => *other,
        });
    }
    String::from_utf8(out).map_err(|_| malformed("text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Form {
        Form::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn values_are_decoded_and_lists_are_ordered_by_number() {
        let mut form = form("V.10=c&V.2=b&V.1=a%2Fb+c&N=%C3%A9&Empty=");
        assert_eq!(form.take_list("V").unwrap(), ["a/b c", "b", "c"]);
        assert_eq!(form.take("N").as_deref(), Some("é"));
        assert_eq!(form.take("Empty"), None);
        form.finish().unwrap();
    }

    #[test]
    fn lists_may_begin_with_zero() {
        let mut form = form("V.0=a&V.1=b&F.0.Name=n&F.0.Value.0=v");
        assert_eq!(form.take_list("V").unwrap(), ["a", "b"]);
        assert_eq!(form.numbers("F").unwrap(), [0]);
        assert_eq!(
            (form.take("F.0.Name").as_deref(), form.take_list("F.0.Value").unwrap()),
            (Some("n"), vec!["v".to_owned()])
        );
        form.finish().unwrap();
    }

    #[test]
    fn unknown_parameters_are_named() {
        assert_eq!(form("A=1&Colour=red").finish().unwrap_err().to_string(), "The parameter A is not recognized");
        assert_eq!(form("V.x=1").take_list("V").unwrap_err().to_string(), "The parameter V.x is not recognized");
        assert_eq!(form("V.01=1").take_list("V").unwrap_err().code(), "UnknownParameter");
        let number = form("Size=ten").take_number("Size").unwrap_err();
        assert_eq!(number.to_string(), "Value (ten) for parameter Size is invalid. Expected a whole number.");
    }

    #[test]
    fn malformed_forms_are_refused() {
        for text in ["A=%", "A=%4", "A=%zz", "A=%ff"] {
            assert_eq!(Form::parse(text.as_bytes()).unwrap_err().code(), "InvalidRequest", "{text}");
        }
        assert_eq!(Form::parse(b"A=1&A=2").unwrap_err().code(), "InvalidParameterCombination");
        let many: String = (0..=MOST_PARAMETERS).map(|n| format!("p{n}=1&")).collect();
        assert_eq!(Form::parse(many.as_bytes()).unwrap_err().code(), "InvalidRequest");
    }
}
