//! Positions of errors: the parser's own errors have them, errors of deserialized types get them afterwards.

use serde_saphyr::{Error, Location, Locations};

use super::node::Node;

/// Gives an error of deserializing a type the position `place`, unless it has one.
#[cold]
pub(super) fn at(mut error: Error, place: Location) -> Error {
    if error.location().is_none()
        && let Error::Message { location, .. }
        | Error::SerdeInvalidType { location, .. }
        | Error::SerdeInvalidValue { location, .. }
        | Error::SerdeInvalidLength { location, .. }
        | Error::SerdeUnknownVariant { location, .. }
        | Error::SerdeUnknownField { location, .. }
        | Error::SerdeMissingField { location, .. } = &mut error
    {
        *location = place;
    }
    error
}

/// Returns true if an error is about the structure. Errors with a message of a type are about a value.
pub(super) fn is_structural(error: &Error) -> bool {
    !matches!(error, Error::Message { .. })
}

/// Gives an error in `node`, whose parent is at `parent`, its position: for an alias, both its places.
#[cold]
pub(super) fn inside(mut error: Error, node: &Node, parent: Location) -> Error {
    let (reference_location, defined_location) = (node.place, node.defined);
    let is_alias = reference_location != defined_location && reference_location != parent;
    if !is_alias || reference_location == Location::UNKNOWN || defined_location == Location::UNKNOWN {
        return at(error, node.place);
    }
    if let Error::AliasError { locations, .. } = &mut error
        && locations.reference_location == reference_location
    {
        locations.defined_location = defined_location;
        return error;
    }
    let locations = Locations { reference_location, defined_location };
    Error::AliasError { msg: error.to_string(), error: Box::new(error), locations }
}
