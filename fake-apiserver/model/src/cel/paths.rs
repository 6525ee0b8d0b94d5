//! Field paths that an expression mentions, with their values, for a message about an object for which the expression
//! is false.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, LiteralValue};
use substrate::json::Value;

use super::{Expression, unescape};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Field(String),
    Key(String),
    Index(i64),
}

impl Expression {
    /// Returns the paths below `variable` that the expression mentions, each with its value in `value`, or `None` if it
    /// has none there. Prefixes of longer paths are left out.
    pub fn mentioned<'v>(&self, variable: &str, value: &'v Value) -> Vec<(String, Option<&'v Value>)> {
        let mut found = BTreeSet::new();
        gather(self.program.expression(), variable, &mut found);
        let longer = |path: &Vec<Part>| found.iter().any(|other| other.len() > path.len() && other.starts_with(path));
        let paths = found.iter().filter(|path| !longer(path));
        paths.map(|path| (text(variable, path), path.iter().try_fold(value, enter))).collect()
    }
}

impl Expression {
    /// Returns true if the expression may use a field of `variable`: it mentions the field, or the variable as a whole.
    pub fn may_use(&self, variable: &str, field: &str) -> bool {
        let mut found = BTreeSet::new();
        gather(self.program.expression(), variable, &mut found);
        found.iter().any(|path| match path.first() {
            Some(Part::Field(name) | Part::Key(name)) => name == field,
            Some(Part::Index(_)) => false,
            None => true,
        })
    }

    /// Returns the variables that the expression mentions, except for those that its macros declare.
    pub(super) fn free_variables(&self) -> BTreeSet<String> {
        free_in(self.program.expression())
    }
}

/// Returns the variables that `expr` mentions, except for those that its macros declare.
pub(super) fn free_in(expr: &IdedExpr) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    free(expr, &[], &mut found);
    found
}

fn free(expr: &IdedExpr, bound: &[&str], found: &mut BTreeSet<String>) {
    match &expr.expr {
        Expr::Ident(name) => {
            if !bound.contains(&name.as_str()) {
                found.insert(name.clone());
            }
        }
        Expr::Comprehension(all) => {
            free(&all.iter_range, bound, found);
            free(&all.accu_init, bound, found);
            let own = [Some(&all.iter_var), all.iter_var2.as_ref(), Some(&all.accu_var)];
            let within: Vec<&str> =
                bound.iter().copied().chain(own.into_iter().flatten().map(String::as_str)).collect();
            [&all.loop_cond, &all.loop_step, &all.result].into_iter().for_each(|expr| free(expr, &within, found));
        }
        other => parts(other).into_iter().for_each(|expr| free(expr, bound, found)),
    }
}

/// Returns the direct parts of an expression.
fn parts(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(all) => {
            vec![&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entered(&entry.expr)).collect(),
        Expr::Struct(made) => made.entries.iter().flat_map(|entry| entered(&entry.expr)).collect(),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn entered(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

fn enter<'v>(value: &'v Value, part: &Part) -> Option<&'v Value> {
    match (value, part) {
        (Value::Object(map), Part::Field(name)) => {
            map.get(name.as_str()).or_else(|| unescape(name).and_then(|name| map.get(name.as_str())))
        }
        (Value::Object(map), Part::Key(key)) => map.get(key.as_str()),
        (Value::Array(list), Part::Index(at)) => usize::try_from(*at).ok().and_then(|at| list.get(at)),
        _ => None,
    }
}

fn text(variable: &str, path: &[Part]) -> String {
    path.iter().fold(variable.to_owned(), |text, part| match part {
        Part::Field(name) => format!("{text}.{name}"),
        Part::Key(key) => format!("{text}['{key}']"),
        Part::Index(at) => format!("{text}[{at}]"),
    })
}

/// Returns the path of `expr` if it is one that begins with `variable`.
fn path(expr: &Expr, variable: &str) -> Option<Vec<Part>> {
    match expr {
        Expr::Ident(name) => (name == variable).then(Vec::new),
        Expr::Select(select) => {
            let mut parts = path(&select.operand.expr, variable)?;
            parts.push(Part::Field(select.field.clone()));
            Some(parts)
        }
        Expr::Call(call) if call.func_name == "_[_]" => {
            let [of, at] = &call.args[..] else { return None };
            let part = match &at.expr {
                Expr::Literal(LiteralValue::String(key)) => Part::Key(key.inner().to_owned()),
                Expr::Literal(LiteralValue::Int(at)) => Part::Index(*at.inner()),
                _ => return None,
            };
            let mut parts = path(&of.expr, variable)?;
            parts.push(part);
            Some(parts)
        }
        _ => None,
    }
}

fn gather(expr: &IdedExpr, variable: &str, found: &mut BTreeSet<Vec<Part>>) {
    if let Some(path) = path(&expr.expr, variable) {
        found.insert(path);
        return;
    }
    parts(&expr.expr).into_iter().for_each(|expr| gather(expr, variable, found));
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn of_an_object_the_fields_that_are_mentioned_are_shown() {
        let value = json!({"status": {"phase": "Pending", "conditions": [{"type": "Ready"}]}, "metadata": {"labels": {"a-b": "1"}, "namespace": "x"}});
        let expression = Expression::compile(
            "self.status.phase == 'Bound' && self.status.conditions.exists(c, c.type == 'Ready') \
             && self.metadata.labels['a-b'] == '2' && has(self.spec.nodeName) && self.status.conditions[0].type == 'x' \
             && self.metadata.__namespace__ == 'x'",
        )
        .unwrap();
        let shown: Vec<String> = expression
            .mentioned("self", &value)
            .into_iter()
            .map(|(path, value)| format!("{path}={}", value.map_or_else(|| "-".to_owned(), ToString::to_string)))
            .collect();
        assert_eq!(
            shown,
            [
                "self.metadata.__namespace__=\"x\"",
                "self.metadata.labels['a-b']=\"1\"",
                "self.spec.nodeName=-",
                "self.status.conditions[0].type=\"Ready\"",
                "self.status.phase=\"Pending\"",
            ]
        );
    }
}
