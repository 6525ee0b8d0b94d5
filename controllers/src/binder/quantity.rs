//! Resource quantities as numbers (apimachinery `resource.Quantity`).

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Parses a quantity in thousandths of its unit, rounded up; None for invalid text.
///
/// Thousandths, because `m` is the smallest unit of schedulers (milli-CPU); i128 holds `8Ei` of them.
pub fn milli(quantity: &Quantity) -> Option<i128> {
    let text = quantity.0.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (numerator, denominator) = scale(suffix)?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.len() > 18 {
        return None;
    }
    let all: String = [whole, fraction].concat();
    let value: i128 = all.parse().ok().filter(|_| all.bytes().all(|b| b.is_ascii_digit()))?;
    let top = value.checked_mul(numerator)?.checked_mul(1000)?;
    let bottom = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(denominator)?;
    let magnitude = top / bottom + i128::from(top % bottom != 0);
    Some(if negative { -magnitude } else { magnitude })
}

/// Returns a quantity in whole units, rounded up like `Quantity.Value()`; 0 for invalid text.
pub fn value(quantity: &Quantity) -> i64 {
    let milli = milli(quantity).unwrap_or(0);
    i64::try_from(milli.div_euclid(1000) + i128::from(milli.rem_euclid(1000) != 0)).unwrap_or(i64::MAX)
}

/// Formats bytes in binary form, like `resource.NewQuantity(bytes, BinarySI)`.
pub fn bytes(bytes: i64) -> Quantity {
    let (mut number, mut unit) = (bytes, 0);
    while unit < BINARY.len() - 1 && number != 0 && number % 1024 == 0 {
        number /= 1024;
        unit += 1;
    }
    Quantity(format!("{number}{}", BINARY[unit]))
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Returns the factor of a suffix, as numerator and denominator.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    if let Some(power) = BINARY.iter().position(|unit| *unit == suffix) {
        return Some((1i128 << (10 * power), 1));
    }
    let decimal = match suffix {
        "n" => return Some((1, 1_000_000_000)),
        "u" => return Some((1, 1_000_000)),
        "m" => return Some((1, 1000)),
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10i128.checked_pow(exponent.unsigned_abs()).filter(|_| exponent.abs() <= 18)?;
            return Some(if exponent < 0 { (1, power) } else { (power, 1) });
        }
    };
    Some((10i128.pow(decimal), 1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1Gi", 1 << 30)]
    #[case("1.5Gi", 3 << 29)]
    #[case("100m", 1)]
    #[case("1e3", 1000)]
    #[case("2E", 2_000_000_000_000_000_000)]
    #[case("12", 12)]
    #[case("0.5", 1)]
    #[case("nonsense", 0)]
    fn values_round_up_to_whole_units(#[case] text: &str, #[case] expected: i64) {
        assert_eq!(value(&Quantity(text.to_owned())), expected);
    }

    #[rstest]
    #[case("250m", Some(250))]
    #[case("2", Some(2000))]
    #[case("1u", Some(1))]
    #[case("", None)]
    #[case("1 Gi", None)]
    #[case("--1", None)]
    fn thousandths(#[case] text: &str, #[case] expected: Option<i128>) {
        assert_eq!(milli(&Quantity(text.to_owned())), expected);
    }

    #[rstest]
    #[case(4 << 30, "4Gi")]
    #[case(1025, "1025")]
    #[case(0, "0")]
    fn bytes_print_in_binary_units(#[case] n: i64, #[case] expected: &str) {
        assert_eq!(bytes(n).0, expected);
    }
}
