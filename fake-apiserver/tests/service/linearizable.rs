//! Linearizability: for a concurrent history of puts, patches, gets, lists and deletes of a few objects there is a
//! sequential order that explains each answer (Wing and Gong's algorithm, as in porcupine, for each object separately).

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

use rstest::rstest;

use super::*;

const CLIENTS: usize = 16;
const STEPS: usize = 12;
const KEYS: usize = 4;

/// An operation on one object, with its result.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    /// The written value; whether the write happened, or `None` if unknown.
    Write(u64, Option<bool>),
    /// The value that was read; `None` if the object did not exist.
    Read(Option<u64>),
    /// True if the object existed; `None` if unknown.
    Delete(Option<bool>),
}

#[derive(Clone, Debug)]
struct Operation {
    begun: u64,
    ended: u64,
    key: usize,
    action: Action,
}

/// Returns the possible states of an object after an action; empty if the action's result contradicts the state before
/// it.
fn step(state: Option<u64>, action: &Action) -> Vec<Option<u64>> {
    match action {
        Action::Write(value, Some(true)) => vec![Some(*value)],
        Action::Write(_, Some(false)) => vec![state],
        Action::Write(value, None) => vec![Some(*value), state],
        Action::Read(found) if *found == state => vec![state],
        Action::Read(_) => Vec::new(),
        Action::Delete(Some(there)) if *there == state.is_some() => vec![None],
        Action::Delete(Some(_)) => Vec::new(),
        Action::Delete(None) => vec![None, state],
    }
}

/// Returns true if the operations on one object have a sequential order that explains them all.
fn is_linearizable(history: &[Operation]) -> bool {
    fn search(history: &[Operation], done: u128, state: Option<u64>, seen: &mut BTreeSet<(u128, Option<u64>)>) -> bool {
        if done.count_ones() as usize == history.len() {
            return true;
        }
        if !seen.insert((done, state)) {
            return false;
        }
        let open = |i: &usize| done & (1 << i) == 0;
        // An operation that began after another had ended comes after it.
        let first_end = (0..history.len()).filter(open).map(|i| history[i].ended).min().unwrap_or(u64::MAX);
        (0..history.len()).filter(open).filter(|i| history[*i].begun <= first_end).any(|i| {
            step(state, &history[i].action).into_iter().any(|next| search(history, done | (1 << i), next, seen))
        })
    }
    assert!(history.len() < 128);
    search(history, 0, None, &mut BTreeSet::new())
}

fn object(key: usize, value: u64) -> Value {
    json!({"metadata": {"name": format!("k{key}")}, "data": {"v": value.to_string()}})
}

fn value_of(object: &Value) -> Option<u64> {
    object["data"]["v"].as_str().and_then(|v| v.parse().ok())
}

/// Runs one operation of one client; `None` if its answer has no information about the object.
async fn act(client: &client::Client, key: usize, choice: usize, value: u64) -> Option<Action> {
    let uri = format!("{CONFIGS}/k{key}");
    // An error that a fault injects does not tell whether the operation happened.
    let unknown = |code: u16| code >= 500;
    Some(match choice {
        0 => {
            let (code, found) = client.get(&uri).await;
            match code {
                200 => Action::Read(value_of(&found)),
                404 => Action::Read(None),
                _ => return None,
            }
        }
        1 => {
            let (code, list) = client.get(CONFIGS).await;
            if code != 200 {
                return None;
            }
            let wanted = format!("k{key}");
            Action::Read(list["items"].as_array()?.iter().find(|o| o["metadata"]["name"] == *wanted).and_then(value_of))
        }
        2 => {
            let (code, _) = client.delete(&uri).await;
            Action::Delete(if unknown(code) { None } else { Some(code == 200) })
        }
        3 => {
            let (code, _) = client.post(CONFIGS, object(key, value)).await;
            match code {
                201 => Action::Write(value, Some(true)),
                code if unknown(code) => Action::Write(value, None),
                _ => return None,
            }
        }
        4 => {
            let (code, _) = client.merge(&uri, json!({"data": {"v": value.to_string()}})).await;
            match code {
                200 => Action::Write(value, Some(true)),
                404 => Action::Read(None),
                code if unknown(code) => Action::Write(value, None),
                _ => return None,
            }
        }
        _ => {
            let (code, _) = client.put(&uri, object(key, value)).await;
            match code {
                200 => Action::Write(value, Some(true)),
                404 => Action::Read(None),
                code if unknown(code) => Action::Write(value, None),
                _ => return None,
            }
        }
    })
}

#[rstest]
#[case::without_faults(&[])]
#[case::with_slow_and_failing_answers(&[
    r#"{"name": "slow", "match": {"plane": "k8s"}, "when": {"probability": 0.5}, "effect": {"delay": "3ms"}, "at": "before"}"#,
    r#"{"name": "late", "match": {"plane": "k8s"}, "when": {"probability": 0.4}, "effect": {"delay": "5ms"}, "at": "after_effect"}"#,
    r#"{"name": "lost", "match": {"plane": "k8s", "op": "patch"}, "when": {"probability": 0.2}, "effect": {"http": 503}, "at": "before_reply"}"#,
])]
fn concurrent_requests_have_an_order(#[case] faults: &[&str]) {
    in_simulation(|client| async move {
        for fault in faults {
            let (code, message) = client.post("/admin/v1/faults", serde_json::from_str(fault).unwrap()).await;
            assert_eq!(code, 201, "{message}");
        }
        let history: Arc<Mutex<Vec<Operation>>> = Arc::default();
        let clients = (0..CLIENTS).map(|n| {
            let (client, history) = (client.clone(), history.clone());
            async move {
                let mut draw = 0x9e37_79b9_u64 * (n as u64 + 1);
                for round in 0..STEPS {
                    draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (key, choice) = ((draw >> 33) as usize % KEYS, (draw >> 40) as usize % 6);
                    tokio::time::sleep(Duration::from_millis((draw >> 50) % 4)).await;
                    let begun = client.ctx.now().mono.as_millis() as u64;
                    let value = (n * STEPS + round) as u64;
                    let action = act(&client, key, choice, value).await;
                    let ended = client.ctx.now().mono.as_millis() as u64;
                    history.lock().extend(action.map(|action| {
                        // An operation with an unknown result may take effect at any time after its start.
                        let open = matches!(action, Action::Write(_, None) | Action::Delete(None));
                        Operation { begun, ended: if open { u64::MAX } else { ended }, key, action }
                    }));
                }
            }
        });
        futures_util::future::join_all(clients).await;
        let history = history.lock().clone();
        assert!(history.len() > CLIENTS * STEPS / 2, "{}", history.len());
        for key in 0..KEYS {
            let of_key: Vec<Operation> = history.iter().filter(|o| o.key == key).cloned().collect();
            assert!(is_linearizable(&of_key), "{of_key:#?}");
        }
    });
}

#[test]
fn the_checker_finds_what_has_no_order() {
    let operation = |begun, ended, action| Operation { begun, ended, key: 0, action };
    let write = operation(0, 1, Action::Write(1, Some(true)));
    assert!(is_linearizable(&[write.clone(), operation(2, 3, Action::Read(Some(1)))]));
    assert!(!is_linearizable(&[write.clone(), operation(2, 3, Action::Read(None))]));
    assert!(is_linearizable(&[write, operation(0, 3, Action::Read(None))]));
}
