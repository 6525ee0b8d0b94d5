//! Where in an object a walk is (upstream `field.Path`): a chain of steps, which holds nothing of the object's values.

use std::fmt;

/// A path in an object, as `spec.containers[0].image`. Each knows the one above it, and is written out only when there
/// is something to say of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPath<'a> {
    above: Option<&'a FieldPath<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Object,
    Field(&'a str),
    Item(usize),
}

impl<'a> FieldPath<'a> {
    /// The object itself.
    pub(crate) const OBJECT: Self = Self { above: None, step: Step::Object };

    /// A field, or a key of a map, here.
    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), step: Step::Field(name) }
    }

    /// An item of the list here, from 0.
    pub(crate) fn item(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Item(index) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Object => Ok(()),
            Step::Field(name) if self.above.is_none_or(|above| matches!(above.step, Step::Object)) => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Item(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_fields_and_items() {
        let spec = FieldPath::OBJECT.field("spec");
        let containers = spec.field("containers");
        let first = containers.item(0);
        assert_eq!(first.field("image").to_string(), "spec.containers[0].image");
        assert_eq!((spec.to_string(), FieldPath::OBJECT.to_string()), ("spec".to_owned(), String::new()));
    }
}
