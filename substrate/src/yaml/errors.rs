//! Where errors are: the parser's own find their place while it reads, ours afterwards.

use serde_saphyr::{Error, Location, Locations};

use super::node::Node;

/// An error of reading a type, which is at `place` unless it says where it is.
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

/// Whether a type says that it is not as expected; texts of its own are errors of the value that they are about.
pub(super) fn is_structural(error: &Error) -> bool {
    !matches!(error, Error::Message { .. })
}

/// An error in `node`, which stands in what is at `parent`: an alias is shown in both its places.
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
