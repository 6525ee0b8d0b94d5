//! Two-variable comprehensions: over index and element of a list, or key and value of a map.
//!
//! The evaluator has one-variable comprehensions only. A macro here expands to one over the keys; in its body the
//! second variable is bound to the value at the key.

use std::cmp::Ordering;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators};
use cel::common::types::{CelInt, CelList, CelMap, CelMapKey, DYN_TYPE, LIST_TYPE, MAP_TYPE};
use cel::common::value::{CowVal, Val};
use cel::parser::{Macro, MacroExprHelper, ParseError};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::{elements, fails};

/// Variable that holds the target of a macro, so that it is evaluated once.
const INPUT: &str = "@input";
/// Accumulator of a macro.
const FOUND: &str = "@result";

type Helper<'a, 'h> = &'a mut MacroExprHelper<'h>;

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    for (name, what) in
        [("all", What::All), ("exists", What::Exists), ("existsOne", What::One), ("exists_one", What::One)]
    {
        add(env, name, 3, what)?;
    }
    for (name, what) in
        [("transformList", What::List), ("transformMap", What::Map), ("transformMapEntry", What::Entries)]
    {
        add(env, name, 3, what)?;
        add(env, name, 4, what)?;
    }
    env.add_overload("@keys", "list_keys", vec![LIST_TYPE], indices)?;
    env.add_overload("@keys", "map_keys", vec![MAP_TYPE], keys)?;
    env.add_overload("@insert", "map_insert_key", vec![MAP_TYPE, DYN_TYPE, DYN_TYPE], insert)?;
    env.add_overload("@insert", "map_insert_map", vec![MAP_TYPE, MAP_TYPE], merge)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    All,
    Exists,
    One,
    List,
    Map,
    Entries,
}

fn add(env: &mut Env, name: &str, arguments: usize, what: What) -> Result<(), DeclarationError> {
    env.add_macro(Macro::receiver(name, arguments, move |helper, target, args| {
        let names = [args.first(), args.get(1)];
        for name in names.into_iter().flatten() {
            if !matches!(name.expr, Expr::Ident(_)) {
                return Err(helper.new_error(name.id, "argument must be a simple name"));
            }
        }
        let taken = (target.take(), args.len());
        let (Some(of), 3 | 4) = taken else { return Ok(None) };
        let (body, filter) = (args.pop(), if args.len() == 3 { args.pop() } else { None });
        let mut name = || match args.pop().map(|arg| arg.expr) {
            Some(Expr::Ident(name)) => name,
            _ => String::new(),
        };
        let (second, first) = (name(), name());
        let Some(body) = body else { return Ok(None) };
        expand(helper, of, [first, second], filter, body, what).map(Some)
    }))
}

fn ident(helper: Helper<'_, '_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn call(helper: Helper<'_, '_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn literal(helper: Helper<'_, '_>, value: LiteralValue) -> IdedExpr {
    helper.next_expr(Expr::Literal(value))
}

/// Binds the variable `name` to the value `of` within `body`.
fn bind(helper: Helper<'_, '_>, name: &str, of: IdedExpr, body: IdedExpr) -> IdedExpr {
    let comprehension = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: of,
        loop_cond: literal(helper, LiteralValue::Boolean(false.into())),
        loop_step: ident(helper, name),
        result: body,
    };
    helper.next_expr(Expr::Comprehension(Box::new(comprehension)))
}

fn expand(
    helper: Helper<'_, '_>,
    of: IdedExpr,
    [first, second]: [String; 2],
    filter: Option<IdedExpr>,
    body: IdedExpr,
    what: What,
) -> Result<IdedExpr, ParseError> {
    if first == second {
        return Err(helper.new_error(body.id, "duplicate variable name"));
    }
    // Binds the value at the key, for the body and for the filter.
    let within = |helper: Helper<'_, '_>, body: IdedExpr| {
        let args = vec![ident(helper, INPUT), ident(helper, &first)];
        let value = call(helper, operators::INDEX, args);
        bind(helper, &second, value, body)
    };
    let found = |helper: Helper<'_, '_>| ident(helper, FOUND);
    let mut always = literal(helper, LiteralValue::Boolean(true.into()));
    let (init, step, mut result) = match what {
        What::All | What::Exists => {
            let all = what == What::All;
            let init = literal(helper, LiteralValue::Boolean(all.into()));
            let so_far = found(helper);
            let going = if all { so_far } else { call(helper, operators::LOGICAL_NOT, vec![so_far]) };
            always = call(helper, operators::NOT_STRICTLY_FALSE, vec![going]);
            let args = vec![found(helper), within(helper, body)];
            let step = call(helper, if all { operators::LOGICAL_AND } else { operators::LOGICAL_OR }, args);
            (init, step, None)
        }
        What::One => {
            let init = literal(helper, LiteralValue::Int(0.into()));
            let args = vec![found(helper), literal(helper, LiteralValue::Int(1.into()))];
            let more = call(helper, operators::ADD, args);
            let args = vec![within(helper, body), more, found(helper)];
            let step = call(helper, operators::CONDITIONAL, args);
            let args = vec![found(helper), literal(helper, LiteralValue::Int(1.into()))];
            (init, step, Some(call(helper, operators::EQUALS, args)))
        }
        What::List => {
            let init = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
            let one = helper.next_expr(Expr::List(ListExpr::new(vec![body])));
            let args = vec![found(helper), one];
            (init, call(helper, operators::ADD, args), None)
        }
        What::Map | What::Entries => {
            let init = helper.next_expr(Expr::Map(MapExpr { entries: Vec::new() }));
            let mut args = vec![found(helper)];
            if what == What::Map {
                args.push(ident(helper, &first));
            }
            args.push(body);
            (init, call(helper, "@insert", args), None)
        }
    };
    let step = match filter {
        None => step,
        Some(filter) => {
            let args = vec![filter, step, found(helper)];
            call(helper, operators::CONDITIONAL, args)
        }
    };
    // With the other macros, only the body sees the second variable.
    let step = if matches!(what, What::List | What::Map | What::Entries) { within(helper, step) } else { step };
    let input = ident(helper, INPUT);
    let comprehension = ComprehensionExpr {
        iter_range: call(helper, "@keys", vec![input]),
        iter_var: first.clone(),
        iter_var2: None,
        accu_var: FOUND.to_owned(),
        accu_init: init,
        loop_cond: always,
        loop_step: step,
        result: match result.take() {
            Some(result) => result,
            None => found(helper),
        },
    };
    let comprehension = helper.next_expr(Expr::Comprehension(Box::new(comprehension)));
    Ok(bind(helper, INPUT, of, comprehension))
}

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn indices<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let count = i64::try_from(elements(&args, 0, "@keys")?.len()).unwrap_or(i64::MAX);
    let all: Vec<Box<dyn Val + 'v>> = (0..count).map(|i| -> Box<dyn Val + 'v> { Box::new(CelInt::from(i)) }).collect();
    Ok(CowVal::owned(CelList::from(all)))
}

/// Returns the keys of a map, sorted: a map has no order.
fn keys<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let mut all: Vec<Box<dyn Val + 'v>> =
        elements(&args, 0, "@keys")?.into_iter().map(|key| key.clone_as_boxed()).collect();
    all.sort_by(|a, b| {
        let compared = a.as_comparer().and_then(|a| a.compare(b.as_ref()).ok());
        compared.unwrap_or_else(|| a.get_type().name().cmp(b.get_type().name()))
    });
    Ok(CowVal::owned(CelList::from(all)))
}

#[expect(clippy::disallowed_types, reason = "the evaluator's own map")]
type Entries<'v> = std::collections::HashMap<CelMapKey<'v>, Box<dyn Val + 'v>>;

/// Copies the entries of a map.
fn entries<'v>(map: &CowVal<'_, 'v>) -> Result<Entries<'v>, ExecutionError> {
    let map = map.as_ref().downcast_ref::<CelMap<'v>>().ok_or_else(|| fails("@insert", "no such overload"))?;
    Ok(map.inner().iter().map(|(key, value)| (key.clone(), value.clone_as_boxed())).collect())
}

fn put<'v>(into: &mut Entries<'v>, key: CelMapKey<'v>, value: Box<dyn Val + 'v>) -> Result<(), ExecutionError> {
    if into.contains_key(&key) {
        let shown = cel::Value::try_from(key.inner()).map(|key| match key {
            cel::Value::String(text) => text.to_string(),
            cel::Value::Int(number) => number.to_string(),
            other => format!("{other:?}"),
        });
        return Err(fails("@insert", format!("insert failed: key {} already exists", shown.unwrap_or_default())));
    }
    into.insert(key, value);
    Ok(())
}

fn insert<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [map, key, value] = &args[..] else { return Err(ExecutionError::invalid_argument_count(3, args.len())) };
    let mut all = entries(map)?;
    let key =
        CelMapKey::try_from(key.as_ref().clone_as_boxed()).map_err(|_| fails("@insert", "unsupported key type"))?;
    put(&mut all, key, value.as_ref().clone_as_boxed())?;
    Ok(CowVal::owned(CelMap::from(all)))
}

fn merge<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [map, more] = &args[..] else { return Err(ExecutionError::invalid_argument_count(2, args.len())) };
    let mut all = entries(map)?;
    // In key order, so that the error about existing keys always names the same one.
    let mut more: Vec<_> = entries(more)?.into_iter().collect();
    more.sort_by(|(a, _), (b, _)| {
        a.inner().as_comparer().and_then(|a| a.compare(b.inner()).ok()).unwrap_or(Ordering::Equal)
    });
    for (key, value) in more {
        put(&mut all, key, value)?;
    }
    Ok(CowVal::owned(CelMap::from(all)))
}
