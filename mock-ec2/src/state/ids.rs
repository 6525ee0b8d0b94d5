//! Typed resource ids. They are parsed at the edge, so that no other text becomes a key or a file name.
//!
//! The text is stored inside the id: a lookup in a large map reads no other memory.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Returns true if `text` is `prefix-` and 8 to 17 lower-case hex digits (EC2's short and long form).
fn well_formed(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).is_some_and(|hex| {
        (8..=17).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Longest id: `snap-` and 17 digits.
const LONGEST: usize = 22;

/// ASCII text of at most [`LONGEST`] bytes, padded with zeros, so that the bytes sort like the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Text([u8; LONGEST]);

impl Text {
    fn new(text: &str) -> Self {
        let mut bytes = [0; LONGEST];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(bytes)
    }

    fn as_str(&self) -> &str {
        let length = self.0.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        // The bytes are always ASCII.
        std::str::from_utf8(&self.0[..length]).unwrap_or_default()
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Text);

        impl $name {
            /// Prefix of the id, without the dash.
            pub const PREFIX: &'static str = $prefix;

            /// Returns the id's text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl FromStr for $name {
            type Err = Malformed;

            fn from_str(text: &str) -> Result<Self, Malformed> {
                if well_formed(text, $prefix) { Ok(Self(Text::new(text))) } else { Err(Malformed { prefix: $prefix }) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
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
    /// Prefix of a valid id.
    pub prefix: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_as_their_texts() {
        let id = |text: &str| text.parse::<VolumeId>().unwrap();
        assert!(id("vol-12345678") < id("vol-123456780") && id("vol-123456780") < id("vol-2345678a"));
    }

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
