//! Schedules of cron jobs, with the errors of the parser that upstream uses (`robfig/cron`, `ParseStandard`).

/// A field: its smallest and largest number, and names of its numbers.
type Field = (u32, u32, &'static [&'static str]);

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Field; 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Returns the reason why a text is not a schedule.
pub(super) fn refusal(schedule: &str) -> Option<String> {
    let rest = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        // The name of the zone is not looked up.
        Some(zoned) => zoned.split_once(' ').map_or("", |(_, rest)| rest).trim(),
        None => schedule,
    };
    if rest.starts_with('@') {
        let is_known = DESCRIPTORS.contains(&rest) || rest.starts_with("@every ");
        return (!is_known).then(|| format!("unrecognized descriptor: {rest}"));
    }
    let parts: Vec<&str> = rest.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    parts.iter().zip(FIELDS).find_map(|(part, field)| {
        part.split(',').filter(|range| !range.is_empty()).find_map(|range| of_range(range, field).err())
    })
}

/// Checks a number, a range or a step.
fn of_range(text: &str, (least, most, names): Field) -> Result<(), String> {
    let mut steps = text.split('/');
    let range = steps.next().unwrap_or_default();
    let ends: Vec<&str> = range.split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (least, most),
        [one] => {
            let number = number(one, least, names)?;
            (number, number)
        }
        [first, last] => (number(first, least, names)?, number(last, least, names)?),
        _ => {
            number(ends[0], least, names)?;
            return Err(format!("too many hyphens: {text}"));
        }
    };
    let mut step = 1;
    if let Some(written) = steps.next() {
        if steps.next().is_some() {
            return Err(format!("too many slashes: {text}"));
        }
        step = number(written, 0, &[])?;
        if ends.len() == 1 {
            end = most;
        }
    }
    if start < least {
        Err(format!("beginning of range ({start}) below minimum ({least}): {text}"))
    } else if end > most {
        Err(format!("end of range ({end}) above maximum ({most}): {text}"))
    } else if start > end {
        Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {text}"))
    } else {
        Ok(())
    }
}

/// Parses a number, or a name: the first name is `least`.
fn number(text: &str, least: u32, names: &[&str]) -> Result<u32, String> {
    let named = names.iter().zip(least..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    if let Some((_, number)) = named {
        return Ok(number);
    }
    match text.parse::<i64>() {
        Ok(negative) if negative < 0 => Err(format!("negative number ({negative}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*/5 0-23 1,15 jan-DEC ?", None)]
    #[case("@hourly", None)]
    #[case("@every 1h", None)]
    #[case("@often", Some("unrecognized descriptor: @often"))]
    #[case("* * *", Some("expected exactly 5 fields, found 3: [* * *]"))]
    #[case("60 * * * *", Some("end of range (60) above maximum (59): 60"))]
    #[case("* * 0 * *", Some("beginning of range (0) below minimum (1): 0"))]
    #[case("9-1 * * * *", Some("beginning of range (9) beyond end of range (1): 9-1"))]
    #[case("*/0 * * * *", Some("step of range should be a positive number: */0"))]
    #[case("1-2-3 * * * *", Some("too many hyphens: 1-2-3"))]
    #[case("1/2/3 * * * *", Some("too many slashes: 1/2/3"))]
    #[case("a * * * *", Some("failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"))]
    fn a_schedule_is_refused_in_the_words_of_its_parser(#[case] schedule: &str, #[case] why: Option<&str>) {
        assert_eq!(refusal(schedule).as_deref(), why);
    }
}
