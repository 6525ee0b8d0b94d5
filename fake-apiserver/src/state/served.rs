//! Served custom kinds.

use std::collections::BTreeMap;

use crate::kinds::KindRef;

/// Served custom kinds, by group, version and plural.
pub(super) type Served = BTreeMap<(String, String, String), KindRef>;
