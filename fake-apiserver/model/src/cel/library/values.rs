//! Values and errors that the functions share.

use std::fmt::Display;

use cel::ExecutionError;
use cel::common::types::{CelList, CelString};
use cel::common::value::{CowVal, Val};

/// Defines a type that only its own functions can create or look into.
macro_rules! opaque {
    ($name:ident, $cel:literal) => {
        impl cel::common::value::Val for $name {
            fn get_type(&self) -> &cel::common::types::Type {
                <Self as cel::common::value::Val>::cel_type()
            }

            fn cel_type() -> &'static cel::common::types::Type {
                static TYPE: cel::common::types::Type = cel::common::types::Type::new_unspecified_type($cel);
                &TYPE
            }

            fn equals(&self, other: &dyn cel::common::value::Val) -> bool {
                other.downcast_ref::<$name>().is_some_and(|other| other == self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v> {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }

        impl cel::common::value::StaticVal for $name {}
    };
}
pub(super) use opaque;

/// Creates the error of a function.
pub(super) fn fails(function: &str, why: impl Display) -> ExecutionError {
    ExecutionError::function_error(function, why)
}

/// Creates a list of strings.
pub(super) fn texts(items: impl IntoIterator<Item = String>) -> CelList<'static> {
    let items: Vec<Box<dyn Val>> =
        items.into_iter().map(|text| -> Box<dyn Val> { Box::new(CelString::from(text)) }).collect();
    items.into()
}

/// Returns the elements of the argument at `at`, which is a list.
pub(super) fn elements<'a, 'v>(
    args: &'a [CowVal<'_, 'v>],
    at: usize,
    function: &str,
) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let list = args.get(at).and_then(|list| list.as_ref().as_iterable());
    let mut items = list.ok_or_else(|| fails(function, "no such overload"))?.iter();
    let mut found = Vec::new();
    while let Some(item) = items.next() {
        found.push(item);
    }
    Ok(found)
}
