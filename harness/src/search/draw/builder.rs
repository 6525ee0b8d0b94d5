//! A scenario to which additions append steps, and the steps that most of them use. Each addition is a method of
//! [`Builder`] in a file of its own; this file draws nothing by itself.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use substrate::seed::between;

use crate::search::document::Document;

/// A drawn scenario that gets additions, with their random stream.
pub(super) struct Builder {
    pub rng: ChaCha8Rng,
    pub tree: Value,
}

impl Builder {
    /// Begins to add to `document`.
    pub fn new(document: &Document, rng: ChaCha8Rng) -> Self {
        Self { rng, tree: document.tree().clone() }
    }

    /// Returns the scenario with its additions.
    pub fn finish(self) -> Document {
        Document::of_tree(self.tree)
    }

    /// Returns true if there is room for more volumes: without a limit on volumes per node there always is.
    pub fn has_room(&self) -> bool {
        self.tree["driver"]["attach-limit"].is_null()
    }

    /// Draws true once in `n` times.
    pub fn one_of(&mut self, n: u64) -> bool {
        between(&mut self.rng, 1, n) == 1
    }

    /// Draws an item.
    pub fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[between(&mut self.rng, 0, of.len() as u64 - 1) as usize]
    }

    /// Appends to a list of the scenario.
    pub fn add(&mut self, list: &str, more: impl IntoIterator<Item = Value>) {
        if self.tree[list].is_null() {
            self.tree[list] = json!([]);
        }
        if let Some(items) = self.tree[list].as_array_mut() {
            items.extend(more);
        }
    }

    /// Appends steps.
    pub fn steps(&mut self, more: impl IntoIterator<Item = Value>) {
        self.add("steps", more);
    }
}

/// Creates a claim.
pub(super) fn claim(name: &str) -> Value {
    json!({ "claim": { "name": name } })
}

/// Creates a pod that writes to a claim.
pub(super) fn pod(name: &str, claim: &str, node: &str) -> Value {
    json!({ "pod": { "name": name, "claim": claim, "node": node, "grace": "5s", "tolerate": true } })
}

/// Waits for an object, with the longest time limit of a drawn run.
pub(super) fn wait(object: &str, is: &str) -> Value {
    json!({ "wait": { "object": object, "is": is, "within": "40m" } })
}

/// Waits for a condition of an object.
pub(super) fn wait_that(object: &str, that: &str) -> Value {
    json!({ "wait": { "object": object, "that": that, "within": "40m" } })
}

/// Waits until a pod has written.
pub(super) fn has_written(pod: &str) -> Value {
    json!({ "wait": { "object": format!("pod/{pod}"), "records": 2, "within": "40m" } })
}

/// Deletes an object.
pub(super) fn delete(object: &str) -> Value {
    json!({ "delete": { "object": object } })
}
