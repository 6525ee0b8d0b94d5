//! Command lines of kube-apiserver and etcd: a table of upstream's flags, and a parser.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// True or false; true without a value.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A duration in Go's notation.
    Duration,
    /// An IP address.
    Ip,
    /// A string.
    Text,
    /// Strings separated by commas; several occurrences add up.
    List,
    /// One string; several occurrences add up.
    Array,
    /// Pairs `key=value` separated by commas; several occurrences add up.
    Map,
    /// The same, and keys without a value.
    Settings,
}

impl Kind {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "float" => Self::Float,
            "duration" => Self::Duration,
            "ip" => Self::Ip,
            "string" => Self::Text,
            "list" => Self::List,
            "array" => Self::Array,
            "map" => Self::Map,
            "settings" => Self::Settings,
            _ => return None,
        })
    }

    /// Returns Go's name of the type, as `--help` prints it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Bool => "",
            Self::Int => "int",
            Self::Float => "float",
            Self::Duration => "duration",
            Self::Ip => "ip",
            Self::Text => "string",
            Self::List | Self::Array => "strings",
            Self::Map | Self::Settings => "mapStringString",
        }
    }

    fn adds_up(self) -> bool {
        matches!(self, Self::List | Self::Array | Self::Map | Self::Settings)
    }

    /// Checks a value. The error is in Go's words.
    fn check(self, value: &str) -> Result<(), String> {
        match self {
            Self::Bool => {
                truth(value).map(drop).ok_or_else(|| format!("strconv.ParseBool: parsing {value:?}: invalid syntax"))
            }
            Self::Int => whole(value),
            Self::Float => {
                let parsed = value.parse::<f64>().map(drop);
                parsed.map_err(|_| format!("strconv.ParseFloat: parsing {value:?}: invalid syntax"))
            }
            Self::Duration => duration(value).map(drop).ok_or_else(|| format!("time: invalid duration {value:?}")),
            Self::Ip => value.parse::<IpAddr>().map(drop).map_err(|_| format!("failed to parse IP: {value:?}")),
            Self::Map => match value.split(',').find(|pair| !pair.is_empty() && !pair.contains('=')) {
                Some(pair) => Err(format!("malformed pair, expect string=string: {pair}")),
                None => Ok(()),
            },
            Self::Text | Self::List | Self::Array | Self::Settings => Ok(()),
        }
    }
}

/// Parses a bool like Go's `strconv.ParseBool`.
pub(super) fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

fn whole(value: &str) -> Result<(), String> {
    let parse_error = |why: &str| format!("strconv.ParseInt: parsing {value:?}: {why}");
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(parse_error("invalid syntax"));
    }
    value.parse::<i64>().map(drop).map_err(|_| parse_error("value out of range"))
}

/// Parses a duration like Go's `time.ParseDuration`, but not a negative one.
pub(super) fn duration(value: &str) -> Option<std::time::Duration> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    if value == "0" {
        return Some(std::time::Duration::ZERO);
    }
    let (mut rest, mut seconds) = (value, 0.0);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &rest[..end])?;
        seconds += number * factor;
        rest = &rest[end..];
    }
    std::time::Duration::try_from_secs_f64(seconds).ok()
}

/// A flag of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    /// Its name, without dashes.
    pub(super) name: &'static str,
    /// Type of its value.
    pub(super) kind: Kind,
    /// True if it has an effect here.
    pub(super) is_used: bool,
}

/// Parses the table of a program's flags.
pub(super) fn table(text: &'static str) -> Vec<Flag> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, kind) = (words.next()?, Kind::of(words.next()?)?);
            Some(Flag { name, kind, is_used: words.next() == Some("*") })
        })
        .collect()
}

/// Flag library of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// pflag, for kube-apiserver: `--flag`, `-v 4`; underscores count as dashes.
    Posix,
    /// Go's `flag`, for etcd: `-flag` and `--flag` are the same.
    Go,
}

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    values: BTreeMap<&'static str, Vec<String>>,
    /// True if `--help` is given.
    pub(super) help: bool,
    /// Value of `--version`, if given.
    pub(super) version: Option<String>,
    /// Arguments that are not flags.
    pub(super) rest: Vec<String>,
}

impl Line {
    /// Parses the arguments of a program, without its name.
    ///
    /// # Errors
    /// The first error, in the words of Go's library.
    pub(super) fn read(table: &[Flag], style: Style, args: &[String]) -> Result<Self, String> {
        let mut line = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                line.rest.extend(args.cloned());
                break;
            }
            let named = match (arg.strip_prefix("--"), arg.strip_prefix('-')) {
                (Some(named), _) => named,
                (None, Some(named)) if style == Style::Go && !named.is_empty() => named,
                (None, Some(short)) if !short.is_empty() => {
                    line.short(table, arg, short, &mut args)?;
                    continue;
                }
                _ => {
                    line.rest.push(arg.clone());
                    // Go's library parses no flags after the first other argument.
                    if style == Style::Go {
                        line.rest.extend(args.cloned());
                        break;
                    }
                    continue;
                }
            };
            if named.starts_with(['-', '=']) {
                return Err(format!("bad flag syntax: {arg}"));
            }
            let (name, value) = match named.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (named, None),
            };
            line.long(table, style, name, value, &mut args)?;
        }
        Ok(line)
    }

    fn long<'a>(
        &mut self,
        table: &[Flag],
        style: Style,
        name: &str,
        value: Option<&str>,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let wanted = if style == Style::Posix { name.replace('_', "-") } else { name.to_owned() };
        match wanted.as_str() {
            "help" => self.help = value.is_none_or(|value| truth(value) == Some(true)),
            "h" if style == Style::Go => self.help = true,
            "version" => self.version = Some(value.unwrap_or("true").to_owned()),
            _ => {
                let flag = table.iter().find(|flag| flag.name == wanted);
                let Some(flag) = flag else {
                    return Err(match style {
                        Style::Posix => format!("unknown flag: --{name}"),
                        Style::Go => format!("flag provided but not defined: -{name}"),
                    });
                };
                let value = match value {
                    Some(value) => value.to_owned(),
                    None if flag.kind == Kind::Bool => "true".to_owned(),
                    None => rest.next().cloned().ok_or_else(|| match style {
                        Style::Posix => format!("flag needs an argument: --{name}"),
                        Style::Go => format!("flag needs an argument: -{name}"),
                    })?,
                };
                flag.kind.check(&value).map_err(|why| match style {
                    Style::Posix => format!("invalid argument {value:?} for \"--{}\" flag: {why}", flag.name),
                    Style::Go => format!("invalid value {value:?} for flag -{}: {why}", flag.name),
                })?;
                self.put(*flag, value);
            }
        }
        Ok(())
    }

    /// Parses `-h`, `-v4` and `-v 4`: kube-apiserver has no other short flags.
    fn short<'a>(
        &mut self,
        table: &[Flag],
        arg: &str,
        short: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        if short == "h" {
            self.help = true;
            return Ok(());
        }
        let level = table.iter().find(|flag| flag.name == "v");
        let (Some(level), Some(value)) = (level, short.strip_prefix('v')) else {
            let first = short.chars().next().unwrap_or('-');
            return Err(format!("unknown shorthand flag: {first:?} in {arg}"));
        };
        let value = match value.strip_prefix('=').unwrap_or(value) {
            "" => rest.next().cloned().ok_or_else(|| format!("flag needs an argument: 'v' in {arg}"))?,
            value => value.to_owned(),
        };
        level.kind.check(&value).map_err(|why| format!("invalid argument {value:?} for \"-v, --v\" flag: {why}"))?;
        self.put(*level, value);
        Ok(())
    }

    fn put(&mut self, flag: Flag, value: String) {
        let values = self.values.entry(flag.name).or_default();
        if !flag.kind.adds_up() {
            values.clear();
        }
        match flag.kind {
            Kind::List => values.extend(value.split(',').filter(|part| !part.is_empty()).map(str::to_owned)),
            _ => values.push(value),
        }
    }

    /// Returns the value of a flag, if it is given and not empty.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|values| values.last()).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns all values of a flag.
    pub(super) fn values(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the value of a boolean flag.
    pub(super) fn is_on(&self, name: &str, default: bool) -> bool {
        self.value(name).and_then(truth).unwrap_or(default)
    }

    /// Returns the given flags that have no effect here.
    pub(super) fn ignored(&self, table: &[Flag]) -> Vec<&'static str> {
        let is_ignored = |name: &&'static str| table.iter().any(|flag| flag.name == *name && !flag.is_used);
        self.values.keys().copied().filter(is_ignored).collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(args: &[&str]) -> Result<Line, String> {
        let table = table(super::super::kube_apiserver::TABLE);
        Line::read(&table, Style::Posix, &args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn every_line_of_the_tables_is_a_flag() {
        for text in [super::super::kube_apiserver::TABLE, super::super::etcd::TABLE] {
            let lines = text.lines().filter(|line| !line.starts_with('#')).count();
            let flags = table(text);
            assert_eq!(flags.len(), lines);
            assert!(flags.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, and each once");
        }
    }

    #[test]
    fn the_last_value_counts_and_those_of_lists_add_up() {
        let line = read(&[
            "--secure-port=1",
            "--secure_port",
            "2",
            "--allow-privileged",
            "--service-account-key-file=a",
            "--service-account-key-file=b,c",
            "--authorization-mode=Node,RBAC",
            "--profiling=false",
            "--runtime-config=api/v1,apps/v1=false",
            "-v",
            "4",
            "-v5",
        ])
        .unwrap();
        assert_eq!(line.value("secure-port"), Some("2"));
        assert!(line.is_on("allow-privileged", false) && !line.is_on("profiling", true));
        assert_eq!(line.values("service-account-key-file"), ["a", "b,c"]);
        assert_eq!(line.values("authorization-mode"), ["Node", "RBAC"]);
        assert_eq!(line.ignored(&table(super::super::kube_apiserver::TABLE)), ["profiling", "runtime-config", "v"]);
    }

    #[rstest]
    #[case(&["--what"], "unknown flag: --what")]
    #[case(&["--insecure-port=0"], "unknown flag: --insecure-port")]
    #[case(&["-x"], "unknown shorthand flag: 'x' in -x")]
    #[case(&["--cert-dir"], "flag needs an argument: --cert-dir")]
    #[case(&["--=x"], "bad flag syntax: --=x")]
    #[case(&["--secure-port=x"], "invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax")]
    #[case(&["--secure-port=99999999999999999999"], "invalid argument \"99999999999999999999\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"99999999999999999999\": value out of range")]
    #[case(&["--allow-privileged=yes"], "invalid argument \"yes\" for \"--allow-privileged\" flag: strconv.ParseBool: parsing \"yes\": invalid syntax")]
    #[case(&["--bind-address=here"], "invalid argument \"here\" for \"--bind-address\" flag: failed to parse IP: \"here\"")]
    #[case(&["--event-ttl=1"], "invalid argument \"1\" for \"--event-ttl\" flag: time: invalid duration \"1\"")]
    #[case(&["--feature-gates=A"], "invalid argument \"A\" for \"--feature-gates\" flag: malformed pair, expect string=string: A")]
    fn flag_errors_have_upstream_s_words(#[case] args: &[&str], #[case] expected: &str) {
        assert_eq!(read(args), Err(expected.to_owned()));
    }

    #[test]
    fn etcd_reads_one_dash_as_two() {
        let table = table(super::super::etcd::TABLE);
        let read =
            |args: &[&str]| Line::read(&table, Style::Go, &args.iter().map(ToString::to_string).collect::<Vec<_>>());
        let line =
            read(&["-data-dir", "d", "--unsafe-no-fsync=true", "-listen-client-urls=http://a:1,http://b:2"]).unwrap();
        assert_eq!((line.value("data-dir"), line.values("listen-client-urls").len()), (Some("d"), 2));
        assert_eq!(read(&["--what"]), Err("flag provided but not defined: -what".to_owned()));
    }

    #[test]
    fn durations_are_gos() {
        let seconds = |text| duration(text).map(|d| d.as_secs_f64());
        assert_eq!([seconds("1h2m3.5s"), seconds("10ms"), seconds("0")], [Some(3723.5), Some(0.01), Some(0.0)]);
        assert_eq!(["", "1", "s", "-1s", "1x", "1d"].map(seconds), [None; 6]);
    }
}
