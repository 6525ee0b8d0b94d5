//! Position of a walk through an object (upstream `field.Path`): a chain of steps without the object's values.

use std::fmt;

/// A path in an object, such as `spec.containers[0].image`. Each step refers to the one above it; the text is built
/// only for a message.
#[derive(Clone, Copy, Debug)]
pub struct FieldPath<'a> {
    above: Option<&'a FieldPath<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Object,
    Field(&'a str),
    Key(&'a str),
    Item(usize),
}

impl<'a> FieldPath<'a> {
    /// Path of the object itself.
    pub const OBJECT: Self = Self { above: None, step: Step::Object };

    /// Returns the path of a field, or of a map's key in messages that do not distinguish them.
    pub fn field(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), step: Step::Field(name) }
    }

    /// Returns the path of a map's key: formatted like a field, or as `[key]` in the alternate form, as validation
    /// does.
    pub fn key(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), step: Step::Key(name) }
    }

    /// Returns the path of a list's item, from 0.
    pub fn item(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Item(index) }
    }
}

impl FieldPath<'_> {
    /// Returns the fields of the path as Go's JSON decoder names them, without items and keys.
    pub fn fields(&self) -> String {
        let above = self.above.map(FieldPath::fields).unwrap_or_default();
        match self.step {
            Step::Field(name) if above.is_empty() => name.to_owned(),
            Step::Field(name) => format!("{above}.{name}"),
            _ => above,
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Object => Ok(()),
            Step::Key(name) if f.alternate() => write!(f, "[{name}]"),
            Step::Field(name) | Step::Key(name)
                if self.above.is_none_or(|above| matches!(above.step, Step::Object)) =>
            {
                f.write_str(name)
            }
            Step::Field(name) | Step::Key(name) => write!(f, ".{name}"),
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
        let key = spec.key("a.b");
        assert_eq!(key.field("c").to_string(), "spec.a.b.c");
        assert_eq!(format!("{:#}", key.field("c")), "spec[a.b].c");
        assert_eq!((key.field("c").fields(), first.fields()), ("spec.c".to_owned(), "spec.containers".to_owned()));
        assert_eq!((spec.to_string(), FieldPath::OBJECT.to_string()), ("spec".to_owned(), String::new()));
    }
}
