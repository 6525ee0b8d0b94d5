//! Text of the Go value of a pod template, as upstream hashes it (`dump.ForHash`: go-spew with the verb `%#v`).
//!
//! `go_types.txt` has the structs of `k8s.io/api/core/v1` and `k8s.io/apimachinery` 1.36 that a template reaches: below the
//! name of a struct its fields in order, each with its name in JSON (`-` if it is embedded) and its type; below them the
//! types that are other names of a type.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

struct Field {
    name: &'static str,
    json: &'static str,
    type_: &'static str,
}

enum Type {
    Struct(Vec<Field>),
    Same(&'static str),
}

static TYPES: LazyLock<BTreeMap<&'static str, Type>> = LazyLock::new(|| {
    let mut types = BTreeMap::new();
    let mut last = "";
    for line in include_str!("go_types.txt").lines() {
        let mut words = line.split(' ');
        let mut next = || words.next().expect("each line of the table is whole");
        match (line.starts_with(' '), line.split_once(" = ")) {
            (true, _) => {
                next();
                let field = Field { name: next(), json: next(), type_: next() };
                let Some(Type::Struct(fields)) = types.get_mut(last) else {
                    panic!("a field before its struct: {line}")
                };
                fields.push(field);
            }
            (false, Some((name, of))) => drop(types.insert(name, Type::Same(of))),
            (false, None) => {
                last = line;
                types.insert(line, Type::Struct(Vec::new()));
            }
        }
    }
    types
});

/// Returns the text of a pod template, given as JSON.
pub(super) fn template(template: &Value) -> String {
    let mut out = String::new();
    dump(&mut out, "v1.PodTemplateSpec", Some(template), true);
    out
}

/// Appends a value. `shows_type` is false for the elements of lists and maps, and behind a pointer.
fn dump(out: &mut String, type_: &str, value: Option<&Value>, shows_type: bool) {
    let value = value.filter(|value| !value.is_null());
    if shows_type {
        out.extend(["(", type_, ")"]);
    }
    if let Some(element) = type_.strip_prefix('*') {
        if value.is_none() {
            return out.push_str("<nil>");
        }
        if !shows_type {
            out.push_str("<*>");
        }
        return dump(out, element, value, false);
    }
    if let Some(element) = type_.strip_prefix("[]") {
        let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        return listed(out, ("[", "]"), items, |out, item| dump(out, element, Some(item), false));
    }
    if let Some((_, element)) = type_.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        let mut members: Vec<_> = value.and_then(Value::as_object).into_iter().flatten().collect();
        members.sort_by_key(|(name, _)| *name);
        return listed(out, ("map[", "]"), &members, |out, (name, item)| {
            out.extend([name.as_str(), ":"]);
            dump(out, element, Some(*item), false);
        });
    }
    let text = value.and_then(Value::as_str);
    match (type_, TYPES.get(type_)) {
        ("string" | "types.UID", _) => out.push_str(text.unwrap_or_default()),
        ("bool", _) => out.push_str(if value.and_then(Value::as_bool) == Some(true) { "true" } else { "false" }),
        ("int32" | "int64", _) => drop(write!(out, "{}", value.and_then(Value::as_i64).unwrap_or_default())),
        // Templates have no times.
        ("v1.Time", _) => out.push_str("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"),
        ("resource.Quantity", _) => quantity(out, text),
        ("intstr.IntOrString", _) => {
            let number = value.and_then(Value::as_i64).unwrap_or_default();
            let (kind, text) = (u8::from(text.is_some()), text.unwrap_or_default());
            let _ = write!(out, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}");
        }
        (_, Some(Type::Same(of))) => dump(out, of, value, false),
        (_, Some(Type::Struct(fields))) => {
            out.push('{');
            for (at, field) in fields.iter().enumerate() {
                let space = if at > 0 { " " } else { "" };
                out.extend([space, field.name, ":"]);
                let own = if field.json == "-" { value } else { value.and_then(|value| value.get(field.json)) };
                dump(out, field.type_, own, true);
            }
            out.push('}');
        }
        (_, None) => panic!("{type_} is missing in go_types.txt"),
    }
}

/// Appends a list; an empty one is nil, as in objects that the API server sends.
fn listed<T>(out: &mut String, (begin, end): (&str, &str), items: &[T], mut write: impl FnMut(&mut String, &T)) {
    if items.is_empty() {
        return out.push_str("<nil>");
    }
    out.push_str(begin);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        write(out, item);
    }
    out.push_str(end);
}

/// Appends a quantity with the fields that `ParseQuantity` sets. A quantity that does not fit into 64 bits is dumped as
/// its text.
fn quantity(out: &mut String, text: Option<&str>) {
    let parsed = match text {
        None => Some((0, 0, "", "")),
        Some("0") => Some((0, 0, "0", "DecimalSI")),
        Some(text) => parse(text),
    };
    let Some((value, scale, kept, format)) = parsed else { return out.push_str(text.unwrap_or_default()) };
    let _ = write!(
        out,
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){kept} Format:(resource.Format){format}}}"
    );
}

/// Returns value, scale, kept text and format of a quantity (the fast path of `ParseQuantity`).
fn parse(text: &str) -> Option<(i64, i32, &str, &'static str)> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let split = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let rest = rest.trim_start_matches('0');
    let (whole, rest) = rest.split_at(split(rest));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (part, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(split(rest)),
        None => ("", rest),
    };
    let (format, exponent): (&'static str, i32) = match suffix {
        "Ki" => ("BinarySI", 10),
        "Mi" => ("BinarySI", 20),
        "Gi" => ("BinarySI", 30),
        "Ti" => ("BinarySI", 40),
        "Pi" => ("BinarySI", 50),
        "Ei" => ("BinarySI", 60),
        "n" => ("DecimalSI", -9),
        "u" => ("DecimalSI", -6),
        "m" => ("DecimalSI", -3),
        "" => ("DecimalSI", 0),
        "k" => ("DecimalSI", 3),
        "M" => ("DecimalSI", 6),
        "G" => ("DecimalSI", 9),
        "T" => ("DecimalSI", 12),
        "P" => ("DecimalSI", 15),
        "E" => ("DecimalSI", 18),
        _ => ("DecimalExponent", suffix.get(1..)?.parse().ok()?),
    };
    let digits = i32::try_from(whole.len() + part.len()).ok()?;
    let is_binary = format == "BinarySI";
    let precision = match is_binary {
        false => 18 - digits,
        true if part.is_empty() => 15 - digits - exponent * 3 / 10 - 1,
        true => -1,
    };
    let scale = if is_binary { 0 } else { exponent } - i32::try_from(part.len()).ok()?;
    if precision < 0 || scale < -9 {
        return None;
    }
    let shifted = format!("{whole}{part}");
    let number: i64 = shifted.parse().ok()?;
    let value = number.checked_mul(if is_binary { 1 << exponent } else { 1 })? * sign;
    let is_kept = match is_binary {
        true => number & 7 != 0,
        false => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    Some((value, scale, if is_kept { text } else { "" }, format))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("100m", Some((100, -3, "100m", "DecimalSI")))]
    #[case("1500m", Some((1500, -3, "1500m", "DecimalSI")))]
    #[case("2000", Some((2000, 0, "", "DecimalSI")))]
    #[case("64Mi", Some((67_108_864, 0, "", "BinarySI")))]
    #[case("123Mi", Some((128_974_848, 0, "123Mi", "BinarySI")))]
    #[case("-1Gi", Some((-1_073_741_824, 0, "-1Gi", "BinarySI")))]
    #[case("129e6", Some((129, 6, "129e6", "DecimalExponent")))]
    #[case("0.1", Some((1, -1, "", "DecimalSI")))]
    #[case("1.5Gi", None)]
    #[case("1234567890123456789", None)]
    fn a_quantity_is_parsed_as_by_go(#[case] text: &str, #[case] expected: Option<(i64, i32, &str, &'static str)>) {
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn empty_lists_and_missing_pointers_are_nil() {
        let text = template(&serde_json::json!({ "spec": { "containers": [], "securityContext": {} } }));
        assert!(
            text.starts_with("(v1.PodTemplateSpec){ObjectMeta:(v1.ObjectMeta){Name:(string) GenerateName:(string)")
        );
        assert!(text.contains(" Containers:([]v1.Container)<nil> "), "{text}");
        assert!(text.contains(" Affinity:(*v1.Affinity)<nil> "), "{text}");
        assert!(text.contains(" SecurityContext:(*v1.PodSecurityContext){SELinuxOptions:"), "{text}");
        assert_eq!(TYPES.len(), 151);
    }
}
