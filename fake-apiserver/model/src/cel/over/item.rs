//! Items of lists, with their conversions.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use cel::common::value::Val;
use substrate::json::Value;

use super::super::to_cel;

/// Escaped names of an expression, with their property names.
type Escaped = Vec<(String, String)>;

/// A revision of an object in a list. Expressions with the same escaped names share one conversion of it.
pub struct Item {
    value: Value,
    /// Conversions by the escaped names of the expression.
    converted: Mutex<Vec<(Escaped, Arc<dyn Val>)>>,
}

impl Item {
    /// Creates an item from an object.
    pub fn new(value: Value) -> Self {
        Self { value, converted: Mutex::default() }
    }

    /// Returns the object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the number of conversions so far.
    pub fn conversions(&self) -> usize {
        self.converted.lock().len()
    }

    /// Returns the object as a CEL value; `None` if CEL has no such value.
    pub(super) fn converted(&self, escaped: &[(String, String)]) -> Option<Arc<dyn Val>> {
        let mut all = self.converted.lock();
        if let Some((_, converted)) = all.iter().find(|(names, _)| names == escaped) {
            return Some(converted.clone());
        }
        let boxed: Box<dyn Val> = to_cel(&self.value, escaped).try_into().ok()?;
        let converted: Arc<dyn Val> = boxed.into();
        all.push((escaped.to_vec(), converted.clone()));
        Some(converted)
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
