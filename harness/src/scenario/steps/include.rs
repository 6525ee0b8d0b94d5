//! `include`: stands for the steps of another file.

use std::collections::BTreeMap;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::scenario::document::Word;
use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("include", Of::Either(INCLUDES), "The steps of another file, a list.")
    .like(&["- include: fragments/steps.yaml", "- include: {file: fragments/steps.yaml, with: {pause: 2s}}"]);

/// The items of another file.
pub(crate) const INCLUDES: &[(Of, &str)] = &[
    (Of::Text, "The file's path, relative to the file that names it."),
    (Of::Map(&INCLUDE), "The file, with values for its variables."),
];

static INCLUDE: Map = Map {
    name: "include",
    about: "A file, with values for its variables.",
    keys: &[
        must("file", Of::Text, "The file's path, relative to the file that names it."),
        may("with", Of::Each(&Of::Scalar), "Its variables: `${NAME}` in the file is replaced by the value."),
    ],
};

#[derive(Debug)]
pub(in crate::scenario) struct Written {
    pub file: String,
    pub with: Vec<(String, Word)>,
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// `{file: two-pods.yaml, with: {node: node-a}}`.
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        struct Long {
            file: String,
            #[serde(default)]
            with: BTreeMap<String, Word>,
        }
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a file or {file: PATH, with: {VARIABLE: VALUE}}")
            }

            fn visit_str<E>(self, text: &str) -> Result<Written, E> {
                Ok(Written { file: text.to_owned(), with: Vec::new() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
                let Long { file, with } = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Written { file, with: with.into_iter().collect() })
            }
        }
        deserializer.deserialize_any(Shape)
    }
}

pub(super) fn lower(include: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Option<Action>> {
    let body = steps.included(include)?;
    steps.inside(body, Steps::steps);
    Ok(None)
}
