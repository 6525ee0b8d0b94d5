//! Numbers that may be percentages (`intstr.GetScaledValueFromIntOrPercent`).

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Returns the number, or the percentage of `total`, rounded up or down.
///
/// # Errors
/// A text that is not a percentage; the API server refuses such a text.
pub(crate) fn scaled(value: &IntOrString, total: i32, round_up: bool) -> Result<i32, String> {
    let text = match value {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::String(text) => text,
    };
    let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
    let percent = percent
        .ok_or_else(|| format!("invalid value for IntOrString: invalid type: string is not a percentage: {text:?}"))?;
    let product = percent * i64::from(total);
    let part = if round_up { product.div_euclid(100) + i64::from(product.rem_euclid(100) != 0) } else { product / 100 };
    i32::try_from(part).map_err(|e| format!("{text} of {total}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_as_asked() {
        let quarter = IntOrString::String("25%".to_owned());
        assert_eq!((scaled(&quarter, 10, true), scaled(&quarter, 10, false)), (Ok(3), Ok(2)));
        assert_eq!(scaled(&IntOrString::Int(7), 10, true), Ok(7));
        assert!(scaled(&IntOrString::String("many".to_owned()), 10, true).is_err());
    }
}
