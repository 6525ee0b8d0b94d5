use proptest::prelude::*;
use substrate::json::{Value, json};

use super::*;

/// Conditions of every form that the plan knows, and of forms that it does not know.
const CONDITIONS: &[&str] = &[
    "self.all(p, p.a == 1)",
    "self.exists(p, p.a == 1)",
    "self.exists_one(p, p.a == 1)",
    "self.filter(p, p.a == 1).size() == 2",
    "size(self.filter(p, p.a >= 1)) >= 1 && self.all(p, has(p.b))",
    "self.size() == 3",
    "size(self) > 2 || self.exists(p, p.a == 2)",
    "self[0].a == 1",
    "has(self[1].b) ? self[1].b.size() == 1 : self.size() == 0",
    "self.filter(p, p.a == 1)[0].name == 'x0'",
    "self.filter(p, p.a >= 1).filter(p, p.a < 2).all(p, has(p.b))",
    "self.filter(p, p.a == 1).exists(p, p.b.exists(q, q == 1))",
    "self.filter(p, p.a == 1).map(p, p.name).exists(n, n == 'x1')",
    "self.map(p, p.a) == [1, 1]",
    "self.map(p, p.a == 1).all(is, is)",
    "self.map(p, p.a == 1, p.name).size() == 1",
    "self.map(self, self.a).size() == 2",
    "self.all(self, self.a == 1)",
    "self.all(p, self.exists(q, q.a == p.a && q.name != p.name))",
    "self.all(p, p.a == 1 || self.exists(q, q.a == 2))",
    "self.all(p, self.filter(q, q.a == p.a).size() == 1)",
    "self.all(p, p.a)",
    "self.filter(p, p.a).size() == 0",
    "self.exists(p, p.a == 1) && !self.exists(p, p.a == 2)",
    "self.all(p, p.a == 1) || self.size() < 2",
    "self == []",
    "[self.size(), 1].exists(n, n == 2)",
    "self.all(p, p.b.all(q, q == 1))",
    "{'n': self.size()}.n == 1",
    "self.exists(p, type(p.a) == int && p.a > 0)",
    "self.?x.hasValue() || self.size() == 1",
    "self[?0].?a.orValue(7) == 7",
    "self.size() + 1",
    "self.all(p, p.__namespace__ == 'n')",
];

fn object() -> impl Strategy<Value = Value> {
    let a = prop_oneof![Just(json!(0)), Just(json!(1)), Just(json!(2)), Just(json!(true)), Just(Value::Null)];
    let b = prop_oneof![Just(Value::Null), Just(json!([])), Just(json!([1])), Just(json!([1, 2])), Just(json!("s"))];
    (a, b, any::<bool>()).prop_map(|(a, b, named)| {
        let mut made = json!({});
        if !a.is_null() {
            made["a"] = a;
        }
        if !b.is_null() {
            made["b"] = b;
        }
        if named {
            made["namespace"] = json!("n");
        }
        made
    })
}

/// Returns histories of a list. Each change puts an object at an index, or removes the one there.
fn histories() -> impl Strategy<Value = Vec<Vec<Arc<Item>>>> {
    proptest::collection::vec((0..4_usize, proptest::option::weighted(0.8, object())), 1..12).prop_map(|changes| {
        let mut places: [Option<Arc<Item>>; 4] = [None, None, None, None];
        let listed = |(place, object): (usize, Option<Value>)| {
            places[place] = object.map(|mut object| {
                object["name"] = format!("x{place}").as_str().into();
                Arc::new(Item::new(object))
            });
            places.iter().flatten().cloned().collect()
        };
        changes.into_iter().map(listed).collect()
    })
}

fn whole(expression: &Expression, items: &[Arc<Item>]) -> Option<bool> {
    let list = Value::Array(items.iter().map(|item| item.value().clone()).collect());
    match expression.evaluate(&[("self", &list)]) {
        Ok(CelValue::Bool(is)) => Some(is),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_answer_is_that_of_the_whole_list(history in histories()) {
        for condition in CONDITIONS {
            let expression = Arc::new(Expression::compile(condition).unwrap());
            let mut over = Over::new(expression.clone(), "self");
            for items in &history {
                prop_assert_eq!(over.holds(items), whole(&expression, items), "{} of {:?}", condition, items);
            }
        }
    }
}

#[test]
fn each_condition_has_both_answers() {
    // Without this, the property above could hold because no condition ever holds.
    let lists =
        [json!([]), json!([{"a": 1}]), json!([{"a": 1, "b": [1], "name": "x0"}, {"a": 1, "b": [1], "name": "x1"}])];
    let items = |list: &Value| -> Vec<Arc<Item>> {
        list.as_array().unwrap().iter().map(|item| Arc::new(Item::new(item.clone()))).collect()
    };
    for (condition, answers) in [
        ("self.all(p, p.a == 1)", [Some(true), Some(true), Some(true)]),
        ("self.exists(p, p.a == 1)", [Some(false), Some(true), Some(true)]),
        ("self.exists_one(p, p.a == 1)", [Some(false), Some(true), Some(false)]),
        ("self.filter(p, p.a == 1).size() == 2", [Some(false), Some(false), Some(true)]),
        ("self[0].b.size() == 1", [None, None, Some(true)]),
        ("self.map(p, p.name).exists(n, n == 'x1')", [Some(false), None, Some(true)]),
        ("self.filter(p, p.a == 1).all(p, has(p.b))", [Some(true), Some(false), Some(true)]),
        ("self.size() + 1", [None, None, None]),
    ] {
        let expression = Arc::new(Expression::compile(condition).unwrap());
        let mut over = Over::new(expression, "self");
        assert_eq!(lists.each_ref().map(|list| over.holds(&items(list))), answers, "{condition}");
    }
}

#[test]
fn work_is_linear_in_changes() {
    const ITEMS: usize = 200;
    const CHANGES: usize = 100;
    for condition in [
        "self.all(p, p.a == 1)",
        "self.filter(p, p.a == 1).size() == 200",
        "self.exists(p, p.a == 3) || self.size() > 1000",
        "self.filter(p, p.a == 1).all(p, p.n < 0)",
    ] {
        let expression = Arc::new(Expression::compile(condition).unwrap());
        let mut over = Over::new(expression.clone(), "self");
        let make = |n: usize, a: i64| Arc::new(Item::new(json!({"n": n, "a": a})));
        let mut items: Vec<Arc<Item>> = (0..ITEMS).map(|n| make(n, 0)).collect();
        let mut all = items.clone();
        for change in 0..CHANGES {
            over.holds(&items);
            items[change] = make(change, 1);
            all.push(items[change].clone());
        }
        over.holds(&items);
        let asks = over.plan.asks.len() as u64;
        assert!(over.asked() <= (ITEMS + CHANGES) as u64 * asks, "{condition}: {}", over.asked());
        assert!(over.asked() >= CHANGES as u64, "{condition}: {}", over.asked());
        // A second condition over the same items does not convert them again.
        Over::new(expression, "self").holds(&items);
        let converted: usize = all.iter().map(|item| item.conversions()).sum();
        assert!(converted <= ITEMS + CHANGES, "{condition}: {converted}");
    }
}
