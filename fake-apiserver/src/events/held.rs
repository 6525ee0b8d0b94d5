//! Values for observers in the same OS process.

use std::fmt;
use std::sync::Arc;

/// A value that observers in this OS process share with the server. The text form omits it.
pub struct Held<T>(Option<Arc<T>>);

impl<T> Held<T> {
    /// Shares a value.
    pub fn new(value: Arc<T>) -> Self {
        Self(Some(value))
    }

    /// Returns the value; `None` in an event of another OS process.
    pub fn get(&self) -> Option<&Arc<T>> {
        self.0.as_ref()
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<Option<Arc<T>>> for Held<T> {
    fn from(value: Option<Arc<T>>) -> Self {
        Self(value)
    }
}

/// Two are equal if they share one value.
impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl<T> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "held" } else { "not held" })
    }
}
