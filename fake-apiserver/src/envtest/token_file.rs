//! Bearer tokens of users from a file (`--token-auth-file`, `tokenfile.NewCSV`).

use std::collections::BTreeMap;

use crate::state::Identity;

/// Parses records `token,name,uid,"group,group"`, one a line. The last of equal tokens counts.
///
/// # Errors
/// The first record that has a wrong form.
pub(super) fn parse(path: &str, text: &str) -> Result<BTreeMap<String, Identity>, String> {
    let mut users = BTreeMap::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.is_empty()) {
        let fields = fields(line).map_err(|why| format!("parse error on line {number}: {why}"))?;
        let [token, name, uid, rest @ ..] = &fields[..] else {
            let found = fields.len();
            let why = "must have at least 3 columns (token, user name, user uid)";
            return Err(format!("token file '{path}' {why}, found {found}"));
        };
        if token.is_empty() {
            continue;
        }
        let groups = rest.first().into_iter().flat_map(|groups| groups.split(','));
        let groups = groups.chain(["system:authenticated"]).map(str::to_owned).collect();
        let user = Identity { username: name.clone(), uid: uid.clone(), groups, extra: BTreeMap::new() };
        users.insert(token.clone(), user);
    }
    Ok(users)
}

/// Splits a record at its commas outside quotes. In quotes, two quotes are one.
fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                if rest[..end].contains('"') {
                    return Err("bare \" in non-quoted field");
                }
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err("extraneous or missing \" in quoted field"),
        }
    }
}

/// Reads a quoted field behind its first quote. Returns the field and the text behind its last quote.
fn unquoted(text: &str) -> Result<(String, &str), &'static str> {
    let (mut field, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.split_once('"').ok_or("extraneous or missing \" in quoted field")?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_that_of_a_user_in_groups() {
        let users = parse("f", "a,ann,7,\"x,y\"\n\n,none,1\nb,\"b\"\"b\",\nc,cat,2,system:masters\n").unwrap();
        let of = |token: &str| {
            let user = &users[token];
            (user.username.as_str(), user.uid.as_str(), user.groups.join(" "))
        };
        assert_eq!(of("a"), ("ann", "7", "x y system:authenticated".to_owned()));
        assert_eq!(of("b"), ("b\"b", "", "system:authenticated".to_owned()));
        assert_eq!(of("c"), ("cat", "2", "system:masters system:authenticated".to_owned()));
        assert_eq!(users.len(), 3);
    }

    #[test]
    fn a_record_of_another_form_is_an_error() {
        let short = "token file 'f' must have at least 3 columns (token, user name, user uid), found 2";
        assert_eq!(parse("f", "a,b,c\na,b"), Err(short.to_owned()));
        for (line, why) in [
            ("a,b\"c,d", "parse error on line 1: bare \" in non-quoted field"),
            ("a,\"b,c", "parse error on line 1: extraneous or missing \" in quoted field"),
            ("a,\"b\"c,d", "parse error on line 1: extraneous or missing \" in quoted field"),
        ] {
            assert_eq!(parse("f", line), Err(why.to_owned()));
        }
    }
}
