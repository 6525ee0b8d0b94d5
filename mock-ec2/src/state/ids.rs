//! Typed resource ids: parsed at the edge, so that no other text can become a key or a file name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whether `text` is `prefix-` and 8 to 17 lower-case hex digits (EC2's short and long form).
fn well_formed(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).is_some_and(|hex| {
        (8..=17).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What the id begins with, without the dash.
            pub const PREFIX: &'static str = $prefix;

            /// The id's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Malformed;

            fn from_str(text: &str) -> Result<Self, Malformed> {
                if well_formed(text, $prefix) { Ok(Self(text.into())) } else { Err(Malformed { prefix: $prefix }) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// `vol-…`.
    VolumeId,
    "vol"
);
id!(
    /// `i-…`.
    InstanceId,
    "i"
);
id!(
    /// `snap-…`.
    SnapshotId,
    "snap"
);

/// must be {prefix}- and 8 to 17 lower-case hex digits
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct Malformed {
    /// What the id should begin with.
    pub prefix: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_parse() {
        for good in ["vol-0123456789abcdef0", "vol-1a2b3c4d"] {
            assert_eq!(good.parse::<VolumeId>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "vol-",
            "vol-1234567",
            "vol-0123456789ABCDEF0",
            "vol-../../etc/pa",
            "i-0123456789abcdef0",
            "vol-0123456789abcdef01",
        ] {
            assert!(bad.parse::<VolumeId>().is_err(), "{bad}");
        }
    }
}
