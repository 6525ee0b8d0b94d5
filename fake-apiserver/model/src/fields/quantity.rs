//! Resource quantities: their value and their canonical form (apimachinery `pkg/api/resource`).

/// A quantity's value in units of 10⁻⁹, with its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// Creates a quantity from an integer.
    pub fn of(number: usize) -> Self {
        Self { nanos: i128::try_from(number).unwrap_or(0).saturating_mul(NANO), format: Format::Decimal }
    }

    /// Parses a quantity; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text)
    }

    /// Returns the value in units of 10⁻⁹.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the sum, in the format of this quantity unless it is zero.
    pub fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// Returns the difference, but at least zero.
    pub fn less(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos).max(0), format: self.format }
    }

    /// Returns the value in whole units, rounded up away from zero as Go rounds it.
    pub fn whole(self) -> i128 {
        let units = self.nanos / NANO;
        if self.nanos % NANO == 0 { units } else { units + self.nanos.signum() }
    }

    /// Rounds up to the next integer.
    pub fn rounded_up(self) -> Self {
        Self { nanos: (self.nanos + NANO - 1).div_euclid(NANO).saturating_mul(NANO), format: self.format }
    }

    /// Returns the canonical form; `None` if the value is too large for one.
    pub fn text(self) -> Option<String> {
        render(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

const NANO: i128 = 1_000_000_000;
const BINARY: &[(&str, u32)] = &[("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: &[(&str, i32)] =
    &[("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Parses a quantity to units of 10⁻⁹, for comparisons.
pub fn nanos(text: &str) -> Option<i128> {
    Some(parse(text)?.nanos)
}

/// Returns the form in which a quantity is stored: `1024Mi` is `1Gi`, `0.5` is `500m`.
pub fn canonical(text: &str) -> Option<String> {
    render(parse(text)?)
}

/// Returns the reason why a text is not a quantity, in the words of apimachinery (`resource.ParseQuantity`).
pub fn refusal(text: &str) -> &'static str {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix('.').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let rest = rest.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest).trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.is_empty() && !text.is_empty() {
        "unable to parse quantity's suffix"
    } else {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    }
}

fn render(Quantity { nanos, format }: Quantity) -> Option<String> {
    let (sign, magnitude) = if nanos < 0 { ("-", -nanos) } else { ("", nanos) };
    if magnitude == 0 {
        return Some("0".to_owned());
    }
    // A binary quantity below 1024 or with a fraction is written in decimal.
    if format == Format::Binary && magnitude % NANO == 0 && magnitude / NANO >= 1024 {
        let mut number = magnitude / NANO;
        let mut suffix = "";
        for (next, _) in BINARY {
            if number % 1024 != 0 {
                break;
            }
            number /= 1024;
            suffix = next;
        }
        return Some(format!("{sign}{number}{suffix}"));
    }
    let mut number = magnitude;
    let mut exponent = -9;
    while number % 1000 == 0 && exponent < 18 {
        number /= 1000;
        exponent += 3;
    }
    let suffix = match format {
        Format::Exponent if exponent == 0 => String::new(),
        Format::Exponent => format!("e{exponent}"),
        _ => DECIMAL.iter().find(|(_, e)| *e == exponent).map(|(s, _)| (*s).to_owned())?,
    };
    Some(format!("{sign}{number}{suffix}"))
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits: String = format!("{whole}{fraction}");
    // More digits than any quantity needs. The arithmetic would overflow.
    if digits.len() > 27 {
        return None;
    }
    let mantissa: i128 = digits.parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    let (nanos, format) = if let Some((_, bits)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        let scaled = mantissa.checked_mul(1 << bits)?;
        (scale(scaled, 9 - places)?, Format::Binary)
    } else if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        (scale(mantissa, 9 - places + exponent)?, Format::Decimal)
    } else {
        let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        if exponent.abs() > 30 {
            return None;
        }
        (scale(mantissa, 9 - places + exponent)?, Format::Exponent)
    };
    Some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
}

/// Returns `mantissa` · 10^`power`, rounded up as Go rounds quantities below its smallest unit.
fn scale(mantissa: i128, power: i32) -> Option<i128> {
    let factor = 10i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 { mantissa.checked_mul(factor) } else { Some(mantissa / factor + i128::from(mantissa % factor != 0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_take_their_canonical_form() {
        for (text, expected) in [
            ("1Gi", "1Gi"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("110", "110"),
            ("1e3", "1e3"),
            ("0", "0"),
            ("512Ki", "512Ki"),
            ("100Ki", "100Ki"),
            ("10G", "10G"),
            ("16Ti", "16Ti"),
            ("-1", "-1"),
            ("5368709120", "5368709120"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_invalid_quantity_is_refused() {
        for text in ["", "Gi", "1gi", "1 Gi", "1.2.3", "abc", "-", "1e", "1e99", "9".repeat(40).as_str()] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn quantities_are_compared_by_value() {
        assert_eq!(nanos("1Gi"), Some((1 << 30) * NANO));
        assert_eq!(nanos("1500m"), nanos("1.5"));
        assert!(nanos("2Gi") > nanos("2G"));
    }
}
