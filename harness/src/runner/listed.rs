//! A list that is read again and again: an object whose text has not changed is not parsed again.

use std::sync::Arc;

use fake_apiserver::cel::over::Item;
use serde::de::Error as _;
use serde_json::{Deserializer, Error};
use substrate::json::Value;

use super::follow::{Items, number};
use super::object_key::key;

/// Text before the first object of a list.
const ITEMS: &[u8] = br#""items":["#;

/// The list in the last answer.
#[derive(Debug, Default)]
pub(super) struct Listed {
    objects: Vec<Known>,
    revision: u64,
}

#[derive(Clone, Debug)]
struct Known {
    text: Arc<[u8]>,
    key: String,
    item: Arc<Item>,
}

/// An object of an answer.
enum Found {
    /// The unchanged object at this index of the former list.
    Same(usize),
    New(String, Arc<[u8]>, Value),
}

impl Listed {
    /// Returns the objects by key.
    pub(super) fn items(&self) -> Items {
        self.objects.iter().map(|known| (known.key.clone(), known.item.clone())).collect()
    }

    /// Revision of the list.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Replaces the list by an answer of the API server.
    ///
    /// # Errors
    /// Returns the reason if it is not a list.
    pub(super) fn take(&mut self, answer: &[u8]) -> Result<(), Error> {
        let Some(begin) = answer.windows(ITEMS.len()).position(|text| text == ITEMS).map(|at| at + ITEMS.len()) else {
            // A list without objects can have `null` there.
            let list: Value = serde_json::from_slice(answer)?;
            self.objects.clear();
            self.revision = number(&list);
            return if list.is_object() { Ok(()) } else { Err(Error::custom("the answer is not a list")) };
        };
        let (mut at, mut next, mut found) = (skip(answer, begin), 0, Vec::with_capacity(self.objects.len()));
        while answer.get(at).is_some_and(|byte| *byte != b']') {
            let (length, one) = match self.objects.get(next).filter(|known| is_at(answer, at, &known.text)) {
                Some(known) => (known.text.len(), Found::Same(next)),
                None => self.read(&answer[at..], next)?,
            };
            // Objects keep their order, so the next object is expected after this one in the former list.
            next = match &one {
                Found::Same(place) => place + 1,
                Found::New(key, ..) => self.place(key, next).map_or(next, |place| place + 1),
            };
            found.push(one);
            at = skip(answer, at + length);
            if answer.get(at) == Some(&b',') {
                at = skip(answer, at + 1);
            }
        }
        let frame: Value = serde_json::from_slice(&[&answer[..begin], &answer[at..]].concat())?;
        let kind = frame["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default();
        let known = found.into_iter().map(|one| match one {
            Found::Same(place) => self.objects[place].clone(),
            Found::New(key, text, mut object) => {
                // Items of a typed list omit their type, which follows from that of the list.
                if let Some(fields) = object.as_object_mut() {
                    fields.entry("kind").or_insert_with(|| kind.into());
                    fields.entry("apiVersion").or_insert_with(|| frame["apiVersion"].clone());
                }
                Known { text, key, item: Arc::new(Item::new(object)) }
            }
        });
        self.objects = known.collect();
        self.revision = number(&frame);
        Ok(())
    }

    /// Reads the first object of a text, with its length.
    fn read(&self, text: &[u8], next: usize) -> Result<(usize, Found), Error> {
        let mut values = Deserializer::from_slice(text).into_iter::<Value>();
        let object = values.next().unwrap_or_else(|| Err(Error::custom("the list has no end")))?;
        let (length, key) = (values.byte_offset(), key(&object));
        let same = self.place(&key, next).filter(|place| *self.objects[*place].text == text[..length]);
        Ok((length, same.map_or_else(|| Found::New(key, text[..length].into(), object), Found::Same)))
    }

    fn place(&self, key: &str, from: usize) -> Option<usize> {
        self.objects[from..].iter().position(|known| known.key == key).map(|place| from + place)
    }
}

/// Returns the index of the first byte from `at` on that is not white space.
fn skip(text: &[u8], at: usize) -> usize {
    text.iter().skip(at).position(|byte| !byte.is_ascii_whitespace()).map_or(text.len(), |n| at + n)
}

/// Returns true if the text at `at` is `object`: no object's text begins with that of another object.
fn is_at(text: &[u8], at: usize, object: &[u8]) -> bool {
    text[at..].starts_with(object)
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn pod(n: usize, phase: &str) -> Value {
        json!({"metadata": {"namespace": "default", "name": format!("pod-{n:03}")}, "status": {"phase": phase}})
    }

    fn answer(pods: &[Value], pretty: bool) -> Vec<u8> {
        let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}});
        let items: Vec<String> = pods.iter().map(ToString::to_string).collect();
        let (trigger, between) = if pretty { (" [\n", " ,\n ") } else { ("[", ",") };
        let text = list.to_string();
        let trigger = trigger.trim_start();
        format!("{},\"items\":{trigger}{}]}}\n", &text[..text.len() - 1], items.join(between)).into_bytes()
    }

    fn seen(listed: &Listed) -> Vec<Value> {
        listed.items().values().map(|item| item.value().clone()).collect()
    }

    fn complete(pods: &[Value]) -> Vec<Value> {
        let typed = |pod: &Value| {
            let mut pod = pod.clone();
            pod["kind"] = "Pod".into();
            pod["apiVersion"] = "v1".into();
            pod
        };
        pods.iter().map(typed).collect()
    }

    /// A change of the pods, and the number of new items that it makes.
    type Step<'a> = &'a dyn Fn(&mut Vec<Value>) -> usize;

    #[test]
    fn only_changed_objects_are_new_items() {
        for pretty in [false, true] {
            let mut pods: Vec<Value> = (0..50).map(|n| pod(n, "Pending")).collect();
            let mut listed = Listed::default();
            listed.take(&answer(&pods, pretty)).unwrap();
            let mut made = 50;
            let steps: [Step<'_>; 6] = [
                &|_| 0,
                &|pods| {
                    pods[7] = pod(7, "Running");
                    1
                },
                &|pods| {
                    pods.remove(20);
                    0
                },
                &|pods| {
                    pods.insert(0, json!({"metadata": {"name": "a"}}));
                    pods.push(pod(99, "Pending"));
                    2
                },
                &|pods| {
                    pods.truncate(3);
                    pods[2] = pod(1, "Failed");
                    1
                },
                &|pods| {
                    pods.clear();
                    0
                },
            ];
            for step in steps {
                let before: Vec<Arc<Item>> = listed.items().into_values().collect();
                made += step(&mut pods);
                listed.take(&answer(&pods, pretty)).unwrap();
                assert_eq!(seen(&listed), complete(&pods));
                let kept = |item: &&Arc<Item>| before.iter().any(|other| Arc::ptr_eq(other, item));
                made -= listed.items().values().filter(|item| !kept(item)).count();
            }
            assert_eq!(made, 50, "pretty: {pretty}");
        }
    }

    #[test]
    fn an_answer_that_is_no_list_is_refused() {
        for text in ["", "{", "[]", "7", "{\"items\":[{}", "{\"items\":[{},", "{\"items\":[{}x]}", "{\"items\":[{}]"] {
            assert!(Listed::default().take(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["{\"items\":null}", "{\"items\":[]}"] {
            let mut listed = Listed::default();
            listed.take(text.as_bytes()).unwrap();
            assert_eq!(listed.items().len(), 0, "{text}");
        }
    }
}
