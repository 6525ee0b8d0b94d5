//! Verbs of requests, and subresources.

/// Defines an enumeration with a name for each value.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($value:ident $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($value,)*
        }

        impl $name {
            /// Returns the name in the API.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }

            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$value,)*];
        }
    };
}

named! {
    /// Verb, as RBAC, audit logs and faults name it.
    Verb {
        Create "create",
        Delete "delete",
        DeleteCollection "deletecollection",
        Get "get",
        List "list",
        Patch "patch",
        Update "update",
        Watch "watch",
    }
}

named! {
    /// Subresource: a part of an object or an operation on it, under its own path.
    Sub {
        Itself "",
        Approval "approval",
        Attach "attach",
        Binding "binding",
        EphemeralContainers "ephemeralcontainers",
        Eviction "eviction",
        Exec "exec",
        Finalize "finalize",
        Log "log",
        PortForward "portforward",
        Proxy "proxy",
        Resize "resize",
        Scale "scale",
        Status "status",
        Token "token",
    }
}

impl Verb {
    /// Returns true if the verb creates or changes one object.
    pub fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch)
    }
}

impl Sub {
    /// Returns the subresource of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "" => Self::Itself,
            "approval" => Self::Approval,
            "attach" => Self::Attach,
            "binding" => Self::Binding,
            "ephemeralcontainers" => Self::EphemeralContainers,
            "eviction" => Self::Eviction,
            "exec" => Self::Exec,
            "finalize" => Self::Finalize,
            "log" => Self::Log,
            "portforward" => Self::PortForward,
            "proxy" => Self::Proxy,
            "resize" => Self::Resize,
            "scale" => Self::Scale,
            "status" => Self::Status,
            "token" => Self::Token,
            _ => return None,
        })
    }

    /// Returns true if it connects to a pod or a node.
    pub fn reaches(self) -> bool {
        matches!(self, Self::Attach | Self::Exec | Self::PortForward | Self::Proxy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn every_verb_and_subresource_of_the_table_is_one_of_these() {
        for kind in kinds::discoverable() {
            let verbs = kind.verbs.iter().chain(kind.subresources.iter().flat_map(|sub| sub.verbs));
            for verb in verbs {
                assert!(Verb::ALL.iter().any(|known| known.name() == *verb), "{verb}");
            }
            for sub in kind.subresources {
                assert_eq!(Sub::parse(sub.name).map(Sub::name), Some(sub.name));
            }
        }
        for sub in Sub::ALL {
            assert_eq!(Sub::parse(sub.name()), Some(*sub));
        }
    }
}
