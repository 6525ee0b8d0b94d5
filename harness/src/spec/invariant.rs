//! Names of the invariants.

use std::fmt;
use std::str::FromStr;

macro_rules! ids {
    ($($name:ident $of:literal,)*) => {
        /// An invariant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the table of the module says what each is")]
        pub enum Id { $($name,)* }

        impl Id {
            /// All invariants.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns its name in files and reports: `I2`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Returns a description of what it counts.
            pub fn of(self) -> &'static str {
                match self { $(Self::$name => $of,)* }
            }
        }
    };
}

ids! {
    I1 "moves to another node",
    I2 "detaches of staged volumes",
    I3 "stages and publishes",
    I4 "attachments compared",
    I5 "volumes that had to go",
    I6 "starts on synced bytes",
    I7 "watch events",
    I8 "times to converge, and driver calls that failed",
    I9 "stages, publishes and expansions",
    I10 "volumes made, bound and placed",
    I11 "deletions of volumes, and claims of kept ones",
    I12 "objects and volumes compared with what was asked",
    I13 "commits, gets and lists of the API server",
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|id| id.name() == text);
        found.copied().ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|id| id.name()).collect();
            format!("unknown invariant `{text}`: there are {}", all.join(", "))
        })
    }
}
