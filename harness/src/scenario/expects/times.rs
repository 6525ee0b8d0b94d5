//! Numbers of occurrences, and bounds on them.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::scenario::diagnostic::Mistake;
use crate::scenario::lower::Checked;
use crate::scenario::shape::{Map, Of, may};
use crate::scenario::source_span::{SourceSpan, Spanned};

pub(super) const TIMES: Of =
    Of::Either(&[(Of::Whole(0, None), "Exactly this often."), (Of::Map(&BOUNDS), "At least or at most this often.")]);

static BOUNDS: Map = Map {
    name: "bounds",
    about: "A range of a count.",
    keys: &[
        may("at-least", Of::Whole(0, None), "The least number."),
        may("at-most", Of::Whole(0, None), "The greatest number; 0 is never."),
    ],
};

/// Defines a type that is written as a number or as a map of bounds.
macro_rules! bounds {
    ($(#[doc = $about:literal])+ $name:ident, $bounds:ident of $number:ty, $expecting:literal) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug)]
        pub(in crate::scenario) struct $name {
            pub at_least: Option<$number>,
            pub at_most: Option<$number>,
        }

        #[derive(serde::Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        struct $bounds {
            at_least: Option<$number>,
            at_most: Option<$number>,
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Shape;
                impl<'de> Visitor<'de> for Shape {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_u64<E>(self, n: u64) -> Result<$name, E> {
                        Ok($name { at_least: Some(n as $number), at_most: Some(n as $number) })
                    }

                    fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<$name, E> {
                        let n = u64::try_from(n).map_err(|_| E::custom("a count or value here is not negative"))?;
                        self.visit_u64(n)
                    }

                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        let bounds = $bounds::deserialize(MapAccessDeserializer::new(map))?;
                        Ok($name { at_least: bounds.at_least, at_most: bounds.at_most })
                    }
                }
                deserializer.deserialize_any(Shape)
            }
        }
    };
}

bounds! {
    /// Number of occurrences.
    WrittenTimes, TimesBounds of u64, "a number or {at-least: N, at-most: N}"
}
bounds! {
    /// Value of a metric.
    Amount, AmountBounds of f64, "a number or {at-least: N, at-most: N}"
}

/// Checks that there is a bound, and a number between two bounds.
pub(super) fn bounded<T: PartialOrd>(place: SourceSpan, at_least: Option<T>, at_most: Option<T>) -> Checked<()> {
    match (at_least, at_most) {
        (None, None) => {
            Err(Mistake::new(place, "no bound is given", "here").help("add `at-least` or `at-most`, or write a number"))
        }
        (Some(least), Some(most)) if least > most => {
            Err(Mistake::new(place, "`at-least` is more than `at-most`", "nothing lies between these"))
        }
        _ => Ok(()),
    }
}

impl WrittenTimes {
    /// Checks a count; `timed` says whether it has time to be reached.
    pub(super) fn check(self, place: SourceSpan, timed: bool) -> Checked<Times> {
        let Self { at_least, at_most } = self;
        bounded(place, at_least, at_most)?;
        let at_least = at_least.unwrap_or(0);
        if at_least == 0 && at_most.is_none() {
            return Err(Mistake::new(place, "no number of times is less than this", "this demands nothing"));
        }
        if timed && at_least == 0 {
            let help = "use `sleep` before it, or `never`";
            return Err(Mistake::new(place, "a count only grows, so `within` adds nothing to an upper bound", "here")
                .help(help));
        }
        Ok(Times { at_least, at_most })
    }
}

/// Checks that the count of a `never` has only a lower bound.
pub(in crate::scenario) fn counted(times: Option<&Spanned<WrittenTimes>>) -> Checked<()> {
    match times {
        Some(times) if times.at_most.is_some() || times.at_least == Some(0) => {
            let help = "write `times: {at-least: 2}`";
            let message = "a `never` is broken when a count is reached, and has no upper bound";
            Err(Mistake::new(times.place, message, "here").help(help))
        }
        _ => Ok(()),
    }
}

/// Bounds on a number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub at_least: u64,
    pub at_most: Option<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Self { at_least: 1, at_most: None }
    }
}

impl Times {
    /// Returns true if `count` is within the bounds.
    pub fn holds(self, count: u64) -> bool {
        count >= self.at_least && self.at_most.is_none_or(|most| count <= most)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |n: u64| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        match (self.at_least, self.at_most) {
            (_, Some(0)) => f.write_str("never"),
            (least, Some(most)) if least == most => f.write_str(&times(least)),
            (0, Some(most)) => write!(f, "at most {}", times(most)),
            (least, Some(most)) => write!(f, "{least} to {most} times"),
            (least, None) => write!(f, "at least {}", times(least)),
        }
    }
}
